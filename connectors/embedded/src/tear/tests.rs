//! Files that RocksDB wrote, cut and altered at every byte.
//!
//! - [`torn`]: ends that a crash tore, and damage that is told by what lies behind it.
//! - [`synced`]: damage below the end that was synced.
//! - [`first`]: damage where a file begins, so that nothing before it tells what comes.

mod first;
mod synced;
mod torn;

use super::*;
use crate::fsync::Fsync;
use crate::log::EmbeddedLog;
use crate::options::Limits;
use crate::wal::Write;
use rehome_keyspace::Offset;
use rehome_ports::{Lane, Log, ReadLimits, Signal};
use rehome_records::{Record, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use tempfile::TempDir;

const RECORDS: usize = 6;
/// Of those of [`Killed::weak`].
const SYNCED: usize = 3;
/// Values grow, and one takes several pieces.
const LONG: usize = 2;

fn partition() -> TopicPartition {
    TopicPartition::new("topic", 0)
}

fn limits() -> Limits {
    Limits { log_file_bytes: 0, ..Limits::default() }
}

fn value(number: usize) -> Vec<u8> {
    vec![number as u8 + 1; if number == LONG { 70_000 } else { 20 + number }]
}

fn append(log: &EmbeddedLog, value: Vec<u8>) -> Offset {
    append_record(log, Record { value: Some(value), ..Record::default() })
}

fn append_record(log: &EmbeddedLog, record: Record) -> Offset {
    let (told, answer) = channel();
    log.append(&partition(), Lane::Data, vec![record], Box::new(move |result| drop(told.send(result))));
    answer.recv().unwrap().unwrap()[0]
}

fn values(log: &EmbeddedLog) -> Vec<(Offset, Vec<u8>)> {
    let mut tail = log.tail(&partition(), Offset(0), Signal::new().waker()).unwrap();
    let batch = tail.poll(ReadLimits { records_max: 1000, bytes_max: usize::MAX }).unwrap();
    batch.records.into_iter().map(|logged| (logged.offset, logged.record.value.unwrap())).collect()
}

/// What a killed log leaves: its other files, and its newest write-ahead log with the records in it.
struct Killed {
    others: BTreeMap<String, Vec<u8>>,
    name: String,
    bytes: Vec<u8>,
    /// One for each record.
    writes: Vec<Write>,
    /// Of the whole file.
    all: Vec<Write>,
}

impl Killed {
    fn new() -> Killed {
        Killed::of((0..RECORDS).map(|number| Record { value: Some(value(number)), ..Record::default() }).collect())
    }

    /// As a power loss may leave it: up to where it was synced was kept, and that is not synced itself.
    fn torn() -> Killed {
        let mut killed = Killed::new();
        killed.others.remove("synced");
        killed
    }

    fn of(records: Vec<Record>) -> Killed {
        let count = records.len();
        let dir = tempfile::tempdir().unwrap();
        let log = EmbeddedLog::open(dir.path(), limits()).unwrap();
        log.ensure_topic(&partition().topic, 1).unwrap();
        for (number, record) in (0..).zip(records) {
            assert_eq!(append_record(&log, record), Offset(number));
        }
        Killed::copy(dir.path(), count)
    }

    /// A log that has the topic, and nothing else.
    fn topic(dir: &Path) -> Arc<EmbeddedLog> {
        let log = EmbeddedLog::open(dir, limits()).unwrap();
        log.ensure_topic(&partition().topic, 1).unwrap();
        log
    }

    fn copy(dir: &Path, count: usize) -> Killed {
        let mut others = files(dir);
        let (number, path) = log_files(dir).unwrap().pop().unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = others.remove(&name).unwrap();
        let contents = wal::read(&bytes, number);
        assert_eq!(contents.beyond.len(), 0);
        let all = contents.writes;
        let writes = all[all.len() - count..].to_vec();
        Killed { others, name, bytes, writes, all }
    }

    /// Data is acknowledged before it is synced; the first `synced` records were.
    fn weak(synced: usize) -> Killed {
        let dir = tempfile::tempdir().unwrap();
        let log = open_weak(dir.path());
        log.ensure_topic(&partition().topic, 1).unwrap();
        for number in 0..RECORDS {
            if number == synced {
                log.sync().unwrap();
            }
            assert_eq!(append(&log, value(number)), Offset(number as u64));
        }
        Killed::copy(dir.path(), RECORDS)
    }

    fn with(&self, bytes: &[u8]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in &self.others {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        std::fs::write(dir.path().join(&self.name), bytes).unwrap();
        dir
    }
}

/// Nobody syncs on a clock here.
fn open_weak(dir: &Path) -> Arc<EmbeddedLog> {
    EmbeddedLog::open_with(dir, limits(), Fsync::Every(std::time::Duration::from_secs(3600))).unwrap()
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

/// The log opens with the first records and no other, and goes on; now and then it is opened once more.
fn opens_with(dir: &Path, records: usize, at: usize) {
    let what = format!("byte {at}");
    let expected: Vec<_> = (0..records).map(|number| (Offset(number as u64), value(number))).collect();
    let log = EmbeddedLog::open(dir, limits()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(values(&log) == expected, "{what}");
    let next = append(&log, b"goes on".to_vec());
    assert!(next.0 >= records as u64, "{what}");
    if !at.is_multiple_of(16) {
        return;
    }
    drop(log);
    let log = EmbeddedLog::open(dir, limits()).unwrap();
    assert_eq!(values(&log).pop(), Some((next, b"goes on".to_vec())), "{what}");
}

fn damaged(dir: &Path, what: &str) {
    let before = files(dir);
    let refused = EmbeddedLog::open(dir, limits()).err().unwrap_or_else(|| panic!("{what}: it opened"));
    assert!(matches!(refused, OpenError::Damaged { .. }), "{what}: {refused}");
    assert!(refused.to_string().contains("rehome up"), "{refused}");
    let mut after = files(dir);
    // Who holds the folder is written before anything is looked at.
    after.insert("pid".into(), before["pid"].clone());
    assert!(before == after, "{what}: nothing is changed");
}

/// Some bytes of that record: all of its header, and others.
fn bytes_of(write: &Write) -> impl Iterator<Item = usize> {
    let step = if write.bytes.len() > 1000 { 4001 } else { 13 };
    write.bytes.clone().take(12).chain(write.bytes.clone().skip(12).step_by(step))
}

fn flipped(killed: &Killed, at: usize) -> Vec<u8> {
    let mut bytes = killed.bytes.clone();
    bytes[at] ^= 1;
    bytes
}
