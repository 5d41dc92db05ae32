//! What a store holds through copies, crashes, wipes and horizons.

use crate::replica::{MemoryView, Replica, copied, fenced, fold, moved};
use crate::world::{RETENTION_MS, World, with_request};
use rehome_keyspace::{Epoch, Offset, ShardId, Version};
use rehome_records::store_value::{StoredIdentity, StoredRow};
use rehome_records::{Mark, SlotState, Verdict, store_key};
use rehome_shard_core::{MarkEffect, ShardCore, Stop, digest_of};

fn start() -> (World, Replica, Replica) {
    let mut world = World::new(2);
    let (p0, p1) = (Replica::new(&world, 0), Replica::new(&world, 1));
    world.write(0, with_request(world.put(0, 1, "a"), 1));
    world.write(0, world.put(1, 1, "b"));
    world.write(0, world.change(1, 1, None));
    (world, p0, p1)
}

fn horizon(world: &mut World, shard: u32, key: usize, epoch: u64, up_to: Version) -> Offset {
    let regions = world.selector(&[key]).ranges().iter().map(|range| (range.clone(), Epoch(epoch))).collect();
    world.append(ShardId(shard), Mark::Horizon { regions, version: up_to }.into_record(), 0)
}

#[test]
fn an_empty_store_is_nobodys_and_another_replicas_store_is_refused() {
    let world = World::new(2);
    let open = |view: &MemoryView, shard| {
        ShardCore::recover(world.identity(ShardId(shard)), world.placement, RETENTION_MS, view)
    };
    assert!(open(&MemoryView::default(), 0).unwrap().is_none());
    let p0 = Replica::new(&world, 0);
    assert!(open(&p0.view, 0).unwrap().is_some());
    assert!(matches!(open(&p0.view, 1), Err(Stop::Broken(_))));
    let other = StoredIdentity { keyspace: rehome_keyspace::KeyspaceId(8), shard: ShardId(0) };
    assert!(matches!(ShardCore::recover(other, world.placement, RETENTION_MS, &p0.view), Err(Stop::Broken(_))));
    let mut headless = p0.view.clone();
    headless.0.remove(&store_key::identity());
    assert!(matches!(open(&headless, 0), Err(Stop::Broken(_))));
    let mut holed = p0.view.clone();
    holed.0.remove(&store_key::state(&[]));
    holed.0.remove(&store_key::state(&world.granted(ShardId(0))[0].0.start));
    assert!(matches!(open(&holed, 0), Err(Stop::Broken(_))));
}

#[test]
fn a_recovered_core_goes_on_where_its_store_ends() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    let told = |p0: &Replica, p1: &Replica| {
        (p0.ready(&world, attempt), p1.ready(&world, attempt), p0.core.applied(), p1.core.regions().collect::<Vec<_>>())
    };
    let before = told(&p0, &p1);
    assert!(before.0.is_some() && before.1.is_some());
    p0.crash(&world, 0);
    p1.crash(&world, 0);
    assert_eq!(told(&p0, &p1), before);
}

#[test]
fn after_a_crash_the_same_records_lead_to_the_same_store() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    world.write(0, with_request(world.put(0, 1, "c"), 2));
    world.write(0, world.put(1, 1, "d"));
    fenced(&mut world, &mut p0, &mut p1, move_id);
    let (source, destination) = (p0.view.clone(), p1.view.clone());
    // The source's running digest started four batches before the end; one that loses that starts it anew.
    for batches in 1..4 {
        p0.crash(&world, batches);
        p0.fold(&world);
        p0.drain(&world).unwrap();
        assert!(p0.view == source, "the source lost {batches} batches");
        p1.crash(&world, batches);
        p1.fold(&world);
        if p1.core.inbound(move_id).is_none_or(|inbound| inbound.replay.is_none()) {
            p1.ingest(&world, world.moves[&move_id].copy.as_ref().unwrap());
        }
        p1.drain(&world).unwrap();
        p1.replay(&world, move_id).unwrap();
        assert!(p1.view == destination, "the destination lost {batches} batches");
    }
}

#[test]
fn a_replica_that_lost_its_copy_is_not_ready() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    assert!(p1.ready(&world, attempt).is_some());
    p1.crash(&world, 99);
    p1.fold(&world);
    p1.drain(&world).unwrap();
    assert!(p1.ready(&world, attempt).is_none());
}

