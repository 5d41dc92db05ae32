//! Appending and reading with a deadline, for the suites.

use crate::inbox::Signal;
use crate::log::{Batch, Lane, Log, ReadLimits, Tail};
use crate::{PortError, Remedy};
use rehome_keyspace::Offset;
use rehome_records::{Logged, Record, TopicPartition};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything may take before a suite fails. Long, so that a loaded machine does not fail it.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub const ALL: ReadLimits = ReadLimits { records_max: usize::MAX, bytes_max: usize::MAX };

pub type Answer<T> = Receiver<Result<T, PortError>>;

pub fn record(text: impl Into<String>) -> Record {
    Record { key: Some(b"key".to_vec()), value: Some(text.into().into_bytes()), headers: Vec::new() }
}

pub fn texts(records: &[Logged]) -> Vec<String> {
    let text =
        |logged: &Logged| String::from_utf8_lossy(logged.record.value.as_deref().unwrap_or_default()).into_owned();
    records.iter().map(text).collect()
}

/// Appends without waiting.
pub fn send(log: &Arc<dyn Log>, partition: &TopicPartition, lane: Lane, records: Vec<Record>) -> Answer<Vec<Offset>> {
    let (told, answer) = channel();
    log.append(partition, lane, records, Box::new(move |result| drop(told.send(result))));
    answer
}

/// Waits for an answer.
pub fn wait<T>(answer: &Answer<T>) -> Result<T, PortError> {
    answer.recv_timeout(DEADLINE).expect("every call is answered before the deadline")
}

/// Appends one record per text, each by itself, and waits until all are durable; returns their offsets.
pub fn append(log: &Arc<dyn Log>, partition: &TopicPartition, texts: &[&str]) -> Vec<Offset> {
    let answers: Vec<_> = texts.iter().map(|text| send(log, partition, Lane::Data, vec![record(*text)])).collect();
    answers.iter().flat_map(|answer| wait(answer).expect("the log takes a record")).collect()
}

pub fn end(log: &Arc<dyn Log>, partition: &TopicPartition) -> Result<Offset, PortError> {
    let (told, answer) = channel();
    log.end(partition, Box::new(move |result| drop(told.send(result))));
    wait(&answer)
}

/// A tail, and the signal that says when to poll it.
pub struct Follower {
    pub tail: Box<dyn Tail>,
    pub signal: Arc<Signal>,
}

impl Follower {
    pub fn new(log: &Arc<dyn Log>, partition: &TopicPartition, from: Offset) -> Follower {
        let signal = Signal::new();
        let tail = log.tail(partition, from, signal.waker()).expect("the partition exists");
        Follower { tail, signal }
    }

    /// Polls, waiting for the signal in between, until so many records came.
    pub fn read(&mut self, records: usize) -> Batch {
        let deadline = Instant::now() + DEADLINE;
        let mut all = Batch::default();
        loop {
            let batch = self.tail.poll(ALL).expect("the records are there");
            let nothing = batch.records.is_empty();
            all.records.extend(batch.records);
            all.next = batch.next;
            if all.records.len() >= records {
                return all;
            }
            if nothing {
                self.signal.wait(Some(deadline));
                // Also when all of them are there by now: a reader that nobody wakes has failed.
                assert!(Instant::now() < deadline, "only {} of {records} records came", all.records.len());
            }
        }
    }
}

/// Reads everything from that position to the end, without waiting.
pub fn read_all(log: &Arc<dyn Log>, partition: &TopicPartition, from: Offset) -> Batch {
    let mut follower = Follower::new(log, partition, from);
    let mut all = Batch { records: Vec::new(), next: from };
    loop {
        let batch = follower.tail.poll(ALL).expect("the records are there");
        let stands = batch.next == all.next;
        all.records.extend(batch.records);
        all.next = batch.next;
        if stands {
            return all;
        }
    }
}

pub fn assert_remedy<T>(result: Result<T, PortError>, remedy: Remedy) {
    match result {
        Ok(_) => panic!("expected {remedy:?}, but it succeeded"),
        Err(error) => assert_eq!(error.remedy, remedy, "{error}"),
    }
}
