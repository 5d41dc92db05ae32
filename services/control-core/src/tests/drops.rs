//! How keyspaces end.

use super::world::*;
use crate::{Accepted, Decision};
use rehome_keyspace::KeyspaceId;
use rehome_records::ControlEvent;
use rehome_records::control::JobOptions;

#[test]
fn a_dropped_keyspace_is_found_no_more_and_its_name_is_free_and_its_id_is_not() {
    let mut world = World::new();
    let keyspace = world.keyspace().id;
    let name = world.keyspace().name.clone();
    let drop = ControlEvent::KeyspaceDropped { keyspace };
    assert_eq!(world.tell(drop.clone()), Decision::Accepted(Accepted::KeyspaceDropped(keyspace)));
    assert!(world.state.keyspace(keyspace).is_none() && world.state.keyspace_named(&name).is_none());
    assert_eq!(world.state.keyspace_name(keyspace), Some(name.as_str()));
    assert_eq!(word(&world.tell(drop)), "done");
    let refused = job(keyspace, vec![wanted(0, 1, &[(4, 7)])], JobOptions::STANDARD);
    assert_eq!(word(&world.tell(refused)), "keyspace-unknown");
    assert_eq!(word(&world.tell(create(&name, 16, 2))), "accepted");
    assert!(world.keyspace().id > keyspace);
    assert_eq!(world.keyspace().id, KeyspaceId(world.keyspace().created.0));
}

#[test]
fn a_drop_waits_for_every_node_that_has_replicas() {
    let mut world = World::new();
    let keyspace = world.keyspace().id;
    let removed = |node| ControlEvent::KeyspaceRemoved { keyspace, node };
    assert_eq!(word(&world.tell(removed(EVEN))), "keyspace-not-dropped");
    world.tell(ControlEvent::KeyspaceDropped { keyspace });
    let dropped = world.state.dropped_keyspace(keyspace).unwrap();
    assert_eq!(dropped.awaited, [EVEN, ODD].into());
    assert_eq!(dropped.dropped, world.log.last().unwrap().offset);
    assert_eq!(word(&world.tell(removed(EVEN))), "accepted");
    assert_eq!(word(&world.tell(removed(EVEN))), "done");
    assert_eq!(word(&world.tell(removed(IDLE))), "done", "it has no replica");
    assert_eq!(word(&world.tell(removed(ODD))), "accepted");
    assert!(world.state.dropped_keyspace(keyspace).unwrap().awaited.is_empty());
}

#[test]
fn a_topic_is_recorded_as_gone_once_and_only_after_every_node() {
    let mut world = World::new();
    let keyspace = world.keyspace().id;
    let gone = ControlEvent::TopicRemoved { keyspace };
    let is_gone = |world: &World| world.state.dropped_keyspace(keyspace).unwrap().topic_removed;
    assert_eq!(word(&world.tell(gone.clone())), "keyspace-not-dropped");
    world.tell(ControlEvent::KeyspaceDropped { keyspace });
    for node in [EVEN, ODD] {
        let Decision::Refused(refusal) = world.tell(gone.clone()) else { panic!("node {node} has it still") };
        assert_eq!(refusal.code(), "keyspace-kept");
        assert!(refusal.to_string().starts_with(&format!("node {node} may still keep")), "{refusal}");
        assert!(!is_gone(&world));
        world.tell(ControlEvent::KeyspaceRemoved { keyspace, node });
    }
    assert_eq!(world.tell(gone.clone()), Decision::Accepted(Accepted::TopicRemovalRecorded(keyspace)));
    assert!(is_gone(&world));
    assert_eq!(word(&world.tell(gone)), "done");
    assert_eq!(word(&world.tell(ControlEvent::TopicRemoved { keyspace: KeyspaceId(99) })), "keyspace-not-dropped");
}

#[test]
fn a_keyspace_with_an_open_move_is_not_dropped_and_the_refusal_names_the_way_out() {
    for (phase, verb) in [("planned", "wait"), ("copying", "wait"), ("cutting-over", "wait"), ("switched", "complete")]
    {
        let mut world = World::with_move(KEEP);
        world.bring_to(phase);
        let keyspace = world.keyspace().id;
        let Decision::Refused(refusal) = world.tell(ControlEvent::KeyspaceDropped { keyspace }) else {
            panic!("dropped while {phase}")
        };
        assert_eq!(refusal.code(), "keyspace-moving");
        assert!(refusal.to_string().contains(&format!("`rehome {verb} {}`", world.job())), "{refusal}");
        world.bring_to("completed");
        assert_eq!(word(&world.tell(ControlEvent::KeyspaceDropped { keyspace })), "accepted");
        // What is late finds nothing to change, and panics nobody.
        let before = world.state.clone();
        for event in [cancel(world.job()), ControlEvent::CompleteRequested { job: world.job() }, pause(world.job())] {
            assert_ne!(word(&world.tell(event)), "accepted");
        }
        assert_eq!(world.state.moves().count(), before.moves().count());
    }
}
