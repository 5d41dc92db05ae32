//! From a key to an append, and from a verdict to an answer; slots that are held, copies sent again.
//!
//! A write may have several copies in several partitions: one per sending. Epochs and request ids make at most one of
//! them count (R6), so the first verdict that is not `stale route` answers the write, whichever copy it is about.

use crate::ask::{Refused, WriteAnswer, WriteAsk, check_write};
use crate::core::{AppendId, AskId, Effect, Turn, overloaded, unknown_keyspace};
use crate::lane::Lane;
use crate::limits::RouterLimits;
use crate::partition::{Fate, LandedCopy, Partition};
use crate::source_order::{SourceKey, SourceOrder};
use rehome_keyspace::{Epoch, KeyspaceId, Offset, ShardId, SlotId};
use rehome_ports::{PortError, Remedy, VerdictBatch};
use rehome_records::{FirstAnswer, Operation, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that a waiting write takes beside its keys and values, roughly.
const WRITE_OVERHEAD_BYTES: usize = 256;

pub(crate) type LaneKey = (KeyspaceId, SlotId);
pub(crate) type PartitionKey = (KeyspaceId, ShardId);

/// A write without an answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) write: WriteAsk,
    pub(crate) slot: SlotId,
    pub(crate) bytes: usize,
    /// Copies without a verdict that are in a partition, or on their way there.
    pub(crate) copies: Vec<Copy>,
    /// A copy may lie somewhere, or may have been accepted, and nothing will ever tell.
    pub(crate) lost_sight: bool,
    pub(crate) sendings: u32,
}

impl Waiting {
    /// Tells whether every copy was judged stale, or never left.
    fn surely_not_applied(&self) -> bool {
        self.copies.is_empty() && !self.lost_sight
    }
}

/// One sending of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) shard: ShardId,
    pub(crate) epoch: Epoch,
    pub(crate) place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In an append without an ack.
    Sent(AppendId),
    Landed(Offset),
}

/// An append without an ack: what it holds, in order.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) partition: PartitionKey,
    pub(crate) copies: Vec<(SlotId, LandedCopy)>,
}

#[derive(Debug)]
pub(crate) struct Writes {
    pub(crate) limits: RouterLimits,
    pub(crate) waiting: BTreeMap<AskId, Waiting>,
    pub(crate) bytes: usize,
    deadlines: BTreeSet<(u64, AskId)>,
    pub(crate) lanes: BTreeMap<LaneKey, Lane>,
    pub(crate) partitions: BTreeMap<PartitionKey, Partition>,
    pub(crate) appends: BTreeMap<AppendId, InFlight>,
    pub(crate) append_last: AppendId,
    order: SourceOrder,
}

impl Writes {
    pub(crate) fn new(limits: RouterLimits) -> Writes {
        Writes {
            limits,
            waiting: BTreeMap::new(),
            bytes: 0,
            deadlines: BTreeSet::new(),
            lanes: BTreeMap::new(),
            partitions: BTreeMap::new(),
            appends: BTreeMap::new(),
            append_last: AppendId(0),
            order: SourceOrder::default(),
        }
    }

    /// A write was asked for: it waits in its slot's lane, or is refused.
    pub(crate) fn ask(&mut self, turn: &mut Turn<'_>, ask: AskId, write: WriteAsk) {
        match self.admit(turn, &write) {
            Ok(bytes) => self.enter(turn, ask, write, bytes),
            Err(refused) => {
                turn.counters.writes_refused += 1;
                turn.effects.push(Effect::AnswerWrite { ask, answer: Err(refused) });
            }
        }
    }

    /// Returns the bytes that the write takes, or why it cannot be taken in.
    fn admit(&mut self, turn: &Turn<'_>, write: &WriteAsk) -> Result<usize, Refused> {
        check_write(write)?;
        let source = source_key(write);
        if let Some((key, position)) = &source
            && !self.order.admit(turn.now_ms, key, *position)
        {
            let message = format!("an earlier position of source {} was refused: go back to that one", key.2);
            return Err(Refused::not_applied("source_order", message));
        }
        let bytes = bytes_of(write);
        let refused = if turn.table.get(write.keyspace).is_none() {
            unknown_keyspace(write.keyspace)
        } else if self.waiting.len() >= self.limits.writes_max || self.bytes + bytes > self.limits.write_bytes_max {
            overloaded("writes")
        } else {
            return Ok(bytes);
        };
        if let Some((key, position)) = source {
            self.order.refuse(turn.now_ms, key, position);
        }
        Err(refused)
    }

