//! The Log port itself: open, append, read, close.

use crate::config::KafkaConfig;
use crate::errors::{self, ConfigError};
use crate::identity::Identity;
use crate::lane;
use crate::questions::{Edge, Questions};
use crate::readers::Readers;
use crate::tail::KafkaTail;
use crate::topics::{Topics, missing};
use crate::waiting::{Call, Waiting};
use rehome_keyspace::Offset;
use rehome_ports::{AppendDone, EndDone, Lane, Log, PortError, Tail, Waker};
use rehome_records::{Record, TopicPartition};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the topics are compared with what the cluster has.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Kafka behind the Log port. An append is acknowledged once every replica in sync has it, so nothing is left to
/// [`sync`](Log::sync): what can be read is durable as far as the topics' replication goes.
pub struct KafkaLog {
    parts: Arc<Parts>,
    /// Dropped to stop the thread that looks.
    stop: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

struct Parts {
    config: KafkaConfig,
    topics: Topics,
    data: lane::Lane,
    protocol: lane::Lane,
    questions: Questions,
    readers: Readers,
    waiting: Waiting,
}

impl KafkaLog {
    /// Opens the log. Asks nobody yet: a cluster that is away is found by the first call that needs it.
    pub fn open(config: KafkaConfig) -> Result<Arc<KafkaLog>, ConfigError> {
        config.check()?;
        let parts = Arc::new(Parts {
            topics: Topics::new(&config)?,
            data: lane::Lane::new(&config, config.data_linger)?,
            protocol: lane::Lane::new(&config, Duration::ZERO)?,
            questions: Questions::new(&config)?,
            readers: Readers::new(&config),
            waiting: Waiting::default(),
            config,
        });
        let (stop, stopped) = channel::<()>();
        let looking = Arc::clone(&parts);
        let look = move || {
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                looking.topics.look();
                looking.readers.serve();
                looking.questions.serve();
            }
        };
        let finding = Arc::clone(&parts);
        let find = move || {
            while let Some((partition, call)) = finding.waiting.take() {
                call(finding.find(&partition));
                finding.waiting.settled(&partition.topic);
            }
        };
        let threads = vec![
            thread::Builder::new().name("kafka-topics".into()).spawn(look)?,
            thread::Builder::new().name("kafka-waiting".into()).spawn(find)?,
        ];
        Ok(Arc::new(KafkaLog { parts, stop: Some(stop), threads }))
    }

    /// Makes the lane's producer fail for good, as a broker that lost its place would. For tests.
    #[doc(hidden)]
    pub fn make_producer_fatal(&self, lane: Lane) {
        self.parts.lane(lane).make_fatal();
    }
}

