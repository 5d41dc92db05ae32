//! Attempts: what their marks do, who wins, and what never comes back. One test per rule that was found to matter.

use crate::replica::{Replica, copied, fenced, fold, moved};
use crate::world::{World, forged_nonce};
use rehome_keyspace::{AttemptId, Epoch, MoveId, Offset, ShardId};
use rehome_records::{Mark, SlotState, Verdict};
use rehome_shard_core::{MarkEffect, Stop, WaitFor};

/// Shards 0 and 1; a move of key 0 from 0 to 1 is copied. Epochs of attempts start at 3.
fn start() -> (World, Replica, Replica, MoveId) {
    let mut world = World::new(2);
    let (mut p0, mut p1) = (Replica::new(&world, 0), Replica::new(&world, 1));
    world.write(0, world.put(0, 1, "first"));
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0]);
    (world, p0, p1, move_id)
}

fn is_accepted(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Accepted { .. })
}

fn owned(epoch: u64) -> SlotState {
    SlotState::Owned { epoch: Epoch(epoch) }
}

fn closed(highest: u64) -> SlotState {
    SlotState::Closed { highest: Epoch(highest) }
}

#[test]
fn after_an_abort_a_delayed_write_of_the_old_epoch_is_refused() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.abort(attempt);
    p0.fold(&world);
    world.write(0, world.put(0, 3, "new"));
    assert!(is_accepted(p0.verdict(&world)));
    world.write(0, world.put(0, 1, "delayed"));
    assert_eq!(p0.verdict(&world), Verdict::StaleRoute);
}

#[test]
fn a_write_under_a_guessed_epoch_waits_for_the_outcome() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    for (shard, replica) in [(0, &mut p0), (1, &mut p1)] {
        world.write(shard, world.put(0, 3, "guessed"));
        let before = (replica.view.clone(), replica.core.applied());
        assert_eq!(replica.drain(&world), Err(Stop::Wait(WaitFor::Outcome(attempt))));
        assert!(before == (replica.view.clone(), replica.core.applied()), "nothing changes while it waits");
    }
    world.switch(attempt);
    fold(&world, [&mut p0, &mut p1]);
    assert_eq!(p0.verdict(&world), Verdict::StaleRoute);
    assert!(is_accepted(p1.verdict(&world)));
}

#[test]
fn a_lagging_destination_owns_nothing_before_its_own_replay_reaches_the_fence() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let mut lagging = Replica::new(&world, 1);
    lagging.ingest(&world, world.moves[&move_id].copy.as_ref().unwrap());
    world.write(0, world.put(0, 1, "second"));
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.switch(attempt);
    let fence = world.fenced_at(attempt).unwrap();
    world.write(1, world.put(0, 3, "third"));
    lagging.fold(&world);
    let wait = Err(Stop::Wait(WaitFor::Replay { move_id, fence }));
    assert_eq!(lagging.drain(&world), wait);
    assert!(!lagging.settle(&world));
    // A later mark waits as well.
    let back = world.start_move(1, 0, &[0]);
    let second = world.start_attempt(back);
    world.fence(second);
    lagging.fold(&world);
    assert_eq!(lagging.drain(&world), wait);
    lagging.replay(&world, move_id).unwrap();
    lagging.drain(&world).unwrap();
    assert_eq!(lagging.state(&world, 0), SlotState::Contested { attempt: second, epoch: Epoch(4) });
}

#[test]
fn a_destination_without_a_copy_never_owns_what_was_switched() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.switch(attempt);
    let mut bare = Replica::new(&world, 1);
    bare.drain(&world).unwrap();
    let fence = world.fenced_at(attempt).unwrap();
    assert!(!bare.settle(&world));
    world.write(1, world.put(0, 3, "new"));
    assert_eq!(bare.drain(&world), Err(Stop::Wait(WaitFor::Replay { move_id, fence })));
}

