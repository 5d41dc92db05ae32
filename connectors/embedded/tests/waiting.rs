//! What waits, what is refused, and what is read back from where.

// In the helpers as in the tests themselves.
#![allow(clippy::unwrap_used)]

use rehome_embedded::{EmbeddedLog, Limits};
use rehome_keyspace::Offset;
use rehome_ports::{Lane, Log, PortError, ReadLimits, Remedy, Signal};
use rehome_records::{Logged, Record, TopicPartition};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(30);

type Answer = Receiver<Result<Vec<Offset>, PortError>>;

fn partition() -> TopicPartition {
    TopicPartition::new("topic", 0)
}

fn open(dir: &Path, limits: Limits) -> Arc<EmbeddedLog> {
    let log = EmbeddedLog::open(dir, limits).unwrap();
    log.ensure_topic("topic", 1).unwrap();
    log
}

fn record(value: impl Into<Vec<u8>>) -> Record {
    Record { value: Some(value.into()), ..Record::default() }
}

fn send(log: &EmbeddedLog, lane: Lane, records: Vec<Record>) -> Answer {
    let (told, answer) = channel();
    log.append(&partition(), lane, records, Box::new(move |result| drop(told.send(result))));
    answer
}

fn wait(answer: &Answer) -> Result<Vec<Offset>, PortError> {
    answer.recv_timeout(DEADLINE).unwrap()
}

/// Keeps the committer in a callback until the sender is dropped: meanwhile everything waits.
fn hold(log: &EmbeddedLog) -> Sender<()> {
    let (release, released) = channel::<()>();
    let (told, held) = channel();
    let done = move |_: Result<Vec<Offset>, PortError>| {
        told.send(()).unwrap();
        released.recv().unwrap_err();
    };
    log.append(&partition(), Lane::Data, vec![record("held")], Box::new(done));
    held.recv_timeout(DEADLINE).unwrap();
    release
}

fn read(log: &EmbeddedLog, from: Offset, limits: ReadLimits) -> Vec<Logged> {
    let mut tail = log.tail(&partition(), from, Signal::new().waker()).unwrap();
    let mut all = Vec::new();
    loop {
        let records = tail.poll(limits).unwrap().records;
        if records.is_empty() {
            return all;
        }
        all.extend(records);
    }
}

#[test]
fn a_full_lane_refuses_at_once_and_the_other_lane_still_takes() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { queued_records_max: 3, ..Limits::default() };
    let log = open(dir.path(), limits);
    let held = hold(&log);
    let large = send(&log, Lane::Data, (0..10).map(|_| record("fits an empty lane")).collect());
    let refused = send(&log, Lane::Data, vec![record("one too many")]).try_recv().unwrap().unwrap_err();
    assert_eq!(refused.remedy, Remedy::NotApplied, "{refused}");
    let mark = send(&log, Lane::Protocol, vec![record("mark")]);
    drop(held);
    assert_eq!((wait(&large).unwrap().len(), wait(&mark).unwrap().len()), (10, 1));
    wait(&send(&log, Lane::Data, vec![record("room again")])).unwrap();
    assert_eq!(read(&log, Offset(0), ReadLimits { records_max: 100, bytes_max: 100_000 }).len(), 13);
}

#[test]
fn a_mark_overtakes_waiting_data_and_append_times_still_never_go_back() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), Limits::default());
    let held = hold(&log);
    let data: Vec<_> = (0..100).map(|_| send(&log, Lane::Data, vec![record("data")])).collect();
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(5) {
        std::hint::spin_loop();
    }
    let mark = send(&log, Lane::Protocol, vec![record("mark")]);
    drop(held);
    let mark = wait(&mark).unwrap()[0];
    assert!(data.iter().all(|data| wait(data).unwrap()[0] > mark), "the mark came last and is first");
    let records = read(&log, Offset(0), ReadLimits { records_max: 1000, bytes_max: 1 << 20 });
    assert!(records.is_sorted_by_key(|logged| logged.append_time_ms));
}

