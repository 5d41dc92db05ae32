//! Starts and ends of partitions, asked for after the question came.
//!
//! Each leading broker has a thread of its own here, so that one that does not answer holds up no other. Questions that
//! come while one is under way are put together: however many there are, they cost one request.

use crate::config::KafkaConfig;
use crate::context::Context;
use crate::errors::{self, ConfigError};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset as NativeOffset, TopicPartitionList};
use rehome_keyspace::Offset;
use rehome_ports::{EndDone, PortError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Start,
    /// Above every committed record that no open transaction holds back.
    End,
}

pub struct Questions {
    consumer: Arc<BaseConsumer<Context>>,
    timeout: Duration,
    /// By leading broker.
    askers: Mutex<BTreeMap<i32, Asker>>,
}

struct Asker {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

#[derive(Default)]
struct Waiting {
    questions: Vec<Question>,
    stopped: bool,
}

struct Question {
    name: String,
    partition: i32,
    edge: Edge,
    done: EndDone,
}

impl Questions {
    pub fn new(config: &KafkaConfig) -> Result<Questions, ConfigError> {
        let consumer = config.questions().create_with_context(Context);
        let consumer = Arc::new(consumer.map_err(|error| ConfigError::of_client(&error))?);
        Ok(Questions { consumer, timeout: config.request_timeout, askers: Mutex::default() })
    }

    /// Asks that broker; never blocks.
    pub fn ask(&self, leader: i32, name: String, partition: i32, edge: Edge, done: EndDone) {
        let question = Question { name, partition, edge, done };
        let mut askers = self.askers.lock().unwrap_or_else(PoisonError::into_inner);
        let asker = askers.entry(leader).or_insert_with(|| self.start());
        if asker.thread.is_none() {
            drop(askers);
            return (question.done)(Err(PortError::not_applied("no thread can be started that asks")));
        }
        asker.queue.lock().questions.push(question);
        asker.queue.filled.notify_one();
    }

    /// Serves what librdkafka reports beside answers.
    pub fn serve(&self) {
        drop(self.consumer.poll(Duration::ZERO));
    }

    fn start(&self) -> Asker {
        let queue = Arc::<Queue>::default();
        let (consumer, timeout, served) = (Arc::clone(&self.consumer), self.timeout, Arc::clone(&queue));
        let run = move || {
            while let Some(questions) = served.take() {
                ask_all(&consumer, timeout, questions);
            }
        };
        Asker { queue, thread: thread::Builder::new().name("kafka-offsets".into()).spawn(run).ok() }
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        let askers = std::mem::take(&mut *self.askers.lock().unwrap_or_else(PoisonError::into_inner));
        for asker in askers.values() {
            asker.queue.lock().stopped = true;
            asker.queue.filled.notify_one();
        }
        for thread in askers.into_values().filter_map(|asker| asker.thread) {
            drop(thread.join());
        }
    }
}

impl Queue {
    /// Waits for questions and takes them all. Nothing once it is stopped and empty.
    fn take(&self) -> Option<Vec<Question>> {
        let mut waiting = self.lock();
        while waiting.questions.is_empty() {
            if waiting.stopped {
                return None;
            }
            waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        Some(std::mem::take(&mut waiting.questions))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ask_all(consumer: &BaseConsumer<Context>, timeout: Duration, questions: Vec<Question>) {
    let (starts, ends): (Vec<_>, Vec<_>) = questions.into_iter().partition(|question| question.edge == Edge::Start);
    for (edge, questions) in [(NativeOffset::Beginning, starts), (NativeOffset::End, ends)] {
        if !questions.is_empty() {
            ask_one_edge(consumer, timeout, edge, questions);
        }
    }
}

fn ask_one_edge(consumer: &BaseConsumer<Context>, timeout: Duration, edge: NativeOffset, questions: Vec<Question>) {
    let asked = || {
        let mut list = TopicPartitionList::new();
        for question in &questions {
            if list.find_partition(&question.name, question.partition).is_none() {
                // Cannot fail for these two offsets.
                drop(list.add_partition_offset(&question.name, question.partition, edge));
            }
        }
        consumer.offsets_for_times(list, timeout)
    };
    let mut answers = asked();
    // After a broker came back or a leader changed, librdkafka asks as of the old leader's time until it learns better;
    // by itself it looks only every few minutes.
    let stale = stale_topics(&answers, &questions);
    if !stale.is_empty() {
        for name in &stale {
            drop(consumer.fetch_metadata(Some(name), timeout));
        }
        answers = asked();
    }
    for question in questions {
        let answer = answer(&answers, &question);
        (question.done)(answer);
    }
}

/// Returns the topics whose partitions are led otherwise than was thought.
fn stale_topics(answers: &KafkaResult<TopicPartitionList>, questions: &[Question]) -> BTreeSet<String> {
    let is_stale = |error: &KafkaError| {
        use RDKafkaErrorCode as Code;
        matches!(
            error.rdkafka_error_code(),
            Some(
                Code::FencedLeaderEpoch
                    | Code::UnknownLeaderEpoch
                    | Code::NotLeaderForPartition
                    | Code::LeaderNotAvailable
                    | Code::UnknownTopicOrPartition
                    // What librdkafka says by itself of a partition that somebody else has added since it looked.
                    | Code::UnknownPartition
                    | Code::ReplicaNotAvailable
            )
        )
    };
    match answers {
        Err(error) if is_stale(error) => questions.iter().map(|question| question.name.clone()).collect(),
        Err(_) => BTreeSet::new(),
        Ok(list) => {
            let elements = list.elements();
            let stale = elements.iter().filter(|element| element.error().is_err_and(|error| is_stale(&error)));
            stale.map(|element| element.topic().to_string()).collect()
        }
    }
}

fn answer(answers: &KafkaResult<TopicPartitionList>, question: &Question) -> Result<Offset, PortError> {
    let what = format!("offsets of {}/{}", question.name, question.partition);
    let list = answers.as_ref().map_err(|error| errors::unanswered(&what, error))?;
    let element = list.find_partition(&question.name, question.partition);
    let element = element.ok_or_else(|| PortError::not_applied(format!("{what}: no answer")))?;
    element.error().map_err(|error| errors::unanswered(&what, &error))?;
    let offset = element.offset().to_raw().and_then(|offset| u64::try_from(offset).ok());
    offset.map(Offset).ok_or_else(|| PortError::not_applied(format!("{what}: no answer")))
}
