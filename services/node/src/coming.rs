//! How a replica comes to this node, and how it leaves.
//!
//! Own files first, else a seed of a replica that counts, else the logs (see `rebuild`). Once its tail has passed an end of its
//! partition that was asked for after it opened, and it holds the copies that the moves here rest on, it says so and counts.
//! One that left ends, its store is removed, and the node says so; only then may it come again.

use crate::copy::{snapshot_prefix, taken_at};
use crate::moves::AfterWrite;
use crate::node::{AGAIN_AFTER_MS, Node};
use crate::proposals::Topic;
use crate::replica::Replica;
use crate::seeds::Seed;
use crate::step::Step;
use rehome_control_core::{Coming, Keyspace, Phase};
use rehome_control_log::append_control;
use rehome_keyspace::{KeyspaceId, ShardId};
use rehome_ports::{PortError, Remedy, Store, around};
use rehome_records::{ControlEvent, ControlRecord, store_key};
use std::sync::{Arc, PoisonError};

/// How far the taking of a seed is.
pub(crate) enum Taking {
    Working,
    Again { at_ms: u64 },
}

impl Node {
    /// Tells whether the store can be opened as a replica now. Where it has nothing and a seed was promised, that is taken
    /// first, in a job.
    pub(crate) fn has_begun(
        &mut self,
        keyspace: &Keyspace,
        shard: ShardId,
        store: &Arc<dyn Store>,
        now_ms: u64,
    ) -> Result<bool, PortError> {
        let coming = self.coming(keyspace, shard);
        let Some((hosting, from)) = coming.and_then(|coming| Some((coming.hosting, coming.from?))) else {
            return Ok(true);
        };
        if store.get(&store_key::identity())?.is_some() {
            self.taking.remove(&(keyspace.id, shard));
            return Ok(true);
        }
        match self.taking.get(&(keyspace.id, shard)) {
            Some(Taking::Working) => return Ok(false),
            Some(Taking::Again { at_ms }) if *at_ms > now_ms => {
                self.retry_at_ms = Some(self.retry_at_ms.map_or(*at_ms, |other| other.min(*at_ms)));
                return Ok(false);
            }
            Some(Taking::Again { .. }) | None => {}
        }
        self.taking.insert((keyspace.id, shard), Taking::Working);
        let seed = Seed { keyspace: keyspace.id, shard, hosting, from };
        let (store, snapshots, hook) =
            (Arc::clone(store), Arc::clone(&self.config.snapshots), self.config.hook.clone());
        let taken = self.taken.clone();
        let job = move || {
            let result = around(&hook, Step::TakeSeed, || seed.take(&*store, &*snapshots));
            drop(store);
            taken.push((seed, result));
        };
        self.config.jobs.spawn(format!("seed-shard-{shard}"), Box::new(job));
        Ok(false)
    }

    /// Notes what became of seeds that were being taken.
    pub(crate) fn note_taken(&mut self, now_ms: u64) -> bool {
        let taken = self.taken.drain();
        let any = !taken.is_empty();
        for (seed, result) in taken {
            let key = (seed.keyspace, seed.shard);
            match result {
                Ok(()) => drop(self.taking.remove(&key)),
                Err(error) => {
                    if error.remedy == Remedy::Broken {
                        tracing::warn!(shard = %seed.shard, %error, "a seed cannot be used; another one is asked for");
                        self.propose_removal(key, error.message.clone(), now_ms);
                    } else {
                        tracing::debug!(shard = %seed.shard, %error, "a seed is taken later");
                    }
                    self.taking.insert(key, Taking::Again { at_ms: now_ms + AGAIN_AFTER_MS });
                }
            }
        }
        any
    }

    pub(crate) fn coming(&self, keyspace: &Keyspace, shard: ShardId) -> Option<Coming> {
        let own = keyspace.coming_of(shard).find(|(node, _)| *node == self.config.node);
        own.map(|(_, coming)| coming)
    }

    /// Tells whether the shard has another replica, from which this one can begin anew.
    pub(crate) fn has_peers(&self, keyspace: &Keyspace, shard: ShardId) -> bool {
        keyspace.replicas_of(shard).iter().any(|node| *node != self.config.node)
    }

    /// Gives a replica up that cannot go on: it may come again, with nothing.
    pub(crate) fn propose_removal(&mut self, (keyspace, shard): (KeyspaceId, ShardId), reason: String, now_ms: u64) {
        let event = ControlEvent::ReplicaRemoved { keyspace, shard, node: self.config.node, reason };
        self.propose(Topic::ReplicaRemoved(keyspace, shard), Step::ProposeReplicaRemoved, event, now_ms);
    }

