//! Which nodes host a shard: what the fold lets happen, and where the steps lead.

use super::world::*;
use crate::{Accepted, Away, ControlState, Decision, HostingStep, Keyspace, hosting_steps};
use proptest::prelude::*;
use rehome_keyspace::{KeyspaceId, MoveId, NodeId, Offset, Placement, ShardId, Side};
use rehome_records::ControlEvent;
use rehome_records::control::{Hosting, Label};
use std::collections::{BTreeMap, BTreeSet};

const SHARD: ShardId = ShardId(0);

fn label(key: &str, value: &str) -> Label {
    Label { key: key.into(), value: value.into() }
}

fn registered(node: u64, labels: &[(&str, &str)]) -> ControlEvent {
    let labels = labels.iter().map(|(key, value)| label(key, value)).collect();
    ControlEvent::NodeRegisteredWith { node: NodeId(node), address: format!("here:{node}"), labels }
}

fn created(name: &str, shards: u32, hosting: Hosting) -> ControlEvent {
    let placement = Placement::buckets(SLOTS).expect("in range");
    ControlEvent::KeyspaceCreatedWith {
        name: name.into(),
        placement,
        shards,
        request_retention_ms: 86_400_000,
        hosting,
    }
}

fn hosting(replicas: u32, ready_replicas: u32) -> Hosting {
    Hosting { replicas, ready_replicas, required: Vec::new() }
}

/// Three nodes, and a keyspace of 2 shards with 2 replicas each: shard 0 on nodes 1 and 2, shard 1 on 2 and 3.
fn doubled(ready_replicas: u32) -> World {
    let mut world = World::empty();
    for node in 1..=3 {
        world.tell(registered(node, &[]));
    }
    world.tell(created("flights", 2, hosting(2, ready_replicas)));
    world
}

fn replicas(world: &World, shard: u32) -> Vec<u64> {
    world.keyspace().replicas_of(ShardId(shard)).iter().map(|node| node.0).collect()
}

fn added(world: &World, node: u64, from: Option<u64>) -> ControlEvent {
    let (keyspace, from) = (world.keyspace().id, from.map(NodeId));
    ControlEvent::ReplicaAdded { keyspace, shard: SHARD, node: NodeId(node), from }
}

fn removed(world: &World, node: u64) -> ControlEvent {
    let keyspace = world.keyspace().id;
    ControlEvent::ReplicaRemoved { keyspace, shard: SHARD, node: NodeId(node), reason: "drained".into() }
}

fn counts(world: &World, node: u64) -> ControlEvent {
    let (keyspace, node) = (world.keyspace().id, NodeId(node));
    let coming = world.keyspace().coming_of(SHARD).find(|(coming, _)| *coming == node);
    let hosting = coming.map_or(Offset(0), |(_, coming)| coming.hosting);
    ControlEvent::ReplicaReady { keyspace, shard: SHARD, node, hosting }
}

fn wiped(world: &World, node: u64) -> ControlEvent {
    ControlEvent::ReplicaWiped { keyspace: world.keyspace().id, shard: SHARD, node: NodeId(node) }
}

#[test]
fn new_shards_get_as_many_replicas_as_wanted_and_one_of_each_rack() {
    let world = doubled(2);
    assert_eq!((replicas(&world, 0), replicas(&world, 1)), (vec![1, 2], vec![2, 3]));
    let mut world = World::empty();
    for (node, rack) in [(1, "a"), (2, "a"), (3, "b"), (4, "b")] {
        world.tell(registered(node, &[("rack", rack), ("region", if node == 1 { "west" } else { "east" })]));
    }
    world.tell(created("flights", 2, hosting(2, 2)));
    assert_eq!((replicas(&world, 0), replicas(&world, 1)), (vec![1, 3], vec![2, 3]));
    let required = vec![label("region", "west")];
    world.tell(created("west", 1, Hosting { replicas: 2, ready_replicas: 1, required }));
    let west = world.state.keyspace_named("west").expect("created");
    assert_eq!(west.replicas_of(SHARD), [NodeId(1)], "only nodes with its labels");
}