#[test]
fn a_copy_taken_past_the_fence_is_ready_at_once() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    // Another replica takes the slot states and fences with the copy; there is nothing left to replay.
    let mut late = Replica::new(&world, 1);
    let mut copy = world.moves[&move_id].copy.clone().unwrap();
    let selector = copy.manifest.selector.clone();
    copy.manifest.position = p0.core.applied().map(|applied| applied.offset);
    copy.manifest.states = p0.core.regions_of(&selector);
    copy.manifest.fences = p0.core.outbound(move_id).unwrap().fences.clone();
    late.ingest(&world, &copy);
    late.drain(&world).unwrap();
    let (theirs, ours) = (p0.ready(&world, attempt).unwrap(), late.ready(&world, attempt).unwrap());
    assert_eq!((ours.fence, ours.digest), (theirs.fence, theirs.digest));
    // Without the states a follower would accept what its owner refused.
    world.write(0, world.put(0, 1, "late"));
    let before = late.core.inbound(move_id).unwrap().replay.as_ref().unwrap().digest;
    late.replay(&world, move_id).unwrap();
    assert_eq!(late.core.inbound(move_id).unwrap().replay.as_ref().unwrap().digest, before);
}

#[test]
fn a_fence_without_its_states_is_not_ready() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    let mut late = Replica::new(&world, 1);
    let mut copy = world.moves[&move_id].copy.clone().unwrap();
    copy.manifest.position = p0.core.applied().map(|applied| applied.offset);
    copy.manifest.fences = p0.core.outbound(move_id).unwrap().fences.clone();
    late.ingest(&world, &copy);
    late.drain(&world).unwrap();
    assert_eq!(late.ready(&world, attempt), None, "by the copy's states the source owns the keys");
}

#[test]
fn a_record_at_or_below_the_replayed_position_is_skipped() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    world.write(0, world.put(0, 1, "more"));
    p1.replay(&world, move_id).unwrap();
    let before = p1.view.clone();
    let [earlier @ .., _] = world.partitions[&ShardId(0)].as_slice() else { panic!("there are records") };
    for logged in earlier {
        p1.batch(&world, |core, ground| core.replay(move_id, logged, ground)).unwrap();
    }
    assert!(p1.view == before, "rows, digest and position stay");
}

#[test]
fn a_copy_is_never_ingested_over_what_is_owned() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let selector = world.moves[&move_id].selector.clone();
    let may = |replica: &Replica, world: &World| {
        replica.core.may_ingest(move_id, &selector, &world.control.seen(world.control.next))
    };
    assert!(may(&p1, &world) && !may(&p0, &world));
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    assert!(may(&p1, &world), "opened by this very move");
    assert!(!may(&p0, &world), "contested by it, but as its source");
    world.switch(attempt);
    fold(&world, [&mut p0, &mut p1]);
    p1.settle(&world);
    assert!(!may(&p1, &world));
}

#[test]
fn an_empty_partition_is_copied_without_a_position() {
    let mut world = World::new(2);
    let (mut p0, mut p1) = (Replica::new(&world, 0), Replica::new(&world, 1));
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    assert_eq!(world.moves[&move_id].copy.as_ref().unwrap().manifest.position, None);
    // The very first record counts.
    world.write(0, world.put(0, 1, "first"));
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    let (ours, theirs) = (p0.ready(&world, attempt).unwrap(), p1.ready(&world, attempt).unwrap());
    assert_eq!((ours.digest, ours.digest.row_count), (theirs.digest, 1));
}

#[test]
fn a_second_copy_replaces_the_first() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let first = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.abort(first);
    p0.fold(&world);
    p0.settle(&world);
    world.write(0, world.put(0, 3, "more"));
    p0.drain(&world).unwrap();
    let copy = p0.export(&world, move_id).unwrap();
    assert_eq!(copy.manifest.copy, 1);
    assert_eq!(copy.manifest.fences.len(), 1, "the fences of the first copy's time are kept");
    p1.fold(&world);
    p1.settle(&world);
    p1.ingest(&world, &copy);
    assert_eq!(p1.core.inbound(move_id).unwrap().opens.len(), 1);
    let second = fenced(&mut world, &mut p0, &mut p1, move_id);
    assert_eq!(p0.ready(&world, second).unwrap().digest, p1.ready(&world, second).unwrap().digest);
    // The base of a copy that was replaced is not taken.
    let base = p0.core.outbound(move_id).unwrap().base;
    p0.batch(&world, |core, ground| core.set_outbound_base(move_id, 0, Default::default(), ground.pending));
    assert_eq!(p0.core.outbound(move_id).unwrap().base, base);
}

