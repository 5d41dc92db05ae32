//! One replica's sorted entries.
//!
//! Contract:
//! 1. A write batch is applied whole or not at all, also through a crash.
//! 2. A crash keeps a prefix of the batches, at least up to the last flush. Without a flush nothing is promised.
//! 3. A snapshot shows the entries at one moment between two batches, however long it is held.
//! 4. `wipe` and `ingest` are durable when they return. Either may have happened in part after a crash.
//! 5. A store that was given a [`BeforeFlush`] lets nothing that was written become durable, also where it flushes by
//!    itself, before a call of it has returned that began after the write. Where that fails, nothing becomes durable.

use crate::error::PortError;
use crate::snapshots::SnapshotStore;
use rehome_keyspace::KeyRange;
use rehome_records::Manifest;
use std::ops::ControlFlow;
use std::sync::Arc;

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put { key: Vec<u8>, value: Vec<u8> },
    Remove { key: Vec<u8> },
}

/// Changes that happen together.
pub type WriteBatch = Vec<Change>;

/// Makes durable what the writes so far follow from: the log. Else a power loss could leave a store that goes beyond it.
pub type BeforeFlush = Arc<dyn Fn() -> Result<(), PortError> + Send + Sync>;

/// Sees one entry after another, key and value, until it breaks.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Reads entries in key order.
pub trait Reader: Sync {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PortError>;

    /// Visits the entries of the range in order (the other way round when `reverse`) until the visitor breaks.
    fn scan(&self, range: &KeyRange, reverse: bool, visit: &mut Visitor<'_>) -> Result<(), PortError>;
}

/// One replica's sorted entries: RocksDB, memory.
pub trait Store: Reader + Send + Sync {
    /// Applies the changes together. Not durable before the next flush.
    fn write(&self, batch: WriteBatch) -> Result<(), PortError>;

    /// Estimates how many entries the ranges hold, without reading them. What is not in tables yet may count for any
    /// range; advice for planning only.
    fn estimate_entries(&self, ranges: &[KeyRange]) -> Result<u64, PortError>;

    /// Makes everything written so far durable.
    fn flush(&self) -> Result<(), PortError>;

    /// Lets `look` read the entries as they are at one moment.
    fn snapshot(&self, look: &mut dyn FnMut(&dyn Reader) -> Result<(), PortError>) -> Result<(), PortError>;

    /// Removes every entry of the ranges, durably, without stalling writers elsewhere.
    fn wipe(&self, ranges: &[KeyRange]) -> Result<(), PortError>;

    /// Takes in every run of the snapshot, durably. The ranges it covers were wiped before.
    fn ingest(&self, snapshots: &dyn SnapshotStore, name: &str, manifest: &Manifest) -> Result<(), PortError>;
}
