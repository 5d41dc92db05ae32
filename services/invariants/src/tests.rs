//! Each predicate is silent on a sound history and speaks on one with a planted fault.

use super::*;
use rehome_keyspace::{AttemptId, Epoch, JobId, KeyRange, Offset, PlacedKey, RequestId, Selector, ShardId, Version};
use rehome_records::{Digest, SourcePosition};

fn range(start: u8, end: u8) -> KeyRange {
    KeyRange::new(vec![start], Some(vec![end]))
}

fn selector(start: u8, end: u8) -> Selector {
    Selector::new(vec![range(start, end)])
}

fn version(epoch: u64, offset: u64) -> Version {
    Version { epoch: Epoch(epoch), offset: Offset(offset) }
}

fn write(shard: u32, epoch: u64, offset: u64, value: Option<&[u8]>) -> Accepted {
    Accepted {
        shard: ShardId(shard),
        placed: key(),
        version: version(epoch, offset),
        request: Some(RequestId([epoch as u8 * 16 + offset as u8; 16])),
        source: Some(SourcePosition { source: "s".into(), position: epoch * 100 + offset }),
        rows: vec![(b"r".to_vec(), value.map(<[u8]>::to_vec))],
    }
}

fn ack(version: Version, asked: u64, answered: u64) -> Ack {
    let (asked, answered) = (Moment(asked), Moment(answered));
    Ack { placed: key(), sort_keys: vec![b"r".to_vec()], version, asked, answered }
}

fn read(asked: u64, found: Option<(Version, &[u8])>) -> Read {
    Read {
        placed: key(),
        sort_key: b"r".to_vec(),
        asked: Moment(asked),
        found: found.map(|(version, value)| (version, value.to_vec())),
        served_by: vec![if asked < 8 { (ShardId(0), Epoch(1)) } else { (ShardId(1), Epoch(3)) }],
    }
}

fn key() -> PlacedKey {
    PlacedKey(vec![5, 5])
}

/// Shard 0 owns keys 0 to 10 under epoch 1; at offset 10 they are fenced and go to shard 1 under epoch 3.
fn sound() -> History {
    let grant = |epoch, shard, selector| Grant { epoch: Epoch(epoch), shard: ShardId(shard), selector };
    let state = |replica| ReplicaState {
        shard: ShardId(0),
        replica,
        position: Offset(10),
        ranges: vec![range(0, 20)],
        hash: 7,
    };
    History {
        grants: vec![grant(1, 0, selector(0, 10)), grant(2, 1, selector(10, 20)), grant(3, 1, selector(0, 10))],
        fences: vec![Fence {
            attempt: AttemptId(1),
            shard: ShardId(0),
            selector: selector(0, 10),
            epoch: Epoch(3),
            offset: Offset(10),
        }],
        cutovers: vec![Cutover {
            attempt: AttemptId(1),
            source: Some(Digest::default()),
            destinations: vec![Digest::default()],
        }],
        accepted: vec![write(0, 1, 1, Some(b"a")), write(0, 1, 2, None), write(1, 3, 1, Some(b"b"))],
        acks: vec![ack(version(1, 1), 1, 2), ack(version(1, 2), 3, 4), ack(version(3, 1), 6, 7)],
        reads: vec![
            read(1, None),
            read(3, Some((version(1, 1), b"a"))),
            read(5, None),
            read(8, Some((version(3, 1), b"b"))),
        ],
        scans: vec![Scan {
            asked: selector(0, 20),
            covered: vec![(range(0, 10), ShardId(1), Epoch(3))],
            missing: vec![range(10, 20)],
        }],
        replicas: vec![state(0), state(1)],
        visible: Some(Visible {
            owners: vec![(range(0, 20), ShardId(1))],
            rows: vec![VisibleRow {
                shard: ShardId(1),
                placed: key(),
                sort_key: b"r".to_vec(),
                version: version(3, 1),
                value: b"b".to_vec(),
            }],
        }),
        jobs: vec![Job { job: JobId(1), end: Some(JobEnd::Completed) }],
    }
}

#[track_caller]
fn breaks(id: Invariant, plant: impl FnOnce(&mut History)) {
    let mut history = sound();
    plant(&mut history);
    let mut found = violations(&history);
    found.extend(r11_every_job_ends(&history).err());
    assert!(found.iter().any(|violation| violation.id == id), "{id:?} is silent: {found:?}");
}

#[test]
fn a_sound_history_breaks_nothing() {
    assert_eq!(violations(&sound()), Vec::new());
    assert_eq!(r11_every_job_ends(&sound()), Ok(()));
    assert_eq!(violations(&History::default()), Vec::new());
}

#[test]
fn r1_speaks_when_an_epoch_is_granted_twice() {
    breaks(Invariant::R1, |history| history.grants[1].epoch = Epoch(1));
}

