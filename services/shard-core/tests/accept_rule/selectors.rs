//! Several slots, pins and merges: states are kept by region, and a selector is what its move says.

use crate::replica::{Replica, copied, fenced, moved};
use crate::world::{World, from_source};
use rehome_keyspace::{AttemptFacts, AttemptId, Attempts, Epoch, Offset, ShardId};
use rehome_records::{SlotState, Verdict};
use rehome_shard_core::{MarkEffect, Stop};

fn start() -> (World, Replica, Replica) {
    let world = World::new(2);
    let (p0, p1) = (Replica::new(&world, 0), Replica::new(&world, 1));
    (world, p0, p1)
}

/// Shard 0 owns keys 0 and 1 under epochs 3 (an aborted attempt) and 1.
fn mixed() -> (World, Replica, Replica) {
    let (mut world, mut p0, mut p1) = start();
    world.write(0, world.put(0, 1, "a"));
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0]);
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.abort(attempt);
    for replica in [&mut p0, &mut p1] {
        replica.fold(&world);
        replica.settle(&world);
        replica.forget(&world, move_id);
    }
    p1.wipe(&world.selector(&[0]));
    (world, p0, p1)
}

fn accepts(world: &mut World, replica: &mut Replica, key: usize, epoch: u64) -> bool {
    world.write(replica.shard.0, world.put(key, epoch, "v"));
    matches!(replica.verdict(world), Verdict::Accepted { .. })
}

#[test]
fn a_mark_divides_regions_and_each_part_keeps_its_state() {
    let (mut world, mut p0, _) = mixed();
    for (key, epoch) in [(0, 3), (1, 1), (2, 1), (6, 1)] {
        assert_eq!(p0.state(&world, key), SlotState::Owned { epoch: Epoch(epoch) }, "key {key}");
        for tried in [1, 3] {
            assert_eq!(accepts(&mut world, &mut p0, key, tried), tried == epoch);
        }
    }
    assert_eq!(p0.state(&world, 3), SlotState::Closed { highest: Epoch(0) });
}

#[test]
fn keys_of_mixed_epochs_move_together_under_one_new_epoch() {
    let (mut world, mut p0, mut p1) = mixed();
    world.write(0, world.put(1, 1, "b"));
    moved(&mut world, &mut p0, &mut p1, &[0, 1, 2]);
    for key in [0, 1, 2] {
        assert_eq!(p1.state(&world, key), SlotState::Owned { epoch: Epoch(4) });
        assert_eq!(p0.state(&world, key), SlotState::Closed { highest: Epoch(4) });
        assert!(accepts(&mut world, &mut p1, key, 4));
    }
    assert_eq!(p0.state(&world, 6), SlotState::Owned { epoch: Epoch(1) });
}

#[test]
fn replay_judges_each_region_by_its_own_state() {
    let (mut world, mut p0, mut p1) = mixed();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1, 2]);
    for (key, epoch) in [(0, 1), (0, 3), (1, 1), (1, 3)] {
        world.write(0, world.put(key, epoch, "v"));
    }
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    assert_eq!(p0.ready(&world, attempt).unwrap().digest, p1.ready(&world, attempt).unwrap().digest);
}

#[test]
fn a_pin_changes_no_state() {
    // Pinning is a control record only. The pinned key keeps shard and epoch, and moves alone.
    let (mut world, mut p0, mut p1) = start();
    assert!(accepts(&mut world, &mut p0, 1, 1));
    moved(&mut world, &mut p0, &mut p1, &[1]);
    assert!(accepts(&mut world, &mut p1, 1, 3));
    assert!(accepts(&mut world, &mut p0, 0, 1) && accepts(&mut world, &mut p0, 2, 1));
    assert!(!accepts(&mut world, &mut p0, 1, 1) && !accepts(&mut world, &mut p1, 0, 3));
}

#[test]
fn the_bucket_moves_without_the_key_that_is_pinned_out_of_it() {
    let (mut world, mut p0, mut p1) = start();
    assert!(accepts(&mut world, &mut p0, 0, 1));
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 2]);
    assert!(accepts(&mut world, &mut p0, 1, 1));
    p1.replay(&world, move_id).unwrap();
    let rows = p1.view.0.keys().filter(|key| key[0] == 0x10).count();
    assert_eq!(rows, 1, "the pinned key is not replayed");
    fenced(&mut world, &mut p0, &mut p1, move_id);
    assert!(accepts(&mut world, &mut p0, 1, 1), "the fence leaves it alone");
}

