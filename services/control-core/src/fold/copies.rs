//! Everything before a cutover, how a move ends early, and clean-up after the end.

use super::{At, Folded, phase_other};
use crate::{Accepted, COPIES_MAX, ControlState, Decision, Ending, Move, Phase, Refusal, SnapshotFacts};
use rehome_keyspace::{MoveId, NodeId};
use rehome_records::Digest;

impl ControlState {
    pub(super) fn start_move(&mut self, move_id: MoveId, at: At) -> Folded {
        let accepted = Accepted::MoveStarted(move_id);
        match self.known_move(move_id)?.phase {
            Phase::Planned => {
                self.check_not_paused(self.known_move(move_id)?)?;
                self.enter(move_id, Phase::Copying, at, "copying started");
                Ok(Decision::Accepted(accepted))
            }
            Phase::Cancelled | Phase::Failed { .. } => Err(phase_other(self.known_move(move_id)?, "planned")),
            _ => Ok(Decision::AlreadyDone(accepted)),
        }
    }

    pub(super) fn take_snapshot(&mut self, move_id: MoveId, taken: SnapshotFacts, at: At) -> Folded {
        let one = self.known_move(move_id)?;
        self.check_replica(one.keyspace, one.source, taken.node)?;
        let accepted = Accepted::SnapshotTaken(move_id);
        check_copy(one, taken.copy)?;
        if one.phase != Phase::Copying {
            return already_or(one.snapshot == Some(taken), accepted, phase_other(one, "copying"));
        }
        if let Some(first) = one.snapshot {
            // The first one counts; a second of the same copy would be another state.
            return already_or(first == taken, accepted, phase_other(one, "copying, without a snapshot"));
        }
        let SnapshotFacts { copy, node, position, digest, bytes } = taken;
        let rows = digest.row_count;
        self.move_mut(move_id).snapshot = Some(taken);
        let x = position.map_or("the start".to_owned(), |position| position.to_string());
        self.tell(move_id, at, format!("node {node} took copy {copy} at X = {x}: {rows} rows, {bytes} bytes"));
        Ok(Decision::Accepted(accepted))
    }

    pub(super) fn ingest_copy(&mut self, move_id: MoveId, copy: u32, node: NodeId, digest: Digest, at: At) -> Folded {
        let one = self.known_move(move_id)?;
        self.check_replica(one.keyspace, one.destination, node)?;
        let accepted = Accepted::CopyIngested(move_id);
        check_copy(one, copy)?;
        let takes_copies = matches!(
            one.phase,
            Phase::Copying
                | Phase::CatchingUp
                | Phase::CuttingOver { .. }
                | Phase::Switched { .. }
                | Phase::Completing { .. }
        );
        if !takes_copies {
            return already_or(one.ingested.contains(&node), accepted, phase_other(one, "copying"));
        }
        let Some(snapshot) = one.snapshot else {
            return Err(Refusal::SnapshotMissing { move_id, job: one.job, copy });
        };
        if one.ingested.contains(&node) {
            return Ok(Decision::AlreadyDone(accepted));
        }
        if snapshot.digest != digest {
            if one.phase != Phase::Copying {
                // The replicas that hold the copy go on without this one; it takes the copy again.
                return Err(phase_other(one, "copying"));
            }
            self.give_up_copy(move_id, &format!("node {node} read another state back than was copied"), at);
            return Ok(Decision::Accepted(Accepted::CopyGivenUp(move_id)));
        }
        let required = self.destinations_required(one.keyspace);
        let is_copying = one.phase == Phase::Copying;
        let one = self.move_mut(move_id);
        one.ingested.insert(node);
        one.copy_awaited.remove(&node);
        let enough = one.ingested.len() >= required;
        self.tell(move_id, at, format!("node {node} holds copy {copy}, read back with the same digest"));
        if is_copying && enough {
            let one = self.move_mut(move_id);
            one.copy_took_ms = Some(at.time_ms.saturating_sub(one.changed_ms));
            self.enter(move_id, Phase::CatchingUp, at, "catching up with the source's partition");
        }
        self.end_cleanup(move_id, at);
        Ok(Decision::Accepted(accepted))
    }

    pub(super) fn fail_copy(&mut self, move_id: MoveId, copy: u32, node: NodeId, reason: &str, at: At) -> Folded {
        let one = self.known_move(move_id)?;
        self.check_replica(one.keyspace, one.source, node)
            .or_else(|_| self.check_replica(one.keyspace, one.destination, node))?;
        let accepted = Accepted::CopyGivenUp(move_id);
        if copy < one.copy {
            return Ok(Decision::AlreadyDone(accepted));
        }
        check_copy(one, copy)?;
        if !matches!(one.phase, Phase::Copying | Phase::CatchingUp) {
            return Err(phase_other(one, "copying or catching-up"));
        }
        self.give_up_copy(move_id, &format!("node {node}: {reason}"), at);
        Ok(Decision::Accepted(accepted))
    }