    fn propose(&mut self, topic: Topic, step: Step, event: ControlEvent, now_ms: u64) -> bool {
        if !self.proposals.begin(topic, now_ms) {
            return false;
        }
        let record = ControlRecord { command: (self.config.commands)(), event };
        let inbox = self.proposed.clone();
        let told = move |result| inbox.push((topic, result));
        around(&self.config.hook, step, || append_control(&*self.config.log, record, told));
        true
    }

    /// Removes the stores of shards that this node hosts no more, and says so.
    pub(crate) fn remove_left(&mut self, now_ms: u64) -> bool {
        let node = self.config.node;
        let owed = |keyspace: &Keyspace| -> Vec<(KeyspaceId, ShardId)> {
            let left = keyspace.leaving.iter().filter(|(_, nodes)| nodes.contains(&node));
            left.map(|(shard, _)| (keyspace.id, *shard)).collect()
        };
        let owed: Vec<(KeyspaceId, ShardId)> = self.follower.state().keyspaces().flat_map(owed).collect();
        self.wiped.retain(|key| owed.contains(key));
        let mut progressed = false;
        for key in owed {
            let is_hosted = self.reads.hosted.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&key);
            if is_hosted || matches!(self.taking.get(&key), Some(Taking::Working)) {
                // It wakes this node when it ends.
                continue;
            }
            if !self.wiped.contains(&key) {
                let removed = around(&self.config.hook, Step::RemoveStore, || (self.config.remove_store)(key.0, key.1));
                let removed = removed.and_then(|()| self.remove_given(key));
                if let Err(error) = removed {
                    tracing::debug!(keyspace = %key.0, shard = %key.1, %error, "the store of a shard is removed later");
                    self.retry_at_ms = Some(now_ms + AGAIN_AFTER_MS);
                    continue;
                }
                self.taking.remove(&key);
                self.forget_refused_shard(key);
                self.wiped.insert(key);
            }
            let (keyspace, shard) = key;
            let event = ControlEvent::ReplicaWiped { keyspace, shard, node };
            progressed |= self.propose(Topic::ReplicaWiped(keyspace, shard), Step::ProposeReplicaWiped, event, now_ms);
        }
        progressed
    }

    /// Removes the snapshots that a replica took which left: nobody takes them any more.
    fn remove_given(&self, (keyspace, shard): (KeyspaceId, ShardId)) -> Result<(), PortError> {
        let (snapshots, prefix) = (&self.config.snapshots, format!("{}{shard}-", snapshot_prefix(keyspace)));
        let is_own = |name: &String| name.starts_with(&prefix) && taken_at(name) == Some(self.config.node);
        snapshots.names()?.into_iter().filter(is_own).try_for_each(|name| snapshots.remove(&name))
    }
}

impl Replica {
    /// Looks whether this replica still hosts the shard, and whether it counts by now.
    pub(crate) fn look_at_hosting(&mut self) {
        let (node, shard) = (self.config.node, self.shard);
        let Some(keyspace) = self.follower.state().keyspace(self.keyspace) else { return };
        let counts = keyspace.replicas_of(shard).contains(&node);
        self.left = !keyspace.hosts(shard, node);
        if self.coming && counts {
            tracing::info!(keyspace = %self.keyspace, %shard, %node, "the replica counts");
            self.coming = false;
            self.live.announce_again();
        }
    }

    /// Says that a coming replica is ready, once it is.
    pub(crate) fn ready_to_count(&self, after: &mut AfterWrite) {
        let (keyspace, shard, node) = (self.keyspace, self.shard, self.config.node);
        let known = self.follower.state().keyspace(keyspace);
        let coming = known.and_then(|of| of.coming_of(shard).find(|(coming, _)| *coming == node));
        let Some((_, Coming { hosting, .. })) = coming else { return };
        let has_caught_up = self.known_ends.get(&shard).is_some_and(|end| self.live.next() >= *end);
        if has_caught_up && self.live.is_confirmed() && self.holds_every_copy() {
            let event = ControlEvent::ReplicaReady { keyspace, shard, node, hosting };
            after.propose(Topic::ReplicaReady(keyspace, shard), Step::ProposeReplicaReady, event);
        }
    }

    /// Tells whether this replica has every copy on which a move into the shard rests: others may leave once it counts.
    fn holds_every_copy(&self) -> bool {
        let state = self.follower.state();
        let mut into = state.open_moves().filter(|one| one.keyspace == self.keyspace && one.destination == self.shard);
        into.all(|one| match one.phase {
            Phase::CatchingUp | Phase::CuttingOver { .. } => {
                let inbound = self.core.inbound(one.id).filter(|inbound| inbound.copy == one.copy);
                inbound.is_some_and(|inbound| inbound.replay.is_some())
            }
            _ => !one.copy_awaited.contains(&self.config.node),
        })
    }
}
