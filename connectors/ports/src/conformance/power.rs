//! The promises of a log that acknowledges and shows data before it is durable.

use super::log::LogBed;
use super::reading::{Follower, append, end, read_all, record, send, texts, wait};
use crate::log::{Lane, Log};
use rehome_keyspace::Offset;
use rehome_records::TopicPartition;
use std::sync::Arc;

/// Opens a log that syncs data only when it must.
pub trait PowerBed: LogBed {
    /// Loses power while the log that was opened last is in use: it and every process are gone, and of what was not
    /// synced all or a part is lost. Returns the log opened again.
    fn lose_power(&mut self, log: Arc<dyn Log>) -> Arc<dyn Log>;
}

fn partitions() -> [TopicPartition; 2] {
    [0, 1].map(|number| TopicPartition::new("rehome.flights-7.data", number))
}

fn open(bed: &mut dyn PowerBed) -> Arc<dyn Log> {
    let log = bed.open();
    log.ensure_topic(&partitions()[0].topic, 2).expect("a topic can be created");
    log
}

/// Appends to both partitions in turn; returns what was appended, in order.
fn append_in_turn(log: &Arc<dyn Log>, numbers: std::ops::Range<usize>) -> Vec<(usize, Offset, String)> {
    let mut appended = Vec::new();
    for number in numbers {
        let text = number.to_string();
        let offset = append(log, &partitions()[number % 2], &[&text])[0];
        appended.push((number % 2, offset, text));
    }
    appended
}

/// Returns how many of the appended records are there. Those are the first ones, and nothing else is there.
fn kept(log: &Arc<dyn Log>, appended: &[(usize, Offset, String)]) -> usize {
    let found: Vec<_> = partitions().iter().map(|name| read_all(log, name, Offset(0)).records).collect();
    let count: usize = found.iter().map(Vec::len).sum();
    for (partition, records) in found.iter().enumerate() {
        let of_it: Vec<_> = appended[..count].iter().filter(|(of, ..)| *of == partition).collect();
        assert_eq!(records.iter().map(|logged| logged.offset).collect::<Vec<_>>(), offsets(&of_it), "no hole");
        assert_eq!(texts(records), of_it.iter().map(|(.., text)| text.clone()).collect::<Vec<_>>());
    }
    count
}

fn offsets(appended: &[&(usize, Offset, String)]) -> Vec<Offset> {
    appended.iter().map(|(_, offset, _)| *offset).collect()
}

pub fn what_a_power_loss_takes_is_an_end_and_was_not_synced(bed: &mut dyn PowerBed) {
    let mut log = open(bed);
    let mut there = Vec::new();
    for round in 0..4 {
        let base = round * 100;
        there.extend(append_in_turn(&log, base..base + 30));
        log.sync().expect("the log can be synced");
        let synced = there.len();
        there.extend(append_in_turn(&log, base + 30..base + 50));
        log = bed.lose_power(log);
        let kept = kept(&log, &there);
        assert!(kept >= synced, "{kept} records are left of {synced} that were synced");
        there.truncate(kept);
    }
}

pub fn an_append_in_the_protocol_lane_is_durable_with_everything_before_it(bed: &mut dyn PowerBed) {
    let log = open(bed);
    let mut there = append_in_turn(&log, 0..30);
    let mark = wait(&send(&log, &partitions()[0], Lane::Protocol, vec![record("mark")])).expect("the log takes a mark");
    there.push((0, mark[0], "mark".into()));
    let durable = there.len();
    there.extend(append_in_turn(&log, 31..60));
    let log = bed.lose_power(log);
    assert!(kept(&log, &there) >= durable);
}

pub fn an_offset_that_was_given_is_not_given_again_after_it_was_lost(bed: &mut dyn PowerBed) {
    let mut log = open(bed);
    let mut given = Vec::new();
    for round in 0..4 {
        let appended = append_in_turn(&log, round * 100..round * 100 + 20);
        for partition in 0..2 {
            let fresh = offsets(&appended.iter().filter(|(of, ..)| *of == partition).collect::<Vec<_>>());
            let before: Vec<_> = given.iter().filter(|(of, _)| *of == partition).map(|(_, offset)| *offset).collect();
            assert!(before.iter().max() < fresh.iter().min(), "round {round}: {before:?}, then {fresh:?}");
            given.extend(fresh.into_iter().map(|offset| (partition, offset)));
        }
        log = bed.lose_power(log);
    }
}

pub fn a_tail_passes_what_was_lost(bed: &mut dyn PowerBed) {
    let log = open(bed);
    append_in_turn(&log, 0..20);
    let log = bed.lose_power(log);
    let partition = &partitions()[0];
    let left = read_all(&log, partition, Offset(0));
    assert_eq!(Ok(left.next), end(&log, partition), "a tail that has read everything stands at the end");
    let mut follower = Follower::new(&log, partition, left.records.last().map_or(Offset(0), |last| last.offset.next()));
    append(&log, partition, &["after"]);
    assert_eq!(texts(&follower.read(1).records), ["after"]);
}
