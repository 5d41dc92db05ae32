//! Which nodes host a shard. Changes neither routes nor epochs.
//!
//! ```text
//! ReplicaAdded -> coming -> ReplicaReady -> counts -> ReplicaRemoved -> leaving -> ReplicaWiped
//! ```
//!
//! A coming replica begins from a snapshot of one that counts, so it owes the clean-up that the other owed then; it is
//! awaited for it like all others. Where a replica leaves, nobody waits for it any more.

use super::{At, Folded};
use crate::{Accepted, Coming, ControlState, Decision, Keyspace, Move, Phase, Refusal};
use rehome_keyspace::{KeyspaceId, MoveId, NodeId, Offset, ShardId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl ControlState {
    pub(super) fn drain_node(&mut self, id: NodeId) -> Folded {
        let accepted = Accepted::NodeDrained(id);
        if self.node(id).ok_or(Refusal::NodeUnknown { node: id })?.drained {
            return Ok(Decision::AlreadyDone(accepted));
        }
        self.set_drained(id, true);
        Ok(Decision::Accepted(accepted))
    }

    pub(super) fn fill_node(&mut self, id: NodeId) -> Folded {
        let accepted = Accepted::NodeFilled(id);
        let node = self.node(id).ok_or(Refusal::NodeUnknown { node: id })?;
        if node.filling {
            return Ok(Decision::AlreadyDone(accepted));
        }
        self.set_drained(id, false);
        self.assign_lacking();
        Ok(Decision::Accepted(accepted))
    }

    /// A node either hosts nothing, or takes its share.
    fn set_drained(&mut self, id: NodeId, drained: bool) {
        if let Some(node) = Arc::make_mut(&mut self.nodes).get_mut(&id) {
            (node.drained, node.filling) = (drained, !drained);
        }
    }

    pub(super) fn add_replica(
        &mut self,
        id: KeyspaceId,
        shard: ShardId,
        node: NodeId,
        from: Option<NodeId>,
        at: At,
    ) -> Folded {
        let keyspace = self.known_keyspace(id)?;
        self.node(node).ok_or(Refusal::NodeUnknown { node })?;
        if keyspace.replicas_of(shard).contains(&node) {
            return Ok(Decision::AlreadyDone(Accepted::ReplicaCounts(id, shard, node)));
        }
        if let Some((_, coming)) = keyspace.coming_of(shard).find(|(coming, _)| *coming == node) {
            return Ok(Decision::AlreadyDone(Accepted::ReplicaComing(id, shard, node, coming.hosting)));
        }
        if keyspace.is_leaving(shard, node) {
            return Err(Refusal::ReplicaLeaving { keyspace: id, shard, node });
        }
        // A shard that nobody hosts yet has no record: it is assigned, not taken over.
        let peer = from.or(keyspace.replicas_of(shard).first().copied()).unwrap_or(node);
        if !keyspace.replicas_of(shard).contains(&peer) {
            return Err(Refusal::NotReplica { node: peer, shard, keyspace: id });
        }
        let coming = Coming { hosting: at.offset, from };
        self.keyspace_mut(id).coming.entry(shard).or_default().insert(node, coming);
        for move_id in self.moves_cleaning_up(id, shard) {
            self.move_mut(move_id).cleanup_awaited.insert(node);
        }
        Ok(Decision::Accepted(Accepted::ReplicaComing(id, shard, node, at.offset)))
    }

    /// Returns the open moves whose clean-up is under way at replicas of the shard.
    fn moves_cleaning_up(&self, keyspace: KeyspaceId, shard: ShardId) -> Vec<MoveId> {
        let cleans_here = |one: &&Move| match one.phase {
            Phase::Completing { .. } => one.source == shard,
            Phase::Cancelling | Phase::Failing { .. } => one.destination == shard,
            _ => false,
        };
        let of_keyspace = self.open_moves().filter(|one| one.keyspace == keyspace);
        of_keyspace.filter(cleans_here).map(|one| one.id).collect()
    }

    pub(super) fn ready_replica(&mut self, id: KeyspaceId, shard: ShardId, node: NodeId, hosting: Offset) -> Folded {
        let keyspace = self.known_keyspace(id)?;
        let accepted = Accepted::ReplicaCounts(id, shard, node);
        let known = keyspace.coming_of(shard).any(|(coming, of)| coming == node && of.hosting == hosting);
        if !known {
            return match keyspace.replicas_of(shard).contains(&node) {
                true => Ok(Decision::AlreadyDone(accepted)),
                false => Err(Refusal::HostingOther { keyspace: id, shard, node, hosting }),
            };
        }
        let keyspace = self.keyspace_mut(id);
        remove_coming(keyspace, shard, node);
        keyspace.replicas.entry(shard).or_default().push(node);
        // It holds what every move brought that has switched, or it would not be ready.
        let past_switch = |one: &&Move| matches!(one.phase, Phase::Switched { .. } | Phase::Completing { .. });
        let into = self.open_moves().filter(|one| one.keyspace == id && one.destination == shard);
        let brought: Vec<MoveId> = into.filter(past_switch).map(|one| one.id).collect();
        for move_id in brought {
            self.move_mut(move_id).ingested.insert(node);
        }
        Ok(Decision::Accepted(accepted))
    }

    pub(super) fn remove_replica(
        &mut self,
        id: KeyspaceId,
        shard: ShardId,
        node: NodeId,
        reason: &str,
        at: At,
    ) -> Folded {
        let keyspace = self.known_keyspace(id)?;
        let accepted = Accepted::ReplicaRemoved(id, shard, node);
        if !keyspace.hosts(shard, node) {
            return match keyspace.is_leaving(shard, node) {
                true => Ok(Decision::AlreadyDone(accepted)),
                false => Err(Refusal::NotReplica { node, shard, keyspace: id }),
            };
        }
        if keyspace.replicas_of(shard).contains(&node) {
            self.check_removable(keyspace, shard, node)?;
        }
        let keyspace = self.keyspace_mut(id);
        remove_coming(keyspace, shard, node);
        keyspace.replicas.entry(shard).or_default().retain(|replica| *replica != node);
        keyspace.leaving.entry(shard).or_default().insert(node);
        let concerned = self.open_moves().filter(|one| one.keyspace == id);
        let concerned = concerned.filter(|one| one.source == shard || one.destination == shard);
        let concerned: Vec<MoveId> = concerned.map(|one| one.id).collect();
        for move_id in concerned {
            self.leave_move(move_id, shard, node, reason, at);
        }
        Ok(Decision::Accepted(accepted))
    }

    /// Refuses what would leave the shard without a replica that holds everything.
    fn check_removable(&self, keyspace: &Keyspace, shard: ShardId, node: NodeId) -> Result<(), Refusal> {
        let id = keyspace.id;
        let others: BTreeSet<NodeId> =
            keyspace.replicas_of(shard).iter().copied().filter(|other| *other != node).collect();
        if others.is_empty() {
            return Err(Refusal::ReplicaLast { keyspace: id, shard, node });
        }
        for one in self.open_moves().filter(|one| one.keyspace == id) {
            let (move_id, job) = (one.id, one.job);
            let concerned = one.source == shard || one.destination == shard;
            if concerned && one.attempt_open().is_some() {
                // Its `Ready` may be what the switch rests on.
                return Err(Refusal::ReplicaInCutover { keyspace: id, shard, move_id, job });
            }
            let past_switch = matches!(one.phase, Phase::Switched { .. } | Phase::Completing { .. });
            if one.destination == shard && past_switch && others.is_disjoint(&one.ingested) {
                return Err(Refusal::ReplicaHoldsCopy { keyspace: id, shard, move_id, job });
            }
        }
        Ok(())
    }

    /// Nobody waits for the node any more; a copy that it alone could give is taken again.
    fn leave_move(&mut self, move_id: MoveId, shard: ShardId, node: NodeId, reason: &str, at: At) {
        let Some(one) = self.move_(move_id) else { return };
        let destinations = self.replicas_of(one.keyspace, one.destination);
        let one = self.move_mut(move_id);
        if one.destination == shard {
            one.ingested.remove(&node);
            one.copy_awaited.remove(&node);
        }
        one.cleanup_awaited.remove(&node);
        let gave = one.source == shard && one.snapshot.is_some_and(|snapshot| snapshot.node == node);
        let is_needed = matches!(one.phase, Phase::Copying | Phase::CatchingUp)
            && destinations.iter().any(|replica| !one.ingested.contains(replica));
        if gave && is_needed {
            self.give_up_copy(move_id, &format!("node {node} hosts shard {shard} no more: {reason}"), at);
        }
        self.end_cleanup(move_id, at);
    }

    pub(super) fn wiped_replica(&mut self, id: KeyspaceId, shard: ShardId, node: NodeId) -> Folded {
        let accepted = Accepted::ReplicaWiped(id, shard, node);
        if !self.known_keyspace(id)?.is_leaving(shard, node) {
            return Ok(Decision::AlreadyDone(accepted));
        }
        let leaving = &mut self.keyspace_mut(id).leaving;
        if let Some(nodes) = leaving.get_mut(&shard) {
            nodes.remove(&node);
        }
        leaving.retain(|_, nodes| !nodes.is_empty());
        Ok(Decision::Accepted(accepted))
    }
}

fn remove_coming(keyspace: &mut Keyspace, shard: ShardId, node: NodeId) {
    if let Some(nodes) = keyspace.coming.get_mut(&shard) {
        nodes.remove(&node);
    }
    keyspace.coming.retain(|_, nodes| !nodes.is_empty());
}