#[test]
fn the_replay_goes_on_after_the_move_completed() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let mut lagging = Replica::new(&world, 1);
    lagging.ingest(&world, world.moves[&move_id].copy.as_ref().unwrap());
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.switch(attempt);
    p0.fold(&world);
    p0.settle(&world);
    assert!(p0.core.all_closed(&world.moves[&move_id].selector));
    p0.wipe(&world.moves[&move_id].selector);
    let facts = world.control.facts(attempt);
    assert!(!lagging.core.passed(&facts));
    lagging.fold(&world);
    lagging.replay(&world, move_id).unwrap();
    lagging.drain(&world).unwrap();
    assert!(!lagging.core.passed(&facts), "the keys are contested still");
    assert!(lagging.settle(&world));
    assert!(lagging.core.passed(&facts) && p0.core.passed(&facts));
    lagging.forget(&world, move_id);
    assert_eq!(lagging.state(&world, 0), owned(3));
}

#[test]
fn an_earlier_attempt_is_resolved_before_a_mark_is_judged() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.switch(attempt);
    // Nobody writes; the way back begins with the keys still contested in both stores.
    let back = world.start_move(1, 0, &[0]);
    let second = world.start_attempt(back);
    world.open(second);
    world.fence(second);
    fold(&world, [&mut p0, &mut p1]);
    assert_eq!(p1.effect(&world), MarkEffect::Fenced);
    assert_eq!(p0.effect(&world), MarkEffect::Opened);
}

#[test]
fn a_mark_waits_for_the_outcome_of_an_earlier_attempt() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let first = fenced(&mut world, &mut p0, &mut p1, move_id);
    let second = world.start_attempt(move_id);
    world.open(second);
    world.fence(second);
    for replica in [&mut p0, &mut p1] {
        replica.fold(&world);
        assert_eq!(replica.drain(&world), Err(Stop::Wait(WaitFor::Outcome(first))));
    }
    world.abort(first);
    fold(&world, [&mut p0, &mut p1]);
    assert_eq!(p0.effect(&world), MarkEffect::Fenced);
    assert_eq!(p1.effect(&world), MarkEffect::Opened);
}

#[test]
fn the_winner_is_judged_by_role_not_by_having_the_mark() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let attempt = world.start_attempt(move_id);
    world.fence(attempt);
    world.abort(attempt);
    p0.fold(&world);
    p0.drain(&world).unwrap();
    world.open(attempt);
    p1.fold(&world);
    assert_eq!(p1.effect(&world), MarkEffect::Opened);
    world.write(1, world.put(0, 3, "misrouted"));
    assert_eq!(p1.verdict(&world), Verdict::StaleRoute);
    assert_eq!(p1.state(&world, 0), closed(3));
    world.write(0, world.put(0, 3, "routed"));
    assert!(is_accepted(p0.verdict(&world)));
}

#[test]
fn an_open_below_an_epoch_that_the_key_has_had_is_ignored() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let first = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.switch(first);
    fold(&world, [&mut p0, &mut p1]);
    p0.settle(&world);
    p1.settle(&world);
    p0.wipe(&world.moves[&move_id].selector);
    let back = copied(&mut world, &mut p1, &mut p0, &[0]);
    let second = fenced(&mut world, &mut p1, &mut p0, back);
    world.open(first);
    assert_eq!(p1.effect(&world), MarkEffect::Ignored);
    world.write(1, world.put(0, 3, "late"));
    assert_eq!(p1.verdict(&world), Verdict::StaleRoute);
    world.switch(second);
    fold(&world, [&mut p0, &mut p1]);
    p1.settle(&world);
    world.open(first);
    assert_eq!(p1.effect(&world), MarkEffect::Ignored);
    assert_eq!(p1.state(&world, 0), closed(4));
}

#[test]
fn a_loser_keeps_its_highest_epoch_also_when_its_rows_are_gone() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.abort(attempt);
    p1.fold(&world);
    p1.settle(&world);
    let selector = world.moves[&move_id].selector.clone();
    p1.forget(&world, move_id);
    p1.wipe(&selector);
    p1.crash(&world, 0);
    p1.fold(&world);
    assert_eq!(p1.state(&world, 0), closed(3));
    world.open(attempt);
    assert_eq!(p1.effect(&world), MarkEffect::Ignored);
}

