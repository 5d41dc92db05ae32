//! Attempts and their outcomes: the first outcome stays for ever.

use super::{At, Folded, phase_other};
use crate::attempt::Tally;
use crate::{Accepted, Attempt, ControlState, Decision, Phase, ReadyFacts, Refusal, Route};
use rehome_keyspace::{AttemptFacts, AttemptId, Epoch, MoveId, Nonce, Offset, Outcome, Side};
use std::sync::Arc;

impl ControlState {
    /// catching-up -> cutting-over: numbers the attempt and reserves its epoch (R1).
    pub(super) fn start_cutover(&mut self, move_id: MoveId, nonce: Nonce, predicted_pause_us: u64, at: At) -> Folded {
        let one = self.known_move(move_id)?;
        if one.phase != Phase::CatchingUp {
            return Err(phase_other(one, "catching-up"));
        }
        self.check_not_paused(one)?;
        let attempt = AttemptId(self.attempts.last_key_value().map_or(1, |(last, _)| last.0 + 1));
        let keyspace = self.known_keyspace(one.keyspace)?;
        let epoch = keyspace.epoch_next;
        let facts = AttemptFacts {
            attempt,
            move_id,
            keyspace: one.keyspace,
            source: one.source,
            destination: one.destination,
            selector: Arc::clone(&one.selector),
            epoch,
            control_offset: at.offset,
            nonce,
            outcome: None,
        };
        self.keyspace_mut(facts.keyspace).epoch_next = Epoch(epoch.0 + 1);
        self.move_mut(move_id).attempts.push(attempt);
        let predicted = predicted_pause_us as f64 / 1000.0;
        let what =
            format!("attempt {attempt} to cut over started, for epoch {epoch}; predicted pause {predicted:.1} ms");
        self.enter(move_id, Phase::CuttingOver { attempt }, at, what);
        let started = Attempt {
            facts: facts.clone(),
            started_ms: at.time_ms,
            predicted_pause_us,
            readies: Vec::new(),
            decided: None,
            decided_ms: None,
            abort_reason: None,
        };
        Arc::make_mut(&mut self.attempts).insert(attempt, Arc::new(started));
        Ok(Decision::Accepted(Accepted::CutoverStarted(facts)))
    }

    /// Counts a `Ready`; enough equal ones switch, two that differ abort.
    pub(super) fn count_ready(&mut self, id: AttemptId, ready: ReadyFacts, at: At) -> Folded {
        let attempt = self.attempt_record(id).ok_or(Refusal::AttemptUnknown { attempt: id })?;
        let facts = attempt.facts.clone();
        let job = self.known_move(facts.move_id)?.job;
        let shard = match ready.side {
            Side::Source => facts.source,
            Side::Destination => facts.destination,
        };
        self.check_replica(facts.keyspace, shard, ready.node)?;
        let node = ready.node;
        if let Some(before) = attempt.ready_of(node, ready.side) {
            let is_same = (before.fence, before.open, before.digest) == (ready.fence, ready.open, ready.digest);
            return match is_same {
                true => Ok(Decision::AlreadyDone(Accepted::ReadyCounted(id))),
                false => Err(Refusal::ReadyChanged { attempt: id, job, node }),
            };
        }
        self.check_undecided(id)?;
        if ready.side == Side::Destination && ready.open.is_none() {
            return Err(Refusal::OpenMissing { attempt: id, job, node });
        }
        let required = self.destinations_required(facts.keyspace);
        let attempt = self.attempt_mut(id);
        attempt.readies.push(ready);
        let tally = attempt.tally(required);
        let side = if ready.side == Side::Source { "source" } else { "destination" };
        let (fence, rows, digest) = (ready.fence, ready.digest.row_count, ready.digest.rows);
        let what =
            format!("attempt {id}: node {node} is ready at the {side}, F = {fence}, {rows} rows, digest {digest:032x}");
        self.tell(facts.move_id, at, what);
        match tally {
            Tally::Waiting => Ok(Decision::Accepted(Accepted::ReadyCounted(id))),
            Tally::Agreed { fence } => {
                self.switch(&facts, fence, at);
                Ok(Decision::Accepted(Accepted::Switched(id)))
            }
            Tally::Differing { fence } => {
                let reason = "source and destination differ at F";
                self.abort(&facts, fence, reason.to_owned(), at);
                if self.move_(facts.move_id).is_some_and(|one| one.phase == Phase::CatchingUp) {
                    // The same copy would differ again.
                    self.give_up_copy(facts.move_id, reason, at);
                }
                Ok(Decision::Accepted(Accepted::Aborted(id)))
            }
        }
    }

