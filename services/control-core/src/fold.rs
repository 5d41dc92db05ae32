//! Adds one control record to the state.
//!
//! - [`keyspaces`]: nodes and keyspaces; [`drops`]: how keyspaces end; [`inboxes`]: their inbox topics.
//! - [`replicas`]: which nodes host a shard; changes neither routes nor epochs.
//! - [`jobs`]: submission, cancellation, completion.
//! - [`copies`]: everything before a cutover, and clean-up after the end.
//! - [`cutovers`]: attempts and their outcomes.
//! - [`pauses`]: jobs that take no further step for a while.

mod copies;
mod cutovers;
mod drops;
mod inboxes;
mod jobs;
mod keyspaces;
mod pauses;
mod replicas;

use crate::{ControlState, Decision, Keyspace, Move, Phase, Refusal};
use rehome_keyspace::{KeyspaceId, MoveId, NodeId, Offset, ShardId};
use rehome_records::control::Hosting;
use rehome_records::{ControlEvent, ControlRecord, Logged, Record};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Control position and append time of the record that is folded.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub offset: Offset,
    pub time_ms: u64,
}

/// What was decided about a command, so that a copy of it is told the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    content: u64,
    decision: Decision,
}

type Folded = Result<Decision, Refusal>;

impl ControlState {
    /// Adds one record of the control log, and returns what became of it. Never panics, whatever the record holds.
    ///
    /// Requires: records in the order of their offsets; one that was folded before changes nothing.
    pub fn fold(&mut self, logged: &Logged) -> Decision {
        if logged.offset < self.folded_next {
            let (offset, folded_next) = (logged.offset, self.folded_next);
            return Decision::Refused(Refusal::AlreadyFolded { offset, folded_next });
        }
        self.folded_next = Offset(logged.offset.0.saturating_add(1));
        let ControlRecord { command, event } = match ControlRecord::read(&logged.record) {
            Ok(record) => record,
            Err(error) => return Decision::Refused(Refusal::Unreadable { reason: error.to_string() }),
        };
        let at = At { offset: logged.offset, time_ms: logged.append_time_ms };
        if !is_remembered(&event) {
            return self.decide(event, at).into();
        }
        let content = content_hash(&logged.record);
        if let Some(before) = self.decided.get(&command) {
            return match before.content == content {
                true => before.decision.repeated(),
                false => Decision::Refused(Refusal::CommandReused),
            };
        }
        let decision = Decision::from(self.decide(event, at));
        Arc::make_mut(&mut self.decided).insert(command, Decided { content, decision: decision.clone() });
        decision
    }

