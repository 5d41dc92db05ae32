//! Everything that the control log has said so far.

use crate::fold::Decided;
use crate::{Attempt, Dropped, Job, JobState, Keyspace, Move, Node, Phase};
use rehome_keyspace::{AttemptFacts, AttemptId, Attempts, JobId, KeyspaceId, MoveId, NodeId, Offset};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The folded control log. A clone shares everything with its original until one of them folds on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlState {
    pub(crate) folded_next: Offset,
    pub(crate) nodes: Arc<BTreeMap<NodeId, Node>>,
    pub(crate) keyspaces: Arc<BTreeMap<KeyspaceId, Arc<Keyspace>>>,
    pub(crate) dropped: Arc<BTreeMap<KeyspaceId, Arc<Dropped>>>,
    pub(crate) jobs: Arc<BTreeMap<JobId, Arc<Job>>>,
    pub(crate) moves: Arc<BTreeMap<MoveId, Arc<Move>>>,
    pub(crate) moves_open: Arc<BTreeSet<MoveId>>,
    pub(crate) attempts: Arc<BTreeMap<AttemptId, Arc<Attempt>>>,
    pub(crate) decided: Arc<BTreeMap<u128, Decided>>,
}

impl ControlState {
    /// Returns the state before the first record.
    pub fn new() -> ControlState {
        ControlState::default()
    }

    /// Returns the offset below which everything was folded.
    pub fn folded_next(&self) -> Offset {
        self.folded_next
    }

    /// Notes that the log holds nothing more below `next`: the position grows past gaps.
    pub fn pass(&mut self, next: Offset) {
        self.folded_next = self.folded_next.max(next);
    }

    pub fn keyspaces(&self) -> impl Iterator<Item = &Keyspace> {
        self.keyspaces.values().map(Arc::as_ref)
    }

    pub fn keyspace(&self, id: KeyspaceId) -> Option<&Keyspace> {
        self.keyspaces.get(&id).map(Arc::as_ref)
    }

    pub fn keyspace_named(&self, name: &str) -> Option<&Keyspace> {
        self.keyspaces().find(|keyspace| keyspace.name == name)
    }

    /// Returns every move that ever was, oldest first.
    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        self.moves.values().map(Arc::as_ref)
    }

    pub fn move_(&self, id: MoveId) -> Option<&Move> {
        self.moves.get(&id).map(Arc::as_ref)
    }

    /// Returns the moves of which something is still to be done or cleaned up, oldest first.
    pub fn open_moves(&self) -> impl Iterator<Item = &Move> {
        self.moves_open.iter().filter_map(|id| self.move_(*id))
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().map(Arc::as_ref)
    }

    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).map(Arc::as_ref)
    }

    /// Returns how far a job is; nothing when there is no such job.
    pub fn job_state(&self, id: JobId) -> Option<JobState> {
        let job = self.job(id)?;
        if let Some(reason) = self.pause_reason(id) {
            return Some(JobState::Paused { reason: reason.to_owned() });
        }
        let phases = || job.moves.iter().filter_map(|id| self.move_(*id)).map(|one| &one.phase);
        if phases().any(|phase| !phase.is_final() && !matches!(phase, Phase::Switched { .. })) {
            return Some(JobState::Running);
        }
        if phases().any(|phase| matches!(phase, Phase::Switched { .. })) {
            return Some(JobState::Switched);
        }
        let failed = phases().find_map(|phase| match phase {
            Phase::Failed { reason } => Some(reason.clone()),
            _ => None,
        });
        Some(match failed {
            Some(reason) => JobState::Failed { reason },
            None if phases().any(|phase| *phase == Phase::Cancelled) => JobState::Cancelled,
            None => JobState::Completed,
        })
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// Returns every attempt that ever was, oldest first.
    pub fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.values().map(Arc::as_ref)
    }

    /// Returns the attempt with all that was said about it.
    pub fn attempt_record(&self, id: AttemptId) -> Option<&Attempt> {
        self.attempts.get(&id).map(Arc::as_ref)
    }
}

impl Attempts for ControlState {
    fn folded_next(&self) -> Offset {
        self.folded_next
    }

    fn attempt(&self, attempt: AttemptId) -> Option<AttemptFacts> {
        self.attempt_record(attempt).map(|attempt| attempt.facts.clone())
    }
}