#[test]
fn a_replica_that_comes_counts_once_it_is_ready() {
    let mut world = doubled(2);
    assert_eq!(word(&world.tell(added(&world, 9, Some(1)))), "node-unknown");
    assert_eq!(word(&world.tell(added(&world, 3, Some(3)))), "not-replica", "it begins from one that counts");
    assert_eq!(word(&world.tell(added(&world, 3, Some(1)))), "accepted");
    assert_eq!(replicas(&world, 0), [1, 2]);
    let stale =
        ControlEvent::ReplicaReady { keyspace: world.keyspace().id, shard: SHARD, node: NodeId(3), hosting: Offset(1) };
    assert_eq!(word(&world.tell(stale)), "hosting-other", "of an earlier hosting");
    assert_eq!(word(&world.tell(counts(&world, 3))), "accepted");
    assert_eq!(replicas(&world, 0), [1, 2, 3]);
    assert_eq!(word(&world.tell(removed(&world, 1))), "accepted");
    assert_eq!(word(&world.tell(added(&world, 1, Some(2)))), "replica-leaving", "its old store is still there");
    assert_eq!(word(&world.tell(wiped(&world, 1))), "accepted");
    assert_eq!(word(&world.tell(added(&world, 1, Some(2)))), "accepted");
    assert_eq!(word(&world.tell(removed(&world, 2))), "accepted");
    assert_eq!(word(&world.tell(removed(&world, 3))), "replica-last", "who is coming does not count");
}

#[test]
fn hosting_changes_neither_routes_nor_epochs() {
    let mut world = doubled(2);
    let before = world.keyspace().clone();
    for event in [
        added(&world, 3, Some(1)),
        ControlEvent::NodeDrained { node: NodeId(1) },
        ControlEvent::NodeFilled { node: NodeId(1) },
    ] {
        assert_eq!(word(&world.tell(event)), "accepted");
    }
    world.tell(counts(&world, 3));
    world.tell(removed(&world, 1));
    let now = world.keyspace();
    assert_eq!((&now.routes, now.routes_changed), (&before.routes, before.routes_changed));
    assert_eq!(now.epoch_next, before.epoch_next);
}

/// Shard 1 on nodes 2 and 3 gets slots of shard 0 on nodes 1 and 2.
fn moving(ready_replicas: u32) -> World {
    let mut world = doubled(ready_replicas);
    world.submit(&[(0, 1, &[(4, 7)])], KEEP);
    world.tell(ControlEvent::MoveStarted { move_id: MoveId(1) });
    world.tell(snapshot(MoveId(1), 1, NodeId(1), 7));
    world
}

fn ingested(node: u64) -> ControlEvent {
    ControlEvent::CopyIngested { move_id: MoveId(1), copy: 1, node: NodeId(node), digest: digest(7) }
}

#[test]
fn a_move_switches_only_on_enough_destination_replicas() {
    let mut world = moving(2);
    world.tell(ingested(2));
    assert_eq!(world.first().phase.name(), "copying", "one of two holds the copy");
    world.tell(ingested(3));
    let event = world.next_event(MoveId(1)).expect("it catches up");
    world.tell(event);
    let attempt = world.attempt();
    assert_eq!(word(&world.tell(removed(&world, 2))), "replica-in-cutover");
    world.tell(ready(attempt, NodeId(1), Side::Source, 50, 8));
    world.tell(ready(attempt, NodeId(2), Side::Destination, 50, 8));
    world.tell(ready(attempt, NodeId(2), Side::Destination, 50, 8));
    assert_eq!(world.first().phase.name(), "cutting-over", "one replica counts once");
    world.tell(ready(attempt, NodeId(3), Side::Destination, 50, 8));
    assert_eq!(world.first().phase.name(), "switched");
}

#[test]
fn a_replica_that_alone_holds_what_moved_in_cannot_leave() {
    let mut world = moving(1);
    world.tell(ingested(2));
    for _ in 0..3 {
        let event = world.next_event(MoveId(1)).expect("it goes on");
        world.tell(event);
    }
    assert_eq!(world.first().phase.name(), "switched");
    assert_eq!(world.first().copy_awaited, BTreeSet::from([NodeId(3)]));
    let keyspace = world.keyspace().id;
    let leave = |node: u64| ControlEvent::ReplicaRemoved {
        keyspace,
        shard: ShardId(1),
        node: NodeId(node),
        reason: "drained".into(),
    };
    assert_eq!(word(&world.tell(leave(2))), "replica-holds-copy");
    world.tell(ControlEvent::CompleteRequested { job: world.job() });
    for node in [1, 2] {
        world.tell(ControlEvent::CleanupDone { move_id: MoveId(1), node: NodeId(node) });
    }
    assert_eq!(world.first().phase.name(), "completing", "a replica still lacks the copy");
    assert_eq!(word(&world.tell(ingested(3))), "accepted");
    assert_eq!(world.first().phase.name(), "completed");
    assert_eq!(word(&world.tell(leave(2))), "accepted");
}

