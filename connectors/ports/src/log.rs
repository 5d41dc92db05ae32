//! Records in partitions.
//!
//! Contract:
//! 1. An append is acknowledged only once its records are durable, and a record is read only once it is durable. A log
//!    that is set weaker acknowledges and shows `Lane::Data` before; then 6 to 8 hold.
//! 2. Offsets of a partition grow, and have gaps. Records appended by one caller to one partition in one lane keep
//!    their order.
//! 3. A tail delivers every record from its start on, once, in order. `Batch::next` grows past gaps: everything that
//!    will ever be below it has been delivered.
//! 4. Nothing is created by accident: appending to or reading a partition that does not exist is an error.
//! 5. Callbacks may be called from any thread, also before `append` returns. They must not block.
//! 6. Records of all partitions lie in one order, each after everything that could be read when it was appended. Losing
//!    power loses an end of that order, nothing in between; a killed process loses nothing.
//! 7. An append in `Lane::Protocol` is acknowledged and read only once it and everything before it are durable, and so
//!    is `sync`: nothing that was there when it was called can be lost once it returns. Whoever makes an effect of a
//!    record durable elsewhere calls it first: so what is kept elsewhere never goes beyond what the log keeps.
//! 8. An offset that was given is never given to another record, also when its record was lost: it becomes a gap.

use crate::error::PortError;
use crate::inbox::Waker;
use rehome_keyspace::Offset;
use rehome_records::{Logged, Record, TopicPartition};

/// Which queue an append waits in: a fence never queues behind bulk data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Clients' writes.
    Data,
    /// Marks and control records.
    Protocol,
}

/// Told the offsets of the appended records, in order. `Unknown` means that some may have been appended.
pub type AppendDone = Box<dyn FnOnce(Result<Vec<Offset>, PortError>) + Send>;

/// Told the end of a partition: every record acknowledged before the question was put lies below it.
pub type EndDone = Box<dyn FnOnce(Result<Offset, PortError>) + Send>;

/// How much one poll may return.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    pub records_max: usize,
    /// Reached or passed by at most one record.
    pub bytes_max: usize,
}

/// What a poll returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub records: Vec<Logged>,
    /// Where the tail stands: everything below was delivered.
    pub next: Offset,
}

/// A reader that follows one partition.
pub trait Tail: Send {
    /// Returns what has come since the last poll, without waiting.
    ///
    /// Errors: `Broken` when records from the position on were trimmed away; `NotApplied`: poll again later.
    fn poll(&mut self, limits: ReadLimits) -> Result<Batch, PortError>;
}

/// Records in partitions: Kafka, the local disk, memory.
pub trait Log: Send + Sync {
    /// Creates the topic with at least that many partitions, or adds the partitions that lack. Never takes any away.
    fn ensure_topic(&self, topic: &str, partitions: u32) -> Result<(), PortError>;

    /// Removes the topic with all its records. Nothing there is no error; the same name may be made again, empty.
    /// Requires: nobody needs its records. Appends under way may still be acknowledged; tails of it end with an error.
    fn remove_topic(&self, topic: &str) -> Result<(), PortError>;

    /// Returns how many partitions the topic has; nothing when there is no such topic.
    fn partitions(&self, topic: &str) -> Result<Option<u32>, PortError>;

    /// Appends the records, in order, and tells `done` once they are there, as the contract says, or what is known of a
    /// failure.
    fn append(&self, partition: &TopicPartition, lane: Lane, records: Vec<Record>, done: AppendDone);

    /// Follows the partition from that offset on. `wake` is called whenever there may be more to poll.
    fn tail(&self, partition: &TopicPartition, from: Offset, wake: Waker) -> Result<Box<dyn Tail>, PortError>;

    /// Tells the offset that lies above every readable record.
    fn end(&self, partition: &TopicPartition, done: EndDone);

    /// Returns the lowest offset that may still be read.
    fn start(&self, partition: &TopicPartition) -> Result<Offset, PortError>;

    /// Makes everything durable that can be read now, in every partition. Blocks. Returns at once where it is already.
    ///
    /// Errors: any; then nothing new is known to be durable, and nothing may be made durable that follows from it.
    fn sync(&self) -> Result<(), PortError>;

    /// Forgets the records below that offset.
    fn trim(&self, partition: &TopicPartition, before: Offset) -> Result<(), PortError>;
}