    fn enter(&mut self, turn: &mut Turn<'_>, ask: AskId, write: WriteAsk, bytes: usize) {
        let routes = turn.table.get(write.keyspace).expect("admitted writes name a known keyspace");
        let slot = routes.placement.slot(&write.partition_key);
        let lane = self.lanes.entry((write.keyspace, slot)).or_insert_with(|| Lane::new(routes.route(slot)));
        lane.all.insert(ask);
        lane.unsent.insert(ask);
        if lane.is_ready() {
            self.partitions.entry((write.keyspace, lane.route.shard)).or_default().ready.insert(slot);
        }
        self.deadlines.insert((write.deadline_ms, ask));
        self.bytes += bytes;
        self.waiting
            .insert(ask, Waiting { write, slot, bytes, copies: Vec::with_capacity(1), lost_sight: false, sendings: 0 });
        self.count_waiting(turn);
    }

    /// An append ended: its copies have offsets, or its writes go out again.
    pub(crate) fn appended(&mut self, turn: &mut Turn<'_>, append: AppendId, result: Result<Vec<Offset>, PortError>) {
        let Some(flight) = self.appends.remove(&append) else { return };
        let result = match result {
            Ok(offsets) if offsets.len() != flight.copies.len() => {
                Err(PortError::unknown(format!("{} offsets for {} records", offsets.len(), flight.copies.len())))
            }
            result => result,
        };
        let failed = match &result {
            Ok(offsets) => {
                for ((_, copy), offset) in flight.copies.iter().zip(offsets) {
                    self.landed(turn, append, flight.partition, *copy, *offset);
                }
                None
            }
            Err(error) => {
                turn.counters.appends_failed += 1;
                for (_, copy) in &flight.copies {
                    self.not_landed(append, *copy, error.remedy);
                }
                Some(error.message.clone())
            }
        };
        self.free_lanes(append, &flight, failed.is_some());
        if let Some(partition) = self.partitions.get_mut(&flight.partition) {
            partition.append_ended(turn.now_ms, failed);
        }
    }

    fn landed(
        &mut self,
        turn: &mut Turn<'_>,
        append: AppendId,
        partition: PartitionKey,
        copy: LandedCopy,
        offset: Offset,
    ) {
        let Some(waiting) = self.waiting.get_mut(&copy.ask) else { return };
        for known in waiting.copies.iter_mut().filter(|known| known.place == Place::Sent(append)) {
            known.place = Place::Landed(offset);
        }
        match self.partitions.entry(partition).or_default().landed(turn.now_ms, offset, copy) {
            Fate::Judged(offset, verdict) => self.judged(turn, partition, copy, offset, verdict),
            Fate::Missed(offset) => self.missed(turn, copy, offset),
            Fate::Waits => {}
        }
    }

    fn not_landed(&mut self, append: AppendId, copy: LandedCopy, remedy: Remedy) {
        if let Some(waiting) = self.waiting.get_mut(&copy.ask) {
            waiting.copies.retain(|known| known.place != Place::Sent(append));
            waiting.lost_sight |= remedy != Remedy::NotApplied;
        }
    }

    /// The append no longer keeps its lanes from sending; what it failed to append goes out again.
    fn free_lanes(&mut self, append: AppendId, flight: &InFlight, failed: bool) {
        for (slot, copy) in &flight.copies {
            let key = (flight.partition.0, *slot);
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            if failed && lane.route.epoch == copy.epoch && lane.all.contains(&copy.ask) {
                lane.unsent.insert(copy.ask);
            }
            if lane.appending == Some(append) {
                lane.appending = None;
            }
        }
        // Copies of one slot lie side by side.
        for same_slot in flight.copies.chunk_by(|(a, _), (b, _)| a == b) {
            self.make_ready((flight.partition.0, same_slot[0].0));
        }
    }

    fn make_ready(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.get(&key)
            && lane.is_ready()
        {
            self.partitions.entry((key.0, lane.route.shard)).or_default().ready.insert(key.1);
        }
    }

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

