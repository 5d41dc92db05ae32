//! Files that RocksDB wrote, cut and altered at every byte.

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
}

impl Killed {
    fn new() -> Killed {
        Killed::of((0..RECORDS).map(|number| Record { value: Some(value(number)), ..Record::default() }).collect())
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

    fn copy(dir: &Path, count: usize) -> Killed {
        let mut others = files(dir);
        let (number, path) = log_files(dir).unwrap().pop().unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = others.remove(&name).unwrap();
        let contents = wal::read(&bytes, number);
        assert_eq!(contents.beyond.len(), 0);
        let mut writes = contents.writes;
        writes.drain(..writes.len() - count);
        Killed { others, name, bytes, writes }
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

#[test]
fn a_log_cut_at_any_byte_of_its_last_two_records_opens_with_everything_before() {
    let killed = Killed::new();
    let (from, to) = (killed.writes[RECORDS - 2].bytes.start, killed.writes[RECORDS - 1].bytes.end);
    for length in from..=to {
        let whole = killed.writes.iter().filter(|write| write.bytes.end <= length).count();
        let dir = killed.with(&killed.bytes[..length]);
        let cut = look(dir.path()).unwrap();
        let at = if whole == RECORDS { to } else { killed.writes[whole].bytes.start };
        assert_eq!(
            cut.map(|cut| (cut.at, cut.torn_bytes)),
            (length > at).then(|| (at, length - at)),
            "cut at {length}"
        );
        opens_with(dir.path(), whole, length);
    }
}

#[test]
fn a_log_with_any_byte_of_its_last_record_altered_opens_with_everything_before() {
    let killed = Killed::new();
    let last = killed.writes[RECORDS - 1].bytes.clone();
    for at in last.clone() {
        let mut bytes = killed.bytes.clone();
        bytes[at] ^= 0x5a;
        let dir = killed.with(&bytes);
        // A header of another type or file looks as what an earlier life of the file left behind the end.
        let told = !(6..11).contains(&(at - last.start));
        assert_eq!(look(dir.path()).unwrap().map(|cut| cut.at), told.then_some(last.start), "byte {at}");
        if told.then_some(at).is_none_or(|at| at.is_multiple_of(4)) {
            opens_with(dir.path(), RECORDS - 1, at);
        }
    }
}

#[test]
fn a_log_with_any_byte_altered_before_its_last_record_is_refused_and_nothing_is_changed() {
    let killed = Killed::new();
    let long = killed.writes[LONG].bytes.clone();
    let short = killed.writes[RECORDS - 2].bytes.clone();
    for at in short.chain(long.step_by(1511)) {
        let mut bytes = killed.bytes.clone();
        bytes[at] ^= 0x5a;
        damaged(killed.with(&bytes).path(), &format!("byte {at}"));
    }
}

#[test]
fn a_log_that_acknowledged_before_it_synced_may_be_torn_before_its_last_record() {
    let killed = Killed::new();
    let torn = killed.writes[RECORDS - 3].bytes.clone();
    for at in torn.step_by(9) {
        let mut bytes = killed.bytes.clone();
        bytes[at] ^= 0x5a;
        let dir = killed.with(&bytes);
        mark(dir.path(), true).unwrap();
        let cut = look(dir.path()).unwrap().unwrap();
        assert_eq!(cut.beyond_records, 2, "byte {at}");
        opens_with(dir.path(), RECORDS - 3, at);
        assert!(!is_marked(dir.path()), "whoever syncs first is never torn there");
    }
}

#[test]
fn a_file_that_is_written_over_ends_where_its_present_life_does() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), Limits { log_file_bytes: 1 << 20, ..limits() }).unwrap();
    log.ensure_topic(&partition().topic, 1).unwrap();
    (0..RECORDS).for_each(|number| assert_eq!(append(&log, value(number)), Offset(number as u64)));
    let (number, path) = log_files(dir.path()).unwrap().pop().unwrap();
    let bytes = std::fs::read(path).unwrap();
    let contents = wal::read(&bytes, number);
    assert!(contents.end() + 900_000 < bytes.len(), "the rest is of an earlier life");
    assert_eq!((contents.torn, contents.beyond), (None, Vec::new()));
    assert_eq!(look(dir.path()).unwrap(), None);
}

