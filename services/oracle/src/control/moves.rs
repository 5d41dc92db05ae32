//! The steps of one move, from its start to the outcome of each attempt.

use super::{AttemptStory, ControlStory, Grant, MovePhase, MoveStory};
use rehome_keyspace::{AttemptId, Epoch, MoveId, NodeId, Offset, Outcome, Side};
use rehome_records::{ControlEvent, Digest};

/// Copies that a move may take.
const COPIES_MAX: u32 = 8;

/// What one replica reported of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    node: NodeId,
    side: Side,
    fence: Offset,
    digest: Digest,
}

impl ControlStory {
    /// Folds a step of a move. Shards have one replica here, so one report of each side is enough.
    pub(super) fn step(&mut self, offset: Offset, event: ControlEvent) {
        match event {
            ControlEvent::MoveStarted { move_id } | ControlEvent::CutoverStarted { move_id, .. }
                if self.is_paused(move_id) => {}
            ControlEvent::MoveStarted { move_id } => {
                self.advance(move_id, |moved| (moved.phase == MovePhase::Planned).then_some(MovePhase::Copying))
            }
            ControlEvent::SnapshotTaken { move_id, copy, digest, .. } => self.advance(move_id, |moved| {
                if moved.phase != MovePhase::Copying || moved.copy != copy || moved.snapshot.is_some() {
                    return None;
                }
                moved.snapshot = Some(digest);
                Some(MovePhase::Copying)
            }),
            ControlEvent::CopyIngested { move_id, copy, digest, .. } => {
                self.advance(move_id, |moved| copy_ingested(moved, copy, digest))
            }
            ControlEvent::CopyFailed { move_id, copy, .. } => self.advance(move_id, |moved| {
                let phase_fits = matches!(moved.phase, MovePhase::Copying | MovePhase::CatchingUp);
                (phase_fits && moved.copy == copy).then(|| next_copy(moved))
            }),
            ControlEvent::CutoverStarted { move_id, nonce, .. } => self.cutover_started(offset, move_id, nonce),
            ControlEvent::Ready { attempt, node, side, fence, open, digest } => {
                if side == Side::Source || open.is_some() {
                    self.ready(attempt, Report { node, side, fence, digest });
                }
            }
            ControlEvent::CutoverAborted { attempt, fence, .. } => self.decide(attempt, Outcome::Aborted { fence }),
            ControlEvent::CleanupDone { move_id, .. } => {
                self.advance(move_id, |moved| (moved.phase == MovePhase::CleaningUp).then_some(MovePhase::Ended))
            }
            ControlEvent::MoveFailed { move_id, .. } => self.advance(move_id, end_early),
            ControlEvent::NodeRegistered { .. }
            | ControlEvent::KeyspaceCreated { .. }
            | ControlEvent::JobSubmitted(_)
            | ControlEvent::CompleteRequested { .. }
            | ControlEvent::CancelRequested { .. }
            | ControlEvent::PauseRequested { .. }
            | ControlEvent::ResumeRequested { .. }
            | ControlEvent::KeyspaceDropped { .. }
            | ControlEvent::KeyspaceRemoved { .. }
            | ControlEvent::TopicRemoved { .. }
            | ControlEvent::InboxOpened { .. } => {}
        }
    }

    fn is_paused(&self, move_id: MoveId) -> bool {
        self.moves.get(&move_id).is_some_and(|moved| self.paused.contains(&moved.job))
    }

    fn advance(&mut self, move_id: MoveId, step: impl FnOnce(&mut MoveStory) -> Option<MovePhase>) {
        let Some(moved) = self.moves.get_mut(&move_id) else { return };
        moved.phase = step(moved).unwrap_or(moved.phase);
    }