#[test]
fn a_doubled_fence_of_an_aborted_attempt_closes_nothing() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let first = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.abort(first);
    let second = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.abort(second);
    p0.fold(&world);
    world.write(0, world.put(0, 4, "new"));
    assert!(is_accepted(p0.verdict(&world)));
    for doubled in [first, second] {
        world.fence(doubled);
        assert_eq!(p0.effect(&world), MarkEffect::Ignored);
    }
    for (epoch, accepted) in [(3, false), (4, true)] {
        world.write(0, world.put(0, epoch, "then"));
        assert_eq!(is_accepted(p0.verdict(&world)), accepted);
    }
}

#[test]
fn doubled_marks_are_ignored_and_the_first_positions_are_kept() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    let (source, destination) = (p0.ready(&world, attempt).unwrap(), p1.ready(&world, attempt).unwrap());
    world.open(attempt);
    world.fence(attempt);
    assert_eq!(p1.effect(&world), MarkEffect::Ignored);
    assert_eq!(p0.effect(&world), MarkEffect::Ignored);
    p1.replay(&world, move_id).unwrap();
    assert_eq!(p0.ready(&world, attempt), Some(source));
    assert_eq!(p1.ready(&world, attempt), Some(destination));
    assert_eq!(source.fence, world.fenced_at(attempt).unwrap());
    assert_eq!(source.digest, destination.digest);
    assert!(source.open.is_none() && destination.open.is_some());
}

#[test]
fn ready_is_of_exactly_this_attempt() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let first = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.abort(first);
    let second = world.start_attempt(move_id);
    fold(&world, [&mut p0, &mut p1]);
    assert!(p0.ready(&world, second).is_none() && p1.ready(&world, second).is_none());
    world.fence(second);
    p0.drain(&world).unwrap();
    p1.replay(&world, move_id).unwrap();
    assert!(p0.ready(&world, second).is_some());
    assert!(p1.ready(&world, second).is_none(), "its own partition has no open of it yet");
    world.open(second);
    p1.drain(&world).unwrap();
    assert_eq!(p1.ready(&world, second).unwrap().fence, p0.ready(&world, second).unwrap().fence);
    assert!(p0.ready(&world, first).is_none() && p1.ready(&world, first).is_none());
}

#[test]
fn a_stray_mark_is_refused() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let attempt = world.start_attempt(move_id);
    fold(&world, [&mut p0, &mut p1]);
    let mark = world.mark(attempt);
    let mut elsewhere = mark.clone();
    elsewhere.selector = world.selector(&[0, 1]);
    let mut promoted = mark.clone();
    promoted.epoch = Epoch(9);
    let mut backdated = mark.clone();
    backdated.control_offset = Offset(0);
    let mut renamed = mark.clone();
    renamed.move_id = MoveId(9);
    for forged in [forged_nonce(mark.clone()), elsewhere, promoted, backdated, renamed] {
        world.append(ShardId(0), Mark::Fence(forged).into_record(), 0);
        assert!(matches!(p0.effect(&world), MarkEffect::Refused { .. }));
    }
    // Right, but in the wrong partition.
    world.append(ShardId(1), Mark::Fence(mark.clone()).into_record(), 0);
    assert!(matches!(p1.effect(&world), MarkEffect::Refused { .. }));
    world.append(ShardId(0), Mark::Open(mark).into_record(), 0);
    assert!(matches!(p0.effect(&world), MarkEffect::Refused { .. }));
    world.write(0, world.put(0, 1, "goes on"));
    assert!(is_accepted(p0.verdict(&world)));
}

#[test]
fn a_mark_waits_until_the_control_log_is_folded_past_what_it_cites() {
    let (mut world, mut p0, _, move_id) = start();
    let attempt = world.start_attempt(move_id);
    world.fence(attempt);
    let cited = world.control.facts(attempt).control_offset;
    p0.folded = cited;
    assert_eq!(p0.drain(&world), Err(Stop::Wait(WaitFor::Control(cited))));
    p0.folded = cited.next();
    assert_eq!(p0.effect(&world), MarkEffect::Fenced);
}