#[test]
fn clean_up_is_done_only_when_recorded_by_every_replica_and_by_those_that_come() {
    let mut world = moving(2);
    world.tell(cancel(world.job()));
    let keyspace = world.keyspace().id;
    let add = ControlEvent::ReplicaAdded { keyspace, shard: ShardId(1), node: NodeId(1), from: Some(NodeId(2)) };
    assert_eq!(word(&world.tell(add)), "accepted");
    for node in [2, 3] {
        world.tell(ControlEvent::CleanupDone { move_id: MoveId(1), node: NodeId(node) });
        assert_eq!(world.first().phase.name(), "cancelling", "node 1 may have begun from rows that are dropped");
    }
    let cleaned = ControlEvent::CleanupDone { move_id: MoveId(1), node: NodeId(1) };
    assert_eq!(word(&world.tell(cleaned)), "accepted");
    assert_eq!(world.first().phase.name(), "cancelled");
}

#[test]
fn a_node_that_leaves_takes_its_unfinished_copy_along_and_is_awaited_no_more() {
    let mut world = moving(2);
    world.tell(ingested(2));
    assert_eq!(word(&world.tell(removed(&world, 1))), "accepted");
    assert_eq!((world.first().phase.name(), world.first().copy), ("copying", 2), "nobody can give copy 1 any more");
    let mut world = moving(2);
    world.tell(cancel(world.job()));
    world.tell(ControlEvent::CleanupDone { move_id: MoveId(1), node: NodeId(2) });
    let keyspace = world.keyspace().id;
    let leave = ControlEvent::ReplicaRemoved { keyspace, shard: ShardId(1), node: NodeId(3), reason: "lost".into() };
    world.tell(leave);
    assert_eq!(world.first().phase.name(), "cancelled");
}

#[test]
fn what_cannot_be_is_refused() {
    let mut world = doubled(2);
    for (replicas, ready) in [(0, 0), (8, 1), (2, 3), (2, 0)] {
        assert_eq!(word(&world.tell(created("other", 1, hosting(replicas, ready)))), "replicas-invalid");
    }
    for (key, value) in [("", "a"), ("rack", ""), ("rack", "a b"), ("ra=ck", "a")] {
        assert_eq!(word(&world.tell(registered(7, &[(key, value)]))), "label-invalid", "{key}={value}");
    }
    assert_eq!(word(&world.tell(registered(7, &[("rack", "a"), ("rack", "b")]))), "label-invalid");
    assert_eq!(word(&world.tell(ControlEvent::NodeDrained { node: NodeId(7) })), "node-unknown");
    assert_eq!(word(&world.tell(ControlEvent::NodeFilled { node: NodeId(7) })), "node-unknown");
    let drain = ControlEvent::NodeDrained { node: NodeId(1) };
    assert_eq!([word(&world.tell(drain.clone())), word(&world.tell(drain))], ["accepted", "done"]);
}

