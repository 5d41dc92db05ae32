//! Attempts: what counts, what decides, and that the first outcome stays.

use super::world::*;
use crate::{Accepted, COPIES_MAX, Decision, Phase};
use rehome_keyspace::{Attempts, Epoch, Offset, Outcome, Side};
use rehome_records::control::JobOptions;
use rehome_records::{ControlEvent, Digest};

fn cutting_over() -> World {
    let mut world = World::with_move(KEEP);
    world.bring_to("cutting-over");
    world
}

#[test]
fn enough_equal_readies_switch_and_the_routes_name_the_destination() {
    let mut world = cutting_over();
    let attempt = world.attempt();
    let facts = world.state.attempt(attempt).unwrap();
    assert_eq!((facts.epoch, facts.outcome, world.keyspace().epoch_next), (Epoch(3), None, Epoch(4)));
    let counted = world.tell(ready(attempt, EVEN, Side::Source, 50, 8));
    assert_eq!(counted, Decision::Accepted(Accepted::ReadyCounted(attempt)));
    assert_eq!(world.route(4), (0, 1), "nothing moves before the outcome");
    let switched = world.tell(ready(attempt, ODD, Side::Destination, 50, 8));
    assert_eq!(switched, Decision::Accepted(Accepted::Switched(attempt)));
    assert_eq!(world.state.attempt(attempt).unwrap().outcome, Some(Outcome::Switched { fence: Offset(50) }));
    assert_eq!(world.first().phase, Phase::Switched { attempt });
    for slot in 0..16 {
        let expected = if (4..8).contains(&slot) { (1, 3) } else { (slot / 8, u64::from(slot / 8) + 1) };
        assert_eq!(world.route(slot), expected);
    }
    assert_eq!(world.keyspace().routes_changed, world.log.last().unwrap().offset);
}

#[test]
fn readies_in_either_order_switch_but_one_side_alone_never() {
    let mut world = cutting_over();
    let attempt = world.attempt();
    world.tell(ready(attempt, ODD, Side::Destination, 50, 8));
    assert_eq!(word(&world.tell(ready(attempt, ODD, Side::Destination, 50, 8))), "done");
    assert_eq!(world.first().phase, Phase::CuttingOver { attempt });
    let decision = world.tell(ready(attempt, EVEN, Side::Source, 50, 8));
    assert_eq!(decision, Decision::Accepted(Accepted::Switched(attempt)));
}

#[test]
fn any_field_of_the_digest_that_differs_aborts_at_the_fence_of_the_source() {
    let differing: [fn(&mut Digest); 4] = [
        |digest| digest.rows += 1,
        |digest| digest.requests += 1,
        |digest| digest.row_count += 1,
        |digest| digest.tombstone_count += 1,
    ];
    for change in differing {
        let mut world = cutting_over();
        let attempt = world.attempt();
        let mut other = digest(8);
        change(&mut other);
        world.tell(ready(attempt, EVEN, Side::Source, 50, 8));
        let ready = ControlEvent::Ready {
            attempt,
            node: ODD,
            side: Side::Destination,
            fence: Offset(50),
            open: Some(Offset(9)),
            digest: other,
        };
        assert_eq!(world.tell(ready), Decision::Accepted(Accepted::Aborted(attempt)));
        assert_eq!(world.state.attempt(attempt).unwrap().outcome, Some(Outcome::Aborted { fence: Offset(50) }));
        assert_eq!(world.route(4), (0, 3), "the source keeps the keys, under the new epoch");
        assert_eq!(
            (world.first().phase.clone(), world.first().copy),
            (Phase::Copying, 2),
            "the same copy would differ again"
        );
    }
}

#[test]
fn replicas_that_speak_of_different_fences_abort() {
    let mut world = cutting_over();
    let attempt = world.attempt();
    world.tell(ready(attempt, ODD, Side::Destination, 51, 8));
    world.tell(ready(attempt, EVEN, Side::Source, 50, 8));
    assert_eq!(world.state.attempt(attempt).unwrap().outcome, Some(Outcome::Aborted { fence: Offset(50) }));
}

#[test]
fn a_copy_that_never_verifies_is_not_taken_for_ever() {
    let mut world = cutting_over();
    for attempt in 1..=COPIES_MAX {
        let id = world.attempt();
        assert_eq!(id.0, u64::from(attempt));
        world.tell(ready(id, EVEN, Side::Source, 50, 8));
        world.tell(ready(id, ODD, Side::Destination, 50, 9));
        if attempt < COPIES_MAX {
            world.bring_to("cutting-over");
        }
    }
    let Phase::Failing { reason } = &world.first().phase else { panic!("{}", world.first().phase) };
    assert_eq!(reason, "8 copies were given up, the last one because: source and destination differ at F");
    assert_eq!(world.route(4), (0, 2 + u64::from(COPIES_MAX)));
    world.bring_to("failed");
}

