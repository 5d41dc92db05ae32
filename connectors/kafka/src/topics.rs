//! Topics of the cluster: made, grown and removed, and which of them this log knows. Everything here blocks, but
//! [`Topics::known`].

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::errors::{self, ConfigError};
use crate::identity::Identity;
use crate::native::{self, Described};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication, TopicResult};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset as NativeOffset, TopicPartitionList};
use rehome_keyspace::Offset;
use rehome_ports::PortError;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long to wait before looking again whether a change has reached everybody.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub struct Topics {
    admin: AdminClient<Context>,
    config: KafkaConfig,
    known: Mutex<BTreeMap<String, Arc<Identity>>>,
}

impl Topics {
    pub fn new(config: &KafkaConfig) -> Result<Topics, ConfigError> {
        let admin = config.client().create_with_context(Context).map_err(|error| ConfigError::of_client(&error))?;
        Ok(Topics { admin, config: config.clone(), known: Mutex::default() })
    }

    /// Returns the topic if this log has met it; asks nobody.
    pub fn known(&self, name: &str) -> Option<Arc<Identity>> {
        self.all().get(name).cloned()
    }

    /// Returns the topic if it has that partition.
    pub fn with_partition(&self, name: &str, partition: u32) -> Result<Arc<Identity>, PortError> {
        if let Some(identity) = self.known(name).filter(|identity| identity.partitions() > partition) {
            return identity.lost().map_or(Ok(Arc::clone(&identity)), |lost| Err(errors::lost(name, lost)));
        }
        let described = self.describe(name)?.ok_or_else(|| missing(name, partition))?;
        let identity = self.remember(name, &described)?;
        if identity.partitions() > partition { Ok(identity) } else { Err(missing(name, partition)) }
    }

    pub fn partitions(&self, name: &str) -> Result<Option<u32>, PortError> {
        let Some(described) = self.describe(name)? else { return Ok(None) };
        self.remember(name, &described).map(|identity| Some(identity.partitions()))
    }

    /// Makes or grows the topic; returns once every partition has a leader.
    pub fn ensure(&self, name: &str, partitions: u32) -> Result<(), PortError> {
        let deadline = Instant::now() + self.config.topic_timeout;
        loop {
            match self.describe(name)? {
                None => {
                    if let Some(lost) = self.known(name).as_deref().and_then(Identity::lost) {
                        return Err(errors::lost(name, lost));
                    }
                    self.create(name, partitions)?;
                }
                Some(described) if (described.leaders.len() as u64) < u64::from(partitions) => {
                    self.remember(name, &described)?;
                    self.grow(name, partitions)?;
                }
                Some(described) if described.leaders.iter().all(|leader| *leader >= 0) => {
                    return self.remember(name, &described).map(drop);
                }
                Some(_) => {}
            }
            if Instant::now() >= deadline {
                let waited = self.config.topic_timeout.as_secs();
                return Err(PortError::unknown(format!(
                    "topic `{name}` was asked for, and is not there after {waited} s"
                )));
            }
            // tidy: sleep because a cluster tells nobody when a change has reached all its brokers.
            thread::sleep(LOOK_AGAIN);
        }
    }