/// What may happen to nodes between two rounds of steps.
#[derive(Clone, Copy, Debug)]
enum Change {
    Register(u64),
    Drain(u64),
    Fill(u64),
    Away(u64, Option<Away>),
    Create(u32, u32),
    /// Only so many of the steps are taken before the next change.
    Steps(usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let node = || 1u64..6;
    let away = prop_oneof![Just(None), Just(Some(Away::Silent)), Just(Some(Away::Lost))];
    let change = prop_oneof![
        node().prop_map(Change::Register),
        node().prop_map(Change::Drain),
        node().prop_map(Change::Fill),
        (node(), away).prop_map(|(node, away)| Change::Away(node, away)),
        (1u32..4, 1u32..4).prop_map(|(shards, replicas)| Change::Create(shards, replicas)),
        (0usize..6).prop_map(Change::Steps),
    ];
    proptest::collection::vec(change, 1..30)
}

/// Takes a step as a controller does, then what its node owes. Returns whether the fold took it.
fn take(world: &mut World, step: HostingStep, away: &BTreeMap<NodeId, Away>) {
    let before = counting(&world.state);
    let (decision, (keyspace, shard, node)) = match step {
        HostingStep::Add { keyspace, shard, node, from } => {
            let event = ControlEvent::ReplicaAdded { keyspace, shard, node, from };
            (world.tell(event), (keyspace, shard, node))
        }
        HostingStep::Remove { keyspace, shard, node, reason } => {
            let event = ControlEvent::ReplicaRemoved { keyspace, shard, node, reason };
            (world.tell(event), (keyspace, shard, node))
        }
    };
    match decision {
        Decision::Accepted(Accepted::ReplicaComing(_, _, _, hosting)) if !away.contains_key(&node) => {
            world.tell(ControlEvent::ReplicaReady { keyspace, shard, node, hosting });
        }
        Decision::Accepted(Accepted::ReplicaRemoved(..)) if !away.contains_key(&node) => {
            world.tell(ControlEvent::ReplicaWiped { keyspace, shard, node });
        }
        Decision::Accepted(_) => {}
        other => panic!("{node} and shard {shard}: {other:?}"),
    }
    for (key, count) in counting(&world.state) {
        let wanted = world.state.keyspace(key.0).map_or(0, |keyspace| keyspace.hosting.replicas as usize);
        assert!(count >= before[&key].min(wanted), "a step leaves {count} of {} replicas", before[&key]);
    }
}

fn counting(state: &ControlState) -> BTreeMap<(KeyspaceId, ShardId), usize> {
    let shards = |keyspace: &Keyspace| -> Vec<_> {
        let shards = (0..keyspace.shards).map(ShardId);
        shards.map(|shard| ((keyspace.id, shard), keyspace.replicas_of(shard).len())).collect()
    };
    state.keyspaces().flat_map(shards).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn steps_come_to_an_end_with_every_shard_hosted_as_wanted(changes in changes()) {
        let mut world = World::empty();
        let mut away = BTreeMap::new();
        world.tell(registered(1, &[]));
        world.tell(created("flights", 2, hosting(1, 1)));
        for (at, change) in changes.iter().enumerate() {
            match *change {
                Change::Register(node) => drop(world.tell(registered(node, &[]))),
                Change::Drain(node) => drop(world.tell(ControlEvent::NodeDrained { node: NodeId(node) })),
                Change::Fill(node) => drop(world.tell(ControlEvent::NodeFilled { node: NodeId(node) })),
                Change::Away(node, None) => drop(away.remove(&NodeId(node))),
                Change::Away(node, Some(how)) => drop(away.insert(NodeId(node), how)),
                Change::Create(shards, replicas) => {
                    world.tell(created(&format!("more-{at}"), shards, hosting(replicas, 1)));
                }
                Change::Steps(count) => {
                    for step in hosting_steps(&world.state, &away).into_iter().take(count) {
                        take(&mut world, step, &away);
                    }
                }
            }
        }
        // Everybody is back, and does what is owed.
        away.clear();
        let mut rounds = 0;
        loop {
            for keyspace in world.state.clone().keyspaces() {
                for (shard, nodes) in &keyspace.coming {
                    for (node, coming) in nodes {
                        let hosting = coming.hosting;
                        world.tell(ControlEvent::ReplicaReady { keyspace: keyspace.id, shard: *shard, node: *node, hosting });
                    }
                }
                for (shard, nodes) in &keyspace.leaving {
                    for node in nodes {
                        world.tell(ControlEvent::ReplicaWiped { keyspace: keyspace.id, shard: *shard, node: *node });
                    }
                }
            }
            let steps = hosting_steps(&world.state, &away);
            if steps.is_empty() {
                break;
            }
            steps.into_iter().for_each(|step| take(&mut world, step, &away));
            rounds += 1;
            prop_assert!(rounds < 100, "the steps never end");
        }
        let sound = world.state.nodes().filter(|node| !node.drained).count();
        for keyspace in world.state.keyspaces() {
            for shard in (0..keyspace.shards).map(ShardId) {
                let replicas = keyspace.replicas_of(shard);
                let drained = |node: &&NodeId| world.state.node(**node).is_some_and(|node| node.drained);
                let wanted = keyspace.hosting.replicas as usize;
                prop_assert!(replicas.len() >= wanted.min(sound), "{replicas:?} of {wanted}");
                prop_assert!(replicas.len() <= wanted.max(1));
                if sound >= wanted {
                    prop_assert_eq!(replicas.iter().find(drained), None);
                }
            }
        }
    }
}
