//! What goes out at the end of a turn: per shard, everything that is ready, in one append.

use crate::core::{AppendId, AskId, Effect, Turn};
use crate::partition::LandedCopy;
use crate::writes::{Copy, InFlight, PartitionKey, Place, Writes};
use rehome_control_core::Route;
use rehome_keyspace::SlotId;
use rehome_records::{Record, TopicPartition, data::Write};

/// An append while it is gathered.
#[derive(Default)]
struct Gathered {
    records: Vec<Record>,
    copies: Vec<(SlotId, LandedCopy)>,
    bytes: usize,
}

impl Writes {
    /// Sends what may go out, for every shard.
    pub(crate) fn send(&mut self, turn: &mut Turn<'_>) {
        let due: Vec<PartitionKey> = self
            .partitions
            .iter()
            .filter(|(_, partition)| {
                let at_ms = partition.send_at_ms(self.limits.appends_per_shard_max);
                at_ms.is_some_and(|at_ms| at_ms <= turn.now_ms)
            })
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            while self.partitions.get(&key).is_some_and(|partition| {
                !partition.ready.is_empty() && partition.appends < self.limits.appends_per_shard_max
            }) {
                self.send_one(turn, key);
            }
        }
    }

    /// Sends one append to a partition that has something ready.
    fn send_one(&mut self, turn: &mut Turn<'_>, key: PartitionKey) {
        self.append_last.0 += 1;
        let append = self.append_last;
        let mut gathered = Gathered::default();
        while gathered.records.len() < self.limits.append_records_max && gathered.bytes < self.limits.append_bytes_max {
            let partition = self.partitions.get_mut(&key).expect("a partition is never forgotten");
            let next = partition.ready.range(partition.turn..).next().or_else(|| partition.ready.first()).copied();
            let Some(slot) = next else { break };
            partition.ready.remove(&slot);
            partition.turn = SlotId(slot.0.wrapping_add(1));
            self.gather_lane(turn, append, key, slot, &mut gathered);
        }
        let partition = self.partitions.get_mut(&key).expect("a partition is never forgotten");
        partition.appends += 1;
        turn.counters.appends += 1;
        let topic = turn.table.get(key.0).expect("a lane's keyspace is known").topic.to_string();
        self.appends.insert(append, InFlight { partition: key, copies: gathered.copies });
        let partition = TopicPartition::new(topic, key.1.0);
        turn.effects.push(Effect::Append { append, partition, records: gathered.records });
    }

    /// Takes the unsent writes of a lane, oldest first, as far as the append has room.
    fn gather_lane(
        &mut self,
        turn: &mut Turn<'_>,
        append: AppendId,
        key: PartitionKey,
        slot: SlotId,
        gathered: &mut Gathered,
    ) {
        let lane = self.lanes.get_mut(&(key.0, slot)).expect("a ready slot has a lane");
        debug_assert!(lane.is_ready() && lane.route.shard == key.1, "only what is ready is sent, and to its owner");
        let route = lane.route;
        lane.appending = Some(append);
        while gathered.records.len() < self.limits.append_records_max && gathered.bytes < self.limits.append_bytes_max {
            let lane = self.lanes.get_mut(&(key.0, slot)).expect("looked up above");
            let Some(ask) = lane.unsent.pop_first() else { break };
            let record = self.copy_of(turn, append, ask, route);
            gathered.bytes += record.bytes();
            gathered.records.push(record);
            gathered.copies.push((slot, LandedCopy { ask, epoch: route.epoch }));
        }
    }

    fn copy_of(&mut self, turn: &mut Turn<'_>, append: AppendId, ask: AskId, route: Route) -> Record {
        let waiting = self.waiting.get_mut(&ask).expect("an unsent write waits for its answer");
        waiting.copies.push(Copy { shard: route.shard, epoch: route.epoch, place: Place::Sent(append) });
        waiting.sendings += 1;
        turn.counters.writes_resent += u64::from(waiting.sendings > 1);
        let write = Write {
            partition_key: waiting.write.partition_key.clone(),
            epoch: route.epoch,
            request: waiting.write.request,
            source: waiting.write.source.clone(),
            operation: waiting.write.operation.clone(),
        };
        write.into_record()
    }
}
