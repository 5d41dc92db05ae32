//! How RocksDB is set up for records that are only ever appended, and how much may wait or be kept in memory.
//!
//! Each partition is a column family, if there are not too many. Its files then follow one another without overlap, so that compaction moves them
//! down by name only: a byte is written once to the write-ahead log and once to a table. With all partitions in one
//! family every table would span them all, and each compaction would write old records again.

use rocksdb::{BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, LogLevel, Options};
use std::time::Duration;

/// How much may wait or be kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Records that may wait in each lane. A full lane refuses; it never blocks.
    pub queued_records_max: usize,
    /// Bytes that may wait in each lane.
    pub queued_bytes_max: usize,
    /// Records that one sync makes durable at most: bounds how long a mark waits behind data.
    pub group_records_max: usize,
    /// Bytes that one sync makes durable at most.
    pub group_bytes_max: usize,
    /// Time that data gathers after a group, while it comes fast. Reason: a sync takes a sixth of a millisecond, so that
    /// at 20,000 writes/s every few records would get one, and with it a turn of each replica and of the router, and
    /// their waking up. Gathered, the same two cores took 15 to 30 % more writes, and the slowest of a hundred came
    /// sooner. A mark never waits.
    pub gather: Duration,
    /// Bytes of the newest records of all partitions that are kept in memory for tails.
    pub ring_bytes_total: usize,
    /// Bytes of the newest records of one partition that are kept in memory.
    pub ring_bytes_max: usize,
    /// Bytes of each write-ahead log file that is made ahead. Reason: what write buffers hold together, so that a log
    /// file rarely outgrows it.
    pub log_file_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queued_records_max: 128 << 10,
            queued_bytes_max: 32 << 20,
            group_records_max: 4096,
            group_bytes_max: 1 << 20,
            gather: Duration::from_micros(700),
            ring_bytes_total: 64 << 20,
            ring_bytes_max: 16 << 20,
            log_file_bytes: WRITE_BUFFERS_BYTES,
        }
    }
}

impl Limits {
    /// Bytes of newest records that one of so many partitions may keep. At least 1 MiB, so that a tail a little behind
    /// never reads the disk.
    pub fn ring_share(&self, partitions: usize) -> usize {
        (self.ring_bytes_total / partitions.max(1)).clamp(1 << 20, self.ring_bytes_max.max(1 << 20))
    }
}

/// Bytes of write buffers over all partitions, which are flushed together. Reason: a small share of what the whole
/// process may use; and the write-ahead log, which is read at every start, holds little more than that.
const WRITE_BUFFERS_BYTES: usize = 16 << 20;
/// Bytes of one partition's write buffer.
const WRITE_BUFFER_BYTES: usize = 16 << 20;
/// Write-ahead log files that are kept to be written over.
pub const LOG_FILES_AHEAD: usize = 2;
/// Bytes per second that flushes and compactions write, in shares of so many microseconds: syncs wait for whatever the
/// disk was given before.
const BACKGROUND_BYTES_PER_SEC: i64 = 64 << 20;
const BACKGROUND_SHARE_US: i64 = 10_000;
const BACKGROUND_FAIRNESS: i32 = 10;
/// Bytes of blocks cached for tails that are far behind. Small: each block is read once.
const BLOCK_CACHE_BYTES: usize = 16 << 20;
/// Open table files.
const OPEN_FILES: i32 = 256;

/// Options of the whole database.
pub fn database() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    // After a power cut the unsynced end of the log may be torn in any way, a wrong checksum included: opening keeps
    // everything up to the tear, and everything acknowledged lies before it. Tolerating only a short last record would
    // refuse to open then, though nothing acknowledged is lost. A tear that tables already go beyond is still refused.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    // A synced log file that is missing or short is an error, not an end.
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_db_write_buffer_size(WRITE_BUFFERS_BYTES);
    options.set_max_open_files(OPEN_FILES);
    options.set_max_background_jobs(2);
    options.set_bytes_per_sync(1 << 20);
    options.set_ratelimiter(BACKGROUND_BYTES_PER_SEC, BACKGROUND_SHARE_US, BACKGROUND_FAIRNESS);
    // All partitions at once: one log file then ends for all of them, full, and can be written over at once.
    options.set_atomic_flush(true);
    options.set_recycle_log_file_num(LOG_FILES_AHEAD);
    // One thread writes.
    options.set_allow_concurrent_memtable_write(false);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(2);
    options.set_stats_dump_period_sec(0);
    options
}

/// Makes the options of each partition's column family; they share the cache.
pub fn partition(cache: &Cache) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_block_size(16 << 10);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    // Many partitions are idle: they shall not each hold a large first block.
    options.set_arena_block_size(256 << 10);
    options.set_max_write_buffer_number(4);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_target_file_size_base(2 * WRITE_BUFFER_BYTES as u64);
    options.set_compression_type(DBCompressionType::Lz4);
    options
}

pub fn cache() -> Cache {
    Cache::new_lru_cache(BLOCK_CACHE_BYTES)
}
