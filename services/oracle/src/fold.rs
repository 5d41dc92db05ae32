//! Folds the data partitions of one keyspace: which writes are accepted, and which rows remain.
//!
//! The rule. A write at (partition p, offset o) under epoch e is accepted if and only if
//! 1. e was granted to the shard p for the write's slot (by the control log, which is folded whole before this);
//! 2. the mark that introduced e lies before o in p: `Open` where the slot moved in, `Fence` where it was to move out
//!    and did not; epochs of the creation need none;
//! 3. no `Fence` of a later epoch of that slot lies before o in p;
//! 4. its request id was not judged before, its source had not reached its position, its condition holds. "Before" is
//!    the order of (epoch, offset) among the writes of its partition key.
//!
//! Each partition is read once, in order. Writes of a slot that moved in wait until the source's partition was read up
//! to the fence, and so does the fence under which it moves on, which is all that the order of (epoch, offset) asks for.

mod judge;
mod partition;

use crate::control::ControlStory;
use crate::fingerprint::{Fingerprint, ValueHash};
use crate::positions::Positions;
use partition::Partition;
use rehome_keyspace::{AttemptId, KeyspaceId, Offset, ShardId, Version};
use rehome_records::{FirstAnswer, Logged};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The newest accepted write of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFact {
    pub version: Version,
    /// Nothing when it is a delete.
    pub value: Option<ValueHash>,
    /// Where a comparison has seen the row so far.
    pub(crate) seen: Seen,
}

/// Where a row was seen in the stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// In the store of its owner, tombstones included.
    pub at_owner: bool,
    /// In some store that would show it to a reader.
    pub visible: bool,
}

/// The first answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFact {
    pub answer: FirstAnswer,
    pub content_hash: u64,
    /// Where it was judged.
    pub version: Version,
}

/// How far an ordered source has come for a partition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceFact {
    pub position: u64,
    pub version: Version,
}

/// What the logs say must be.
#[derive(Clone, Debug)]
pub struct Folded {
    pub keyspace: KeyspaceId,
    pub rows: BTreeMap<Fingerprint, RowFact>,
    /// Rows that were deleted so long ago that their tombstone was forgotten, with the version that deleted them last.
    pub forgotten: BTreeMap<Fingerprint, Version>,
    pub requests: BTreeMap<Fingerprint, RequestFact>,
    pub sources: BTreeMap<Fingerprint, SourceFact>,
    pub accepted: Positions,
    /// Positions of writes that came again: their request, or their source's position, was done before.
    pub repeated: Positions,
    /// Writes refused because the slot was not owned there under that epoch.
    pub stale: u64,
}

/// Why the logs cannot be folded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FoldError {
    #[error("the control log knows no keyspace {0}")]
    NoKeyspace(KeyspaceId),
    #[error("partition {shard}: {reason}")]
    Unreadable { shard: ShardId, reason: String },
    #[error(
        "partition {shard} has a record at offset {offset} that belongs after the fence of attempt {attempt}, which partition {source_shard} lacks"
    )]
    FenceMissing { shard: ShardId, offset: Offset, attempt: AttemptId, source_shard: ShardId },
}

/// Folds every partition of a keyspace, given in order of shards, each from its first record on.
///
/// Errors: a partition cannot be read, or lacks a fence on which writes of another depend.
pub fn fold<I>(story: &ControlStory, keyspace: KeyspaceId, partitions: Vec<I>) -> Result<Folded, FoldError>
where
    I: Iterator<Item = Result<Logged, String>>,
{
    let keyspace = story.keyspaces.get(&keyspace).ok_or(FoldError::NoKeyspace(keyspace))?;
    let mut folded = Folded {
        keyspace: keyspace.id,
        rows: BTreeMap::new(),
        forgotten: BTreeMap::new(),
        requests: BTreeMap::new(),
        sources: BTreeMap::new(),
        accepted: Positions::new(),
        repeated: Positions::new(),
        stale: 0,
    };
    let slots = keyspace.placement.slot_count() as usize;
    let mut partitions: Vec<Partition<I>> = partitions
        .into_iter()
        .enumerate()
        .map(|(shard, records)| Partition::new(ShardId(shard as u32), slots, records))
        .collect();
    let mut fenced = BTreeSet::new();
    loop {
        let mut progressed = false;
        let mut waiting = None;
        for partition in &mut partitions {
            let (read, waits) = partition.fold_on(story, keyspace, &mut fenced, &mut folded)?;
            progressed |= read;
            waiting = waiting.or(waits);
        }
        match waiting {
            None if partitions.iter().all(Partition::is_done) => return Ok(folded),
            Some(missing) if !progressed => return Err(missing),
            _ => {}
        }
    }
}
