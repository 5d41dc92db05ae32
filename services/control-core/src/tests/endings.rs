//! How moves and jobs end: from every phase, and for good.

use super::world::*;
use crate::{Decision, JobState, Phase};
use rehome_keyspace::{MoveId, Side};
use rehome_records::ControlEvent;
use rehome_records::control::JobOptions;

#[test]
fn cancel_from_every_phase_before_the_switch_ends_without_a_trace() {
    for phase in ["planned", "copying", "catching-up"] {
        let mut world = World::with_move(JobOptions::STANDARD);
        world.bring_to(phase);
        assert_eq!(word(&world.tell(cancel(world.job()))), "accepted", "{phase}");
        let expected = if phase == "planned" { "cancelled" } else { "cancelling" };
        assert_eq!(world.first().phase.name(), expected, "a planned move has nothing to clean up");
        world.bring_to("cancelled");
        assert_eq!(world.state.job_state(world.job()), Some(JobState::Cancelled));
        assert_eq!(world.route(4), (0, 1));
        assert_eq!(world.state.open_moves().count(), 0);
    }
}

#[test]
fn a_cancel_during_a_cutover_takes_effect_when_it_is_aborted() {
    let mut world = World::with_move(JobOptions::STANDARD);
    world.bring_to("cutting-over");
    let attempt = world.attempt();
    assert_eq!(word(&world.tell(cancel(world.job()))), "accepted");
    assert_eq!(world.first().phase, Phase::CuttingOver { attempt }, "during a cutover it is an abort first");
    assert_eq!(word(&world.tell(cancel(world.job()))), "done");
    world.tell(aborted(attempt, 50));
    assert_eq!(world.first().phase, Phase::Cancelling);
    assert_eq!(world.route(4), (0, 3), "the source keeps the keys under the attempt's epoch");
    world.bring_to("cancelled");
}

#[test]
fn a_switch_that_comes_first_overrules_the_cancel_and_the_story_says_so() {
    let mut world = World::with_move(KEEP);
    world.bring_to("cutting-over");
    world.tell(cancel(world.job()));
    world.tell(ready(world.attempt(), EVEN, Side::Source, 50, 8));
    world.tell(ready(world.attempt(), ODD, Side::Destination, 50, 8));
    assert_eq!(world.first().phase.name(), "switched");
    let said = "the request to end the move came too late: it had switched";
    assert!(world.first().story.iter().any(|line| line.what == said));
    world.bring_to("completed");
    assert_eq!(world.state.job_state(world.job()), Some(JobState::Completed));
}

#[test]
fn digests_that_differ_during_a_cancelled_cutover_take_no_other_copy() {
    let mut world = World::with_move(KEEP);
    world.bring_to("cutting-over");
    world.tell(cancel(world.job()));
    world.tell(ready(world.attempt(), EVEN, Side::Source, 50, 8));
    world.tell(ready(world.attempt(), ODD, Side::Destination, 50, 9));
    assert_eq!((world.first().phase.clone(), world.first().copy), (Phase::Cancelling, 1));
}

#[test]
fn a_cancelled_job_keeps_what_switched_and_ends_the_rest() {
    let mut world = World::new();
    world.submit(&[(0, 1, &[(4, 7)]), (1, 0, &[(8, 9)])], KEEP);
    world.bring_to("switched");
    assert_eq!(world.state.job_state(world.job()), Some(JobState::Running));
    assert_eq!(word(&world.tell(ControlEvent::CompleteRequested { job: world.job() })), "complete-too-early");
    world.tell(cancel(world.job()));
    assert_eq!(world.first().phase.name(), "switched");
    assert_eq!(world.state.move_(MoveId(2)).unwrap().phase, Phase::Cancelled);
    assert_eq!(world.state.job_state(world.job()), Some(JobState::Switched), "its source keeps the rows until asked");
    world.bring_to("completed");
    assert_eq!(world.state.job_state(world.job()), Some(JobState::Cancelled));
}

#[test]
fn a_failure_ends_the_move_from_every_phase_before_the_switch() {
    for phase in ["planned", "copying", "catching-up", "cutting-over"] {
        let mut world = World::with_move(JobOptions::STANDARD);
        world.bring_to(phase);
        let failed = || ControlEvent::MoveFailed { move_id: MoveId(1), reason: "no room".into() };
        assert_eq!(word(&world.tell(failed())), "accepted", "{phase}");
        assert_eq!(word(&world.tell(failed())), "done", "{phase}");
        if phase == "cutting-over" {
            world.tell(aborted(world.attempt(), 50));
        }
        world.bring_to("failed");
        assert_eq!(world.state.job_state(world.job()), Some(JobState::Failed { reason: "no room".into() }));
    }
}

