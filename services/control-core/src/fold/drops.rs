//! How keyspaces end.
//!
//! A drop takes effect at its position: from there on nobody finds the keyspace by name or id. What lies on disk is
//! removed afterwards, by each node that hosts a replica, and then from the log; a crash leaves a drop that is still owed.
//! Both are recorded, so that a later start does no old work.

use super::{At, Folded};
use crate::{Accepted, ControlState, Decision, Dropped, Move, Phase, Refusal};
use rehome_keyspace::{KeyspaceId, NodeId};
use std::sync::Arc;

impl ControlState {
    /// Returns the keyspaces that were dropped, oldest first.
    pub fn dropped_keyspaces(&self) -> impl Iterator<Item = &Dropped> {
        self.dropped.values().map(Arc::as_ref)
    }

    pub fn dropped_keyspace(&self, id: KeyspaceId) -> Option<&Dropped> {
        self.dropped.get(&id).map(Arc::as_ref)
    }

    /// Returns the name that the keyspace has, or had.
    pub fn keyspace_name(&self, id: KeyspaceId) -> Option<&str> {
        let known = self.keyspace(id).or_else(|| self.dropped_keyspace(id).map(|dropped| &dropped.keyspace));
        known.map(|keyspace| keyspace.name.as_str())
    }

    pub(super) fn drop_keyspace(&mut self, id: KeyspaceId, at: At) -> Folded {
        let accepted = Accepted::KeyspaceDropped(id);
        if self.dropped.contains_key(&id) {
            return Ok(Decision::AlreadyDone(accepted));
        }
        self.known_keyspace(id)?;
        if let Some(one) = self.open_moves().find(|one| one.keyspace == id) {
            let way_out = self.way_out(one);
            return Err(Refusal::KeyspaceMoving { move_id: one.id, job: one.job, phase: one.phase.name(), way_out });
        }
        let keyspace = Arc::make_mut(&mut self.keyspaces).remove(&id).expect("looked up before");
        let awaited = keyspace.nodes_with_any();
        let keyspace = Arc::unwrap_or_clone(keyspace);
        let dropped = Dropped { keyspace, awaited, topic_removed: false, dropped: at.offset };
        Arc::make_mut(&mut self.dropped).insert(id, Arc::new(dropped));
        Ok(Decision::Accepted(accepted))
    }

    /// Returns the verb that ends a move sooner or later.
    pub(super) fn way_out(&self, one: &Move) -> &'static str {
        match one.phase {
            Phase::Switched { .. } => "complete",
            _ if self.is_paused(one.job) => "cancel",
            _ => "wait",
        }
    }

    pub(super) fn record_removal(&mut self, id: KeyspaceId, node: NodeId) -> Folded {
        let accepted = Accepted::RemovalRecorded(id);
        if !self.known_drop(id)?.awaited.contains(&node) {
            return Ok(Decision::AlreadyDone(accepted));
        }
        self.dropped_mut(id).awaited.remove(&node);
        Ok(Decision::Accepted(accepted))
    }

    pub(super) fn record_topic_removal(&mut self, id: KeyspaceId) -> Folded {
        let accepted = Accepted::TopicRemovalRecorded(id);
        let dropped = self.known_drop(id)?;
        if dropped.topic_removed {
            return Ok(Decision::AlreadyDone(accepted));
        }
        if let Some(node) = dropped.awaited.first() {
            return Err(Refusal::KeyspaceKept { keyspace: id, node: *node });
        }
        self.dropped_mut(id).topic_removed = true;
        Ok(Decision::Accepted(accepted))
    }

    fn known_drop(&self, id: KeyspaceId) -> Result<&Dropped, Refusal> {
        self.dropped_keyspace(id).ok_or(Refusal::KeyspaceNotDropped { keyspace: id })
    }

    fn dropped_mut(&mut self, id: KeyspaceId) -> &mut Dropped {
        Arc::make_mut(Arc::make_mut(&mut self.dropped).get_mut(&id).expect("looked up before"))
    }
}
