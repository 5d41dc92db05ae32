//! Consumers that many tails share.
//!
//! A consumer costs a handful of threads, whatever it reads, so partitions share one: each has a queue of its own in it.
//! A consumer reads a partition at one position only, so a second tail of the same partition goes to the next consumer.

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::errors;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset as NativeOffset, TopicPartitionList};
use rehome_keyspace::Offset;
use rehome_ports::{PortError, Waker};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub struct Readers {
    config: KafkaConfig,
    all: Mutex<Vec<Arc<Reader>>>,
}

/// One consumer.
pub struct Reader {
    pub consumer: Arc<BaseConsumer<Context>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: BTreeSet<(String, i32)>,
    /// How many partitions of a topic this consumer knows of.
    known: BTreeMap<String, u32>,
}

/// A partition's queue in its consumer, given back when dropped.
pub struct Held {
    pub queue: PartitionQueue<Context>,
    pub reader: Arc<Reader>,
    name: String,
    partition: i32,
}

impl Readers {
    pub fn new(config: &KafkaConfig) -> Readers {
        Readers { config: config.clone(), all: Mutex::default() }
    }

    /// Starts to read the partition, which exists. Blocks while a consumer learns about its topic.
    pub fn read(&self, name: &str, partition: u32, from: Offset, wake: Waker) -> Result<Held, PortError> {
        let what = format!("{name}/{partition} cannot be followed");
        let number = i32::try_from(partition).map_err(|_| PortError::not_applied(what.clone()))?;
        let offset = i64::try_from(from.0)
            .map_err(|_| PortError::broken(format!("{what}: {from} lies beyond the end of every partition")))?;
        let reader = self.take(name, number)?;
        let held = reader.split(name, number, wake).ok_or_else(|| PortError::not_applied(what.clone()))?;
        reader.learn(name, partition, self.config.request_timeout)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(name, number, NativeOffset::Offset(offset))
            .and_then(|()| reader.consumer.incremental_assign(&list))
            .map_err(|error| errors::unanswered(&what, &error))?;
        Ok(held)
    }

    /// Forgets what was known about the topic, which was removed.
    pub fn forget(&self, name: &str) {
        for reader in self.all().iter() {
            reader.state().known.remove(name);
        }
    }

    /// Serves what librdkafka reports beside records.
    pub fn serve(&self) {
        let readers: Vec<_> = self.all().clone();
        readers.iter().for_each(|reader| while reader.consumer.poll(Duration::ZERO).is_some() {});
    }

    /// Takes the partition in the first consumer that does not read it, or in a new one.
    fn take(&self, name: &str, partition: i32) -> Result<Arc<Reader>, PortError> {
        let mut all = self.all();
        for reader in all.iter() {
            if reader.state().held.insert((name.to_string(), partition)) {
                return Ok(Arc::clone(reader));
            }
        }
        let consumer = self.config.consumer().create_with_context(Context);
        let consumer = consumer.map_err(|error| errors::unanswered("no consumer can be made", &error))?;
        let state = State { held: [(name.to_string(), partition)].into(), known: BTreeMap::new() };
        let reader = Arc::new(Reader { consumer: Arc::new(consumer), state: Mutex::new(state) });
        all.push(Arc::clone(&reader));
        Ok(reader)
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Reader>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// Gives the partition, which was just taken, a queue of its own.
    fn split(self: &Arc<Self>, name: &str, partition: i32, wake: Waker) -> Option<Held> {
        let Some(mut queue) = self.consumer.split_partition_queue(name, partition) else {
            self.state().held.remove(&(name.to_string(), partition));
            return None;
        };
        queue.set_nonempty_callback(move || wake());
        // What the tail before left there would hide that something new has come.
        while queue.poll(Duration::ZERO).is_some() {}
        Some(Held { queue, reader: Arc::clone(self), name: name.to_string(), partition })
    }

    /// Makes sure that the consumer knows the partition: it looks by itself only every few minutes.
    fn learn(&self, name: &str, partition: u32, timeout: Duration) -> Result<(), PortError> {
        if self.state().known.get(name).is_some_and(|count| *count > partition) {
            return Ok(());
        }
        let what = format!("{name}/{partition} cannot be followed");
        let metadata = self.consumer.fetch_metadata(Some(name), timeout);
        let metadata = metadata.map_err(|error| errors::unanswered(&what, &error))?;
        let count = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if count <= partition {
            return Err(PortError::not_applied(format!("{what}: the broker does not know it yet")));
        }
        self.state().known.insert(name.to_string(), count);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.name, self.partition);
        // It fails for what was never assigned, which is as good.
        drop(self.reader.consumer.incremental_unassign(&list));
        self.reader.state().held.remove(&(self.name.clone(), self.partition));
    }
}
