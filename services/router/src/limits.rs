//! How much one router holds at once. Everything above is refused, so that a slow shard never eats the memory.

/// Limits of one router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterLimits {
    /// Writes that are not answered yet.
    pub writes_max: usize,
    /// Bytes of keys and values of those writes.
    pub write_bytes_max: usize,
    /// Reads and scans that are not answered yet, each.
    pub reads_max: usize,
    /// Appends to one shard that are not acknowledged yet; what comes meanwhile is gathered into the next one.
    pub appends_per_shard_max: usize,
    /// Records of one append.
    pub append_records_max: usize,
    /// Bytes of one append, reached or passed by at most one record.
    pub append_bytes_max: usize,
    /// Asks in the queue in front of the router; a router that stands still lets no more in.
    pub queue_max: usize,
}

impl RouterLimits {
    /// Import at 100,000 writes/s with 50 ms of latency needs 5,000 writes in flight; ten times that is room enough.
    pub const STANDARD: RouterLimits = RouterLimits {
        writes_max: 50_000,
        write_bytes_max: 128 << 20,
        reads_max: 20_000,
        appends_per_shard_max: 32,
        append_records_max: 8_192,
        append_bytes_max: 4 << 20,
        queue_max: 100_000,
    };
}

impl Default for RouterLimits {
    fn default() -> Self {
        RouterLimits::STANDARD
    }
}

/// Bytes of a partition key or a sort key. Reason: keys are repeated in every row, request id and log record.
pub const KEY_BYTES_MAX: usize = 4 << 10;
/// Bytes of one value. Reason: what brokers take in one record by default.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Bytes of all keys and values of one batch: it is one record.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// Bytes of the name of an ordered source. Reason: it is part of a store key.
pub const SOURCE_BYTES_MAX: usize = 255;
/// Rows that one scan returns at most.
pub const SCAN_ROWS_MAX: usize = 10_000;

const _: () = assert!(BATCH_BYTES_MAX <= VALUE_BYTES_MAX, "a batch is written as the value of one record");
