//! What nodes tell controllers: never authority, only advice on when to try.

use rehome_keyspace::{KeyspaceId, MoveId, NodeId, Offset, ShardId};

/// How far one replica is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaProgress {
    pub keyspace: KeyspaceId,
    pub shard: ShardId,
    pub node: NodeId,
    /// Everything below was read and applied.
    pub applied_next: Offset,
    /// Records below the last known end that are not applied.
    pub lag_records: u64,
    /// The newest offset known to be older than request ids are kept, by the partition's own time.
    pub horizon: Option<Offset>,
    pub inbound: Vec<InboundProgress>,
    /// Why work of a move fails here, as long as it does.
    pub troubles: Vec<(MoveId, String)>,
    /// Set when the replica has stopped for good: what a human must look at.
    pub broken: Option<String>,
}

/// How far the replay of a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundProgress {
    pub move_id: MoveId,
    /// Everything of the source's partition below was replayed.
    pub replayed_next: Offset,
    pub lag_records: u64,
    /// Records replayed so far, for rates.
    pub replayed_records: u64,
}
