//! The promises of the Log port.

use super::reading::{
    ALL, DEADLINE, Follower, append, assert_remedy, end, read_all, read_until_error, record, send, texts, wait,
};
use crate::Remedy;
use crate::inbox::Signal;
use crate::log::{Lane, Log, ReadLimits};
use rehome_keyspace::Offset;
use rehome_records::{Record, TopicPartition};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Opens the log that is tested.
pub trait LogBed {
    /// Opens the log, the first time an empty one, later the same one again. What was opened before has been dropped.
    fn open(&mut self) -> Arc<dyn Log>;
}

fn partition() -> TopicPartition {
    TopicPartition::new("rehome.flights-7.data", 0)
}

fn open(bed: &mut dyn LogBed) -> Arc<dyn Log> {
    let log = bed.open();
    log.ensure_topic(&partition().topic, 1).expect("a topic can be created");
    log
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

fn append_numbers(log: &Arc<dyn Log>, range: std::ops::Range<usize>) -> Vec<Offset> {
    let texts = numbers(range);
    append(log, &partition(), &texts.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn a_tail_delivers_every_record_once_in_order_as_it_was_appended(bed: &mut dyn LogBed) {
    let log = open(bed);
    let appended = vec![
        Record { key: None, value: None, headers: Vec::new() },
        Record { key: Some(Vec::new()), value: Some(Vec::new()), headers: Vec::new() },
        record("text").with_header("rh-epoch", 7u64.to_be_bytes()).with_header("rh-epoch", [0xff, 0]),
        Record { key: Some(vec![0, 0xff]), value: Some(vec![7; 100_000]), headers: Vec::new() },
    ];
    let offsets = wait(&send(&log, &partition(), Lane::Data, appended.clone())).expect("the log takes records");
    let mut follower = Follower::new(&log, &partition(), Offset(0));
    let batch = follower.read(appended.len());
    assert_eq!(batch.records.iter().map(|logged| logged.record.clone()).collect::<Vec<_>>(), appended);
    assert_eq!(batch.records.iter().map(|logged| logged.offset).collect::<Vec<_>>(), offsets);
    let again = follower.tail.poll(ALL).expect("polling at the end is no error");
    assert!(again.records.is_empty(), "{again:?}");
    append(&log, &partition(), &["later"]);
    assert_eq!(texts(&follower.read(1).records), ["later"]);
}

pub fn records_of_one_caller_and_lane_keep_their_order(bed: &mut dyn LogBed) {
    let log = open(bed);
    let lanes = [(Lane::Data, "data"), (Lane::Protocol, "protocol")];
    let mut answers = Vec::new();
    for number in 0..500 {
        for (lane, name) in lanes {
            answers.push(send(&log, &partition(), lane, vec![record(format!("{name} {number}"))]));
        }
    }
    answers.iter().for_each(|answer| drop(wait(answer).expect("the log takes records")));
    let all = texts(&read_all(&log, &partition(), Offset(0)).records);
    for (_, name) in lanes {
        let of_lane: Vec<_> = all.iter().filter(|text| text.starts_with(name)).cloned().collect();
        assert_eq!(of_lane, (0..500).map(|number| format!("{name} {number}")).collect::<Vec<_>>());
    }
}

pub fn several_appenders_get_distinct_offsets_and_every_record_is_there(bed: &mut dyn LogBed) {
    const APPENDERS: usize = 8;
    const EACH: usize = 200;
    let log = open(bed);
    let work = |appender: usize| {
        let log = Arc::clone(&log);
        move || {
            let appended = |number| {
                let text = format!("{appender} {number}");
                let offsets = wait(&send(&log, &partition(), Lane::Data, vec![record(text.clone())]));
                (offsets.expect("the log takes a record")[0], text)
            };
            (0..EACH).map(appended).collect::<Vec<_>>()
        }
    };
    let threads: Vec<_> = (0..APPENDERS).map(|appender| thread::spawn(work(appender))).collect();
    let mut expected: Vec<_> =
        threads.into_iter().flat_map(|thread| thread.join().expect("an appender does not panic")).collect();
    expected.sort();
    assert_eq!(expected.iter().map(|(offset, _)| offset).collect::<BTreeSet<_>>().len(), APPENDERS * EACH);
    let records = read_all(&log, &partition(), Offset(0)).records;
    let found: Vec<_> = records.iter().map(|logged| logged.offset).zip(texts(&records)).collect();
    assert_eq!(found, expected);
}

pub fn offsets_of_one_append_grow_and_tell_where_its_records_lie(bed: &mut dyn LogBed) {
    let log = open(bed);
    assert_eq!(wait(&send(&log, &partition(), Lane::Data, Vec::new())), Ok(Vec::new()));
    let records = numbers(0..50).into_iter().map(record).collect();
    let offsets = wait(&send(&log, &partition(), Lane::Data, records)).expect("the log takes records");
    assert!(offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
    for (number, offset) in offsets.iter().enumerate() {
        let first = read_all(&log, &partition(), *offset).records.remove(0);
        assert_eq!((first.offset, texts(&[first])), (*offset, vec![number.to_string()]));
    }
}

pub fn a_poll_returns_no_more_than_its_limits(bed: &mut dyn LogBed) {
    let log = open(bed);
    let records = (0..20).map(|_| Record { key: None, value: Some(vec![1; 100]), headers: Vec::new() }).collect();
    wait(&send(&log, &partition(), Lane::Data, records)).expect("the log takes records");
    let mut follower = Follower::new(&log, &partition(), Offset(0));
    let mut left: usize = 20;
    // A record larger than the limit still comes, and bytes are passed by at most one record.
    for (records_max, bytes_max, count_max) in [(3, usize::MAX, 3), (usize::MAX, 250, 3), (usize::MAX, 1, 1)] {
        let count = follower.read_some(ReadLimits { records_max, bytes_max }).records.len();
        assert!((1..=count_max).contains(&count), "{count} records came, not 1 to {count_max}");
        left -= count;
    }
    assert_eq!(follower.read(left).records.len(), left);
}

pub fn next_passes_every_gap_up_to_the_end(bed: &mut dyn LogBed) {
    let log = open(bed);
    let mut follower = Follower::new(&log, &partition(), Offset(0));
    for number in 0..100 {
        append_numbers(&log, number..number + 1);
        let batch = follower.read(1);
        let last = batch.records.last().expect("it was just read").offset;
        assert!(batch.next > last, "everything below {} was delivered, {last} included", batch.next);
        assert_eq!(Ok(batch.next), end(&log, &partition()), "a tail that has read everything stands at the end");
    }
}

pub fn a_tail_starts_at_any_kept_position(bed: &mut dyn LogBed) {
    let log = open(bed);
    append_numbers(&log, 0..40);
    let all = read_all(&log, &partition(), Offset(0));
    for position in 0..=all.next.0 {
        let expected: Vec<_> = all.records.iter().filter(|logged| logged.offset.0 >= position).cloned().collect();
        assert_eq!(
            read_all(&log, &partition(), Offset(position)).records,
            expected,
            "from {position}, in a gap or not"
        );
    }
}

pub fn a_tail_beyond_the_end_is_broken(bed: &mut dyn LogBed) {
    let log = open(bed);
    append_numbers(&log, 0..3);
    let beyond = end(&log, &partition()).expect("the partition has an end").next();
    let signal = Signal::new();
    match log.tail(&partition(), beyond, signal.waker()) {
        Err(error) => assert_eq!(error.remedy, Remedy::Broken, "{error}"),
        Ok(tail) => {
            let (records, error) = read_until_error(&mut Follower { tail, signal }, 1);
            assert_eq!((records, error.map(|error| error.remedy)), (Vec::new(), Some(Remedy::Broken)));
        }
    }
}

pub fn a_waiting_reader_is_woken(bed: &mut dyn LogBed) {
    let log = open(bed);
    let reader = {
        let log = Arc::clone(&log);
        let mut follower = Follower::new(&log, &partition(), Offset(0));
        thread::spawn(move || follower.read(100).records)
    };
    for number in 0..100 {
        append_numbers(&log, number..number + 1);
    }
    assert_eq!(texts(&reader.join().expect("the reader is woken before the deadline")), numbers(0..100));
    let late = Follower::new(&log, &partition(), Offset(0));
    let deadline = Instant::now() + DEADLINE;
    late.signal.wait(Some(deadline));
    assert!(Instant::now() < deadline, "a reader that starts behind the end is woken at once");
}

pub fn the_end_covers_every_acknowledged_record(bed: &mut dyn LogBed) {
    let log = open(bed);
    let mut before = end(&log, &partition()).expect("an empty partition has an end");
    for number in 0..50 {
        let offset = append_numbers(&log, number..number + 1)[0];
        let after = end(&log, &partition()).expect("the partition has an end");
        assert!(before <= offset && offset < after, "{before} <= {offset} < {after}");
        before = after;
    }
}

pub fn append_times_never_go_back(bed: &mut dyn LogBed) {
    let log = open(bed);
    append_numbers(&log, 0..20);
    drop(log);
    let log = open(bed);
    append_numbers(&log, 20..40);
    let records = read_all(&log, &partition(), Offset(0)).records;
    assert!(records.is_sorted_by_key(|logged| logged.append_time_ms));
}

pub fn what_does_not_exist_is_refused_and_not_created(bed: &mut dyn LogBed) {
    let log = open(bed);
    for missing in [TopicPartition::new("missing", 0), TopicPartition::new(partition().topic, 1)] {
        let wake = Signal::new().waker();
        assert!(wait(&send(&log, &missing, Lane::Data, vec![record("lost")])).is_err());
        assert!(end(&log, &missing).is_err());
        assert!(log.tail(&missing, Offset(0), wake).is_err());
        assert!(log.start(&missing).is_err());
        assert!(log.trim(&missing, Offset(1)).is_err());
    }
    assert_eq!(log.partitions("missing"), Ok(None));
    assert_eq!(log.partitions(&partition().topic), Ok(Some(1)));
}

pub fn a_topic_is_created_once_and_only_grows(bed: &mut dyn LogBed) {
    let log = open(bed);
    append_numbers(&log, 0..5);
    for (asked, count) in [(3, 3), (1, 3), (3, 3), (5, 5)] {
        log.ensure_topic(&partition().topic, asked).expect("a topic can grow");
        assert_eq!(log.partitions(&partition().topic), Ok(Some(count)));
    }
    let added = TopicPartition::new(partition().topic, 4);
    append(&log, &added, &["added"]);
    assert_eq!(texts(&read_all(&log, &added, Offset(0)).records), ["added"]);
    assert_eq!(texts(&read_all(&log, &partition(), Offset(0)).records), numbers(0..5));
    drop(log);
    let log = bed.open();
    assert_eq!(log.partitions(&partition().topic), Ok(Some(5)));
}

pub fn a_removed_topic_is_gone_for_good_and_others_stay(bed: &mut dyn LogBed) {
    let log = open(bed);
    let other = TopicPartition::new("rehome.other-9.data", 1);
    log.ensure_topic(&other.topic, 2).expect("a topic can be created");
    append_numbers(&log, 0..50);
    append(&log, &other, &["kept"]);
    let mut follower = Follower::new(&log, &partition(), Offset(0));
    follower.read(50);
    log.remove_topic(&partition().topic).expect("it is removed");
    log.remove_topic(&partition().topic).expect("once more is no error");
    assert_eq!(log.partitions(&partition().topic), Ok(None));
    let refused = wait(&send(&log, &partition(), Lane::Data, vec![record("late")]));
    assert_remedy(refused, Remedy::NotApplied);
    append(&log, &other, &["more"]);
    drop(follower);
    drop(log);
    let log = bed.open();
    assert_eq!((log.partitions(&partition().topic), log.partitions(&other.topic)), (Ok(None), Ok(Some(2))));
    assert_eq!(texts(&read_all(&log, &other, Offset(0)).records), ["kept", "more"]);
    log.ensure_topic(&partition().topic, 1).expect("the name can be used again");
    assert_eq!(read_all(&log, &partition(), Offset(0)).records, []);
    append(&log, &partition(), &["new"]);
    assert_eq!(texts(&read_all(&log, &partition(), Offset(0)).records), ["new"]);
}

pub fn trimmed_records_are_gone_and_a_tail_that_needs_them_is_broken(bed: &mut dyn LogBed) {
    let log = open(bed);
    let offsets = append_numbers(&log, 0..10);
    assert_eq!(log.start(&partition()), Ok(Offset(0)));
    let mut behind = Follower::new(&log, &partition(), Offset(0));
    log.trim(&partition(), offsets[4]).expect("a partition can be trimmed");
    log.trim(&partition(), offsets[2]).expect("trimming less is no error");
    assert_eq!(log.start(&partition()), Ok(offsets[4]));
    assert_broken_or_whole(&mut behind, 10);
    assert_broken_or_whole(&mut Follower::new(&log, &partition(), offsets[3]), 0);
    assert_eq!(texts(&read_all(&log, &partition(), offsets[4]).records), numbers(4..10));
    drop((behind, log));
    let log = open(bed);
    assert_eq!(log.start(&partition()), Ok(offsets[4]));
    assert_eq!(texts(&read_all(&log, &partition(), offsets[4]).records), numbers(4..10));
}

/// A tail may have fetched records before they were trimmed away: then it has all of them, else it is broken.
fn assert_broken_or_whole(follower: &mut Follower, fetched_max: usize) {
    let (records, error) = read_until_error(follower, fetched_max.max(1));
    match error {
        Some(error) => assert_eq!((error.remedy, texts(&records)), (Remedy::Broken, Vec::new()), "{error}"),
        None => assert_eq!(texts(&records), numbers(0..fetched_max)),
    }
}

pub fn trimming_everything_keeps_offsets_growing(bed: &mut dyn LogBed) {
    let log = open(bed);
    let last = append_numbers(&log, 0..10)[9];
    log.trim(&partition(), Offset(u64::MAX)).expect("a partition can be trimmed to its end");
    let start = log.start(&partition()).expect("the partition has a start");
    assert_eq!(Ok(start), end(&log, &partition()));
    drop(log);
    let log = open(bed);
    assert_eq!(log.start(&partition()), Ok(start));
    assert!(append_numbers(&log, 10..11)[0] > last, "an offset is never given twice");
    assert_eq!(texts(&read_all(&log, &partition(), start).records), numbers(10..11));
}

pub fn everything_acknowledged_is_there_after_opening_again(bed: &mut dyn LogBed) {
    let mut expected = Vec::new();
    for round in 0..3 {
        let log = open(bed);
        assert_eq!(read_all(&log, &partition(), Offset(0)).records, expected, "before round {round}");
        append_numbers(&log, round * 100..round * 100 + 100);
        expected = read_all(&log, &partition(), Offset(0)).records;
        assert_eq!(texts(&expected), numbers(0..round * 100 + 100));
    }
}
