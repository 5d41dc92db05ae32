//! The Replicas port over nodes.

use crate::peers::Peers;
use rehome_keyspace::{KeyspaceId, NodeId, ShardId};
use rehome_ports::{ReadDone, ReadRefused, ReadRequest, Replicas};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tells which nodes host a shard.
pub type Hosts = Arc<dyn Fn(KeyspaceId, ShardId) -> Vec<NodeId> + Send + Sync>;

/// Reads at this process's own replica of a shard where it hosts one, else at any node that does and is reached.
pub struct RoutedReplicas {
    pub own: Option<(NodeId, Arc<dyn Replicas>)>,
    pub peers: Arc<Peers>,
    pub hosts: Hosts,
    turn: AtomicUsize,
}

impl RoutedReplicas {
    pub fn new(own: Option<(NodeId, Arc<dyn Replicas>)>, peers: Arc<Peers>, hosts: Hosts) -> RoutedReplicas {
        RoutedReplicas { own, peers, hosts, turn: AtomicUsize::new(0) }
    }
}

impl Replicas for RoutedReplicas {
    fn read(&self, keyspace: KeyspaceId, shard: ShardId, request: ReadRequest, done: ReadDone) {
        let nodes = (self.hosts)(keyspace, shard);
        if let Some((_, own)) = self.own.as_ref().filter(|(own, _)| nodes.contains(own)) {
            return own.read(keyspace, shard, request, done);
        }
        // Each in turn, so that none gets everything; one that is not reached only when none is.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = || (0..nodes.len()).map(|at| nodes[(turn + at) % nodes.len()]);
        match in_turn().find(|node| self.peers.reaches(*node)).or_else(|| in_turn().next()) {
            Some(node) => self.peers.read(node, keyspace, shard, &request, done),
            None => done(Err(ReadRefused::Unavailable { reason: format!("no node hosts shard {shard} yet") })),
        }
    }
}
