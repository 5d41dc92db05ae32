//! What a node removes of a keyspace that was dropped: its replicas end, then stores and snapshots go.
//!
//! Nothing of it is remembered: a node that starts again finds in the fold what it owes, and removing twice does no harm.

use crate::copy::snapshot_prefix;
use crate::node::{AGAIN_AFTER_MS, Hosted, Node};
use crate::proposals::Topic;
use crate::replica::Replica;
use crate::step::Step;
use rehome_control_log::append_control;
use rehome_keyspace::{KeyspaceId, ShardId};
use rehome_ports::{PortError, Role, Turn, Waker, around};
use rehome_records::{ControlEvent, ControlRecord};
use std::sync::PoisonError;

impl Node {
    /// Removes what is left here of dropped keyspaces whose replicas have ended, and says so in the control log.
    pub(crate) fn remove_dropped(&mut self, now_ms: u64) -> bool {
        let node = self.config.node;
        let owed = self.follower.state().dropped_keyspaces().filter(|dropped| dropped.awaited.contains(&node));
        let owed: Vec<KeyspaceId> = owed.map(|dropped| dropped.keyspace.id).collect();
        self.removed.retain(|keyspace| owed.contains(keyspace));
        let mut progressed = false;
        for keyspace in owed {
            if self.hosts_any_of(keyspace) {
                // It wakes this node when it ends.
                continue;
            }
            if !self.removed.contains(&keyspace) {
                if let Err(error) = self.remove(keyspace) {
                    tracing::debug!(%keyspace, %error, "what is left of a dropped keyspace is removed later");
                    self.retry_at_ms = Some(now_ms + AGAIN_AFTER_MS);
                    continue;
                }
                self.removed.insert(keyspace);
            }
            progressed |= self.tell_removed(keyspace, now_ms);
        }
        progressed
    }

    fn hosts_any_of(&self, keyspace: KeyspaceId) -> bool {
        let hosted = self.reads.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        hosted.range((keyspace, ShardId(0))..=(keyspace, ShardId(u32::MAX))).next().is_some()
    }

    fn remove(&mut self, keyspace: KeyspaceId) -> Result<(), PortError> {
        around(&self.config.hook, Step::RemoveStores, || (self.config.remove_stores)(keyspace))?;
        self.forget_refused(keyspace);
        around(&self.config.hook, Step::RemoveSnapshots, || {
            let (snapshots, prefix) = (&self.config.snapshots, snapshot_prefix(keyspace));
            let names = snapshots.names()?.into_iter().filter(|name| name.starts_with(&prefix));
            names.into_iter().try_for_each(|name| snapshots.remove(&name))
        })
    }

    fn tell_removed(&mut self, keyspace: KeyspaceId, now_ms: u64) -> bool {
        let topic = Topic::KeyspaceRemoved(keyspace);
        if !self.proposals.begin(topic, now_ms) {
            return false;
        }
        let event = ControlEvent::KeyspaceRemoved { keyspace, node: self.config.node };
        let record = ControlRecord { command: (self.config.commands)(), event };
        let inbox = self.proposed.clone();
        let told = move |result| inbox.push((topic, result));
        around(&self.config.hook, Step::ProposeKeyspaceRemoved, || append_control(&*self.config.log, record, told));
        true
    }
}

/// A replica that routers find as long as it runs.
pub(crate) struct HostedReplica {
    replica: Option<Replica>,
    key: (KeyspaceId, ShardId),
    hosted: Hosted,
    /// Wakes the node.
    wake_node: Waker,
}

impl HostedReplica {
    pub(crate) fn new(replica: Replica, hosted: Hosted, wake_node: Waker) -> HostedReplica {
        let key = (replica.keyspace, replica.shard);
        hosted.lock().unwrap_or_else(PoisonError::into_inner).insert(key, replica.inbox());
        HostedReplica { replica: Some(replica), key, hosted, wake_node }
    }

    fn replica(&mut self) -> &mut Replica {
        self.replica.as_mut().expect("taken only when it is dropped")
    }
}

impl Role for HostedReplica {
    fn turn(&mut self, now_ms: u64) -> Turn {
        self.replica().turn(now_ms)
    }

    fn has_ended(&self) -> bool {
        self.replica.as_ref().is_some_and(Role::has_ended)
    }
}

impl Drop for HostedReplica {
    /// Nobody finds it any more, whoever asked it is answered, and its store is closed before the node is woken.
    fn drop(&mut self) {
        if !self.has_ended() {
            return;
        }
        self.hosted.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        if let Some(mut replica) = self.replica.take() {
            replica.refuse_everything();
        }
        (self.wake_node)();
    }
}
