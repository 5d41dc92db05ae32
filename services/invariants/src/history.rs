//! What was observed of a system: by scanning its logs, by its clients, and in its stores.
//!
//! Every list may be filled in any order, and left empty where nothing was observed; a predicate then says nothing
//! about it.

use rehome_keyspace::{
    AttemptId, Epoch, JobId, KeyRange, Offset, PlacedKey, Placement, RequestId, Selector, ShardId, Version,
};
use rehome_records::{Digest, SourcePosition, Write};
use std::fmt;

/// One of the invariants of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
    R11,
    R12,
}

/// An invariant does not hold: which, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub id: Invariant,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.id, self.text)
    }
}

/// When an observer saw something: grows by one with each thing seen. Not a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// Everything that was observed of one keyspace.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub grants: Vec<Grant>,
    pub fences: Vec<Fence>,
    pub cutovers: Vec<Cutover>,
    /// Accepted writes, each once, as any replica judged them.
    pub accepted: Vec<Accepted>,
    pub acks: Vec<Ack>,
    pub reads: Vec<Read>,
    pub scans: Vec<Scan>,
    pub replicas: Vec<ReplicaState>,
    /// Rows that can be read, everywhere, at one moment at which everything accepted was applied.
    pub visible: Option<Visible>,
    pub jobs: Vec<Job>,
}

/// An epoch was given to a shard: at the keyspace's creation, or by the outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub epoch: Epoch,
    pub shard: ShardId,
    pub selector: Selector,
}

/// A fence took effect in its shard's partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub attempt: AttemptId,
    pub shard: ShardId,
    pub selector: Selector,
    /// The epoch that the attempt reserved: every older one is closed here.
    pub epoch: Epoch,
    /// F.
    pub offset: Offset,
}

/// An attempt was switched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cutover {
    pub attempt: AttemptId,
    /// The source's digest at F; nothing when it was waived, for a source whose every copy is lost.
    pub source: Option<Digest>,
    /// The digests at F of the destination's replicas that were counted.
    pub destinations: Vec<Digest>,
}

/// A write was accepted by a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub shard: ShardId,
    pub placed: PlacedKey,
    pub version: Version,
    pub request: Option<RequestId>,
    pub source: Option<SourcePosition>,
    /// Sort keys with their new values; nothing for a delete. The last of a row that is named twice.
    pub rows: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Accepted {
    /// Makes the entry of a write that was found in a partition and accepted at that offset.
    pub fn of(shard: ShardId, offset: Offset, placement: &Placement, write: &Write) -> Accepted {
        let rows: std::collections::BTreeMap<_, _> =
            write.changes().iter().map(|change| (change.sort_key.clone(), change.value.clone())).collect();
        Accepted {
            shard,
            placed: placement.place(&write.partition_key),
            version: Version { epoch: write.epoch, offset },
            request: write.request,
            source: write.source.clone(),
            rows: rows.into_iter().collect(),
        }
    }
}

/// A client was told that its write is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    pub placed: PlacedKey,
    pub sort_keys: Vec<Vec<u8>>,
    /// The version that was answered.
    pub version: Version,
    /// When the client first asked for it, under this request id.
    pub asked: Moment,
    pub answered: Moment,
}

/// A client was answered a read of one row. `asked` is zero where the level promises nothing of earlier answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub placed: PlacedKey,
    pub sort_key: Vec<u8>,
    pub asked: Moment,
    pub found: Option<(Version, Vec<u8>)>,
    /// Every shard, with the epoch, that had a part in the answer; empty where that was not observed.
    pub served_by: Vec<(ShardId, Epoch)>,
}

/// A client was answered a scatter read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    pub asked: Selector,
    pub covered: Vec<(KeyRange, ShardId, Epoch)>,
    /// What the answer said that it lacks.
    pub missing: Vec<KeyRange>,
}

/// What a replica held at a position of its partition, with every attempt resolved whose outcome is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    pub shard: ShardId,
    /// Names the replica among those of its shard, for the text.
    pub replica: u64,
    pub position: Offset,
    /// What the hash is about: only states of the same ranges are compared.
    pub ranges: Vec<KeyRange>,
    /// Hash of rows, request ids, source positions and slot states.
    pub hash: u128,
}

/// Every row that can be read, and who owns what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visible {
    pub owners: Vec<(KeyRange, ShardId)>,
    pub rows: Vec<VisibleRow>,
}

/// A row that a shard would answer a read with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleRow {
    pub shard: ShardId,
    pub placed: PlacedKey,
    pub sort_key: Vec<u8>,
    pub version: Version,
    pub value: Vec<u8>,
}

/// A job, as it is once faults have stopped and nothing is left to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub job: JobId,
    pub end: Option<JobEnd>,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    Completed,
    Cancelled,
    Failed { reason: String },
}