#[test]
fn a_closed_log_refuses_what_follows_and_has_kept_what_waited() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), Limits::default());
    let held = hold(&log);
    let waiting = send(&log, Lane::Data, vec![record("waits")]);
    let closing = std::thread::spawn(move || {
        log.close().unwrap();
        log
    });
    drop(held);
    let log = closing.join().unwrap();
    assert_eq!(wait(&waiting).unwrap(), [Offset(1)]);
    assert_eq!(wait(&send(&log, Lane::Data, vec![record("late")])).unwrap_err().remedy, Remedy::NotApplied);
    log.close().unwrap();
    drop(log);
    let log = open(dir.path(), Limits::default());
    assert_eq!(read(&log, Offset(0), ReadLimits { records_max: 10, bytes_max: 1000 }).len(), 2);
}

#[test]
fn records_that_memory_no_longer_holds_are_read_from_disk_and_none_is_missed_in_between() {
    let dir = tempfile::tempdir().unwrap();
    // Of 3 MiB the newest one stays in memory.
    let limits = Limits { ring_bytes_total: 1 << 20, group_records_max: 7, ..Limits::default() };
    let log = open(dir.path(), limits);
    let answers: Vec<_> =
        (0..3000u32).map(|number| send(&log, Lane::Data, vec![record(number.to_be_bytes().repeat(256))])).collect();
    answers.iter().for_each(|answer| drop(wait(answer).unwrap()));
    for limits in [
        ReadLimits { records_max: 1, bytes_max: usize::MAX },
        ReadLimits { records_max: 11, bytes_max: usize::MAX },
        ReadLimits { records_max: usize::MAX, bytes_max: 10_000 },
        ReadLimits { records_max: usize::MAX, bytes_max: usize::MAX },
    ] {
        let records = read(&log, Offset(0), limits);
        let numbers: Vec<_> = records.iter().map(|logged| logged.offset.0).collect();
        assert_eq!(numbers, (0..3000).collect::<Vec<_>>(), "{limits:?}");
        for logged in records {
            let number = (logged.offset.0 as u32).to_be_bytes();
            assert_eq!(logged.record.value.as_deref(), Some(number.repeat(256).as_slice()));
        }
    }
}

#[test]
fn a_log_whose_unsynced_end_is_torn_opens_with_everything_before() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), Limits::default());
    let append = |number: u8| drop(wait(&send(&log, Lane::Data, vec![record(vec![number; 100])])).unwrap());
    (0..9).for_each(append);
    let synced = std::fs::read(dir.path().join("synced")).unwrap();
    append(9);
    for tear in [cut as fn(Vec<u8>) -> Vec<u8>, garble] {
        let copy = tempfile::tempdir().unwrap();
        copy_torn(dir.path(), copy.path(), tear);
        assert!(EmbeddedLog::open(copy.path(), Limits::default()).is_err(), "it is known that the last was synced");
        std::fs::write(copy.path().join("synced"), &synced).unwrap();
        let torn = EmbeddedLog::open(copy.path(), Limits::default()).unwrap();
        let records = read(&torn, Offset(0), ReadLimits { records_max: 100, bytes_max: 100_000 });
        assert_eq!(records.len(), 9, "all but the torn one");
        wait(&send(&torn, Lane::Data, vec![record("goes on")])).unwrap();
    }
}

/// Returns where the last record lies in the write-ahead log. What follows it there is of an earlier life of the file.
fn last_record(bytes: &[u8]) -> usize {
    let value = [9; 100];
    bytes.windows(value.len()).rposition(|window| window == value).expect("the last record was synced")
}

fn cut(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(last_record(&bytes) + 80);
    bytes
}

fn garble(mut bytes: Vec<u8>) -> Vec<u8> {
    let at = last_record(&bytes) + 80;
    bytes[at] ^= 1;
    bytes
}

/// Copies a log as a crash leaves it, with the end of its newest write-ahead log torn.
fn copy_torn(from: &Path, to: &Path, tear: fn(Vec<u8>) -> Vec<u8>) {
    let entries = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path());
    let (logs, others): (Vec<_>, Vec<_>) = entries.partition(|path| path.extension().is_some_and(|it| it == "log"));
    for path in others {
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    let newest = logs.iter().max().unwrap();
    for path in &logs {
        let mut bytes = std::fs::read(path).unwrap();
        if path == newest {
            bytes = tear(bytes);
        }
        std::fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
    }
}
