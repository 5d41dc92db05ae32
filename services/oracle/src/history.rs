//! What clients were answered.
//!
//! Times are ticks of any clock that never goes back and is shared by all clients: taken before a question is put
//! (`issued_at`) and after its answer is there (`answered_at`).

use crate::fingerprint::{Fingerprint, ValueHash};
use crate::positions::Positions;
use rehome_keyspace::{Offset, ShardId, Version};

/// A write that a client was told is accepted, as which version; a retry's answer is one more of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteAnswered {
    pub row: Fingerprint,
    /// The request it was sent under, if any.
    pub request: Option<Fingerprint>,
    pub version: Version,
    /// Nothing for a delete.
    pub value: Option<ValueHash>,
    pub issued_at: u64,
    pub answered_at: u64,
}

/// A linearizable read and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSeen {
    pub row: Fingerprint,
    /// The row's version and value; nothing when it was not there.
    pub found: Option<(Version, ValueHash)>,
    pub issued_at: u64,
    pub answered_at: u64,
}

/// Everything that clients of one keyspace were answered.
#[derive(Clone, Debug, Default)]
pub struct ClientHistory {
    pub writes: Vec<WriteAnswered>,
    pub reads: Vec<ReadSeen>,
    /// Positions of acknowledged writes of which nothing else was remembered, such as a load's.
    pub loaded: Positions,
}

impl ClientHistory {
    pub fn new() -> ClientHistory {
        ClientHistory::default()
    }

    /// Remembers that the write at this position was acknowledged, in one bit.
    pub fn acknowledge(&mut self, shard: ShardId, offset: Offset) {
        self.loaded.insert(shard, offset);
    }

    /// Takes in what another client was answered.
    pub fn extend(&mut self, other: ClientHistory) {
        self.writes.extend(other.writes);
        self.reads.extend(other.reads);
        for (shard, offset) in other.loaded.missing_in(&Positions::new()) {
            self.loaded.insert(shard, offset);
        }
    }
}