    pub fn remove(&self, name: &str) -> Result<(), PortError> {
        let deadline = Instant::now() + self.config.topic_timeout;
        self.all().remove(name);
        while self.describe(name)?.is_some() {
            let what = format!("topic `{name}` is not removed");
            let answer = answer(block_on(self.admin.delete_topics(&[name], &self.options())));
            match answer {
                Ok(()) => {}
                Err(code) if errors::is_missing(code) => {}
                Err(code) => return Err(errors::unchanged(&what, code)),
            }
            if Instant::now() >= deadline {
                return Err(PortError::unknown(format!("{what}: it is still there")));
            }
            // tidy: sleep because a cluster tells nobody when a change has reached all its brokers.
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Removes the records below that offset, which lies not above the end.
    pub fn trim(&self, name: &str, partition: i32, before: Offset) -> Result<(), PortError> {
        let what = format!("{name}/{partition} is not trimmed");
        let mut list = TopicPartitionList::new();
        let offset = NativeOffset::Offset(i64::try_from(before.0).unwrap_or(i64::MAX));
        list.add_partition_offset(name, partition, offset).map_err(|error| errors::undone(&what, &error))?;
        let trimmed = block_on(self.admin.delete_records(&list, &self.options()));
        let trimmed = trimmed.map_err(|error| errors::undone(&what, &error))?;
        for element in trimmed.elements() {
            element.error().map_err(|error| errors::undone(&what, &error))?;
        }
        Ok(())
    }

    /// Compares every topic that this log knows with what the cluster has under its name now.
    pub fn look(&self) {
        let known: Vec<(String, Arc<Identity>)> =
            self.all().iter().map(|(name, identity)| (name.clone(), Arc::clone(identity))).collect();
        if known.is_empty() {
            return;
        }
        let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        // While the cluster is away nothing is known, and nothing is concluded.
        let Ok(described) = native::describe(self.admin.inner(), &names, self.config.request_timeout) else { return };
        for ((_, identity), described) in known.iter().zip(&described) {
            identity.observe(described.as_ref());
        }
    }

    fn describe(&self, name: &str) -> Result<Option<Described>, PortError> {
        let mut described = native::describe(self.admin.inner(), &[name], self.config.request_timeout)
            .map_err(|code| PortError::not_applied(format!("cannot learn about topic `{name}`: {code}")))?;
        Ok(described.pop().flatten())
    }

    /// Knows the topic from now on. Errors: it is another one than was known under that name.
    fn remember(&self, name: &str, described: &Described) -> Result<Arc<Identity>, PortError> {
        let mut all = self.all();
        let identity = all.entry(name.to_string()).or_insert_with(|| Arc::new(Identity::new(described)));
        let identity = Arc::clone(identity);
        drop(all);
        if let Some(lost) = identity.lost() {
            return Err(errors::lost(name, lost));
        }
        if identity.observe(Some(described)) {
            return Err(PortError::not_applied(format!("topic `{name}` is not the one that this log knows")));
        }
        Ok(identity)
    }

    fn create(&self, name: &str, partitions: u32) -> Result<(), PortError> {
        let config = &self.config;
        let count = i32::try_from(partitions.max(1)).unwrap_or(i32::MAX);
        let replication = i32::try_from(config.replication_factor).unwrap_or(i32::MAX);
        let (min_insync, bytes) = (config.min_insync_replicas.to_string(), config.message_bytes_max().to_string());
        let topic = NewTopic::new(name, count, TopicReplication::Fixed(replication))
            .set("cleanup.policy", "delete")
            .set("retention.ms", "-1")
            .set("retention.bytes", "-1")
            .set("message.timestamp.type", "LogAppendTime")
            .set("unclean.leader.election.enable", "false")
            .set("min.insync.replicas", &min_insync)
            .set("max.message.bytes", &bytes);
        match answer(block_on(self.admin.create_topics([&topic], &self.options()))) {
            Ok(()) | Err(RDKafkaErrorCode::TopicAlreadyExists) => Ok(()),
            Err(code) => Err(errors::unchanged(&format!("topic `{name}` is not made"), code)),
        }
    }

    fn grow(&self, name: &str, partitions: u32) -> Result<(), PortError> {
        let wanted = NewPartitions::new(name, partitions as usize);
        match answer(block_on(self.admin.create_partitions([&wanted], &self.options()))) {
            // Somebody else was quicker: the next look tells.
            Ok(()) | Err(RDKafkaErrorCode::InvalidPartitions) => Ok(()),
            Err(code) => Err(errors::unchanged(&format!("topic `{name}` has no more partitions"), code)),
        }
    }

    fn options(&self) -> AdminOptions {
        let timeout = Some(self.config.request_timeout);
        AdminOptions::new().request_timeout(timeout).operation_timeout(timeout)
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Identity>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn missing(name: &str, partition: u32) -> PortError {
    PortError::not_applied(format!("there is no partition {name}/{partition}"))
}

/// The answer for the one topic that was asked about.
fn answer(result: KafkaResult<Vec<TopicResult>>) -> Result<(), RDKafkaErrorCode> {
    match result {
        Ok(results) => results.into_iter().try_for_each(|result| result.map(drop).map_err(|(_, code)| code)),
        Err(error) => Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::OperationTimedOut)),
    }
}

/// Waits for an answer of the admin client, whose own thread brings it.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}
