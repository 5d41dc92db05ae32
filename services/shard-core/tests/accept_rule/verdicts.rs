//! What a write is answered, state by state, and what is remembered of it.

use crate::replica::{Replica, copied, fenced, moved};
use crate::world::{World, from_source, only_if, with_request};
use rehome_keyspace::{Epoch, Offset, RequestId, Version};
use rehome_records::store_value::{StoredRequest, StoredRow};
use rehome_records::{Condition, FirstAnswer, Operation, Record, RowChange, Verdict, store_key};

fn start() -> (World, Replica, Replica) {
    let world = World::new(2);
    let (p0, p1) = (Replica::new(&world, 0), Replica::new(&world, 1));
    (world, p0, p1)
}

fn row(replica: &Replica, world: &World, key: usize, sort_key: &[u8]) -> Option<StoredRow> {
    let stored = replica.view.0.get(&store_key::row(&world.placed(key), sort_key))?;
    Some(StoredRow::decode(stored).unwrap())
}

fn accepted(epoch: u64, offset: Offset) -> Verdict {
    Verdict::Accepted { version: Version { epoch: Epoch(epoch), offset } }
}

#[test]
fn only_the_owned_epoch_is_accepted() {
    let (mut world, mut p0, mut p1) = start();
    for (epoch, wanted) in [(0, false), (1, true), (2, false), (3, false)] {
        let offset = world.write(0, world.put(0, epoch, "v"));
        assert_eq!(p0.verdict(&world) == accepted(epoch, offset), wanted, "epoch {epoch}");
    }
    world.write(1, world.put(0, 1, "misrouted"));
    assert_eq!(p1.verdict(&world), Verdict::StaleRoute);
    assert_eq!(row(&p1, &world, 0, b"r"), None);
}

#[test]
fn a_contested_state_refuses_every_epoch_but_the_reserved_one() {
    let (mut world, mut p0, mut p1) = start();
    world.write(0, world.put(0, 1, "v"));
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0]);
    fenced(&mut world, &mut p0, &mut p1, move_id);
    for epoch in [1, 2, 4] {
        world.write(0, world.put(0, epoch, "late"));
        assert_eq!(p0.verdict(&world), Verdict::StaleRoute);
        world.write(1, world.put(0, epoch, "early"));
        assert_eq!(p1.verdict(&world), Verdict::StaleRoute);
    }
}

#[test]
fn what_cannot_be_read_is_answered_and_passed() {
    let (mut world, mut p0, _) = start();
    world.append(p0.shard, Record { key: Some(b"k".to_vec()), ..Record::default() }, 3);
    assert!(matches!(p0.verdict(&world), Verdict::Invalid { .. }));
    let garbage = Record { value: Some(b"no mark".to_vec()), ..Record::default() }.with_header("rh-mark", [1]);
    world.append(p0.shard, garbage, 0);
    assert!(matches!(p0.verdict(&world), Verdict::Invalid { .. }));
    let offset = world.write(0, world.put(0, 1, "v"));
    assert_eq!(p0.verdict(&world), accepted(1, offset));
    assert_eq!(p0.core.applied().unwrap().offset, offset);
}

#[test]
fn a_record_at_or_below_the_applied_offset_is_skipped() {
    let (mut world, mut p0, _) = start();
    world.write(0, world.put(0, 1, "a"));
    p0.drain(&world).unwrap();
    let before = p0.view.clone();
    let first = world.partitions[&p0.shard][0].clone();
    let applied = p0.batch(&world, |core, ground| core.apply(&first, ground)).unwrap();
    assert_eq!(applied, rehome_shard_core::Applied::default());
    assert!(p0.view == before);
}

#[test]
fn a_request_is_answered_as_the_first_time_and_done_once() {
    let (mut world, mut p0, _) = start();
    let offset = world.write(0, with_request(world.put(0, 1, "a"), 1));
    p0.drain(&world).unwrap();
    world.write(0, world.put(0, 1, "b"));
    world.write(0, with_request(world.put(0, 1, "a"), 1));
    let first = FirstAnswer::Accepted { version: Version { epoch: Epoch(1), offset } };
    assert_eq!(p0.verdict(&world), Verdict::Repeated { first });
    assert_eq!(row(&p0, &world, 0, b"r").unwrap().value.unwrap(), b"b");
}