#[test]
fn a_mark_that_cites_beyond_the_end_of_the_control_log_stalls_nothing() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let attempt = world.start_attempt(move_id);
    let mut forged = world.mark(attempt);
    forged.attempt = AttemptId(51);
    forged.control_offset = Offset(u64::MAX);
    world.append(ShardId(0), Mark::Fence(forged).into_record(), 0);
    world.write(0, world.put(0, 1, "goes on"));
    assert!(is_accepted(p0.verdict(&world)));
    p1.replay(&world, move_id).unwrap();
    let last = world.partitions[&ShardId(0)].last().unwrap().offset;
    assert_eq!(p1.core.inbound(move_id).unwrap().replay.as_ref().unwrap().position, Some(last));
}

#[test]
fn two_marks_that_cite_nothing_are_refused_whichever_is_judged_first() {
    let (mut world, _, mut p1, move_id) = start();
    let attempt = world.start_attempt(move_id);
    let mut forged = world.mark(attempt);
    forged.attempt = AttemptId(51);
    forged.control_offset = Offset(u64::MAX);
    let own = world.append(ShardId(1), Mark::Open(forged.clone()).into_record(), 0);
    let sources = world.append(ShardId(0), Mark::Fence(forged).into_record(), 0);
    // The end of the control log was told for both before either is given again.
    p1.core.refuse_unfounded(None, own);
    p1.core.refuse_unfounded(Some(move_id), sources);
    let logged = |shard, offset| {
        let found = world.partitions[&ShardId(shard)].iter().find(|logged| logged.offset == offset);
        found.cloned().expect("just appended")
    };
    let (own, sources) = (logged(1, own), logged(0, sources));
    let applied = p1.batch(&world, |core, ground| core.apply(&own, ground)).expect("the live tail goes on");
    assert!(matches!(applied.mark.expect("a mark").effect, MarkEffect::Refused { .. }));
    p1.batch(&world, |core, ground| core.replay(move_id, &sources, ground)).expect("the replay goes on");
}

#[test]
fn two_opposite_moves_with_forged_epochs_are_freed_by_aborts() {
    let mut world = World::new(2);
    let (mut p0, mut p1) = (Replica::new(&world, 0), Replica::new(&world, 1));
    world.write(0, world.put(0, 1, "a"));
    world.write(1, world.put(3, 2, "b"));
    let there = copied(&mut world, &mut p0, &mut p1, &[0]);
    let here = copied(&mut world, &mut p1, &mut p0, &[3]);
    let (a, b) = (world.start_attempt(there), world.start_attempt(here));
    world.open(a);
    world.open(b);
    // Each destination waits for the outcome of one attempt before the fence of the other.
    world.write(1, world.put(0, 3, "forged"));
    world.write(0, world.put(3, 4, "forged"));
    world.fence(a);
    world.fence(b);
    fold(&world, [&mut p0, &mut p1]);
    assert_eq!(p1.drain(&world), Err(Stop::Wait(WaitFor::Outcome(a))));
    assert_eq!(p0.drain(&world), Err(Stop::Wait(WaitFor::Outcome(b))));
    world.abort(a);
    world.abort(b);
    fold(&world, [&mut p0, &mut p1]);
    assert_eq!(p1.effect(&world), MarkEffect::Fenced);
    assert_eq!(p0.effect(&world), MarkEffect::Fenced);
}

#[test]
fn nothing_of_the_sources_partition_is_replayed_after_the_fence_of_the_switch() {
    let (mut world, mut p0, mut p1, move_id) = start();
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.switch(attempt);
    fold(&world, [&mut p0, &mut p1]);
    p0.settle(&world);
    p1.settle(&world);
    p0.wipe(&world.moves[&move_id].selector);
    moved(&mut world, &mut p1, &mut p0, &[0]);
    world.write(0, world.put(0, 4, "back home"));
    assert!(is_accepted(p0.verdict(&world)));
    let before = p1.view.0.clone();
    p1.replay(&world, move_id).unwrap();
    let rows = |view: &std::collections::BTreeMap<Vec<u8>, Vec<u8>>| -> Vec<_> {
        view.iter().filter(|(key, _)| key[0] >= 0x10).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    assert_eq!(rows(&p1.view.0), rows(&before), "the old owner's store takes in none of it");
}
