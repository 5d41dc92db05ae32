//! Which nodes host a shard, as far as it decides anything: whose reports count, and for whom clean-up waits.

use super::moves::next_copy;
use super::{ControlStory, KeyspaceStory, MovePhase, MoveStory};
use rehome_keyspace::{KeyspaceId, NodeId, Offset, ShardId};
use rehome_records::control::{Hosting, Label};
use std::collections::{BTreeMap, BTreeSet};

/// A node: where it stands, and whether it is to host nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeStory {
    address: String,
    labels: Vec<Label>,
    drained: bool,
}

/// Who hosts the shards of a keyspace.
#[derive(Clone, Debug)]
pub struct Hosts {
    wanted: Hosting,
    counting: BTreeMap<ShardId, Vec<NodeId>>,
    /// With the number of each hosting.
    coming: BTreeMap<(ShardId, NodeId), Offset>,
    leaving: BTreeSet<(ShardId, NodeId)>,
}

impl Hosts {
    pub(super) fn new(wanted: Hosting) -> Hosts {
        Hosts { wanted, counting: BTreeMap::new(), coming: BTreeMap::new(), leaving: BTreeSet::new() }
    }

    /// Returns how many destination replicas must hold a copy, and be ready.
    pub(super) fn required(&self) -> usize {
        self.wanted.ready_replicas as usize
    }

    /// Returns the nodes whose replicas of the shard count.
    pub fn counting(&self, shard: ShardId) -> BTreeSet<NodeId> {
        self.counting.get(&shard).into_iter().flatten().copied().collect()
    }

    /// Returns the nodes that may have rows of the shard for good reason.
    pub(super) fn all(&self, shard: ShardId) -> BTreeSet<NodeId> {
        let coming = self.coming.keys().filter(|(of, _)| *of == shard).map(|(_, node)| *node);
        self.counting(shard).into_iter().chain(coming).collect()
    }

    /// Gives shards that nobody hosts to nodes that fit: in turn, beginning at the shard's number, and first to racks that
    /// have none yet.
    fn assign(&mut self, shards: u32, nodes: &BTreeMap<NodeId, NodeStory>) {
        let fits = |node: &NodeStory| !node.drained && self.wanted.required.iter().all(|one| node.labels.contains(one));
        let fitting: Vec<(&NodeId, &NodeStory)> = nodes.iter().filter(|(_, node)| fits(node)).collect();
        let rack = |at: usize| fitting[at].1.labels.iter().find(|label| label.key == "rack").map(|label| &label.value);
        for shard in 0..shards {
            let counting = self.counting.entry(ShardId(shard)).or_default();
            if !counting.is_empty() {
                continue;
            }
            let mut left: Vec<usize> = (0..fitting.len()).map(|at| (at + shard as usize) % fitting.len()).collect();
            let mut racks = BTreeSet::new();
            while counting.len() < self.wanted.replicas as usize && !left.is_empty() {
                let fresh = left.iter().position(|at| rack(*at).is_some_and(|rack| !racks.contains(rack)));
                let at = left.remove(fresh.unwrap_or(0));
                racks.extend(rack(at));
                counting.push(*fitting[at].0);
            }
        }
    }
}

impl ControlStory {
    pub(super) fn node_registered(&mut self, node: NodeId, address: String, labels: Vec<Label>) {
        let known = self.nodes.entry(node).or_default();
        (known.address, known.labels) = (address, labels);
        self.assign_hosts();
    }

    pub(super) fn node_drained(&mut self, node: NodeId, drained: bool) {
        if let Some(known) = self.nodes.get_mut(&node) {
            known.drained = drained;
            self.assign_hosts();
        }
    }

    pub(super) fn assign_hosts(&mut self) {
        for keyspace in self.keyspaces.values_mut() {
            keyspace.hosts.assign(keyspace.shards, &self.nodes);
        }
    }

    pub(super) fn replica_added(
        &mut self,
        offset: Offset,
        keyspace: KeyspaceId,
        shard: ShardId,
        node: NodeId,
        from: Option<NodeId>,
    ) {
        let is_known = self.nodes.contains_key(&node);
        let Some(KeyspaceStory { hosts, .. }) = self.keyspaces.get_mut(&keyspace) else { return };
        let counting = hosts.counting(shard);
        let from_fits = !counting.is_empty() && from.is_none_or(|from| counting.contains(&from));
        let is_free = !hosts.all(shard).contains(&node) && !hosts.leaving.contains(&(shard, node));
        if !is_known || !from_fits || !is_free {
            return;
        }
        hosts.coming.insert((shard, node), offset);
        for moved in self.moves.values_mut().filter(|moved| moved.keyspace == keyspace) {
            if moved.phase == MovePhase::CleaningUp && moved.cleans_at == Some(shard) {
                moved.cleaning.insert(node);
            }
        }
    }