#[test]
fn a_row_left_by_an_earlier_copy_shows_in_the_digest() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let selector = world.moves[&move_id].selector.clone();
    let clean = digest_of(&p1.view, &selector).unwrap();
    let left = StoredRow { version: Version { epoch: Epoch(1), offset: Offset(0) }, value: Some(b"old".to_vec()) };
    p1.view.0.insert(store_key::row(&world.placed(0), b"left"), left.encode());
    assert_ne!(digest_of(&p1.view, &selector).unwrap(), clean);
}

#[test]
fn a_wipe_waits_for_what_ended_the_ownership() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let selector = world.moves[&move_id].selector.clone();
    let mut lagging = Replica::new(&world, 0);
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    world.switch(attempt);
    lagging.fold(&world);
    assert!(!lagging.core.all_closed(&selector), "it has not applied the fence");
    lagging.drain(&world).unwrap();
    assert!(!lagging.core.all_closed(&selector), "it has not resolved the attempt");
    lagging.settle(&world);
    assert!(lagging.core.all_closed(&selector));
}

#[test]
fn only_a_replica_that_holds_the_selector_whole_may_export_it() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let selector = world.moves[&move_id].selector.clone();
    assert!(p0.core.holds_whole(&selector));
    assert!(!p1.core.holds_whole(&selector));
    let mut lagging = Replica::new(&world, 1);
    lagging.ingest(&world, world.moves[&move_id].copy.as_ref().unwrap());
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    assert!(!p0.core.holds_whole(&selector), "contested");
    world.switch(attempt);
    for replica in [&mut p0, &mut p1, &mut lagging] {
        replica.fold(&world);
        replica.settle(&world);
    }
    assert!(p1.core.holds_whole(&selector));
    assert!(!p0.core.holds_whole(&selector));
    // From q on to r: a replica of q that has no more than the copy may not.
    assert!(!lagging.core.holds_whole(&selector));
    assert!(!p1.core.holds_whole(&world.selector(&[0, 1, 2])));
}

#[test]
fn there_and_back_again_leaves_equal_stores() {
    let (mut world, mut p0, mut p1) = start();
    moved(&mut world, &mut p0, &mut p1, &[0, 1]);
    world.write(1, world.put(0, 3, "there"));
    p1.drain(&world).unwrap();
    let selector = world.selector(&[0, 1]);
    p0.wipe(&selector);
    moved(&mut world, &mut p1, &mut p0, &[0, 1]);
    assert_eq!(digest_of(&p0.view, &selector), digest_of(&p1.view, &selector));
    assert!(p0.core.holds_whole(&selector));
    world.write(0, world.put(0, 4, "back"));
    assert!(matches!(p0.verdict(&world), Verdict::Accepted { .. }));
}

#[test]
fn a_horizon_forgets_tombstones_and_request_ids_up_to_its_version() {
    let (mut world, mut p0, _) = start();
    p0.drain(&world).unwrap();
    let request = store_key::request(&world.placed(0), rehome_keyspace::RequestId([1; 16]));
    let tombstone = store_key::row(&world.placed(1), b"r");
    let version = |offset| Version { epoch: Epoch(1), offset: Offset(offset) };
    horizon(&mut world, 0, 1, 1, version(1));
    assert_eq!(p0.effect(&world), MarkEffect::Forgot { entries: 0 }, "the tombstone is newer");
    horizon(&mut world, 0, 1, 1, version(2));
    assert_eq!(p0.effect(&world), MarkEffect::Forgot { entries: 1 });
    assert!(!p0.view.0.contains_key(&tombstone) && p0.view.0.contains_key(&request));
    horizon(&mut world, 0, 0, 1, version(9));
    assert_eq!(p0.effect(&world), MarkEffect::Forgot { entries: 1 });
    assert!(!p0.view.0.contains_key(&request));
    assert!(p0.view.0.contains_key(&store_key::row(&world.placed(0), b"r")), "live rows stay");
}

