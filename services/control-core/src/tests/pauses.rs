//! Jobs that take no further step for a while.

use super::world::*;
use crate::{Decision, JobState, Phase};
use rehome_keyspace::{MoveId, Nonce, Side};
use rehome_records::ControlEvent;
use rehome_records::control::{JobOptions, JobSubmitted};

fn resume(world: &World) -> ControlEvent {
    ControlEvent::ResumeRequested { job: world.job() }
}

#[test]
fn a_paused_job_starts_no_move_and_no_cutover_until_it_is_resumed() {
    for phase in ["planned", "catching-up"] {
        let mut world = World::with_move(JobOptions::STANDARD);
        world.bring_to(phase);
        let step = world.next_event(MoveId(1)).unwrap();
        assert_eq!(word(&world.tell(pause(world.job()))), "accepted");
        let reason = "ann has to think".to_owned();
        assert_eq!(world.state.job_state(world.job()), Some(JobState::Paused { reason }));
        assert_eq!(word(&world.tell(step.clone())), "job-paused");
        assert_eq!(word(&world.tell(pause(world.job()))), "done");
        assert_eq!(world.first().phase.name(), phase);
        assert_eq!(word(&world.tell(resume(&world))), "accepted");
        assert_eq!(world.state.job_state(world.job()), Some(JobState::Running));
        assert_eq!(word(&world.tell(resume(&world))), "not-paused");
        assert_eq!(word(&world.tell(step)), "accepted");
        world.bring_to("completed");
        assert_eq!(word(&world.tell(pause(world.job()))), "pause-too-late");
    }
}

#[test]
fn a_copy_that_runs_when_its_job_is_paused_ends_and_the_move_then_stays() {
    let mut world = World::with_move(JobOptions::STANDARD);
    world.bring_to("copying");
    world.tell(pause(world.job()));
    for event in [snapshot(MoveId(1), 1, EVEN, 7), world_ingested()] {
        assert_eq!(word(&world.tell(event)), "accepted");
    }
    assert_eq!(world.first().phase, Phase::CatchingUp);
    let cutover = ControlEvent::CutoverStarted { move_id: MoveId(1), nonce: Nonce(1), predicted_pause_us: 1 };
    assert_eq!(word(&world.tell(cutover)), "job-paused");
}

fn world_ingested() -> ControlEvent {
    ControlEvent::CopyIngested { move_id: MoveId(1), copy: 1, node: ODD, digest: digest(7) }
}

#[test]
fn a_pause_during_a_cutover_waits_for_its_outcome() {
    let mut aborting = World::with_move(JobOptions::STANDARD);
    aborting.bring_to("cutting-over");
    assert_eq!(word(&aborting.tell(pause(aborting.job()))), "accepted");
    let mut switching = aborting.clone();
    aborting.tell(aborted(aborting.attempt(), 50));
    assert_eq!(aborting.first().phase, Phase::CatchingUp);
    let again = ControlEvent::CutoverStarted { move_id: MoveId(1), nonce: Nonce(9), predicted_pause_us: 1 };
    assert_eq!(word(&aborting.tell(again)), "job-paused");
    switching.tell(ready(switching.attempt(), EVEN, Side::Source, 50, 8));
    switching.tell(ready(switching.attempt(), ODD, Side::Destination, 50, 8));
    assert_eq!(switching.first().phase.name(), "completing", "clean-up is no step before the switch");
    assert_eq!(switching.state.job_state(switching.job()), Some(JobState::Running), "nothing is left to pause");
    assert_eq!(word(&switching.tell(resume(&switching))), "not-paused");
}

#[test]
fn a_paused_job_is_cancelled_as_any_other() {
    for phase in ["planned", "copying", "catching-up", "cutting-over"] {
        let mut world = World::with_move(JobOptions::STANDARD);
        world.bring_to(phase);
        world.tell(pause(world.job()));
        assert_eq!(word(&world.tell(cancel(world.job()))), "accepted", "{phase}");
        if phase == "cutting-over" {
            world.tell(aborted(world.attempt(), 50));
        }
        world.bring_to("cancelled");
        assert_eq!(world.state.job_state(world.job()), Some(JobState::Cancelled));
    }
}

#[test]
fn while_a_job_is_on_its_way_no_other_number_of_shards_is_accepted() {
    for (phase, verb) in [("planned", "wait"), ("catching-up", "wait"), ("catching-up", "cancel")] {
        let mut world = World::with_move(KEEP);
        world.bring_to(phase);
        if verb == "cancel" {
            world.tell(pause(world.job()));
        }
        let mut ask = |shards, slots| {
            let submitted = job(world.keyspace().id, vec![wanted(0, 1, &[slots])], KEEP);
            let ControlEvent::JobSubmitted(submitted) = submitted else { panic!("a job") };
            world.tell(ControlEvent::JobSubmitted(JobSubmitted { shards, ..submitted }))
        };
        // Keys that do not move, and keys that are not where the plan has them.
        for slots in [(0, 1), (8, 9)] {
            let Decision::Refused(refusal) = ask(3, slots) else { panic!("a second reshard while {phase}") };
            assert_eq!(refusal.code(), "reshard-under-way");
            assert!(refusal.to_string().contains(&format!("`rehome {verb} ")), "{refusal}");
        }
        assert_eq!(word(&ask(4, (0, 1))), "accepted", "the same number is no contradiction");
    }
}

#[test]
fn keys_of_a_paused_job_are_refused_to_another_with_the_way_out() {
    let mut world = World::with_move(JobOptions::STANDARD);
    world.tell(pause(world.job()));
    let refused = world.submit(&[(0, 1, &[(4, 7)])], JobOptions::STANDARD);
    assert_eq!(word(&refused), "keys-in-paused-job");
}
