//! From a verdict, or a deadline, to the one answer of a write.
//!
//! A write may have several copies in several partitions: one per sending. Epochs and request ids make at most one of
//! them count (R6), so the first verdict that is not `stale route` answers the write, whichever copy it is about.

use crate::ask::{Refused, WriteAnswer};
use crate::core::{AskId, Effect, Turn, dropped};
use crate::partition::LandedCopy;
use crate::source_order::SourceKey;
use crate::writes::{LaneKey, PartitionKey, Place, Writes, source_key};
use rehome_keyspace::{Epoch, KeyspaceId, Offset};
use rehome_ports::VerdictBatch;
use rehome_records::{FirstAnswer, Verdict};

impl Writes {
    /// A replica told verdicts.
    pub(crate) fn verdicts(&mut self, turn: &mut Turn<'_>, batch: VerdictBatch) {
        let key = (batch.keyspace, batch.shard);
        for (offset, verdict) in batch.verdicts {
            let Some(partition) = self.partitions.get_mut(&key) else { return };
            if let Some((copy, verdict)) = partition.judged(offset, verdict) {
                self.judged(turn, key, copy, offset, verdict);
            }
        }
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        for (offset, copy) in partition.passed(turn.now_ms, batch.applied) {
            self.missed(turn, copy, offset);
        }
    }

    pub(crate) fn judged(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionKey,
        copy: LandedCopy,
        offset: Offset,
        verdict: Verdict,
    ) {
        let Some(waiting) = self.waiting.get_mut(&copy.ask) else { return };
        waiting.copies.retain(|known| !(known.shard == partition.1 && known.place == Place::Landed(offset)));
        if verdict != Verdict::StaleRoute {
            let verdict = first_answer(verdict, waiting.sendings);
            let answer = WriteAnswer { verdict, shard: partition.1, offset, epoch: copy.epoch };
            self.finish(turn, copy.ask, Ok(answer));
            return;
        }
        turn.counters.stale_verdicts += 1;
        let key = (partition.0, waiting.slot);
        let lane = self.lanes.get_mut(&key).expect("a waiting write is in a lane");
        if lane.refused(turn.now_ms, copy.epoch) {
            turn.counters.holds += 1;
            let shard = lane.route.shard;
            self.partitions.entry((key.0, shard)).or_default().ready.remove(&key.1);
        }
    }

    /// The replica passed the copy without a word: only another copy can tell what became of the write.
    pub(crate) fn missed(&mut self, turn: &mut Turn<'_>, copy: LandedCopy, offset: Offset) {
        if let Some(waiting) = self.waiting.get_mut(&copy.ask) {
            turn.counters.verdicts_missed += 1;
            waiting.copies.retain(|known| known.place != Place::Landed(offset) || known.epoch != copy.epoch);
            waiting.lost_sight = true;
            self.send_again(copy);
        }
    }

    pub(crate) fn send_again(&mut self, copy: LandedCopy) {
        let Some(waiting) = self.waiting.get(&copy.ask) else { return };
        let key = (waiting.write.keyspace, waiting.slot);
        let lane = self.lanes.get_mut(&key).expect("a waiting write is in a lane");
        if lane.route.epoch == copy.epoch {
            lane.unsent.insert(copy.ask);
            self.make_ready(key);
        }
    }

    pub(crate) fn too_late(&self, ask: AskId) -> Refused {
        let waiting = &self.waiting[&ask];
        let lane = &self.lanes[&(waiting.write.keyspace, waiting.slot)];
        let Epoch(epoch) = lane.route.epoch;
        let shard = lane.route.shard;
        let partition = self.partitions.get(&(waiting.write.keyspace, shard));
        let code = if lane.is_held() { "paused" } else { "deadline" };
        let why = if lane.is_held() {
            format!("slot {} is changing owner: shard {shard} refuses epoch {epoch}, no newer is known", waiting.slot)
        } else if !waiting.copies.is_empty() {
            format!("shard {shard} has not judged it")
        } else {
            let error = partition.and_then(|partition| partition.last_error.as_deref());
            format!("shard {shard} takes no writes: {}", error.unwrap_or("its log is slow"))
        };
        if waiting.surely_not_applied() {
            return Refused::not_applied(code, format!("not written before the deadline: {why}"));
        }
        Refused::unknown("deadline", format!("no answer before the deadline, it may be written yet: {why}"))
    }

