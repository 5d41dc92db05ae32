//! The steps of one move, from its start to the outcome of each attempt.

use super::{AttemptStory, ControlStory, Grant, Hosts, MovePhase, MoveStory};
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
    /// Folds a step of a move.
    pub(super) fn step(&mut self, offset: Offset, event: ControlEvent) {
        match event {
            ControlEvent::MoveStarted { move_id } | ControlEvent::CutoverStarted { move_id, .. }
                if self.is_paused(move_id) => {}
            ControlEvent::MoveStarted { move_id } => {
                self.advance(move_id, |moved, _| (moved.phase == MovePhase::Planned).then_some(MovePhase::Copying))
            }
            ControlEvent::SnapshotTaken { move_id, copy, node, digest, .. } => self.advance(move_id, |moved, hosts| {
                let counts = hosts.counting(moved.source).contains(&node);
                if !counts || moved.phase != MovePhase::Copying || moved.copy != copy || moved.snapshot.is_some() {
                    return None;
                }
                moved.snapshot = Some((node, digest));
                Some(MovePhase::Copying)
            }),
            ControlEvent::CopyIngested { move_id, copy, node, digest } => {
                self.advance(move_id, |moved, hosts| copy_ingested(moved, hosts, copy, node, digest))
            }
            ControlEvent::CopyFailed { move_id, copy, node, .. } => self.advance(move_id, |moved, hosts| {
                let counts = [moved.source, moved.destination].iter().any(|at| hosts.counting(*at).contains(&node));
                let phase_fits = matches!(moved.phase, MovePhase::Copying | MovePhase::CatchingUp);
                (counts && phase_fits && moved.copy == copy).then(|| next_copy(moved, hosts))
            }),
            ControlEvent::CutoverStarted { move_id, nonce, .. } => self.cutover_started(offset, move_id, nonce),
            ControlEvent::Ready { attempt, node, side, fence, open, digest } => {
                if side == Side::Source || open.is_some() {
                    self.ready(attempt, Report { node, side, fence, digest });
                }
            }
            ControlEvent::CutoverAborted { attempt, fence, .. } => self.decide(attempt, Outcome::Aborted { fence }),
            ControlEvent::CleanupDone { move_id, node } => self.advance(move_id, |moved, _| {
                if moved.phase == MovePhase::CleaningUp {
                    moved.cleaning.remove(&node);
                    moved.end_cleaning();
                }
                None
            }),
            ControlEvent::MoveFailed { move_id, .. } => self.advance(move_id, end_early),
            ControlEvent::KeyspaceCreatedWith { .. }
            | ControlEvent::NodeRegisteredWith { .. }
            | ControlEvent::NodeDrained { .. }
            | ControlEvent::NodeFilled { .. }
            | ControlEvent::ReplicaAdded { .. }
            | ControlEvent::ReplicaReady { .. }
            | ControlEvent::ReplicaRemoved { .. }
            | ControlEvent::ReplicaWiped { .. }
            | ControlEvent::NodeRegistered { .. }
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

    fn advance(&mut self, move_id: MoveId, step: impl FnOnce(&mut MoveStory, &Hosts) -> Option<MovePhase>) {
        let Some(moved) = self.moves.get_mut(&move_id) else { return };
        // With its keyspace gone, every move has ended.
        let Some(keyspace) = self.keyspaces.get(&moved.keyspace) else { return };
        moved.phase = step(moved, &keyspace.hosts).unwrap_or(moved.phase);
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

    /// Takes in a report. One of the source and enough of the destination, all equal, switch the attempt; unequal ones
    /// abort it.
    fn ready(&mut self, id: AttemptId, report: Report) {
        let Some(attempt) = self.attempts.get_mut(&id).filter(|attempt| attempt.outcome.is_none()) else {
            return;
        };
        let shard = if report.side == Side::Source { attempt.source } else { attempt.destination };
        let hosts = &self.keyspaces[&attempt.keyspace].hosts;
        if !hosts.counting(shard).contains(&report.node) {
            return;
        }
        let same = |other: &Report| other.node == report.node && other.side == report.side;
        if attempt.readies.iter().any(same) {
            return;
        }
        attempt.readies.push(report);
        let Some(source) = attempt.readies.iter().find(|ready| ready.side == Side::Source) else { return };
        let (fence, digest) = (source.fence, source.digest);
        if attempt.readies.iter().all(|ready| (ready.fence, ready.digest) == (fence, digest)) {
            let ready = attempt.readies.iter().filter(|ready| ready.side == Side::Destination).count();
            if ready >= hosts.required() {
                self.decide(id, Outcome::Switched { fence });
            }
            return;
        }
        attempt.unequal_digests = true;
        let move_id = attempt.move_id;
        self.decide(id, Outcome::Aborted { fence });
        // The same copy would differ again.
        self.advance(move_id, |moved, hosts| (moved.phase == MovePhase::CatchingUp).then(|| next_copy(moved, hosts)))
    }

    /// Fixes the outcome of an attempt, the first one only, and grants its epoch.
    fn decide(&mut self, id: AttemptId, outcome: Outcome) {
        let Some(attempt) = self.attempts.get_mut(&id).filter(|attempt| attempt.outcome.is_none()) else {
            return;
        };
        attempt.outcome = Some(outcome);
        let moved = self.moves.get_mut(&attempt.move_id).expect("an attempt's move exists");
        let keyspace = self.keyspaces.get_mut(&attempt.keyspace).expect("an attempt's keyspace exists");
        let hosts = &keyspace.hosts;
        let (winner, phase) = match outcome {
            Outcome::Switched { .. } => {
                let counting = hosts.counting(moved.destination);
                moved.copy_awaited = counting.difference(&moved.ingested).copied().collect();
                let completes = moved.complete;
                let phase = if completes { moved.clean_up_at(moved.source, hosts) } else { MovePhase::Switched };
                (attempt.destination, phase)
            }
            Outcome::Aborted { .. } if moved.end_wanted => {
                (attempt.source, moved.clean_up_at(moved.destination, hosts))
            }
            Outcome::Aborted { .. } => (attempt.source, MovePhase::CatchingUp),
        };
        moved.phase = phase;
        for slot in &moved.slots {
            keyspace.routes[slot.0 as usize] = (winner, attempt.epoch);
        }
    }
}

fn copy_ingested(moved: &mut MoveStory, hosts: &Hosts, copy: u32, node: NodeId, digest: Digest) -> Option<MovePhase> {
    let counts = hosts.counting(moved.destination).contains(&node);
    let cleans_at_source = moved.phase != MovePhase::CleaningUp || moved.cleans_at == Some(moved.source);
    let takes_copies = !matches!(moved.phase, MovePhase::Planned | MovePhase::Ended) && cleans_at_source;
    let (_, snapshot) = moved.snapshot.filter(|_| counts && takes_copies && moved.copy == copy)?;
    if snapshot != digest {
        // Later, the replicas that hold the copy go on without this one.
        let copies = moved.phase == MovePhase::Copying && !moved.ingested.contains(&node);
        moved.unequal_copies += u32::from(copies);
        return copies.then(|| next_copy(moved, hosts));
    }
    moved.ingested.insert(node);
    moved.copy_awaited.remove(&node);
    moved.end_cleaning();
    let enough = moved.phase == MovePhase::Copying && moved.ingested.len() >= hosts.required();
    enough.then_some(MovePhase::CatchingUp)
}

/// Ends a move that has not switched: at once, or as soon as its attempt is aborted.
pub(super) fn end_early(moved: &mut MoveStory, hosts: &Hosts) -> Option<MovePhase> {
    match moved.phase {
        MovePhase::Planned => Some(MovePhase::Ended),
        MovePhase::Copying | MovePhase::CatchingUp => Some(moved.clean_up_at(moved.destination, hosts)),
        MovePhase::CuttingOver(attempt) => {
            moved.end_wanted = true;
            Some(MovePhase::CuttingOver(attempt))
        }
        MovePhase::Switched | MovePhase::CleaningUp | MovePhase::Ended => None,
    }
}

/// Asks for the next copy; after the last one that is allowed, the move fails.
pub(super) fn next_copy(moved: &mut MoveStory, hosts: &Hosts) -> MovePhase {
    if moved.copy >= COPIES_MAX {
        return moved.clean_up_at(moved.destination, hosts);
    }
    moved.copy += 1;
    moved.snapshot = None;
    moved.ingested.clear();
    MovePhase::Copying
}
