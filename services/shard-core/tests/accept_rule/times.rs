//! Which records are older than request ids are kept: by the log's time, whatever is restarted.

use crate::replica::Replica;
use crate::world::{RETENTION_MS, World};
use rehome_keyspace::{Offset, ShardId};
use rehome_records::store_key;
use rehome_records::store_value::StoredTimes;

/// Milliseconds between two samples.
const STEP_MS: u64 = RETENTION_MS / 24;
const START_MS: u64 = 50_000;

fn put(world: &mut World, time_ms: u64) -> Offset {
    let write = world.put(0, 1, "a");
    world.append_at(ShardId(0), write.into_record(), time_ms)
}

/// Appends and applies a write at each time, and returns the offsets.
fn applied(world: &mut World, replica: &mut Replica, times_ms: impl IntoIterator<Item = u64>) -> Vec<Offset> {
    let offsets = times_ms.into_iter().map(|time_ms| put(world, time_ms)).collect();
    replica.drain(world).unwrap();
    offsets
}

fn stored(replica: &Replica) -> StoredTimes {
    StoredTimes::decode(&replica.view.0[&store_key::times()]).unwrap()
}

fn start() -> (World, Replica) {
    let world = World::new(2);
    let replica = Replica::new(&world, 0);
    (world, replica)
}

#[test]
fn nothing_is_old_before_the_log_has_run_for_the_retention() {
    let (mut world, mut replica) = start();
    assert_eq!(replica.core.horizon(), None, "an empty partition");
    let offsets = applied(&mut world, &mut replica, [START_MS, START_MS + RETENTION_MS - 1]);
    assert_eq!(replica.core.horizon(), None);
    applied(&mut world, &mut replica, [START_MS + RETENTION_MS]);
    assert_eq!(replica.core.horizon(), Some(offsets[0]));
}

#[test]
fn a_sample_is_taken_of_the_first_record_at_or_after_each_step() {
    let (mut world, mut replica) = start();
    let times = [0, 1, STEP_MS - 1, STEP_MS, STEP_MS + 1, 5 * STEP_MS + 7, 6 * STEP_MS, 6 * STEP_MS + 7];
    let offsets = applied(&mut world, &mut replica, times.map(|after| START_MS + after));
    let taken: Vec<Offset> = stored(&replica).samples.iter().map(|sample| sample.offset).collect();
    assert_eq!(taken, [0, 3, 5, 7].map(|index| offsets[index]));
    // The third sample is old, the fourth is not.
    applied(&mut world, &mut replica, [START_MS + RETENTION_MS + 6 * STEP_MS]);
    assert_eq!(replica.core.horizon(), Some(offsets[5]));
}

#[test]
fn a_time_that_falls_back_counts_as_the_highest_before_it() {
    let (mut world, mut replica) = start();
    applied(&mut world, &mut replica, [START_MS + RETENTION_MS]);
    applied(&mut world, &mut replica, [START_MS, START_MS + STEP_MS]);
    assert_eq!(stored(&replica).samples.len(), 1, "the log's time stands still");
    applied(&mut world, &mut replica, [START_MS + 2 * RETENTION_MS - 1]);
    assert_eq!(replica.core.horizon(), None);
}

#[test]
fn a_bounded_number_of_samples_is_kept_and_the_horizon_follows_within_a_step() {
    let (mut world, mut replica) = start();
    let mut appended = Vec::new();
    for time_ms in (START_MS..START_MS + 4 * RETENTION_MS).step_by(STEP_MS as usize / 5) {
        appended.push((time_ms, applied(&mut world, &mut replica, [time_ms])[0]));
        assert!(stored(&replica).samples.len() <= 26, "{}", stored(&replica).samples.len());
        let offset_at = |time_ms: u64| appended.iter().rev().find(|(at_ms, _)| *at_ms <= time_ms).map(|(_, at)| *at);
        let horizon = replica.core.horizon();
        assert!(horizon <= offset_at(time_ms - RETENTION_MS), "nothing is forgotten early");
        assert!(horizon >= offset_at(time_ms - RETENTION_MS - STEP_MS), "nor more than a step late");
    }
    assert!(replica.core.horizon().is_some());
}

#[test]
fn a_restart_and_another_split_into_batches_change_nothing() {
    let (mut world, mut replica) = start();
    for number in 0..200 {
        put(&mut world, START_MS + number * 37 % 1_000 + number * 31);
    }
    let mut whole = Replica::new(&world, 0);
    whole.apply_batch(&world, usize::MAX, &mut |_, _, _, _| {}).unwrap();
    assert!(whole.core.horizon().is_some());
    let mut restarts = 0;
    while replica.apply_batch(&world, 3, &mut |_, _, _, _| {}).unwrap() > 0 {
        restarts += 1;
        let before = replica.core.horizon();
        // Loses one batch every other time, none else.
        replica.crash(&world, restarts % 2);
        if restarts % 2 == 0 {
            assert_eq!(replica.core.horizon(), before);
            replica.flush();
        } else {
            replica.fold(&world);
            replica.apply_batch(&world, 3, &mut |_, _, _, _| {}).unwrap();
            assert_eq!(replica.core.horizon(), before);
        }
        replica.fold(&world);
    }
    assert!(restarts > 50);
    assert_eq!(replica.core.horizon(), whole.core.horizon());
    assert_eq!(stored(&replica), stored(&whole));
}
