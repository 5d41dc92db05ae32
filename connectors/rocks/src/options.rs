//! How RocksDB is set up: many point lookups of absent keys, blind puts, a small memory.

use crate::guard::MARGIN;
use crate::node::Memory;
use rocksdb::{
    BlockBasedOptions, Cache, DBCompressionType, Env, LogLevel, Options, ReadOptions, WriteBufferManager, WriteOptions,
};
use std::sync::LazyLock;

/// Bits of filter per key: one absent key in a hundred is looked for on disk.
const FILTER_BITS: f64 = 10.0;
/// Bytes of a block.
const BLOCK_BYTES: usize = 8 << 10;
/// Bytes of one table.
const TABLE_BYTES: u64 = 32 << 20;
/// Open tables per store.
const OPEN_FILES: i32 = 256;
/// Bytes per second that the flushes and compactions of a node's stores write together, and how long a share of it
/// lasts, in microseconds. Reason: the log's syncs wait for whatever the disk was given before. Unbounded compactions
/// stopped writers for 100 to 700 ms; in small shares, for 10.
const BACKGROUND_BYTES_PER_SEC: i64 = 64 << 20;
const BACKGROUND_SHARE_US: i64 = 10_000;
/// One of so many shares goes to compactions even while flushes want them all.
const BACKGROUND_FAIRNESS: i32 = 10;
/// Bytes of a growing table that are left to the disk at most before it is asked to write them.
const BYTES_PER_SYNC: u64 = 1 << 20;
/// Least bytes of a write buffer. Reason: each begins with blocks and a filter in proportion. Were they larger, those of a
/// thousand idle stores would fill what all may take together, and then each write to any flushes it.
const WRITE_BUFFER_BYTES_MIN: usize = 256 << 10;
/// Closing flushes nothing: the log has everything, and may not be durable itself. A thousand stores that close at once
/// would keep the flushes of all others waiting. A file with an identity would take one more sync for each store made.
const CLOSING: &str = "avoid_flush_during_shutdown=true;write_identity_file=false";
/// Bytes that a scan of a whole range reads ahead.
const SCAN_AHEAD_BYTES: usize = 1 << 20;

/// What the stores of a node share.
pub struct Shared {
    cache: Cache,
    write_buffers: WriteBufferManager,
    env: Env,
    memory: Memory,
    /// RocksDB flushes nothing by itself.
    guarded: bool,
    /// Copies share the rate limiter.
    limited: Options,
}

impl Shared {
    /// `guarded`: every flush is asked for, so the limits at which RocksDB flushes by itself are out of reach.
    pub fn new(memory: Memory, guarded: bool) -> Result<Shared, rocksdb::Error> {
        let cache = Cache::new_lru_cache(memory.cache_bytes);
        let flush_at = if guarded { usize::MAX >> 1 } else { memory.write_buffers_bytes };
        let write_buffers = WriteBufferManager::new_write_buffer_manager_with_cache(flush_at, false, cache.clone());
        let mut env = Env::new()?;
        env.set_background_threads(2);
        env.set_high_priority_background_threads(1);
        // Compaction is never urgent: roles go first.
        env.lower_thread_pool_cpu_priority();
        let mut limited = Options::default().get_options_from_string(CLOSING)?;
        limited.set_ratelimiter(BACKGROUND_BYTES_PER_SEC, BACKGROUND_SHARE_US, BACKGROUND_FAIRNESS);
        Ok(Shared { cache, write_buffers, env, memory, guarded, limited })
    }

    /// Returns how much one of so many stores may hold in its write buffer, in bytes.
    pub fn write_buffer_bytes(&self, stores: usize) -> usize {
        let share = 2 * self.memory.write_buffers_bytes / stores.max(1);
        share.max(WRITE_BUFFER_BYTES_MIN).min(self.memory.write_buffer_bytes)
    }

    /// Options of one store, whose write buffer takes so many bytes.
    pub fn store(&self, write_buffer_bytes: usize) -> Options {
        let mut options = self.limited.clone();
        options.create_if_missing(true);
        options.set_env(&self.env);
        options.set_write_buffer_manager(&self.write_buffers);
        let margin = if self.guarded { MARGIN } else { 1 };
        options.set_write_buffer_size(write_buffer_bytes * margin);
        // What an idle store takes: this, and the filter below.
        options.set_arena_block_size(write_buffer_bytes / 32);
        options.set_max_write_buffer_number(3);
        // A new request id is looked up before each write: the filter answers without touching the entries.
        options.set_memtable_prefix_bloom_ratio(0.02 / margin as f64);
        options.set_memtable_whole_key_filtering(true);
        let mut table = table();
        table.set_block_cache(&self.cache);
        table.set_cache_index_and_filter_blocks(true);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        options.set_block_based_table_factory(&table);
        // All levels are in use, so that a taken-in table finds one below what is written live, also where a large
        // table at the bottom spans its keys without holding any. Else it stays on top, and flushes wait for seconds.
        options.set_level_compaction_dynamic_level_bytes(false);
        options.set_max_bytes_for_level_base(4 * TABLE_BYTES);
        options.set_target_file_size_base(TABLE_BYTES);
        options.set_compression_type(DBCompressionType::None);
        options.set_bottommost_compression_type(DBCompressionType::Lz4);
        options.set_max_open_files(OPEN_FILES);
        options.set_max_background_jobs(2);
        options.set_bytes_per_sync(BYTES_PER_SYNC);
        options.set_log_level(LogLevel::Warn);
        options.set_keep_log_file_num(2);
        options.set_stats_dump_period_sec(0);
        options
    }
}

/// Options of the runs of snapshots: tables that a store can take in as they are, filters included. One format for
/// all, so that any node's run fits any node's store.
pub static RUNS: LazyLock<Options> = LazyLock::new(|| {
    let mut options = Options::default();
    options.set_block_based_table_factory(&table());
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_bytes_per_sync(BYTES_PER_SYNC);
    options
});

fn table() -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(FILTER_BITS, false);
    table.set_whole_key_filtering(true);
    table.set_block_size(BLOCK_BYTES);
    table
}

/// The topic is the log.
pub fn unlogged() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    // The changes of a batch come in key order: each is looked for from where the one before went.
    options.set_memtable_insert_hint_per_batch(true);
    options
}

/// A scan that reads much once: it reads ahead, and leaves the cache to others.
pub fn whole_scan() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_readahead_size(SCAN_AHEAD_BYTES);
    options.fill_cache(false);
    options
}