#[test]
fn a_request_id_with_other_content_is_a_conflict() {
    let (mut world, mut p0, _) = start();
    world.write(0, with_request(world.put(0, 1, "a"), 1));
    world.write(0, with_request(world.put(0, 1, "b"), 1));
    assert_eq!(p0.verdict(&world), Verdict::RequestConflict);
    assert_eq!(row(&p0, &world, 0, b"r").unwrap().value.unwrap(), b"a");
    // It is unique within its partition key only.
    let offset = world.write(0, with_request(world.put(1, 1, "b"), 1));
    assert_eq!(p0.verdict(&world), accepted(1, offset));
}

#[test]
fn a_stale_verdict_is_never_remembered() {
    let (mut world, mut p0, _) = start();
    world.write(0, with_request(world.put(0, 9, "a"), 1));
    assert_eq!(p0.verdict(&world), Verdict::StaleRoute);
    let offset = world.write(0, with_request(world.put(0, 1, "a"), 1));
    assert_eq!(p0.verdict(&world), accepted(1, offset));
}

#[test]
fn the_epoch_is_judged_before_the_request_id_and_the_source_position() {
    let (mut world, mut p0, _) = start();
    world.write(0, from_source(with_request(world.put(0, 1, "a"), 1), 5));
    p0.drain(&world).unwrap();
    world.write(0, with_request(world.put(0, 2, "a"), 1));
    assert_eq!(p0.verdict(&world), Verdict::StaleRoute);
    world.write(0, from_source(world.put(0, 2, "a"), 5));
    assert_eq!(p0.verdict(&world), Verdict::StaleRoute);
}

#[test]
fn a_failed_condition_is_remembered_and_a_late_copy_is_not_applied() {
    let (mut world, mut p0, _) = start();
    let conditional = only_if(with_request(world.put(0, 1, "a"), 1), Condition::Present);
    world.write(0, conditional.clone());
    assert_eq!(p0.verdict(&world), Verdict::ConditionFailed { current: None });
    world.write(0, world.put(0, 1, "b"));
    world.write(0, conditional);
    let first = FirstAnswer::ConditionFailed { current: None };
    assert_eq!(p0.verdict(&world), Verdict::Repeated { first });
    assert_eq!(row(&p0, &world, 0, b"r").unwrap().value.unwrap(), b"b");
}

#[test]
fn conditions_see_live_rows_only() {
    let (mut world, mut p0, _) = start();
    let write = |world: &mut World, value, condition| world.write(0, only_if(world.change(0, 1, value), condition));
    let first = write(&mut world, Some("a"), Condition::Absent);
    assert_eq!(p0.verdict(&world), accepted(1, first));
    let version = Version { epoch: Epoch(1), offset: first };
    let current = Some(version);
    write(&mut world, Some("b"), Condition::Absent);
    assert_eq!(p0.verdict(&world), Verdict::ConditionFailed { current });
    let deleted = write(&mut world, None, Condition::VersionIs(version));
    assert_eq!(p0.verdict(&world), accepted(1, deleted));
    let tombstone = Version { epoch: Epoch(1), offset: deleted };
    for condition in [Condition::Present, Condition::VersionIs(tombstone)] {
        write(&mut world, Some("c"), condition);
        assert_eq!(p0.verdict(&world), Verdict::ConditionFailed { current: None });
    }
    assert_eq!(row(&p0, &world, 0, b"r"), Some(StoredRow { version: tombstone, value: None }));
}

#[test]
fn a_source_position_at_or_below_the_highest_is_done_for_that_key_only() {
    let (mut world, mut p0, _) = start();
    for (key, position, done) in [(0, 2, false), (0, 2, true), (0, 1, true), (1, 1, false), (0, 3, false)] {
        let offset = world.write(0, from_source(world.put(key, 1, "v"), position));
        let wanted = if done { Verdict::SourceDone } else { accepted(1, offset) };
        assert_eq!(p0.verdict(&world), wanted, "key {key} position {position}");
    }
}

