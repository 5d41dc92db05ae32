//! Which node should host which shard. Pure, and no authority: the fold accepts or refuses each step.
//!
//! A shard goes from one node to another in two steps that are never one: somebody comes, and once that replica counts,
//! somebody leaves. So at every moment a shard has as many replicas as it had, and no write waits.

use crate::{Coming, ControlState, Keyspace, Node};
use rehome_keyspace::{KeyspaceId, NodeId, ShardId};
use rehome_records::control::{Hosting, Label};
use std::collections::{BTreeMap, BTreeSet};

/// Replicas that come to one node at a time. Reason: each takes a whole shard over the network and to disk.
const COMING_MAX: usize = 2;

/// The label by which replicas of a shard are spread.
const RACK: &str = "rack";

/// What a controller knows of nodes that do not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// Not reached now: nothing new goes there.
    Silent,
    /// For so long that its replicas are made anew elsewhere.
    Lost,
}

/// One step of hosting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostingStep {
    Add { keyspace: KeyspaceId, shard: ShardId, node: NodeId, from: Option<NodeId> },
    Remove { keyspace: KeyspaceId, shard: ShardId, node: NodeId, reason: String },
}

/// Returns the nodes that host a shard which has no record yet: round-robin, one of each rack as far as there are any.
pub(crate) fn assign(shard: ShardId, hosting: &Hosting, nodes: &BTreeMap<NodeId, Node>) -> Vec<NodeId> {
    let fitting: Vec<&Node> = nodes.values().filter(|node| !node.drained && fits(node, &hosting.required)).collect();
    let mut chosen: Vec<&Node> = Vec::new();
    let in_turn = || (0..fitting.len()).map(|at| fitting[(shard.0 as usize + at) % fitting.len()]);
    while chosen.len() < hosting.replicas as usize {
        let left = || in_turn().filter(|node| !chosen.iter().any(|other| other.id == node.id));
        let other_rack = left().find(|node| rack(node).is_some_and(|own| chosen.iter().all(|n| rack(n) != Some(own))));
        let Some(next) = other_rack.or_else(|| left().next()) else { break };
        chosen.push(next);
    }
    chosen.iter().map(|node| node.id).collect()
}

fn fits(node: &Node, required: &[Label]) -> bool {
    required.iter().all(|label| node.labels.get(&label.key) == Some(&label.value))
}

fn rack(node: &Node) -> Option<&str> {
    node.labels.get(RACK).map(String::as_str)
}

/// Returns every step that is due now. The same state and the same silence give the same steps; once all were taken and
/// each coming replica counts, none is due.
pub fn hosting_steps(state: &ControlState, away: &BTreeMap<NodeId, Away>) -> Vec<HostingStep> {
    let mut plan = Plan { state, away, loads: loads(state), coming: BTreeMap::new(), steps: Vec::new() };
    for keyspace in state.keyspaces() {
        for node in keyspace.coming.values().flat_map(BTreeMap::keys) {
            *plan.coming.entry(*node).or_default() += 1;
        }
    }
    for keyspace in state.keyspaces() {
        for shard in (0..keyspace.shards).map(ShardId).filter(|shard| !keyspace.replicas_of(*shard).is_empty()) {
            plan.shard(keyspace, shard);
        }
    }
    plan.fill();
    plan.steps
}

/// Returns how many replicas each node hosts, those on their way included.
fn loads(state: &ControlState) -> BTreeMap<NodeId, usize> {
    let mut loads: BTreeMap<NodeId, usize> = state.nodes().map(|node| (node.id, 0)).collect();
    for keyspace in state.keyspaces() {
        let coming = keyspace.coming.values().flat_map(BTreeMap::keys);
        for node in keyspace.replicas.values().flatten().chain(coming) {
            *loads.entry(*node).or_default() += 1;
        }
    }
    loads
}

struct Plan<'a> {
    state: &'a ControlState,
    away: &'a BTreeMap<NodeId, Away>,
    loads: BTreeMap<NodeId, usize>,
    /// On their way to each node.
    coming: BTreeMap<NodeId, usize>,
    steps: Vec<HostingStep>,
}

impl<'a> Plan<'a> {
    fn shard(&mut self, keyspace: &Keyspace, shard: ShardId) {
        let wanted = keyspace.hosting.replicas as usize;
        let replicas = keyspace.replicas_of(shard);
        let sound: Vec<NodeId> = replicas.iter().copied().filter(|node| self.stays(keyspace, *node)).collect();
        let mut on_their_way = 0;
        for (node, coming) in keyspace.coming_of(shard) {
            match self.needless(keyspace, shard, node, coming, sound.len() + on_their_way < wanted) {
                Some(reason) => self.remove(keyspace.id, shard, node, reason),
                None => on_their_way += 1,
            }
        }
        for _ in sound.len() + on_their_way..wanted {
            let Some(node) = self.candidate(keyspace, shard, &sound) else { break };
            if !self.add(keyspace, shard, node) {
                break;
            }
        }
        if replicas.len() > wanted && on_their_way == 0 {
            let (node, reason) = self.one_too_many(keyspace, replicas);
            self.remove(keyspace.id, shard, node, reason);
        }
    }

    /// Tells whether a replica there is to stay.
    fn stays(&self, keyspace: &Keyspace, node: NodeId) -> bool {
        let known = self.state.node(node);
        let wanted = known.is_some_and(|node| !node.drained && fits(node, &keyspace.hosting.required));
        wanted && self.away.get(&node) != Some(&Away::Lost)
    }

    fn answers(&self, node: NodeId) -> bool {
        !self.away.contains_key(&node)
    }

