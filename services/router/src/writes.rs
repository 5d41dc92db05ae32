//! Writes without an answer: from a key to its slot's lane, and what acks and newer routes do to them.

use crate::ask::{Refused, WriteAsk, check_write};
use crate::core::{AppendId, AskId, Effect, Turn, not_ready, overloaded};
use crate::lane::Lane;
use crate::limits::RouterLimits;
use crate::partition::{Fate, LandedCopy, Partition};
use crate::source_order::{SourceKey, SourceOrder};
use rehome_keyspace::{Epoch, KeyspaceId, Offset, ShardId, SlotId};
use rehome_ports::{PortError, Remedy};
use rehome_records::Operation;
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
    pub(crate) fn surely_not_applied(&self) -> bool {
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

/// Writes without an answer of one keyspace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) writes: usize,
    pub(crate) bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Writes {
    pub(crate) limits: RouterLimits,
    pub(crate) waiting: BTreeMap<AskId, Waiting>,
    pub(crate) bytes: usize,
    /// The same by keyspace; without those that have none.
    pub(crate) held: BTreeMap<KeyspaceId, Held>,
    pub(crate) deadlines: BTreeSet<(u64, AskId)>,
    pub(crate) lanes: BTreeMap<LaneKey, Lane>,
    pub(crate) partitions: BTreeMap<PartitionKey, Partition>,
    pub(crate) appends: BTreeMap<AppendId, InFlight>,
    pub(crate) append_last: AppendId,
    pub(crate) order: SourceOrder,
}

impl Writes {
    pub(crate) fn new(limits: RouterLimits) -> Writes {
        Writes {
            limits,
            waiting: BTreeMap::new(),
            bytes: 0,
            held: BTreeMap::new(),
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
        check_write(write, self.limits.value_bytes_max)?;
        let source = source_key(write);
        if let Some((key, position)) = &source
            && !self.order.admit(turn.now_ms, key, *position)
        {
            let message = format!("an earlier position of source {} was refused: go back to that one", key.2);
            return Err(Refused::not_applied("source_order", message));
        }
        let bytes = bytes_of(write);
        let refused = if turn.table.get(write.keyspace).is_none() {
            not_ready(write.keyspace)
        } else if self.is_full(write.keyspace, bytes) {
            overloaded("writes")
        } else {
            return Ok(bytes);
        };
        if let Some((key, position)) = source {
            self.order.refuse(turn.now_ms, key, position);
        }
        Err(refused)
    }

    fn is_full(&self, keyspace: KeyspaceId, bytes: usize) -> bool {
        let limits = &self.limits;
        let of_keyspace = self.held.get(&keyspace).copied().unwrap_or_default();
        self.waiting.len() >= limits.writes_max
            || self.bytes + bytes > limits.write_bytes_max
            || of_keyspace.writes >= limits.keyspace_writes_max
            || of_keyspace.bytes + bytes > limits.keyspace_write_bytes_max
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
        let held = self.held.entry(write.keyspace).or_default();
        held.writes += 1;
        held.bytes += bytes;
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
        let ended = match &result {
            Ok(offsets) => {
                for ((_, copy), offset) in flight.copies.iter().zip(offsets) {
                    self.landed(turn, append, flight.partition, *copy, *offset);
                }
                Ok(offsets.last().copied().unwrap_or_default())
            }
            Err(error) => {
                turn.counters.appends_failed += 1;
                for (_, copy) in &flight.copies {
                    self.not_landed(append, *copy, error.remedy);
                }
                Err(error.message.clone())
            }
        };
        self.free_lanes(append, &flight, ended.is_err());
        if let Some(partition) = self.partitions.get_mut(&flight.partition) {
            partition.append_ended(turn.now_ms, ended);
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

    pub(crate) fn make_ready(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.get(&key)
            && lane.is_ready()
        {
            self.partitions.entry((key.0, lane.route.shard)).or_default().ready.insert(key.1);
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
                if let Some(held_ms) = lane.reroute(turn.now_ms, route) {
                    turn.counters.write_pauses.note(held_ms);
                }
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

    pub(crate) fn count_waiting(&self, turn: &mut Turn<'_>) {
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

pub(crate) fn source_key(write: &WriteAsk) -> Option<(SourceKey, u64)> {
    let source = write.source.as_ref()?;
    Some(((write.keyspace, write.partition_key.clone(), source.source.clone()), source.position))
}

/// Returns the bytes that the write takes in memory, roughly.
pub(crate) fn bytes_of(write: &WriteAsk) -> usize {
    let changes = match &write.operation {
        Operation::Change(change) | Operation::ChangeIf { change, .. } => std::slice::from_ref(change),
        Operation::Batch(changes) => changes,
    };
    let changes = changes.iter().map(|change| change.sort_key.len() + change.value.as_ref().map_or(0, Vec::len));
    WRITE_OVERHEAD_BYTES + write.partition_key.len() + changes.sum::<usize>()
}
