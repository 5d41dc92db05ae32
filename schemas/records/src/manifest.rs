//! What a snapshot holds: enough to check every byte of it, and to judge what follows it.

use crate::codec::{DecodeError, Kind, decode, encode};
use crate::digest::Digest;
use crate::store_value::StateRegion;
use bincode::{Decode, Encode};
use rehome_keyspace::{AttemptId, KeyspaceId, MoveId, Offset, Selector, ShardId};

/// A snapshot of a selector at position X of its source's partition.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Manifest {
    pub keyspace: KeyspaceId,
    pub source: ShardId,
    pub move_id: MoveId,
    pub copy: u32,
    pub selector: Selector,
    /// Position X: the last record of the source's partition that the snapshot holds; nothing when it had none yet.
    pub position: Option<Offset>,
    pub digest: Digest,
    /// Slot states of the selector at X.
    pub states: Vec<StateRegion>,
    /// Fences that lie at or before X, by attempt: "X at or past F counts".
    pub fences: Vec<(AttemptId, Offset)>,
    pub runs: Vec<RunInfo>,
}

/// One sorted run of entries.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RunInfo {
    pub name: String,
    pub entries: u64,
    pub bytes: u64,
    /// XXH3-64 of the run as it lies in the snapshot store.
    pub checksum: u64,
}

impl Manifest {
    pub fn encode(&self) -> Vec<u8> {
        encode(Kind::Manifest, self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Manifest, DecodeError> {
        decode(Kind::Manifest, bytes)
    }

    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }
}