#[test]
fn a_merge_is_a_fence_whose_source_is_its_destination() {
    let (mut world, mut p0, _) = mixed();
    let merge = world.start_move(0, 0, &[0, 1, 2]);
    let attempt = world.start_attempt(merge);
    world.fence(attempt);
    p0.fold(&world);
    assert_eq!(p0.effect(&world), MarkEffect::Fenced);
    world.abort(attempt);
    p0.fold(&world);
    for key in [0, 1, 2] {
        assert!(accepts(&mut world, &mut p0, key, 4));
        assert!(!accepts(&mut world, &mut p0, key, 3) && !accepts(&mut world, &mut p0, key, 1));
    }
}

#[test]
fn the_highest_epoch_stays_by_region_through_a_merge() {
    let (mut world, mut p0, mut p1) = start();
    assert!(accepts(&mut world, &mut p0, 1, 1));
    let away = moved(&mut world, &mut p0, &mut p1, &[1]);
    p0.wipe(&world.selector(&[1]));
    moved(&mut world, &mut p1, &mut p0, &[1]);
    let merge = world.start_move(0, 0, &[0, 1, 2]);
    let attempt = world.start_attempt(merge);
    world.fence(attempt);
    world.abort(attempt);
    p0.fold(&world);
    assert!(accepts(&mut world, &mut p0, 1, 5));
    world.open(away);
    p1.fold(&world);
    assert_eq!(p1.effect(&world), MarkEffect::Ignored);
    assert!(!accepts(&mut world, &mut p1, 1, 3));
    assert_eq!(p1.state(&world, 1), SlotState::Closed { highest: Epoch(4) });
    assert_eq!(p1.state(&world, 0), SlotState::Closed { highest: Epoch(0) });
}

#[test]
fn source_positions_are_kept_by_partition_key() {
    let (mut world, mut p0, mut p1) = start();
    world.write(0, from_source(world.put(1, 1, "second"), 2));
    moved(&mut world, &mut p0, &mut p1, &[1]);
    world.write(0, from_source(world.put(0, 1, "first"), 1));
    assert!(matches!(p0.verdict(&world), Verdict::Accepted { .. }));
    world.write(1, from_source(world.put(1, 3, "again"), 2));
    assert_eq!(p1.verdict(&world), Verdict::SourceDone);
}

/// Tells of one attempt, whatever it says.
struct One(AttemptFacts);

impl Attempts for One {
    fn folded_next(&self) -> Offset {
        Offset(u64::MAX)
    }

    fn attempt(&self, attempt: AttemptId) -> Option<AttemptFacts> {
        (attempt == self.0.attempt).then(|| self.0.clone())
    }
}

#[test]
fn a_fence_on_only_part_of_its_selector_is_a_broken_invariant() {
    let (mut world, mut p0, _) = start();
    let foreign = world.start_move(0, 1, &[0, 3]);
    let attempt = world.start_attempt(foreign);
    world.fence(attempt);
    p0.fold(&world);
    let before = p0.view.clone();
    assert!(matches!(p0.drain(&world), Err(Stop::Broken(_))));
    assert!(p0.view == before);
}

#[test]
fn a_mark_of_another_keyspace_is_refused() {
    let (mut world, mut p0, _) = start();
    let move_id = world.start_move(0, 1, &[0]);
    let attempt = world.start_attempt(move_id);
    world.fence(attempt);
    let mut facts = world.control.facts(attempt);
    facts.keyspace.0 += 1;
    let logged = world.partitions[&ShardId(0)][0].clone();
    let mut pending = rehome_shard_core::Pending::new();
    let one = One(facts);
    let mut ground = rehome_shard_core::Ground { view: &p0.view, attempts: &one, pending: &mut pending };
    let mark = p0.core.apply(&logged, &mut ground).unwrap().mark.unwrap();
    assert!(matches!(mark.effect, MarkEffect::Refused { .. }));
}