    /// Aborts. Requires of the aborter: the attempt's `Fence` is in the source's partition, at or below `fence`.
    pub(super) fn abort_cutover(&mut self, id: AttemptId, fence: Offset, reason: String, at: At) -> Folded {
        let attempt = self.attempt_record(id).ok_or(Refusal::AttemptUnknown { attempt: id })?;
        if matches!(attempt.outcome(), Some(Outcome::Aborted { .. })) {
            return Ok(Decision::AlreadyDone(Accepted::Aborted(id)));
        }
        self.check_undecided(id)?;
        // A source replica knows F itself; the aborter may know of a doubled mark only.
        let fence = attempt.fence_seen().unwrap_or(fence);
        let facts = attempt.facts.clone();
        self.abort(&facts, fence, reason, at);
        Ok(Decision::Accepted(Accepted::Aborted(id)))
    }

    fn switch(&mut self, facts: &AttemptFacts, fence: Offset, at: At) {
        let (attempt, move_id, epoch) = (facts.attempt, facts.move_id, facts.epoch);
        self.decide_attempt(attempt, Outcome::Switched { fence }, None, at);
        self.set_routes(move_id, Route { shard: facts.destination, epoch }, at);
        let what = format!("attempt {attempt} switched: shard {} owns the keys under epoch {epoch}", facts.destination);
        self.enter(move_id, Phase::Switched { attempt }, at, what);
        let replicas = self.replicas_of(facts.keyspace, facts.destination);
        let one = self.move_mut(move_id);
        one.copy_awaited = replicas.difference(&one.ingested).copied().collect();
        let complete = one.options.complete;
        if one.ending.take().is_some() {
            self.tell(move_id, at, "the request to end the move came too late: it had switched");
        }
        if complete {
            self.start_completing(move_id, at);
        }
    }

    fn abort(&mut self, facts: &AttemptFacts, fence: Offset, reason: String, at: At) {
        let (attempt, move_id, epoch) = (facts.attempt, facts.move_id, facts.epoch);
        let what =
            format!("attempt {attempt} aborted: {reason}; shard {} keeps the keys under epoch {epoch}", facts.source);
        self.decide_attempt(attempt, Outcome::Aborted { fence }, Some(reason), at);
        self.set_routes(move_id, Route { shard: facts.source, epoch }, at);
        self.enter(move_id, Phase::CatchingUp, at, what);
        if let Some(ending) = self.move_mut(move_id).ending.take() {
            self.end_early(move_id, ending, at);
        }
    }

    fn decide_attempt(&mut self, id: AttemptId, outcome: Outcome, abort_reason: Option<String>, at: At) {
        let attempt = self.attempt_mut(id);
        debug_assert!(attempt.facts.outcome.is_none(), "an attempt has one outcome for ever");
        attempt.facts.outcome = Some(outcome);
        attempt.decided = Some(at.offset);
        attempt.decided_ms = Some(at.time_ms);
        attempt.abort_reason = abort_reason;
    }

    fn set_routes(&mut self, move_id: MoveId, route: Route, at: At) {
        let one = Arc::clone(&self.moves[&move_id]);
        self.keyspace_mut(one.keyspace).set_routes(one.slot_ids(), route, at);
    }

    fn check_undecided(&self, id: AttemptId) -> Result<(), Refusal> {
        let attempt = self.attempt_record(id).ok_or(Refusal::AttemptUnknown { attempt: id })?;
        let outcome = match attempt.outcome() {
            None => return Ok(()),
            Some(Outcome::Switched { .. }) => "switched",
            Some(Outcome::Aborted { .. }) => "aborted",
        };
        Err(Refusal::AttemptDecided { attempt: id, job: self.known_move(attempt.facts.move_id)?.job, outcome })
    }

    fn attempt_mut(&mut self, id: AttemptId) -> &mut Attempt {
        Arc::make_mut(Arc::make_mut(&mut self.attempts).get_mut(&id).expect("attempts are never removed"))
    }
}