    fn cutover_started(&mut self, offset: Offset, move_id: MoveId, nonce: rehome_keyspace::Nonce) {
        let Some(moved) = self.moves.get_mut(&move_id).filter(|moved| moved.phase == MovePhase::CatchingUp) else {
            return;
        };
        let attempt = AttemptId(self.attempts.last_key_value().map_or(1, |(last, _)| last.0 + 1));
        let keyspace = self.keyspaces.get_mut(&moved.keyspace).expect("a move's keyspace exists");
        let epoch = keyspace.epoch_next;
        keyspace.epoch_next = Epoch(epoch.0 + 1);
        keyspace.grants.insert(epoch, Grant::Attempt(attempt));
        moved.phase = MovePhase::CuttingOver(attempt);
        self.attempts.insert(
            attempt,
            AttemptStory {
                attempt,
                move_id,
                keyspace: moved.keyspace,
                source: moved.source,
                destination: moved.destination,
                epoch,
                control_offset: offset,
                nonce,
                outcome: None,
                unequal_digests: false,
                readies: Vec::new(),
            },
        );
    }

    /// Takes in a report. One of each side, equal, switches the attempt; unequal ones abort it.
    fn ready(&mut self, id: AttemptId, report: Report) {
        let Some(attempt) = self.attempts.get_mut(&id).filter(|attempt| attempt.outcome.is_none()) else {
            return;
        };
        let same = |other: &Report| other.node == report.node && other.side == report.side;
        if attempt.readies.iter().any(same) {
            return;
        }
        attempt.readies.push(report);
        let of = |side| attempt.readies.iter().find(move |ready| ready.side == side);
        let (Some(source), Some(destination)) = (of(Side::Source), of(Side::Destination)) else { return };
        let fence = source.fence;
        if source.digest == destination.digest && destination.fence == fence {
            return self.decide(id, Outcome::Switched { fence });
        }
        attempt.unequal_digests = true;
        let move_id = attempt.move_id;
        self.decide(id, Outcome::Aborted { fence });
        // The same copy would differ again.
        self.advance(move_id, |moved| (moved.phase == MovePhase::CatchingUp).then(|| next_copy(moved)))
    }

    /// Fixes the outcome of an attempt, the first one only, and grants its epoch.
    fn decide(&mut self, id: AttemptId, outcome: Outcome) {
        let Some(attempt) = self.attempts.get_mut(&id).filter(|attempt| attempt.outcome.is_none()) else {
            return;
        };
        attempt.outcome = Some(outcome);
        let moved = self.moves.get_mut(&attempt.move_id).expect("an attempt's move exists");
        let (winner, phase) = match outcome {
            Outcome::Switched { .. } if moved.complete => (attempt.destination, MovePhase::CleaningUp),
            Outcome::Switched { .. } => (attempt.destination, MovePhase::Switched),
            Outcome::Aborted { .. } if moved.end_wanted => (attempt.source, MovePhase::CleaningUp),
            Outcome::Aborted { .. } => (attempt.source, MovePhase::CatchingUp),
        };
        moved.phase = phase;
        let keyspace = self.keyspaces.get_mut(&attempt.keyspace).expect("an attempt's keyspace exists");
        for slot in &moved.slots {
            keyspace.routes[slot.0 as usize] = (winner, attempt.epoch);
        }
    }
}

fn copy_ingested(moved: &mut MoveStory, copy: u32, digest: Digest) -> Option<MovePhase> {
    let snapshot = moved.snapshot.filter(|_| moved.phase == MovePhase::Copying && moved.copy == copy)?;
    if snapshot == digest {
        return Some(MovePhase::CatchingUp);
    }
    moved.unequal_copies += 1;
    Some(next_copy(moved))
}

/// Ends a move that has not switched: at once, or as soon as its attempt is aborted.
pub(super) fn end_early(moved: &mut MoveStory) -> Option<MovePhase> {
    match moved.phase {
        MovePhase::Planned => Some(MovePhase::Ended),
        MovePhase::Copying | MovePhase::CatchingUp => Some(MovePhase::CleaningUp),
        MovePhase::CuttingOver(attempt) => {
            moved.end_wanted = true;
            Some(MovePhase::CuttingOver(attempt))
        }
        MovePhase::Switched | MovePhase::CleaningUp | MovePhase::Ended => None,
    }
}

/// Asks for the next copy; after the last one that is allowed, the move fails.
fn next_copy(moved: &mut MoveStory) -> MovePhase {
    if moved.copy >= COPIES_MAX {
        return MovePhase::CleaningUp;
    }
    moved.copy += 1;
    moved.snapshot = None;
    MovePhase::Copying
}