#[test]
fn the_first_outcome_stays_whatever_comes_later() {
    let mut world = cutting_over();
    let attempt = world.attempt();
    world.tell(ready(attempt, EVEN, Side::Source, 50, 8));
    world.tell(aborted(attempt, 52));
    let outcome = Some(Outcome::Aborted { fence: Offset(50) });
    assert_eq!(world.state.attempt(attempt).unwrap().outcome, outcome, "the source's word on F is exact");
    let late = world.tell(ready(attempt, ODD, Side::Destination, 50, 8));
    assert_eq!(word(&late), "attempt-decided");
    assert_eq!(world.tell(aborted(attempt, 99)), Decision::AlreadyDone(Accepted::Aborted(attempt)));
    assert_eq!(world.state.attempt(attempt).unwrap().outcome, outcome);
    assert_eq!(world.route(4), (0, 3));

    let mut world = cutting_over();
    world.bring_to("switched");
    assert_eq!(word(&world.tell(aborted(world.attempt(), 50))), "attempt-decided");
    assert_eq!(world.route(4), (1, 3));
}

#[test]
fn a_late_ready_of_an_older_attempt_does_not_switch_a_newer_one() {
    let mut world = cutting_over();
    let old = world.attempt();
    world.tell(ready(old, EVEN, Side::Source, 50, 8));
    world.tell(aborted(old, 50));
    world.bring_to("cutting-over");
    let new = world.attempt();
    assert!(new > old);
    world.tell(ready(new, EVEN, Side::Source, 60, 8));
    assert_eq!(word(&world.tell(ready(old, ODD, Side::Destination, 50, 8))), "attempt-decided");
    assert_eq!(world.first().phase, Phase::CuttingOver { attempt: new });
    assert_eq!(world.state.attempt_record(new).unwrap().readies.len(), 1);
}

#[test]
fn a_late_abort_of_an_older_attempt_does_not_abort_a_newer_one() {
    let mut world = cutting_over();
    let old = world.attempt();
    world.tell(aborted(old, 50));
    world.bring_to("cutting-over");
    assert_eq!(word(&world.tell(aborted(old, 50))), "done");
    assert_eq!(world.first().phase, Phase::CuttingOver { attempt: world.attempt() });
    assert_eq!(world.state.attempt(world.attempt()).unwrap().outcome, None);
}

#[test]
fn each_attempt_has_its_own_epoch_and_each_abort_grants_it_to_the_source() {
    let mut world = cutting_over();
    for epoch in 3..8 {
        assert_eq!(world.state.attempt(world.attempt()).unwrap().epoch, Epoch(epoch));
        world.tell(aborted(world.attempt(), 50));
        assert_eq!(world.route(4), (0, epoch));
        assert_eq!(world.first().phase, Phase::CatchingUp);
        world.bring_to("cutting-over");
    }
    assert_eq!(world.first().attempts.len(), 6);
    world.bring_to("switched");
    assert_eq!(world.route(4), (1, 8));
    assert_eq!(world.state.attempts().filter(|attempt| attempt.outcome().is_some()).count(), 6, "none is forgotten");
}

#[test]
fn a_node_is_counted_once_by_its_first_word() {
    let mut world = cutting_over();
    let attempt = world.attempt();
    world.tell(ready(attempt, EVEN, Side::Source, 50, 8));
    assert_eq!(word(&world.tell(ready(attempt, EVEN, Side::Source, 50, 9))), "ready-changed");
    assert_eq!(word(&world.tell(ready(attempt, EVEN, Side::Source, 51, 8))), "ready-changed");
    assert_eq!(world.state.attempt_record(attempt).unwrap().readies.len(), 1);
}

#[test]
fn a_destination_that_has_not_seen_its_open_is_not_ready() {
    let mut world = cutting_over();
    let attempt = world.attempt();
    world.tell(ready(attempt, EVEN, Side::Source, 50, 8));
    let blind = ControlEvent::Ready {
        attempt,
        node: ODD,
        side: Side::Destination,
        fence: Offset(50),
        open: None,
        digest: digest(8),
    };
    assert_eq!(word(&world.tell(blind)), "open-missing");
    assert_eq!(world.first().phase, Phase::CuttingOver { attempt });
}

#[test]
fn a_job_that_completes_by_itself_starts_to_as_soon_as_it_switches() {
    let mut world = World::with_move(JobOptions::STANDARD);
    world.bring_to("completing");
    assert_eq!(world.first().cleanup_awaited.iter().copied().collect::<Vec<_>>(), [EVEN]);
    assert_eq!(world.route(4), (1, 3));
}

#[test]
fn the_story_of_a_move_is_told_in_order_and_stays_bounded() {
    let mut world = cutting_over();
    for _ in 0..300 {
        world.tell(aborted(world.attempt(), 50));
        world.bring_to("cutting-over");
    }
    let story = &world.first().story;
    assert_eq!(story.len(), 256);
    assert!(story.windows(2).all(|pair| pair[0].offset <= pair[1].offset));
    assert_eq!(story[0].what, "ann asked for job 5; this move takes 4 slots from shard 0 to 1");
    assert!(story.last().unwrap().what.starts_with("attempt 301 to cut over started, for epoch 303"));
    assert_eq!(world.first().attempts.len(), 301);
}