#[test]
fn the_operator_who_cancelled_first_is_not_told_of_a_failure() {
    let mut world = World::with_move(JobOptions::STANDARD);
    world.bring_to("cutting-over");
    world.tell(cancel(world.job()));
    let failed = ControlEvent::MoveFailed { move_id: MoveId(1), reason: "no room".into() };
    assert_eq!(word(&world.tell(failed)), "phase-other");
    world.tell(aborted(world.attempt(), 50));
    world.bring_to("cancelled");
}

#[test]
fn a_copy_given_up_is_followed_by_the_next_and_its_late_reports_do_not_count() {
    let mut world = World::with_move(JobOptions::STANDARD);
    let id = MoveId(1);
    world.bring_to("catching-up");
    let failed = |copy| ControlEvent::CopyFailed { move_id: id, copy, node: ODD, reason: "run 3 is altered".into() };
    assert_eq!(word(&world.tell(failed(1))), "accepted");
    assert_eq!(word(&world.tell(failed(1))), "done");
    assert_eq!(word(&world.tell(failed(3))), "copy-other");
    assert_eq!((world.first().phase.clone(), world.first().copy), (Phase::Copying, 2));
    assert!(world.first().snapshot.is_none() && world.first().ingested.is_empty());
    assert_eq!(word(&world.tell(snapshot(id, 1, EVEN, 7))), "copy-other");
    let ingested = |copy, content| ControlEvent::CopyIngested { move_id: id, copy, node: ODD, digest: digest(content) };
    assert_eq!(word(&world.tell(ingested(1, 7))), "copy-other");
    assert_eq!(word(&world.tell(ingested(2, 7))), "snapshot-missing");
    world.tell(snapshot(id, 2, EVEN, 7));
    assert_eq!(word(&world.tell(snapshot(id, 2, EVEN, 7))), "done");
    assert_eq!(word(&world.tell(snapshot(id, 2, EVEN, 6))), "phase-other", "the first snapshot of a copy counts");
    // Read back differently from what was copied: the next copy.
    assert_eq!(word(&world.tell(ingested(2, 6))), "accepted");
    assert_eq!((world.first().phase.clone(), world.first().copy), (Phase::Copying, 3));
    world.bring_to("completed");
}

#[test]
fn a_move_is_completed_only_when_every_replica_of_its_source_has_cleaned_up() {
    let mut world = World::new();
    // A shard with two replicas, as a later version may assign them.
    let id = world.keyspace().id;
    world.state.keyspace_mut_for_tests(id).replicas.insert(rehome_keyspace::ShardId(0), vec![EVEN, IDLE]);
    world.submit(&[(0, 1, &[(4, 7)])], JobOptions::STANDARD);
    world.bring_to("completing");
    let done = |node| ControlEvent::CleanupDone { move_id: MoveId(1), node };
    assert_eq!(word(&world.tell(done(IDLE))), "accepted");
    assert_eq!(word(&world.tell(done(IDLE))), "done");
    assert_eq!(world.first().phase.name(), "completing");
    assert!(matches!(world.submit(&[(1, 0, &[(4, 4)])], KEEP), Decision::Refused(_)));
    assert_eq!(word(&world.tell(done(EVEN))), "accepted");
    assert_eq!(world.first().phase.name(), "completed");
    assert_eq!(word(&world.tell(done(EVEN))), "done");
}

#[test]
fn two_destination_replicas_must_both_be_ready() {
    let mut world = World::new();
    let id = world.keyspace().id;
    world.state.keyspace_mut_for_tests(id).hosting.ready_replicas = 2;
    world.state.keyspace_mut_for_tests(id).replicas.insert(rehome_keyspace::ShardId(1), vec![ODD, IDLE]);
    world.submit(&[(0, 1, &[(4, 7)])], KEEP);
    world.bring_to("copying");
    let ingested = |node| ControlEvent::CopyIngested { move_id: MoveId(1), copy: 1, node, digest: digest(7) };
    world.tell(snapshot(MoveId(1), 1, EVEN, 7));
    world.tell(ingested(ODD));
    assert_eq!(world.first().phase, Phase::Copying);
    world.tell(ingested(IDLE));
    world.bring_to("cutting-over");
    let attempt = world.attempt();
    world.tell(ready(attempt, EVEN, Side::Source, 50, 8));
    world.tell(ready(attempt, ODD, Side::Destination, 50, 8));
    assert_eq!(world.first().phase, Phase::CuttingOver { attempt });
    world.tell(ready(attempt, IDLE, Side::Destination, 50, 8));
    assert_eq!(world.first().phase, Phase::Switched { attempt });
}