    pub(super) fn replica_ready(&mut self, keyspace: KeyspaceId, shard: ShardId, node: NodeId, hosting: Offset) {
        let Some(KeyspaceStory { hosts, .. }) = self.keyspaces.get_mut(&keyspace) else { return };
        if hosts.coming.get(&(shard, node)) != Some(&hosting) {
            return;
        }
        hosts.coming.remove(&(shard, node));
        hosts.counting.entry(shard).or_default().push(node);
        let into = |moved: &&mut MoveStory| moved.keyspace == keyspace && moved.destination == shard;
        for moved in self.moves.values_mut().filter(into).filter(|moved| moved.has_switched()) {
            moved.ingested.insert(node);
        }
    }

    pub(super) fn replica_removed(&mut self, keyspace: KeyspaceId, shard: ShardId, node: NodeId) {
        let Some(KeyspaceStory { hosts, .. }) = self.keyspaces.get(&keyspace) else { return };
        let counting = hosts.counting(shard);
        let concerned =
            |moved: &&MoveStory| moved.keyspace == keyspace && (moved.source == shard || moved.destination == shard);
        if counting.contains(&node) {
            let others: BTreeSet<NodeId> = counting.iter().copied().filter(|other| *other != node).collect();
            let holds_alone = |moved: &MoveStory| {
                moved.destination == shard && moved.has_switched() && moved.ingested.is_disjoint(&others)
            };
            let keeps = |moved: &MoveStory| matches!(moved.phase, MovePhase::CuttingOver(_)) || holds_alone(moved);
            if others.is_empty() || self.moves.values().filter(concerned).any(keeps) {
                return;
            }
        } else if !hosts.all(shard).contains(&node) {
            return;
        }
        let hosts = &mut self.keyspaces.get_mut(&keyspace).expect("looked up above").hosts;
        hosts.coming.remove(&(shard, node));
        hosts.counting.entry(shard).or_default().retain(|other| *other != node);
        hosts.leaving.insert((shard, node));
        let hosts = &self.keyspaces[&keyspace].hosts;
        let concerned = self.moves.values_mut().filter(|moved| concerned(&&**moved));
        concerned.for_each(|moved| moved.left(shard, node, hosts));
    }

    pub(super) fn replica_wiped(&mut self, keyspace: KeyspaceId, shard: ShardId, node: NodeId) {
        if let Some(keyspace) = self.keyspaces.get_mut(&keyspace) {
            keyspace.hosts.leaving.remove(&(shard, node));
        }
    }
}

impl MoveStory {
    /// Tells whether the destination owns the slots, and something is still to be done.
    fn has_switched(&self) -> bool {
        let cleans_at_source = self.cleans_at == Some(self.source);
        self.phase == MovePhase::Switched || (self.phase == MovePhase::CleaningUp && cleans_at_source)
    }

    fn left(&mut self, shard: ShardId, node: NodeId, hosts: &Hosts) {
        if self.destination == shard {
            self.ingested.remove(&node);
            self.copy_awaited.remove(&node);
        }
        self.cleaning.remove(&node);
        let gave = self.source == shard && self.snapshot.is_some_and(|(giver, _)| giver == node);
        let is_before_cutover = matches!(self.phase, MovePhase::Copying | MovePhase::CatchingUp);
        if gave && is_before_cutover && !hosts.counting(self.destination).is_subset(&self.ingested) {
            self.phase = next_copy(self, hosts);
        }
        self.end_cleaning();
    }

    /// Begins to clean up at a shard; with nobody there, it has ended.
    pub(super) fn clean_up_at(&mut self, shard: ShardId, hosts: &Hosts) -> MovePhase {
        self.cleans_at = Some(shard);
        self.cleaning = hosts.all(shard);
        let nobody = self.cleaning.is_empty() && self.copy_awaited.is_empty();
        if nobody { MovePhase::Ended } else { MovePhase::CleaningUp }
    }

    /// Ends it once nobody is waited for.
    pub(super) fn end_cleaning(&mut self) {
        if self.phase == MovePhase::CleaningUp && self.cleaning.is_empty() && self.copy_awaited.is_empty() {
            self.phase = MovePhase::Ended;
        }
    }
}
