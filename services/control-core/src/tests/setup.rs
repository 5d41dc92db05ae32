//! Nodes, keyspaces, and what a command means the second time.

use super::world::*;
use crate::{Accepted, ControlState, Decision, Refusal};
use rehome_keyspace::{Attempts, Epoch, KeyspaceId, NodeId, Offset, Placement, ShardId, SlotId};
use rehome_records::control::JobOptions;
use rehome_records::{ControlEvent, Logged, Record};

#[test]
fn a_keyspace_starts_with_its_slots_split_evenly_in_order() {
    let mut world = World::empty();
    world.tell(ControlEvent::NodeRegistered { node: EVEN, address: "here:1".into() });
    let decision = world.tell(create("flights", 16, 3));
    let keyspace = world.keyspace();
    assert_eq!(decision, Decision::Accepted(Accepted::KeyspaceCreated(KeyspaceId(1))));
    assert_eq!((keyspace.id, keyspace.created, keyspace.routes_changed), (KeyspaceId(1), Offset(1), Offset(1)));
    assert_eq!((keyspace.shards, keyspace.shards_active, keyspace.epoch_next), (3, 3, Epoch(4)));
    let owners: Vec<u32> = keyspace.owners().iter().map(|shard| shard.0).collect();
    assert_eq!(owners, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    for slot in (0..16).map(SlotId) {
        let route = keyspace.route(slot).unwrap();
        assert_eq!(route.epoch, Epoch(u64::from(route.shard.0) + 1));
        let range = keyspace.placement.slot_range(slot);
        let granting: Vec<(ShardId, Epoch)> = (0..3)
            .map(ShardId)
            .flat_map(|shard| keyspace.granted(shard).into_iter().map(move |(range, epoch)| (shard, range, epoch)))
            .filter(|(_, granted, _)| granted.overlaps(&range))
            .map(|(shard, _, epoch)| (shard, epoch))
            .collect();
        assert_eq!(granting, [(route.shard, route.epoch)]);
    }
    assert!(keyspace.granted(ShardId(3)).is_empty(), "a shard that is added later starts with nothing");
}

#[test]
fn replicas_are_given_round_robin_and_a_later_node_gets_none() {
    let mut world = World::new();
    let hosts = |world: &World| -> Vec<(u32, Vec<NodeId>)> {
        world.keyspace().replicas.iter().map(|(shard, nodes)| (shard.0, nodes.clone())).collect()
    };
    assert_eq!(hosts(&world), [(0, vec![EVEN]), (1, vec![ODD])]);
    world.submit(&[(0, 2, &[(0, 1)]), (1, 3, &[(8, 9)])], JobOptions::STANDARD);
    // A new shard may land on any node that is there by now.
    assert_eq!(hosts(&world), [(0, vec![EVEN]), (1, vec![ODD]), (2, vec![IDLE]), (3, vec![EVEN])]);
    assert_eq!(world.keyspace().shards, 4);
}

#[test]
fn shards_without_a_replica_get_the_first_node_that_registers() {
    let mut world = World::empty();
    world.tell(create("flights", 16, 2));
    assert!(world.keyspace().replicas_of(ShardId(0)).is_empty());
    world.tell(ControlEvent::NodeRegistered { node: ODD, address: "here:2".into() });
    world.tell(ControlEvent::NodeRegistered { node: EVEN, address: "here:1".into() });
    assert_eq!(world.keyspace().replicas_of(ShardId(0)), [ODD]);
    assert_eq!(world.keyspace().replicas_of(ShardId(1)), [ODD]);
}

#[test]
fn a_node_registers_once_and_may_change_its_address() {
    let mut world = World::new();
    let register = |address: &str| ControlEvent::NodeRegistered { node: EVEN, address: address.into() };
    assert_eq!(world.tell(register("here:1")), Decision::AlreadyDone(Accepted::NodeRegistered(EVEN)));
    assert_eq!(world.tell(register("there:1")), Decision::Accepted(Accepted::NodeRegistered(EVEN)));
    let node = world.state.node(EVEN).unwrap();
    assert_eq!((node.address.as_str(), node.registered), ("there:1", Offset(0)));
}

#[test]
fn a_request_appended_twice_is_done_once() {
    let mut world = World::new();
    let event = job(world.keyspace().id, vec![wanted(0, 1, &[(4, 7)])], KEEP);
    let first = world.tell_as(77, event.clone());
    let again = world.tell_as(77, event);
    let Decision::Accepted(accepted) = first else { panic!("{first:?}") };
    assert_eq!(again, Decision::AlreadyDone(accepted));
    assert_eq!((world.state.jobs().count(), world.state.moves().count()), (1, 1));
    let other = job(world.keyspace().id, vec![wanted(0, 1, &[(0, 1)])], KEEP);
    assert_eq!(world.tell_as(77, other), Decision::Refused(Refusal::CommandReused));
}

#[test]
fn a_request_that_was_refused_is_not_accepted_by_its_late_copy() {
    let mut world = World::with_move(KEEP);
    let event = job(world.keyspace().id, vec![wanted(0, 1, &[(7, 7)])], KEEP);
    assert_eq!(word(&world.tell_as(88, event.clone())), "keys-in-open-move");
    world.tell(cancel(world.job()));
    assert_eq!(word(&world.tell_as(88, event.clone())), "keys-in-open-move", "its sender was told so");
    assert_eq!(word(&world.tell(event)), "accepted");
}

#[test]
fn a_late_copy_of_the_start_of_a_cutover_starts_no_other() {
    let mut world = World::with_move(KEEP);
    world.bring_to("catching-up");
    let event = world.next_event(world.first().id).unwrap();
    let Decision::Accepted(started) = world.tell_as(99, event.clone()) else { panic!("not started") };
    world.tell(aborted(world.attempt(), 50));
    assert_eq!(world.tell_as(99, event), Decision::AlreadyDone(started));
    assert_eq!((world.first().phase.name(), world.first().attempts.len()), ("catching-up", 1));
}

#[test]
fn records_that_cannot_be_read_are_passed_over() {
    let mut world = World::new();
    let before = world.state.clone();
    let mut offset = world.state.folded_next().0;
    let wrong_kind = rehome_records::codec::encode(rehome_records::Kind::Mark, &7u32);
    let valid = world.log[2].record.value.clone().unwrap();
    let cut = valid[..valid.len() - 1].to_vec();
    for value in [None, Some(Vec::new()), Some(vec![0; 40]), Some(wrong_kind), Some(cut)] {
        let record = Record { key: None, value, headers: Vec::new() };
        let decision = world.state.fold(&Logged { offset: Offset(offset), append_time_ms: 0, record });
        assert_eq!(word(&decision), "record-unreadable");
        offset += 1;
        assert_eq!(world.state.folded_next(), Offset(offset));
    }
    assert_eq!(ControlState { folded_next: before.folded_next, ..world.state.clone() }, before);
}

#[test]
fn a_record_folded_before_changes_nothing_and_the_position_grows_past_gaps() {
    let mut world = World::with_move(KEEP);
    let before = world.state.clone();
    for logged in world.log.clone() {
        assert_eq!(word(&world.state.fold(&logged)), "record-already-folded");
    }
    assert_eq!(world.state, before);
    world.state.pass(Offset(500));
    world.state.pass(Offset(3));
    assert_eq!(Attempts::folded_next(&world.state), Offset(500));
}

#[test]
fn a_placement_that_no_constructor_makes_is_refused() {
    let mut world = World::empty();
    for count in [0, rehome_keyspace::SLOTS_MAX + 1] {
        let placement = Placement::Buckets { count, hash: rehome_keyspace::HashFunction::Xxh3 };
        let event = ControlEvent::KeyspaceCreated { name: "k".into(), placement, shards: 1, request_retention_ms: 0 };
        assert_eq!(word(&world.tell(event)), "placement-invalid");
    }
}