    /// Returns why a replica need not come after all.
    fn needless(
        &self,
        keyspace: &Keyspace,
        shard: ShardId,
        node: NodeId,
        coming: Coming,
        is_lacking: bool,
    ) -> Option<String> {
        if !self.stays(keyspace, node) {
            return Some("the node is drained, lost, or lacks a label".into());
        }
        if let Some(from) = coming.from
            && (self.away.get(&from) == Some(&Away::Lost) || !keyspace.replicas_of(shard).contains(&from))
        {
            return Some(format!("node {from}, from which it was to begin, is gone"));
        }
        let fills = self.state.node(node).is_some_and(|node| node.filling);
        (!is_lacking && !fills).then(|| "there are enough replicas".into())
    }

    /// Returns where the next replica should be: in a rack without one, then where there are the fewest.
    fn candidate(&self, keyspace: &Keyspace, shard: ShardId, sound: &[NodeId]) -> Option<NodeId> {
        let racks: BTreeSet<&str> = sound.iter().filter_map(|node| rack(self.state.node(*node)?)).collect();
        let may = self.state.nodes().filter(|node| self.may_come(keyspace, shard, node.id));
        let same_rack = |node: &Node| rack(node).is_some_and(|rack| racks.contains(rack));
        may.min_by_key(|node| (same_rack(node), self.loads.get(&node.id).copied(), node.id)).map(|node| node.id)
    }

    fn may_come(&self, keyspace: &Keyspace, shard: ShardId, node: NodeId) -> bool {
        let has_room = self.coming.get(&node).is_none_or(|coming| *coming < COMING_MAX);
        let is_planned = || {
            self.steps.iter().any(|step| {
                matches!(step, HostingStep::Add { keyspace: of, shard: at, node: to, .. }
                    if (*of, *at, *to) == (keyspace.id, shard, node))
            })
        };
        has_room
            && self.stays(keyspace, node)
            && self.answers(node)
            && !keyspace.hosts(shard, node)
            && !keyspace.is_leaving(shard, node)
            && !is_planned()
    }

    /// Lets the node come, from a replica that answers; from the logs alone where all are lost. Nothing while one may
    /// answer again.
    fn add(&mut self, keyspace: &Keyspace, shard: ShardId, node: NodeId) -> bool {
        let replicas = keyspace.replicas_of(shard);
        let from = replicas.iter().copied().find(|peer| self.answers(*peer));
        if from.is_none() && replicas.iter().any(|peer| self.away.get(peer) != Some(&Away::Lost)) {
            return false;
        }
        self.steps.push(HostingStep::Add { keyspace: keyspace.id, shard, node, from });
        *self.loads.entry(node).or_default() += 1;
        *self.coming.entry(node).or_default() += 1;
        true
    }

    fn remove(&mut self, keyspace: KeyspaceId, shard: ShardId, node: NodeId, reason: String) {
        self.steps.push(HostingStep::Remove { keyspace, shard, node, reason });
        if let Some(load) = self.loads.get_mut(&node) {
            *load = load.saturating_sub(1);
        }
    }

    /// Returns which replica of a shard with more than enough leaves: a lost one, else one
    /// that is not to stay, else that of the fullest node.
    fn one_too_many(&self, keyspace: &Keyspace, replicas: &[NodeId]) -> (NodeId, String) {
        let stays = |node: NodeId| self.stays(keyspace, node);
        let is_lost = |node: &NodeId| self.away.get(node) == Some(&Away::Lost);
        let key = |node: &NodeId| (is_lost(node), !stays(*node), self.loads.get(node).copied(), *node);
        let node = replicas.iter().copied().max_by_key(key);
        let node = node.expect("a shard with too many replicas has one");
        let drained = self.state.node(node).is_some_and(|node| node.drained);
        let why = match (stays(node), drained) {
            (true, _) => "others host it as well",
            (false, true) => "the node is drained",
            (false, false) => "the node is lost, or lacks a label",
        };
        (node, why.to_owned())
    }

    /// Lets nodes that are to be filled take replicas of the fullest ones, until no node has two more than they have.
    fn fill(&mut self) {
        let filling: Vec<NodeId> = self.state.nodes().filter(|node| node.filling).map(|node| node.id).collect();
        for node in filling {
            while let Some((keyspace, shard)) = self.to_take_over(node) {
                if !self.add(keyspace, shard, node) {
                    break;
                }
            }
        }
    }

    fn to_take_over(&self, node: NodeId) -> Option<(&'a Keyspace, ShardId)> {
        let load = |of: NodeId| self.loads.get(&of).copied().unwrap_or_default();
        let state: &'a ControlState = self.state;
        let shards = state.keyspaces().flat_map(|keyspace| (0..keyspace.shards).map(move |at| (keyspace, ShardId(at))));
        let settled = shards.filter(|(keyspace, shard)| {
            let replicas = keyspace.replicas_of(*shard);
            let sound = replicas.iter().all(|replica| self.stays(keyspace, *replica));
            sound && replicas.len() == keyspace.hosting.replicas as usize && keyspace.coming_of(*shard).next().is_none()
        });
        let of_fullest = settled.filter_map(|(keyspace, shard)| {
            let fullest = keyspace.replicas_of(shard).iter().map(|replica| load(*replica)).max()?;
            (fullest >= load(node) + 2 && self.may_come(keyspace, shard, node)).then_some((fullest, keyspace, shard))
        });
        let most = of_fullest.max_by_key(|(fullest, keyspace, shard)| {
            (*fullest, std::cmp::Reverse(keyspace.id), std::cmp::Reverse(*shard))
        });
        most.map(|(_, keyspace, shard)| (keyspace, shard))
    }
}
