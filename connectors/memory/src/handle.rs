//! One role's view of the log.

use crate::broker::{Broker, State, line, no_partition};
use crate::partition::Partition;
use crate::waiting::{Effect, Message, What};
use rehome_keyspace::Offset;
use rehome_ports::{AppendDone, Batch, EndDone, Lane, Log, PortError, ReadLimits, Tail, Waker};
use rehome_records::{Record, TopicPartition};

/// One role's view of the log.
pub struct Handle {
    pub broker: Broker,
    pub number: u64,
}

impl Handle {
    /// Does something for the role, unless it is cut off.
    fn with<T>(&self, act: impl FnOnce(&mut State, &mut Vec<Effect>) -> Result<T, PortError>) -> Result<T, PortError> {
        self.broker.with(|state, effects| match state.is_cut(self.number) {
            true => Err(cut_off()),
            false => act(state, effects),
        })
    }

    fn send(&self, partition: &TopicPartition, what: What, message: Message) {
        self.broker.with(|state, effects| {
            if !state.is_cut(self.number) {
                state.send(line(self.number, partition, what), message, effects);
            }
        });
    }
}

impl Log for Handle {
    fn ensure_topic(&self, topic: &str, partitions: u32) -> Result<(), PortError> {
        self.with(|state, _| {
            let count = state.topics.entry(topic.to_string()).or_default();
            *count = partitions.max(*count);
            for partition in 0..*count {
                state.partitions.entry(TopicPartition::new(topic, partition)).or_default();
            }
            Ok(())
        })
    }

    fn remove_topic(&self, topic: &str) -> Result<(), PortError> {
        self.with(|state, _| {
            state.topics.remove(topic);
            state.partitions.retain(|partition, _| partition.topic != topic);
            Ok(())
        })
    }

    fn partitions(&self, topic: &str) -> Result<Option<u32>, PortError> {
        self.with(|state, _| Ok(state.topics.get(topic).copied()))
    }

    fn append(&self, partition: &TopicPartition, lane: Lane, records: Vec<Record>, done: AppendDone) {
        self.send(partition, What::append(lane), Message::Append { records, done: Some(done) });
    }

    fn tail(&self, partition: &TopicPartition, from: Offset, wake: Waker) -> Result<Box<dyn Tail>, PortError> {
        self.with(|state, effects| {
            let number = state.new_id();
            let followed = state.partitions.get_mut(partition).ok_or_else(|| no_partition(partition))?;
            if from < followed.end() {
                effects.push(Effect::Wake(Waker::clone(&wake)));
            }
            followed.tails.insert(number, (self.number, wake));
            let tail = MemoryTail {
                broker: self.broker.clone(),
                handle: self.number,
                number,
                partition: partition.clone(),
                next: from,
            };
            Ok(Box::new(tail) as Box<dyn Tail>)
        })
    }

    fn end(&self, partition: &TopicPartition, done: EndDone) {
        self.send(partition, What::End, Message::End { done: Some(done) });
    }

    fn start(&self, partition: &TopicPartition) -> Result<Offset, PortError> {
        self.with(|state, _| {
            state.partitions.get(partition).map(Partition::start).ok_or_else(|| no_partition(partition))
        })
    }

    fn sync(&self) -> Result<(), PortError> {
        self.with(|state, _| {
            state.unsynced.clear();
            Ok(())
        })
    }

    fn trim(&self, partition: &TopicPartition, before: Offset) -> Result<(), PortError> {
        self.with(|state, _| {
            state.partitions.get_mut(partition).ok_or_else(|| no_partition(partition))?.trim(before);
            Ok(())
        })
    }
}

struct MemoryTail {
    broker: Broker,
    handle: u64,
    number: u64,
    partition: TopicPartition,
    next: Offset,
}

impl Tail for MemoryTail {
    fn poll(&mut self, limits: ReadLimits) -> Result<Batch, PortError> {
        let batch = self.broker.with(|state, _| {
            if state.is_cut(self.handle) {
                return Err(cut_off());
            }
            let visible_until_ms = match state.lag_ms(self.handle) {
                0 => u64::MAX,
                lag_ms => state.now_ms.saturating_sub(lag_ms),
            };
            let partition = state.partitions.get(&self.partition).ok_or_else(|| no_partition(&self.partition))?;
            let limits = ReadLimits { records_max: limits.records_max.min(state.poll_records_max), ..limits };
            partition.read(self.next, limits, visible_until_ms)
        })?;
        self.next = batch.next;
        Ok(batch)
    }
}

impl Drop for MemoryTail {
    fn drop(&mut self) {
        self.broker.with(|state, _| {
            if let Some(partition) = state.partitions.get_mut(&self.partition) {
                partition.tails.remove(&self.number);
            }
        });
    }
}

fn cut_off() -> PortError {
    PortError::not_applied("this handle is cut off")
}