#[test]
fn a_horizon_is_judged_like_a_write_of_its_epoch() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let up_to = Version { epoch: Epoch(9), offset: Offset(0) };
    // In time: both sides forget at the same offset.
    horizon(&mut world, 0, 1, 1, up_to);
    assert_eq!(p0.effect(&world), MarkEffect::Forgot { entries: 1 });
    p1.replay(&world, move_id).unwrap();
    let attempt = fenced(&mut world, &mut p0, &mut p1, move_id);
    let (ours, theirs) = (p0.ready(&world, attempt).unwrap(), p1.ready(&world, attempt).unwrap());
    assert_eq!(ours.digest, theirs.digest);
    let selector = world.moves[&move_id].selector.clone();
    for replica in [&p0, &p1] {
        assert_eq!(digest_of(&replica.view, &selector).unwrap(), ours.digest);
    }
    // Late: it changes nothing on either side.
    horizon(&mut world, 0, 0, 1, up_to);
    assert_eq!(p0.effect(&world), MarkEffect::Ignored);
    p1.replay(&world, move_id).unwrap();
    assert_eq!(p0.ready(&world, attempt), Some(ours));
    assert_eq!(p1.ready(&world, attempt), Some(theirs));
}

#[test]
fn a_digest_is_known_only_once_the_snapshot_was_read() {
    let (mut world, mut p0, _) = start();
    p0.drain(&world).unwrap();
    let move_id = world.start_move(0, 1, &[0, 1]);
    let selector = world.moves[&move_id].selector.clone();
    p0.batch(&world, |core, ground| core.start_outbound(move_id, 0, selector.clone(), ground.pending));
    assert_eq!(p0.core.outbound(move_id).unwrap().digest(), None);
    // Writes go on while the snapshot is read.
    world.write(0, world.put(0, 1, "x"));
    p0.drain(&world).unwrap();
    let snapshot = digest_of(&p0.view, &selector).unwrap().minus(p0.core.outbound(move_id).unwrap().change);
    world.write(0, world.put(0, 1, "y"));
    world.write(0, world.put(1, 1, "z"));
    p0.drain(&world).unwrap();
    p0.batch(&world, |core, ground| core.set_outbound_base(move_id, 0, snapshot, ground.pending));
    let running = p0.core.outbound(move_id).unwrap().digest();
    assert_eq!(running, Some(digest_of(&p0.view, &selector).unwrap()));
}

#[test]
fn the_same_version_with_other_content_is_corruption() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    let at = world.write(0, world.put(0, 1, "x"));
    let version = Version { epoch: Epoch(1), offset: at };
    let key = store_key::row(&world.placed(0), b"r");
    let plant = |replica: &mut Replica, version, value: &[u8]| {
        let row = StoredRow { version, value: Some(value.to_vec()) };
        replica.view.0.insert(key.clone(), row.encode());
    };
    plant(&mut p1, version, b"other");
    assert!(matches!(p1.replay(&world, move_id), Err(Stop::Broken(_))));
    plant(&mut p0, version, b"other");
    assert!(matches!(p0.drain(&world), Err(Stop::Broken(_))), "also where a moving key is read first");
}

#[test]
fn an_older_version_never_overwrites_a_newer_one() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    world.write(0, world.put(0, 1, "x"));
    let newer = StoredRow { version: Version { epoch: Epoch(1), offset: Offset(99) }, value: Some(b"newer".to_vec()) };
    let key = store_key::row(&world.placed(0), b"r");
    p1.view.0.insert(key.clone(), newer.encode());
    p1.replay(&world, move_id).unwrap();
    assert_eq!(p1.view.0[&key], newer.encode());
    p0.view.0.insert(key, newer.encode());
    assert!(matches!(p0.drain(&world), Err(Stop::Broken(_))), "on the live tail it cannot be");
}

#[test]
fn a_forgotten_move_leaves_no_entry() {
    let (mut world, mut p0, mut p1) = start();
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0, 1]);
    for replica in [&mut p0, &mut p1] {
        replica.forget(&world, move_id);
        assert!(replica.core.outbound(move_id).is_none() && replica.core.inbound(move_id).is_none());
        assert!(!replica.view.0.keys().any(|key| key[0] == store_key::KIND_MOVE));
    }
    let logged = world.partitions[&ShardId(0)][0].clone();
    assert!(matches!(p1.batch(&world, |core, ground| core.replay(move_id, &logged, ground)), Err(Stop::Broken(_))));
    assert_eq!(p1.state(&world, 0), SlotState::Closed { highest: Epoch(0) });
}