#[test]
fn r2_speaks_when_a_write_is_accepted_by_another_shard_or_for_another_key() {
    breaks(Invariant::R2, |history| history.accepted[0].shard = ShardId(1));
    breaks(Invariant::R2, |history| history.grants[0].selector = selector(6, 10));
    breaks(Invariant::R2, |history| history.accepted[0].version.epoch = Epoch(9));
}

#[test]
fn r3_speaks_when_an_old_epoch_writes_after_the_fence_or_elsewhere() {
    breaks(Invariant::R3, |history| history.accepted.push(write(0, 1, 11, Some(b"late"))));
    breaks(Invariant::R3, |history| history.accepted.push(write(1, 1, 3, Some(b"misrouted"))));
}

#[test]
fn r4_speaks_when_digests_differ_unless_it_was_waived() {
    breaks(Invariant::R4, |history| history.cutovers[0].destinations[0].tombstone_count = 1);
    let mut history = sound();
    history.cutovers[0].destinations[0].tombstone_count = 1;
    history.cutovers[0].source = None;
    assert_eq!(r4_digests_are_equal_at_a_switch(&history), Ok(()));
}

#[test]
fn r5_speaks_when_an_answered_write_is_not_read() {
    breaks(Invariant::R5, |history| history.acks.push(ack(version(3, 2), 8, 9)));
    breaks(Invariant::R5, |history| history.reads.push(read(8, None)));
    breaks(Invariant::R5, |history| history.reads.push(read(8, Some((version(1, 1), b"a")))));
    breaks(Invariant::R5, |history| history.reads.push(read(8, Some((version(3, 1), b"c")))));
    breaks(Invariant::R5, |history| history.visible.as_mut().unwrap().rows.clear());
    breaks(Invariant::R5, |history| history.visible.as_mut().unwrap().rows[0].value = b"c".to_vec());
}

#[test]
fn r6_speaks_when_a_request_or_a_source_position_is_done_twice() {
    breaks(Invariant::R6, |history| history.accepted[2].request = history.accepted[0].request);
    breaks(Invariant::R6, |history| history.accepted[2].source = history.accepted[0].source.clone());
}

#[test]
fn r7_speaks_when_a_deleted_row_is_back() {
    breaks(Invariant::R7, |history| history.reads.push(read(5, Some((version(1, 1), b"a")))));
    breaks(Invariant::R7, |history| history.accepted.push(write(1, 3, 2, None)));
}

#[test]
fn r8_speaks_when_epochs_fall_or_a_later_write_is_older() {
    breaks(Invariant::R8, |history| history.accepted.push(write(1, 2, 7, Some(b"x"))));
    breaks(Invariant::R8, |history| history.acks[2].answered = Moment(0));
    breaks(Invariant::R8, |history| history.accepted.push(write(0, 2, 2, None)));
}

#[test]
fn r9_speaks_when_replicas_differ_at_one_position() {
    breaks(Invariant::R9, |history| history.replicas[1].hash = 8);
}

#[test]
fn r10_speaks_when_a_row_is_visible_elsewhere_or_owned_by_nobody() {
    breaks(Invariant::R10, |history| history.visible.as_mut().unwrap().rows[0].shard = ShardId(0));
    breaks(Invariant::R10, |history| history.visible.as_mut().unwrap().owners.clear());
}

#[test]
fn r11_speaks_when_a_job_never_ends_or_fails_without_a_reason() {
    breaks(Invariant::R11, |history| history.jobs[0].end = None);
    breaks(Invariant::R11, |history| history.jobs[0].end = Some(JobEnd::Failed { reason: String::new() }));
}

#[test]
fn r12_speaks_when_a_read_mixes_owners_or_a_scan_is_not_whole() {
    breaks(Invariant::R12, |history| history.reads[1].served_by.push((ShardId(1), Epoch(3))));
    breaks(Invariant::R12, |history| history.reads[3].served_by = vec![(ShardId(0), Epoch(1))]);
    breaks(Invariant::R12, |history| history.reads[1].served_by = vec![(ShardId(1), Epoch(1))]);
    breaks(Invariant::R12, |history| history.reads[1].served_by = vec![(ShardId(1), Epoch(2))]);
    breaks(Invariant::R12, |history| {
        history.reads.push(Read { served_by: vec![(ShardId(0), Epoch(1))], ..read(8, None) });
    });
    breaks(Invariant::R12, |history| history.scans[0].covered[0].1 = ShardId(0));
    breaks(Invariant::R12, |history| history.scans[0].covered[0].0 = range(0, 11));
    breaks(Invariant::R12, |history| history.scans[0].missing.clear());
    breaks(Invariant::R12, |history| history.scans[0].covered.push((range(9, 10), ShardId(0), Epoch(1))));
}
