//! The traits Log, Store, SnapshotStore and Replicas, their errors, and their conformance suites.
//!
//! - [`log`]: records in partitions; Kafka, the local disk, memory.
//! - [`records`]: a partition from somewhere to its end.
//! - [`store`]: one replica's sorted entries; RocksDB, memory.
//! - [`snapshots`]: sorted runs with a manifest, between a source and a destination.
//! - [`replicas`]: how a router reaches the replicas of a shard.
//! - [`progress`]: what nodes tell controllers.
//! - [`inbox`]: messages into a role, and the signal that wakes it.
//! - [`hook`]: what tests are called around each effect.
//! - [`error`]: what the caller may do now.
//! - [`conformance`]: what every adapter of a port must pass.

pub mod conformance;
pub mod error;
pub mod hook;
pub mod inbox;
pub mod log;
pub mod progress;
pub mod records;
pub mod replicas;
pub mod snapshots;
pub mod store;

pub use error::{PortError, Remedy};
pub use hook::{Hook, When, around};
pub use inbox::{Inbox, Role, Signal, Turn, Waker};
pub use log::{AppendDone, Batch, EndDone, Lane, Log, ReadLimits, Tail};
pub use progress::{InboundProgress, ReplicaProgress};
pub use records::Records;
pub use replicas::{
    ReadAnswer, ReadDone, ReadKind, ReadLevel, ReadRefused, ReadRequest, Replicas, Row, VerdictBatch, VerdictSink,
};
pub use snapshots::{
    FinishedParts, PartWriter, Run, SnapshotStore, SnapshotWriter, plain_name, run_checksum, run_name,
};
pub use store::{BeforeFlush, Change, Reader, Store, Visitor, WriteBatch};