    fn judged(
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
    fn missed(&mut self, turn: &mut Turn<'_>, copy: LandedCopy, offset: Offset) {
        if let Some(waiting) = self.waiting.get_mut(&copy.ask) {
            turn.counters.verdicts_missed += 1;
            waiting.copies.retain(|known| known.place != Place::Landed(offset) || known.epoch != copy.epoch);
            waiting.lost_sight = true;
            self.send_again(copy);
        }
    }

    fn send_again(&mut self, copy: LandedCopy) {
        let Some(waiting) = self.waiting.get(&copy.ask) else { return };
        let key = (waiting.write.keyspace, waiting.slot);
        let lane = self.lanes.get_mut(&key).expect("a waiting write is in a lane");
        if lane.route.epoch == copy.epoch {
            lane.unsent.insert(copy.ask);
            self.make_ready(key);
        }
    }

    /// Newer routes: the lanes whose slot has a higher epoch start again, from their oldest unanswered write.
    pub(crate) fn routes_changed(&mut self, turn: &mut Turn<'_>, keyspace: KeyspaceId) {
        let Some(routes) = turn.table.get(keyspace) else { return };
        let mut rerouted = Vec::new();
        for (key, lane) in self.lanes.range_mut((keyspace, SlotId(0))..=(keyspace, SlotId(u32::MAX))) {
            let route = routes.route(key.1);
            if route.epoch > lane.route.epoch {
                rerouted.push((*key, lane.route.shard));
                turn.counters.held_ms += lane.reroute(turn.now_ms, route).unwrap_or_default();
            }
        }
        for (key, shard_before) in rerouted {
            if let Some(partition) = self.partitions.get_mut(&(keyspace, shard_before)) {
                partition.ready.remove(&key.1);
            }
            self.make_ready(key);
        }
    }

    /// Deadlines, probes, then everything that may go out.
    pub(crate) fn turn_ended(&mut self, turn: &mut Turn<'_>) {
        while let Some(&(deadline_ms, ask)) = self.deadlines.first()
            && deadline_ms <= turn.now_ms
        {
            let refused = self.too_late(ask);
            self.finish(turn, ask, Err(refused));
        }
        let probes: Vec<LandedCopy> =
            self.partitions.values_mut().filter_map(|partition| partition.probe(turn.now_ms)).collect();
        for copy in probes {
            self.send_again(copy);
        }
        self.send(turn);
    }

    fn too_late(&self, ask: AskId) -> Refused {
        let waiting = &self.waiting[&ask];
        let lane = &self.lanes[&(waiting.write.keyspace, waiting.slot)];
        let Epoch(epoch) = lane.route.epoch;
        let shard = lane.route.shard;
        let partition = self.partitions.get(&(waiting.write.keyspace, shard));
        let why = if lane.is_held() {
            format!("slot {} is changing owner: shard {shard} refuses epoch {epoch}, no newer is known", waiting.slot)
        } else if !waiting.copies.is_empty() {
            format!("shard {shard} has not judged it")
        } else {
            let error = partition.and_then(|partition| partition.last_error.as_deref());
            format!("shard {shard} takes no writes: {}", error.unwrap_or("its log is slow"))
        };
        if waiting.surely_not_applied() {
            return Refused::not_applied("deadline", format!("not written before the deadline: {why}"));
        }
        Refused::unknown("deadline", format!("no answer before the deadline, it may be written yet: {why}"))
    }

    /// Answers a write. When a source's write is refused, its later ones of that key must not be accepted before it.
    fn finish(&mut self, turn: &mut Turn<'_>, ask: AskId, answer: Result<WriteAnswer, Refused>) {
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
            turn.counters.held_ms += lane.end_hold(turn.now_ms).unwrap_or_default();
            self.lanes.remove(&key);
        }
    }

    fn count_waiting(&self, turn: &mut Turn<'_>) {
        turn.counters.writes_waiting = self.waiting.len() as u64;
        turn.counters.write_bytes_waiting = self.bytes as u64;
    }

    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        let deadline = self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms);
        let partitions = self.partitions.values().flat_map(|partition| {
            [partition.probe_at_ms(), partition.send_at_ms(self.limits.appends_per_shard_max)].into_iter().flatten()
        });
        partitions.chain(deadline).min()
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

fn source_key(write: &WriteAsk) -> Option<(SourceKey, u64)> {
    let source = write.source.as_ref()?;
    Some(((write.keyspace, write.partition_key.clone(), source.source.clone()), source.position))
}

fn bytes_of(write: &WriteAsk) -> usize {
    let changes = match &write.operation {
        Operation::Change(change) | Operation::ChangeIf { change, .. } => std::slice::from_ref(change),
        Operation::Batch(changes) => changes,
    };
    let changes = changes.iter().map(|change| change.sort_key.len() + change.value.as_ref().map_or(0, Vec::len));
    WRITE_OVERHEAD_BYTES + write.partition_key.len() + changes.sum::<usize>()
}
