//! Each refusal of a request: when it is given, and what it says.

use super::world::*;
use crate::{Decision, Refusal};
use rehome_keyspace::{AttemptId, JobId, KeyspaceId, MoveId, NodeId, Side};
use rehome_records::ControlEvent;
use rehome_records::control::JobSubmitted;

fn refused(decision: Decision) -> Refusal {
    match decision {
        Decision::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn check(decision: Decision, code: &str, text: &str) {
    let refusal = refused(decision);
    assert_eq!((refusal.code(), refusal.to_string().as_str()), (code, text));
}

#[test]
fn keyspaces_that_cannot_be_are_refused() {
    let mut world = World::new();
    check(
        world.tell(create("flights", 16, 2)),
        "name-taken",
        "keyspace `flights` exists, with id 3; run `rehome keyspace show flights`",
    );
    for name in ["", "a b", "ä", "a/b", ".", "..", "-k", "_k", &"x".repeat(101)] {
        assert_eq!(refused(world.tell(create(name, 16, 2))).code(), "name-invalid", "{name}");
    }
    check(
        world.tell(create("k", 16, 17)),
        "shard-count-invalid",
        "17 shards cannot be: 1 to 16 are possible here; choose another `--shards`",
    );
    check(
        world.tell(create("k", 100_000, 4097)),
        "shard-count-invalid",
        "4097 shards cannot be: 1 to 4096 are possible here; choose another `--shards`",
    );
    assert_eq!(refused(world.tell(create("k", 16, 0))).code(), "shard-count-invalid");
}

#[test]
fn jobs_whose_moves_do_not_fit_the_routes_are_refused_whole() {
    for (moves, code) in [
        (&[][..], "job-empty"),
        (&[(0, 0, &[(0, 1)][..])], "same-shard"),
        (&[(0, 4, &[(0, 1)])], "destination-retired"),
        (&[(0, 1, &[])], "slots-invalid"),
        (&[(0, 1, &[(3, 2)])], "slots-invalid"),
        (&[(0, 1, &[(4, 5), (2, 3)])], "slots-invalid"),
        (&[(0, 1, &[(2, 4), (4, 5)])], "slots-invalid"),
        (&[(1, 0, &[(15, 16)])], "slots-invalid"),
        (&[(1, 0, &[(15, u32::MAX)])], "slots-invalid"),
        (&[(0, 1, &[(7, 8)])], "slot-not-owned"),
        (&[(5, 1, &[(0, 1)])], "slot-not-owned"),
        (&[(0, 1, &[(0, 3)]), (0, 2, &[(5, 6)]), (0, 3, &[(3, 4)])], "keys-named-twice"),
        (&[(0, 2, &[(0, 3)]), (0, 2, &[(9, 9)])], "slot-not-owned"),
    ] {
        let mut world = World::new();
        let before = world.state.clone();
        let refusal = refused(world.submit(moves, KEEP));
        assert_eq!(refusal.code(), code, "{refusal}");
        assert_eq!((world.state.moves().count(), world.keyspace().shards), (0, 2), "nothing of it is done");
        assert_eq!(world.state.keyspaces, before.keyspaces);
    }
    let mut world = World::new();
    check(
        world.submit(&[(0, 1, &[(6, 9)])], KEEP),
        "slot-not-owned",
        "slot 8 is owned by shard 1, not by 0: the routes changed; run `rehome status` and plan again",
    );
}

#[test]
fn shard_counts_that_no_keyspace_can_have_are_refused() {
    for shards in [0, 17, u32::MAX] {
        let mut world = World::new();
        let moves = vec![wanted(0, 1, &[(0, 1)])];
        let asked =
            JobSubmitted { keyspace: world.keyspace().id, shards, moves, options: KEEP, requested_by: "ann".into() };
        assert_eq!(refused(world.tell(ControlEvent::JobSubmitted(asked))).code(), "shard-count-invalid");
    }
}

#[test]
fn keys_in_common_with_an_open_move_are_refused_until_its_clean_up_is_recorded() {
    let overlapping = [(0, 2, &[(7, 7)][..])];
    let mut world = World::with_move(KEEP);
    for phase in ["planned", "copying", "catching-up", "cutting-over"] {
        world.bring_to(phase);
        check(
            world.submit(&overlapping, KEEP),
            "keys-in-open-move",
            &format!("some of the keys are in move 1, which is {phase}; run `rehome wait 5` or `rehome cancel 5`"),
        );
    }
    let back = [(1, 0, &[(4, 4)][..])];
    world.bring_to("switched");
    check(
        world.submit(&back, KEEP),
        "keys-kept-at-source",
        "some of the keys are in move 1, whose source still keeps its rows; run `rehome complete 5`",
    );
    world.bring_to("completing");
    check(
        world.submit(&back, KEEP),
        "keys-in-cleanup",
        "some of the keys are still being cleaned up after move 1; run `rehome wait 5`",
    );
    assert_eq!(word(&world.submit(&[(0, 1, &[(0, 3)])], KEEP)), "accepted", "other keys are free");
    world.bring_to("completed");
    assert_eq!(word(&world.submit(&back, KEEP)), "accepted");
}

#[test]
fn keys_of_a_cancelled_move_are_free_once_its_destination_is_clean() {
    let mut world = World::with_move(KEEP);
    world.bring_to("catching-up");
    world.tell(cancel(world.job()));
    assert_eq!(refused(world.submit(&[(0, 2, &[(5, 5)])], KEEP)).code(), "keys-in-cleanup");
    world.bring_to("cancelled");
    assert_eq!(word(&world.submit(&[(0, 2, &[(5, 5)])], KEEP)), "accepted");
}

#[test]
fn what_does_not_exist_is_refused_with_where_to_look() {
    let mut world = World::with_move(KEEP);
    let (keyspace, move_id, attempt, job_id) = (KeyspaceId(99), MoveId(99), AttemptId(99), JobId(99));
    check(
        world.tell(job(keyspace, vec![wanted(0, 1, &[(0, 1)])], KEEP)),
        "keyspace-unknown",
        "there is no keyspace 99; run `rehome keyspace list`",
    );
    for event in [
        ControlEvent::MoveStarted { move_id },
        snapshot(move_id, 1, EVEN, 7),
        ControlEvent::CopyIngested { move_id, copy: 1, node: ODD, digest: digest(7) },
        ControlEvent::CopyFailed { move_id, copy: 1, node: ODD, reason: "gone".into() },
        ControlEvent::CutoverStarted { move_id, nonce: rehome_keyspace::Nonce(1), predicted_pause_us: 1 },
        ControlEvent::CleanupDone { move_id, node: ODD },
        ControlEvent::MoveFailed { move_id, reason: "gone".into() },
    ] {
        check(world.tell(event), "move-unknown", "there is no move 99; run `rehome list`");
    }
    for event in [ready(attempt, EVEN, Side::Source, 1, 1), aborted(attempt, 1)] {
        check(world.tell(event), "attempt-unknown", "there is no attempt 99; run `rehome list`");
    }
    for event in [cancel(job_id), ControlEvent::CompleteRequested { job: job_id }] {
        check(world.tell(event), "job-unknown", "there is no job 99; run `rehome list`");
    }
}

#[test]
fn reports_of_nodes_that_host_no_replica_are_refused() {
    let mut world = World::with_move(KEEP);
    let id = world.first().id;
    world.bring_to("copying");
    for node in [ODD, IDLE, NodeId(9)] {
        assert_eq!(word(&world.tell(snapshot(id, 1, node, 7))), "not-replica");
    }
    world.tell(snapshot(id, 1, EVEN, 7));
    for node in [EVEN, IDLE] {
        let event = ControlEvent::CopyIngested { move_id: id, copy: 1, node, digest: digest(7) };
        assert_eq!(word(&world.tell(event)), "not-replica");
    }
    let failed = ControlEvent::CopyFailed { move_id: id, copy: 1, node: IDLE, reason: "gone".into() };
    check(world.tell(failed), "not-replica", "node 3 hosts no replica of shard 1 of keyspace 3; run `rehome status`");
    world.bring_to("cutting-over");
    for (node, side) in [(ODD, Side::Source), (EVEN, Side::Destination), (IDLE, Side::Source)] {
        assert_eq!(word(&world.tell(ready(world.attempt(), node, side, 50, 8))), "not-replica");
    }
    world.bring_to("completing");
    assert_eq!(word(&world.tell(ControlEvent::CleanupDone { move_id: id, node: ODD })), "not-replica");
}

#[test]
fn completing_and_cancelling_are_refused_where_they_would_do_nothing() {
    let mut world = World::with_move(KEEP);
    let id = world.job();
    check(
        world.tell(ControlEvent::CompleteRequested { job: id }),
        "complete-too-early",
        "move 1 of job 5 is planned, not switched yet; run `rehome wait 5` or `rehome cancel 5` first",
    );
    world.bring_to("switched");
    check(
        world.tell(cancel(id)),
        "cancel-too-late",
        "every move of job 5 has switched or ended, nothing is left to cancel; run `rehome show 5`",
    );
    let mut world = World::with_move(KEEP);
    world.tell(cancel(id));
    assert_eq!(word(&world.tell(cancel(id))), "done");
    check(
        world.tell(ControlEvent::CompleteRequested { job: id }),
        "complete-too-late",
        "no move of job 5 is switched, nothing is left to complete; run `rehome show 5`",
    );
}
