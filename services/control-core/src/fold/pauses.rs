//! Jobs that take no further step for a while.
//!
//! A paused job starts nothing: no move begins, none cuts over, and replicas begin no export and no ingest for it. What
//! is under way ends: a copy that is being written, a replay that follows its source, and a cutover up to its outcome;
//! after an aborted one no other attempt starts. So a pause never leaves writers waiting. Clean-up after a switch goes on.

use super::{At, Folded};
use crate::{Accepted, ControlState, Decision, Job, Move, Refusal};
use rehome_keyspace::{JobId, MoveId};
use std::sync::Arc;

impl ControlState {
    /// Tells whether the job is paused: an operator asked for it, and a move of it is left that may still switch.
    pub fn is_paused(&self, id: JobId) -> bool {
        self.pause_reason(id).is_some()
    }

    /// Returns why the job is paused, if it is.
    pub fn pause_reason(&self, id: JobId) -> Option<&str> {
        let job = self.job(id)?;
        job.paused.as_deref().filter(|_| self.pausable(job).next().is_some())
    }

    fn pausable<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Move> {
        let moves = job.moves.iter().filter_map(|id| self.move_(*id));
        moves.filter(|one| one.phase.is_before_switch() && one.ending.is_none())
    }

    pub(super) fn pause_job(&mut self, id: JobId, reason: String, at: At) -> Folded {
        let job = self.job(id).ok_or(Refusal::JobUnknown { job: id })?;
        let accepted = Accepted::Paused(id);
        let moves: Vec<MoveId> = self.pausable(job).map(|one| one.id).collect();
        if moves.is_empty() {
            return Err(Refusal::PauseTooLate { job: id });
        }
        if job.paused.is_some() {
            return Ok(Decision::AlreadyDone(accepted));
        }
        for move_id in moves {
            let cutting_over = self.move_(move_id).is_some_and(|one| one.attempt_open().is_some());
            let effect = if cutting_over { "; takes effect if the cutover is aborted" } else { "" };
            self.tell(move_id, at, format!("paused: {reason}{effect}"));
        }
        self.job_mut(id).paused = Some(reason);
        Ok(Decision::Accepted(accepted))
    }

    pub(super) fn resume_job(&mut self, id: JobId, at: At) -> Folded {
        let job = self.job(id).ok_or(Refusal::JobUnknown { job: id })?;
        if !self.is_paused(id) {
            return Err(Refusal::NotPaused { job: id });
        }
        let moves: Vec<MoveId> = self.pausable(job).map(|one| one.id).collect();
        for move_id in moves {
            self.tell(move_id, at, "resumed");
        }
        self.job_mut(id).paused = None;
        Ok(Decision::Accepted(Accepted::Resumed(id)))
    }

    /// Refuses the next step of a move whose job is paused.
    pub(super) fn check_not_paused(&self, one: &Move) -> Result<(), Refusal> {
        match self.is_paused(one.job) {
            true => Err(Refusal::JobPaused { job: one.job, move_id: one.id }),
            false => Ok(()),
        }
    }

    fn job_mut(&mut self, id: JobId) -> &mut Job {
        Arc::make_mut(Arc::make_mut(&mut self.jobs).get_mut(&id).expect("jobs are never removed"))
    }
}