impl Drop for KafkaLog {
    fn drop(&mut self) {
        self.parts.waiting.stop();
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Parts {
    fn lane(&self, lane: Lane) -> &lane::Lane {
        match lane {
            Lane::Data => &self.data,
            Lane::Protocol => &self.protocol,
        }
    }

    /// Asks for the partition's topic, and lets both producers learn about it.
    fn find(&self, partition: &TopicPartition) -> Result<Arc<Identity>, PortError> {
        let name = self.config.name(&partition.topic);
        let identity = self.topics.with_partition(&name, partition.partition)?;
        for lane in [&self.data, &self.protocol] {
            lane.refresh(&name, self.config.request_timeout)
                .map_err(|error| errors::unanswered(&format!("topic `{name}`"), &error))?;
        }
        Ok(identity)
    }

    /// Calls at once where the topic is known and nobody waits for it; else once it is found.
    fn with_topic(&self, partition: &TopicPartition, name: &str, call: Call) {
        let known = self.topics.known(name).filter(|identity| identity.partitions() > partition.partition);
        match known {
            Some(identity) if !self.waiting.has(&partition.topic) => match identity.lost() {
                Some(lost) => call(Err(errors::lost(name, lost))),
                None => call(Ok(identity)),
            },
            _ => self.waiting.push(partition.clone(), call),
        }
    }

    fn edge(self: &Arc<Self>, partition: &TopicPartition, edge: Edge, done: EndDone) {
        let name = self.config.name(&partition.topic);
        let Ok(number) = i32::try_from(partition.partition) else {
            return done(Err(missing(&name, partition.partition)));
        };
        let (parts, index, topic) = (Arc::clone(self), partition.partition, name.clone());
        let ask = move |found: Result<Arc<Identity>, PortError>| match found {
            Ok(identity) => parts.questions.ask(identity.leader(index), topic, number, edge, done),
            Err(error) => done(Err(error)),
        };
        self.with_topic(partition, &name, Box::new(ask));
    }

    fn wait_for_edge(self: &Arc<Self>, partition: &TopicPartition, edge: Edge) -> Result<Offset, PortError> {
        let (tell, told) = mpsc::sync_channel(1);
        self.edge(partition, edge, Box::new(move |answer| drop(tell.send(answer))));
        told.recv().unwrap_or_else(|_| Err(PortError::not_applied("the log was closed")))
    }
}

impl Log for KafkaLog {
    fn ensure_topic(&self, topic: &str, partitions: u32) -> Result<(), PortError> {
        let parts = &self.parts;
        let name = parts.config.name(topic);
        parts.topics.ensure(&name, partitions)?;
        parts.readers.forget(&name);
        for lane in [&parts.data, &parts.protocol] {
            lane.refresh(&name, parts.config.request_timeout)
                .map_err(|error| PortError::unknown(format!("topic `{name}` is there, but: {error}")))?;
        }
        Ok(())
    }

    fn remove_topic(&self, topic: &str) -> Result<(), PortError> {
        let name = self.parts.config.name(topic);
        self.parts.topics.remove(&name)?;
        self.parts.readers.forget(&name);
        Ok(())
    }

    fn partitions(&self, topic: &str) -> Result<Option<u32>, PortError> {
        self.parts.topics.partitions(&self.parts.config.name(topic))
    }

    fn append(&self, partition: &TopicPartition, lane: Lane, records: Vec<Record>, done: AppendDone) {
        let name = self.parts.config.name(&partition.topic);
        let Ok(number) = i32::try_from(partition.partition) else {
            return done(Err(missing(&name, partition.partition)));
        };
        let (parts, topic) = (Arc::clone(&self.parts), name.clone());
        let send = move |found: Result<Arc<Identity>, PortError>| match found {
            Ok(_) => parts.lane(lane).send(&topic, number, &records, done),
            Err(error) => done(Err(error)),
        };
        self.parts.with_topic(partition, &name, Box::new(send));
    }

    fn tail(&self, partition: &TopicPartition, from: Offset, wake: Waker) -> Result<Box<dyn Tail>, PortError> {
        let name = self.parts.config.name(&partition.topic);
        let identity = self.parts.topics.with_partition(&name, partition.partition)?;
        let held = self.parts.readers.read(&name, partition.partition, from, Arc::clone(&wake))?;
        let watch = identity.watch(wake);
        let number = i32::try_from(partition.partition).unwrap_or(i32::MAX);
        Ok(Box::new(KafkaTail::new(held, name, number, from, identity, watch)))
    }

    fn end(&self, partition: &TopicPartition, done: EndDone) {
        self.parts.edge(partition, Edge::End, done);
    }

    fn start(&self, partition: &TopicPartition) -> Result<Offset, PortError> {
        self.parts.wait_for_edge(partition, Edge::Start)
    }

    fn sync(&self) -> Result<(), PortError> {
        Ok(())
    }

    fn trim(&self, partition: &TopicPartition, before: Offset) -> Result<(), PortError> {
        let end = self.parts.wait_for_edge(partition, Edge::End)?;
        let name = self.parts.config.name(&partition.topic);
        let number = i32::try_from(partition.partition).unwrap_or(i32::MAX);
        self.parts.topics.trim(&name, number, before.min(end))
    }
}