#[test]
fn a_folder_is_marked_until_a_log_that_acknowledges_early_ends_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let open = |fsync| EmbeddedLog::open_with(dir.path(), limits(), fsync).unwrap();
    let log: Arc<EmbeddedLog> = open(Fsync::Every(std::time::Duration::from_secs(3600)));
    assert!(is_marked(dir.path()));
    drop(log);
    assert!(!is_marked(dir.path()));
    drop(open(Fsync::Always));
    assert!(!is_marked(dir.path()));
}

#[test]
fn a_write_is_read_wherever_in_a_block_the_one_before_it_ends() {
    const BLOCK: usize = 32 << 10;
    let ends = |value: usize| {
        let dir = tempfile::tempdir().unwrap();
        let log = EmbeddedLog::open(dir.path(), limits()).unwrap();
        log.ensure_topic(&partition().topic, 1).unwrap();
        append(&log, vec![7; value]);
        append(&log, vec![8; 100]);
        assert_eq!(look(dir.path()).unwrap(), None, "{value} bytes");
        let (number, path) = log_files(dir.path()).unwrap().pop().unwrap();
        let writes = wal::read(&std::fs::read(path).unwrap(), number).writes;
        writes[writes.len() - 2].bytes.end
    };
    let around = BLOCK - 1000;
    let rest = around + BLOCK - ends(around);
    // Headers take 11 bytes: where just that is left, the next write begins with a piece that holds nothing.
    for left in 0..=24 {
        assert_eq!(ends(rest - left), BLOCK - left);
    }
}

/// Whole pieces of whole writes, for every file and about every sequence number that may come next.
fn forged() -> Vec<u8> {
    let piece = |number: u32, sequence: u64| {
        let mut body = vec![5];
        body.extend(number.to_le_bytes());
        body.extend(sequence.to_le_bytes());
        body.extend(1u32.to_le_bytes());
        let checksum = crc32c::crc32c(&body).rotate_right(15).wrapping_add(0xa282_ead8);
        [&checksum.to_le_bytes()[..], &12u16.to_le_bytes()[..], &body].concat()
    };
    (1..40).flat_map(|number| (1..30).map(move |sequence| (number, sequence))).flat_map(|(n, s)| piece(n, s)).collect()
}

#[test]
fn values_that_look_like_parts_of_a_log_are_taken_for_none() {
    let values = [vec![1; 40], forged(), forged()];
    let killed = Killed::of(values.iter().map(|v| Record { value: Some(v.clone()), ..Record::default() }).collect());
    let [_, _, last] = &killed.writes[..] else { panic!("{:?}", killed.writes) };
    // The last write is torn in its middle, as what was not synced may be.
    for at in last.bytes.clone().skip(30).step_by(601) {
        let mut bytes = killed.bytes.clone();
        let end = last.bytes.end.min(at + 64);
        bytes[at..end].fill(0xee);
        let dir = killed.with(&bytes);
        let cut = look(dir.path()).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        assert_eq!(cut.map(|cut| (cut.at, cut.beyond_records)), Some((last.bytes.start, 0)), "byte {at}");
    }
    // An earlier life of the file left values behind the end of this one, cut anywhere.
    for skipped in 0..40 {
        let behind = [&killed.bytes[..last.bytes.end], &forged()[skipped..]].concat();
        // Where the next block begins, RocksDB has always written a header.
        let length = behind.len().min(last.bytes.end.next_multiple_of(32 << 10));
        assert_eq!(look(killed.with(&behind[..length]).path()).unwrap(), None, "{skipped} bytes skipped");
    }
}

#[test]
fn damage_is_told_whatever_the_records_behind_it_end_in() {
    let ending = |number: u8| {
        let sort = [&[number][..], &crate::disk::FILLING[..]].concat();
        Record { value: Some(vec![number; 200]), ..Record::default() }.with_header("rh-sort", sort)
    };
    let killed = Killed::of((0..4).map(ending).collect());
    for write in &killed.writes[..3] {
        let mut bytes = killed.bytes.clone();
        bytes[write.bytes.start + 60] ^= 1;
        damaged(killed.with(&bytes).path(), &format!("{write:?}"));
    }
}