#[test]
fn the_last_of_a_row_that_a_batch_names_twice_wins() {
    let (mut world, mut p0, mut p1) = start();
    let change = |sort_key: &str, value: Option<&str>| RowChange {
        sort_key: sort_key.as_bytes().to_vec(),
        value: value.map(|value| value.as_bytes().to_vec()),
    };
    let mut batch = world.put(0, 1, "");
    batch.operation = Operation::Batch(vec![
        change("x", Some("1")),
        change("y", None),
        change("x", Some("2")),
        change("y", Some("3")),
    ]);
    let check = |p0: &mut Replica, world: &World, offset| {
        assert_eq!(p0.verdict(world), accepted(1, offset));
        assert_eq!(row(p0, world, 0, b"x").unwrap().value.unwrap(), b"2");
        assert_eq!(row(p0, world, 0, b"y").unwrap().value.unwrap(), b"3");
    };
    let offset = world.write(0, batch.clone());
    check(&mut p0, &world, offset);
    // The same where every row is read first, and at the destination.
    let move_id = copied(&mut world, &mut p0, &mut p1, &[0]);
    let offset = world.write(0, batch);
    check(&mut p0, &world, offset);
    p1.replay(&world, move_id).unwrap();
    assert_eq!(row(&p1, &world, 0, b"x"), row(&p0, &world, 0, b"x"));
}

#[test]
fn a_retry_that_straddles_the_cutover_gets_its_first_answer() {
    let (mut world, mut p0, mut p1) = start();
    let put = with_request(world.put(0, 1, "a"), 1);
    let failing = only_if(with_request(world.put(0, 1, "b"), 2), Condition::Absent);
    let at = world.write(0, put.clone());
    world.write(0, failing.clone());
    world.write(0, from_source(world.put(0, 1, "c"), 5));
    moved(&mut world, &mut p0, &mut p1, &[0]);
    let again = |mut write: rehome_records::Write| {
        write.epoch = Epoch(3);
        write
    };
    let version = Version { epoch: Epoch(1), offset: at };
    world.write(1, again(put.clone()));
    assert_eq!(p1.verdict(&world), Verdict::Repeated { first: FirstAnswer::Accepted { version } });
    world.write(1, again(failing));
    let first = FirstAnswer::ConditionFailed { current: Some(version) };
    assert_eq!(p1.verdict(&world), Verdict::Repeated { first });
    world.write(1, again(from_source(world.put(0, 1, "c"), 5)));
    assert_eq!(p1.verdict(&world), Verdict::SourceDone);
    world.write(0, put);
    assert_eq!(p0.verdict(&world), Verdict::StaleRoute);
    let stored = p1.view.0[&store_key::request(&world.placed(0), RequestId([1; 16]))].clone();
    assert_eq!(StoredRequest::decode(&stored).unwrap().version, version);
}

#[test]
fn a_deleted_row_stays_deleted_across_a_move() {
    let (mut world, mut p0, mut p1) = start();
    world.write(0, world.put(0, 1, "a"));
    world.write(0, world.change(0, 1, None));
    moved(&mut world, &mut p0, &mut p1, &[0]);
    assert_eq!(row(&p1, &world, 0, b"r").unwrap().value, None);
    assert_eq!(row(&p1, &world, 0, b"r"), row(&p0, &world, 0, b"r"));
}

#[test]
fn the_applied_time_never_falls() {
    let (mut world, mut p0, _) = start();
    let mut highest = 0;
    for _ in 0..12 {
        world.write(0, world.put(0, 1, "a"));
        p0.drain(&world).unwrap();
        let time_ms = p0.core.applied().unwrap().time_ms;
        assert!(time_ms >= highest);
        highest = time_ms;
    }
    assert_eq!(highest, 1_004);
}
