//! How a router reaches the replicas of a shard: reads there, verdicts back.

use rehome_keyspace::{Epoch, KeyRange, KeyspaceId, Offset, ShardId, Version};
use rehome_records::Verdict;
use std::sync::Arc;
use thiserror::Error;

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLevel {
    /// Whatever the replica has applied.
    Eventual,
    /// At or after a position, given by an earlier write's answer. A new owner whose replay passed it serves it too.
    Token { shard: ShardId, offset: Offset },
    /// Every write acknowledged before the read was asked for.
    Linearizable,
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadKind {
    Get {
        partition_key: Vec<u8>,
        sort_key: Vec<u8>,
    },
    /// Rows of one partition key with `from <= sort key < to`.
    List {
        partition_key: Vec<u8>,
        from: Vec<u8>,
        to: Option<Vec<u8>>,
        reverse: bool,
        limit: usize,
    },
    /// Rows of a range of placed keys, from a store key on if one is given: a part of a scatter read.
    Scan {
        range: KeyRange,
        after: Option<Vec<u8>>,
        limit: usize,
    },
}

/// A read of one shard, under the epoch that the router believes in. A scan names none: its answer says what was owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    pub kind: ReadKind,
    pub epoch: Option<Epoch>,
    pub level: ReadLevel,
}

/// A row as a read returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub partition_key: Vec<u8>,
    pub sort_key: Vec<u8>,
    pub value: Vec<u8>,
    pub version: Version,
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAnswer {
    pub rows: Vec<Row>,
    /// Whose replica answers.
    pub shard: ShardId,
    /// The replica had applied everything up to here.
    pub applied: Option<Offset>,
    /// The regions that were owned, with their epochs, of what was asked for: one key, or a scan's range.
    pub covered: Vec<(KeyRange, Epoch)>,
    /// Where to go on, when there is more.
    pub more_after: Option<Vec<u8>>,
}

/// Why a read was not answered. Nothing was changed; a read may always be retried.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadRefused {
    #[error("the slot is not owned here under that epoch")]
    NotOwner,
    /// Nothing more waits there; ask again a little later.
    #[error("the replica has as many reads before it as it takes")]
    Overloaded,
    #[error("the replica is not ready: {reason}")]
    Unavailable { reason: String },
}

pub type ReadDone = Box<dyn FnOnce(Result<ReadAnswer, ReadRefused>) + Send>;

/// Verdicts of one replica on writes, in offset order; every write up to `applied` has been judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictBatch {
    pub keyspace: KeyspaceId,
    pub shard: ShardId,
    pub verdicts: Vec<(Offset, Verdict)>,
    pub applied: Offset,
}

pub type VerdictSink = Arc<dyn Fn(VerdictBatch) + Send + Sync>;

/// The replicas that a router can reach.
pub trait Replicas: Send + Sync {
    /// Reads at some replica of the shard; `done` is always called, possibly late.
    fn read(&self, keyspace: KeyspaceId, shard: ShardId, request: ReadRequest, done: ReadDone);
}