    fn decide(&mut self, event: ControlEvent, at: At) -> Folded {
        match event {
            ControlEvent::NodeRegistered { node, address } => self.register_node(node, address, Vec::new(), at),
            ControlEvent::KeyspaceCreated { name, placement, shards, request_retention_ms } => {
                self.create_keyspace(name, placement, shards, request_retention_ms, Hosting::STANDARD, at)
            }
            ControlEvent::JobSubmitted(job) => self.submit_job(job, at),
            ControlEvent::MoveStarted { move_id } => self.start_move(move_id, at),
            ControlEvent::SnapshotTaken { move_id, copy, node, position, digest, bytes } => {
                self.take_snapshot(move_id, crate::SnapshotFacts { copy, node, position, digest, bytes }, at)
            }
            ControlEvent::CopyIngested { move_id, copy, node, digest } => {
                self.ingest_copy(move_id, copy, node, digest, at)
            }
            ControlEvent::CopyFailed { move_id, copy, node, reason } => {
                self.fail_copy(move_id, copy, node, &reason, at)
            }
            ControlEvent::CutoverStarted { move_id, nonce, predicted_pause_us } => {
                self.start_cutover(move_id, nonce, predicted_pause_us, at)
            }
            ControlEvent::Ready { attempt, node, side, fence, open, digest } => {
                let (offset, time_ms) = (at.offset, at.time_ms);
                self.count_ready(attempt, crate::ReadyFacts { node, side, fence, open, digest, offset, time_ms }, at)
            }
            ControlEvent::CutoverAborted { attempt, fence, reason } => self.abort_cutover(attempt, fence, reason, at),
            ControlEvent::CompleteRequested { job } => self.complete_job(job, at),
            ControlEvent::CancelRequested { job, reason } => self.cancel_job(job, &reason, at),
            ControlEvent::CleanupDone { move_id, node } => self.record_cleanup(move_id, node, at),
            ControlEvent::MoveFailed { move_id, reason } => self.fail_move(move_id, reason, at),
            ControlEvent::PauseRequested { job, reason } => self.pause_job(job, reason, at),
            ControlEvent::ResumeRequested { job } => self.resume_job(job, at),
            ControlEvent::KeyspaceDropped { keyspace } => self.drop_keyspace(keyspace, at),
            ControlEvent::KeyspaceRemoved { keyspace, node } => self.record_removal(keyspace, node),
            ControlEvent::TopicRemoved { keyspace } => self.record_topic_removal(keyspace),
            ControlEvent::InboxOpened { keyspace, partitions } => self.open_inbox(keyspace, partitions),
            ControlEvent::KeyspaceCreatedWith { name, placement, shards, request_retention_ms, hosting } => {
                self.create_keyspace(name, placement, shards, request_retention_ms, hosting, at)
            }
            ControlEvent::NodeRegisteredWith { node, address, labels } => self.register_node(node, address, labels, at),
            ControlEvent::NodeDrained { node } => self.drain_node(node),
            ControlEvent::NodeFilled { node } => self.fill_node(node),
            ControlEvent::ReplicaAdded { keyspace, shard, node, from } => {
                self.add_replica(keyspace, shard, node, from, at)
            }
            ControlEvent::ReplicaReady { keyspace, shard, node, hosting } => {
                self.ready_replica(keyspace, shard, node, hosting)
            }
            ControlEvent::ReplicaRemoved { keyspace, shard, node, reason } => {
                self.remove_replica(keyspace, shard, node, &reason, at)
            }
            ControlEvent::ReplicaWiped { keyspace, shard, node } => self.wiped_replica(keyspace, shard, node),
        }
    }

    fn known_keyspace(&self, keyspace: KeyspaceId) -> Result<&Keyspace, Refusal> {
        self.keyspace(keyspace).ok_or(Refusal::KeyspaceUnknown { keyspace })
    }

    fn known_move(&self, move_id: MoveId) -> Result<&Move, Refusal> {
        self.move_(move_id).ok_or(Refusal::MoveUnknown { move_id })
    }

    fn keyspace_mut(&mut self, id: KeyspaceId) -> &mut Keyspace {
        Arc::make_mut(Arc::make_mut(&mut self.keyspaces).get_mut(&id).expect("looked up before"))
    }

    #[cfg(test)]
    pub(crate) fn keyspace_mut_for_tests(&mut self, id: KeyspaceId) -> &mut Keyspace {
        self.keyspace_mut(id)
    }

    fn move_mut(&mut self, id: MoveId) -> &mut Move {
        Arc::make_mut(Arc::make_mut(&mut self.moves).get_mut(&id).expect("moves are never removed"))
    }

    /// Puts the move into a phase and tells it, keeping the set of open moves true.
    fn enter(&mut self, id: MoveId, phase: Phase, at: At, what: impl Into<String>) {
        if phase.is_final() {
            Arc::make_mut(&mut self.moves_open).remove(&id);
        }
        let one = self.move_mut(id);
        one.enter(phase, at.offset, at.time_ms);
        one.tell(at.offset, at.time_ms, what);
    }

    fn tell(&mut self, id: MoveId, at: At, what: impl Into<String>) {
        self.move_mut(id).tell(at.offset, at.time_ms, what);
    }