/// Records of [`Killed::weak`] that were synced.
const SYNCED: usize = 3;

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

#[test]
fn a_flipped_bit_below_the_synced_end_is_refused_and_one_above_it_is_cut_where_acknowledged_early() {
    let killed = Killed::weak(SYNCED);
    for (number, write) in killed.writes.iter().enumerate() {
        for at in bytes_of(write) {
            let dir = killed.with(&flipped(&killed, at));
            assert!(is_marked(dir.path()));
            match number < SYNCED {
                true => {
                    damaged(dir.path(), &format!("record {number}, byte {at}"));
                    let told = look(dir.path()).unwrap_err().to_string();
                    // A header of another type or file is passed over up to the next write.
                    let places = [write.bytes.start, write.bytes.end];
                    let named = |place| told.contains(&format!("at byte {place}, where everything was synced"));
                    assert!(places.into_iter().any(named), "{told}");
                }
                false => opens_with(dir.path(), number, at),
            }
        }
    }
}

#[test]
fn a_log_that_is_cut_off_below_the_synced_end_is_refused_and_one_above_it_opens() {
    let killed = Killed::weak(SYNCED);
    for (number, write) in killed.writes.iter().enumerate() {
        // Nothing lies behind that could tell.
        let length = write.bytes.end - 1;
        let dir = killed.with(&killed.bytes[..length]);
        match number < SYNCED {
            true => damaged(dir.path(), &format!("record {number}")),
            false => opens_with(dir.path(), number, length),
        }
    }
}

#[test]
fn without_a_synced_end_that_is_whole_the_log_is_cut_as_before_there_was_one() {
    for altered in [None, Some(vec![]), Some(vec![0xff; 600])] {
        let mut killed = Killed::weak(SYNCED);
        killed.others.remove("synced").unwrap();
        killed.others.extend(altered.map(|bytes| ("synced".to_owned(), bytes)));
        let at = killed.writes[1].bytes.start + 20;
        opens_with(killed.with(&flipped(&killed, at)).path(), 1, at);
    }
}

#[test]
fn the_synced_end_that_is_kept_is_what_was_synced_and_a_power_loss_opens_up_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let log = open_weak(dir.path());
    log.ensure_topic(&partition().topic, 1).unwrap();
    (0..SYNCED).for_each(|number| assert_eq!(append(&log, value(number)), Offset(number as u64)));
    log.sync().unwrap();
    let kept = synced_end::read(dir.path());
    assert_eq!(kept, Some(log.disk().synced_sequence()));
    (SYNCED..RECORDS).for_each(|number| assert_eq!(append(&log, value(number)), Offset(number as u64)));
    assert_eq!(synced_end::read(dir.path()), kept, "what is not synced is not told to be");
    for torn in [0, 1, 40] {
        let left = tempfile::tempdir().unwrap();
        log.copy_after_power_loss(left.path(), torn).unwrap();
        let killed = Killed::copy(left.path(), SYNCED);
        opens_with(left.path(), SYNCED, torn);
        // The same, and a bit is flipped in the last record that was synced.
        let last = killed.writes.last().unwrap();
        damaged(killed.with(&flipped(&killed, last.bytes.start + 20)).path(), "a power loss and a flipped bit");
    }
    log.sync().unwrap();
    assert!(synced_end::read(dir.path()) > kept);
}

#[test]
fn a_file_that_is_broken_from_its_start_is_refused_where_synced_records_lie_in_the_next() {
    let mut killed = Killed::weak(SYNCED);
    // A whole piece by its header, of a file before the newest; nothing before it tells its number.
    let piece = [&[0; 4][..], &12u16.to_le_bytes(), &[5], &3u32.to_le_bytes(), &[7; 12]].concat();
    assert!(killed.others.insert("000003.log".into(), piece).is_none());
    damaged(killed.with(&killed.bytes).path(), "the file before");
    killed.others.remove("synced").unwrap();
    let cut = look(killed.with(&killed.bytes).path()).unwrap().unwrap();
    assert!(cut.beyond_records > RECORDS as u64, "{cut:?}");
}