    /// Takes the next copy, at a newer position; too many, and the move fails (R11).
    pub(super) fn give_up_copy(&mut self, move_id: MoveId, reason: &str, at: At) {
        let one = self.move_mut(move_id);
        let given_up = one.copy;
        if given_up >= COPIES_MAX {
            let reason = format!("{COPIES_MAX} copies were given up, the last one because: {reason}");
            one.enter(Phase::Copying, at.offset, at.time_ms);
            self.end_early(move_id, Ending::Fail { reason }, at);
            return;
        }
        one.copy += 1;
        one.snapshot = None;
        one.ingested.clear();
        self.enter(move_id, Phase::Copying, at, format!("copy {given_up} is given up: {reason}"));
    }

    /// Ends a move that has not switched: at once, or as soon as its cutover is aborted.
    pub(super) fn end_early(&mut self, move_id: MoveId, ending: Ending, at: At) {
        let one = self.move_mut(move_id);
        let what = match &ending {
            Ending::Cancel { reason } => format!("cancelled: {reason}"),
            Ending::Fail { reason } => format!("failed: {reason}"),
        };
        match one.phase {
            Phase::CuttingOver { .. } => {
                one.ending = Some(ending);
                self.tell(move_id, at, format!("{what}; takes effect if the cutover is aborted"));
            }
            // Nothing was done for a planned move, so nothing is to be cleaned up.
            Phase::Planned => self.enter(move_id, ended(ending), at, what),
            _ => {
                let (keyspace, destination) = (one.keyspace, one.destination);
                let awaited = self.nodes_of(keyspace, destination);
                let phase = match (awaited.is_empty(), ending) {
                    (true, ending) => ended(ending),
                    (false, Ending::Cancel { .. }) => Phase::Cancelling,
                    (false, Ending::Fail { reason }) => Phase::Failing { reason },
                };
                self.move_mut(move_id).cleanup_awaited = awaited;
                self.enter(move_id, phase, at, what);
            }
        }
    }

    pub(super) fn fail_move(&mut self, move_id: MoveId, reason: String, at: At) -> Folded {
        let one = self.known_move(move_id)?;
        let accepted = Accepted::FailureRecorded(move_id);
        if matches!(one.phase, Phase::Failing { .. } | Phase::Failed { .. }) {
            return Ok(Decision::AlreadyDone(accepted));
        }
        if !one.phase.is_before_switch() {
            return Err(phase_other(one, "before its switch"));
        }
        match one.ending {
            Some(Ending::Fail { .. }) => return Ok(Decision::AlreadyDone(accepted)),
            // The operator's word came first.
            Some(Ending::Cancel { .. }) => return Err(phase_other(one, "without a pending cancellation")),
            None => {}
        }
        self.end_early(move_id, Ending::Fail { reason }, at);
        Ok(Decision::Accepted(accepted))
    }

    /// Lets the source's replicas drop the rows of a switched move.
    pub(super) fn start_completing(&mut self, move_id: MoveId, at: At) {
        let one = self.move_mut(move_id);
        let Phase::Switched { attempt } = one.phase else {
            return;
        };
        let (keyspace, source) = (one.keyspace, one.source);
        let awaited = self.nodes_of(keyspace, source);
        self.move_mut(move_id).cleanup_awaited = awaited;
        self.enter(move_id, Phase::Completing { attempt }, at, "completing: the source drops the rows");
    }

    pub(super) fn record_cleanup(&mut self, move_id: MoveId, node: NodeId, at: At) -> Folded {
        let one = self.known_move(move_id)?;
        let accepted = Accepted::CleanupRecorded(move_id);
        let shard = match &one.phase {
            Phase::Completing { .. } | Phase::Completed => one.source,
            Phase::Cancelling | Phase::Failing { .. } | Phase::Cancelled | Phase::Failed { .. } => one.destination,
            _ => return Err(phase_other(one, "completing, cancelling or failing")),
        };
        self.check_hosts(one.keyspace, shard, node)?;
        if !one.cleanup_awaited.contains(&node) {
            return Ok(Decision::AlreadyDone(accepted));
        }
        let one = self.move_mut(move_id);
        one.cleanup_awaited.remove(&node);
        self.tell(move_id, at, format!("node {node} cleaned up"));
        self.end_cleanup(move_id, at);
        Ok(Decision::Accepted(accepted))
    }

    /// Ends a move of which nobody has anything left to do.
    pub(super) fn end_cleanup(&mut self, move_id: MoveId, at: At) {
        let Some(one) = self.move_(move_id) else { return };
        if !one.cleanup_awaited.is_empty() || !one.copy_awaited.is_empty() {
            return;
        }
        let end = match &one.phase {
            Phase::Completing { .. } => Phase::Completed,
            Phase::Cancelling => Phase::Cancelled,
            Phase::Failing { reason } => Phase::Failed { reason: reason.clone() },
            _ => return,
        };
        let what = end.to_string();
        self.enter(move_id, end, at, what);
    }
}

fn ended(ending: Ending) -> Phase {
    match ending {
        Ending::Cancel { .. } => Phase::Cancelled,
        Ending::Fail { reason } => Phase::Failed { reason },
    }
}

fn check_copy(one: &Move, copy: u32) -> Result<(), Refusal> {
    match copy == one.copy {
        true => Ok(()),
        false => Err(Refusal::CopyOther { move_id: one.id, job: one.job, copy, current: one.copy }),
    }
}

fn already_or(is_done: bool, accepted: Accepted, refusal: Refusal) -> Folded {
    if is_done { Ok(Decision::AlreadyDone(accepted)) } else { Err(refusal) }
}