    fn replicas_of(&self, keyspace: KeyspaceId, shard: ShardId) -> BTreeSet<NodeId> {
        self.keyspace(keyspace)
            .map_or_else(BTreeSet::new, |keyspace| keyspace.replicas_of(shard).iter().copied().collect())
    }

    fn check_replica(&self, keyspace: KeyspaceId, shard: ShardId, node: NodeId) -> Result<(), Refusal> {
        match self.replicas_of(keyspace, shard).contains(&node) {
            true => Ok(()),
            false => Err(Refusal::NotReplica { node, shard, keyspace }),
        }
    }

    /// Returns the nodes that clean up after a move: those that count, and those that may have begun from one of them.
    fn nodes_of(&self, keyspace: KeyspaceId, shard: ShardId) -> BTreeSet<NodeId> {
        let mut nodes = self.replicas_of(keyspace, shard);
        nodes.extend(self.keyspace(keyspace).into_iter().flat_map(|of| of.coming_of(shard)).map(|(node, _)| node));
        nodes
    }

    fn check_hosts(&self, keyspace: KeyspaceId, shard: ShardId, node: NodeId) -> Result<(), Refusal> {
        match self.nodes_of(keyspace, shard).contains(&node) {
            true => Ok(()),
            false => Err(Refusal::NotReplica { node, shard, keyspace }),
        }
    }

    /// Destination replicas that must hold a copy, and be ready. Fixed with the keyspace: were it to follow how many
    /// replicas there are, a shard that has lost one would switch on a single copy.
    fn destinations_required(&self, keyspace: KeyspaceId) -> usize {
        self.keyspace(keyspace).map_or(1, |keyspace| keyspace.hosting.ready_replicas as usize)
    }
}

fn phase_other(one: &Move, wanted: &'static str) -> Refusal {
    Refusal::PhaseOther { move_id: one.id, job: one.job, phase: one.phase.name(), wanted }
}

/// Tells whether the decision on the event's command is remembered for ever. A step needs no memory where the state
/// itself shows that it was done. A request does: told "refused" once, its late copy must not be accepted after all;
/// and so does the start of a cutover: its late copy must not start another.
fn is_remembered(event: &ControlEvent) -> bool {
    match event {
        ControlEvent::KeyspaceCreated { .. }
        | ControlEvent::KeyspaceCreatedWith { .. }
        | ControlEvent::NodeDrained { .. }
        | ControlEvent::NodeFilled { .. }
        | ControlEvent::ReplicaAdded { .. }
        | ControlEvent::ReplicaRemoved { .. }
        | ControlEvent::JobSubmitted(_)
        | ControlEvent::CutoverStarted { .. }
        | ControlEvent::CompleteRequested { .. }
        | ControlEvent::CancelRequested { .. }
        | ControlEvent::PauseRequested { .. }
        | ControlEvent::ResumeRequested { .. }
        | ControlEvent::KeyspaceDropped { .. } => true,
        ControlEvent::NodeRegistered { .. }
        | ControlEvent::MoveStarted { .. }
        | ControlEvent::SnapshotTaken { .. }
        | ControlEvent::CopyIngested { .. }
        | ControlEvent::CopyFailed { .. }
        | ControlEvent::Ready { .. }
        | ControlEvent::CutoverAborted { .. }
        | ControlEvent::CleanupDone { .. }
        | ControlEvent::MoveFailed { .. }
        | ControlEvent::KeyspaceRemoved { .. }
        | ControlEvent::TopicRemoved { .. }
        | ControlEvent::InboxOpened { .. }
        | ControlEvent::NodeRegisteredWith { .. }
        | ControlEvent::ReplicaReady { .. }
        | ControlEvent::ReplicaWiped { .. } => false,
    }
}

/// Returns a hash of what the record says, whatever headers it travelled with.
fn content_hash(record: &Record) -> u64 {
    let record = Record { key: None, value: record.value.clone(), headers: Vec::new() };
    Logged { offset: Offset(0), append_time_ms: 0, record }.hash()
}