    /// The keyspace is gone, and with it whatever the writes may have done.
    pub(crate) fn dropped(&mut self, turn: &mut Turn<'_>, keyspace: KeyspaceId) {
        let of_it = self.waiting.iter().filter(|(_, waiting)| waiting.write.keyspace == keyspace);
        let asks: Vec<AskId> = of_it.map(|(ask, _)| *ask).collect();
        for ask in asks {
            // Writes that follow another of the same source are answered with it.
            if self.waiting.contains_key(&ask) {
                self.finish(turn, ask, Err(dropped(keyspace)));
            }
        }
        self.partitions.retain(|(of, _), _| *of != keyspace);
    }

    /// Answers a write. When a source's write is refused, its later ones of that key must not be accepted before it.
    pub(crate) fn finish(&mut self, turn: &mut Turn<'_>, ask: AskId, answer: Result<WriteAnswer, Refused>) {
        let source = answer.is_err().then(|| source_key(&self.waiting[&ask].write)).flatten();
        let followers = source.as_ref().map_or_else(Vec::new, |(key, _)| self.followers(ask, key));
        self.answer(turn, ask, answer);
        let Some((key, position)) = source else { return };
        for follower in followers {
            let message = format!("an earlier position of source {} was refused: go back to that one", key.2);
            let refused = match self.waiting[&follower].surely_not_applied() {
                true => Refused::not_applied("source_order", message),
                false => Refused::unknown("source_order", message),
            };
            self.answer(turn, follower, Err(refused));
        }
        self.order.refuse(turn.now_ms, key, position);
    }

    fn followers(&self, ask: AskId, key: &SourceKey) -> Vec<AskId> {
        let Some(lane) = self.lanes.get(&(key.0, self.waiting[&ask].slot)) else { return Vec::new() };
        let follows = |follower: &AskId| {
            let write = &self.waiting[follower].write;
            write.partition_key == key.1 && write.source.as_ref().is_some_and(|source| source.source == key.2)
        };
        lane.all.range(AskId(ask.0 + 1)..).copied().filter(follows).collect()
    }

    fn answer(&mut self, turn: &mut Turn<'_>, ask: AskId, answer: Result<WriteAnswer, Refused>) {
        let waiting = self.waiting.remove(&ask).expect("a write is answered once");
        let keyspace = waiting.write.keyspace;
        self.deadlines.remove(&(waiting.write.deadline_ms, ask));
        self.bytes -= waiting.bytes;
        if let Some(held) = self.held.get_mut(&keyspace) {
            held.writes -= 1;
            held.bytes -= waiting.bytes;
            if held.writes == 0 {
                self.held.remove(&keyspace);
            }
        }
        self.count_waiting(turn);
        for copy in &waiting.copies {
            if let (Place::Landed(offset), Some(partition)) =
                (copy.place, self.partitions.get_mut(&(keyspace, copy.shard)))
            {
                partition.forget(offset);
            }
        }
        *(match answer {
            Ok(_) => &mut turn.counters.writes_answered,
            Err(_) => &mut turn.counters.writes_refused,
        }) += 1;
        turn.effects.push(Effect::AnswerWrite { ask, answer });
        self.leave_lane(turn, (keyspace, waiting.slot), ask);
    }

    fn leave_lane(&mut self, turn: &mut Turn<'_>, key: LaneKey, ask: AskId) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.all.remove(&ask);
        lane.unsent.remove(&ask);
        if lane.unsent.is_empty()
            && let Some(partition) = self.partitions.get_mut(&(key.0, lane.route.shard))
        {
            partition.ready.remove(&key.1);
        }
        if lane.all.is_empty() {
            if let Some(held_ms) = lane.end_hold(turn.now_ms) {
                turn.counters.write_pauses.note(held_ms);
            }
            self.lanes.remove(&key);
        }
    }
}

/// Tells a `Repeated` of a copy that the router sent itself as what the first copy was told.
fn first_answer(verdict: Verdict, sendings: u32) -> Verdict {
    match verdict {
        Verdict::Repeated { first: FirstAnswer::Accepted { version } } if sendings > 1 => Verdict::Accepted { version },
        Verdict::Repeated { first: FirstAnswer::ConditionFailed { current } } if sendings > 1 => {
            Verdict::ConditionFailed { current }
        }
        verdict => verdict,
    }
}
