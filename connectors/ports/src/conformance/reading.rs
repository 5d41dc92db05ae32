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
        let mut all = Batch::default();
        while all.records.len() < records {
            let batch = self.read_some(ALL);
            all.records.extend(batch.records);
            all.next = batch.next;
        }
        all
    }

    /// Polls, waiting for the signal in between, until a record came.
    pub fn read_some(&mut self, limits: ReadLimits) -> Batch {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let batch = self.tail.poll(limits).expect("the records are there");
            if !batch.records.is_empty() {
                return batch;
            }
            self.signal.wait(Some(deadline));
            // Also when they are there by now: a reader that nobody wakes has failed.
            assert!(Instant::now() < deadline, "no record came");
        }
    }
}

/// Reads everything from that position to the end that the partition has now. A log that fetches may take a while.
pub fn read_all(log: &Arc<dyn Log>, partition: &TopicPartition, from: Offset) -> Batch {
    let end = end(log, partition).expect("the partition has an end");
    let mut follower = Follower::new(log, partition, from);
    let deadline = Instant::now() + DEADLINE;
    let mut all = Batch { records: Vec::new(), next: from };
    loop {
        let batch = follower.tail.poll(ALL).expect("the records are there");
        let stands = batch.next == all.next;
        all.records.extend(batch.records);
        all.next = batch.next;
        if stands && all.next >= end {
            return all;
        }
        if stands {
            follower.signal.wait(Some(deadline));
            assert!(Instant::now() < deadline, "the tail stands at {} and the end is {end}", all.next);
        }
    }
}

/// Polls, waiting for the signal in between, until the tail ends with an error; returns it and what came before.
pub fn read_until_error(follower: &mut Follower, records_max: usize) -> (Vec<Logged>, Option<PortError>) {
    let deadline = Instant::now() + DEADLINE;
    let mut all = Vec::new();
    loop {
        match follower.tail.poll(ALL) {
            Err(error) => return (all, Some(error)),
            Ok(batch) if batch.records.is_empty() => {
                follower.signal.wait(Some(deadline));
                assert!(Instant::now() < deadline, "neither records nor an error came");
            }
            Ok(batch) => all.extend(batch.records),
        }
        if all.len() >= records_max {
            return (all, None);
        }
    }
}

pub fn assert_remedy<T>(result: Result<T, PortError>, remedy: Remedy) {
    match result {
        Ok(_) => panic!("expected {remedy:?}, but it succeeded"),
        Err(error) => assert_eq!(error.remedy, remedy, "{error}"),
    }
}
