//! How much one router holds at once. Everything above is refused, so that a slow shard never eats the memory.

use std::ops::RangeInclusive;

pub use rehome_records::data::KEY_BYTES_MAX;

/// Limits of one router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterLimits {
    /// Writes that are not answered yet.
    pub writes_max: usize,
    /// Bytes of keys and values of those writes.
    pub write_bytes_max: usize,
    /// The same of one keyspace, so that one whose shards stand still leaves room for the others.
    pub keyspace_writes_max: usize,
    pub keyspace_write_bytes_max: usize,
    /// Bytes of one value: [`VALUE_BYTES_MAX_RANGE`]. The one place that decides; whoever wants to know asks the router.
    pub value_bytes_max: usize,
    /// Reads that are not answered yet.
    pub reads_max: usize,
    /// Scans that are not answered yet. Each gathers a page.
    pub scans_max: usize,
    /// Appends to one shard that are not acknowledged yet; what comes meanwhile is gathered into the next one.
    pub appends_per_shard_max: usize,
    /// Records of one append.
    pub append_records_max: usize,
    /// Bytes of one append, reached or passed by at most one record.
    pub append_bytes_max: usize,
    /// Asks in the queue in front of the router; a router that stands still lets no more in.
    pub queue_max: usize,
    /// Bytes of keys and values of writes in that queue.
    pub queue_bytes_max: usize,
    /// Verdicts in front of a router that stands still. What comes above counts as missed: its write goes out again
    /// under the same request id.
    pub queued_verdicts_max: usize,
}

impl RouterLimits {
    /// Import at 100,000 writes/s with 50 ms of latency needs 5,000 writes in flight; ten times that is room enough.
    pub const STANDARD: RouterLimits = RouterLimits {
        writes_max: 50_000,
        write_bytes_max: 64 << 20,
        keyspace_writes_max: 40_000,
        keyspace_write_bytes_max: 48 << 20,
        // What brokers take in one record by default.
        value_bytes_max: 1 << 20,
        reads_max: 20_000,
        scans_max: 64,
        appends_per_shard_max: 32,
        append_records_max: 8_192,
        append_bytes_max: 4 << 20,
        queue_max: 100_000,
        queue_bytes_max: 32 << 20,
        queued_verdicts_max: 200_000,
    };
}

impl Default for RouterLimits {
    fn default() -> Self {
        RouterLimits::STANDARD
    }
}

/// What the limit on values may be. Reason: below, nothing fits; above, a few values at once are the memory of a router.
pub const VALUE_BYTES_MAX_RANGE: RangeInclusive<usize> = 1 << 10..=8 << 20;
/// Bytes of all keys and values of one batch: it is one record.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// Rows that one scan returns at most.
pub const SCAN_ROWS_MAX: usize = 10_000;
/// Bytes of rows of one page of a scan, passed by at most one answer of a replica: it is gathered in memory.
pub const SCAN_BYTES_MAX: usize = 4 << 20;

const STANDARD: RouterLimits = RouterLimits::STANDARD;
const LARGEST: usize = *VALUE_BYTES_MAX_RANGE.end();
const _: () = assert!(BATCH_BYTES_MAX <= LARGEST, "a batch is one record, no larger than one of the largest value");
const _: () = assert!(STANDARD.value_bytes_max <= LARGEST, "the standard is in the range");
const _: () = assert!(LARGEST + 2 * KEY_BYTES_MAX <= STANDARD.queue_bytes_max, "the largest write fits in the queue");
const _: () = assert!(STANDARD.queue_bytes_max <= STANDARD.keyspace_write_bytes_max, "and behind it");
