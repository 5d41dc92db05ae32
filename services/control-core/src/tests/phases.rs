//! Each phase with each event, as one table.

use super::world::*;
use rehome_keyspace::{AttemptId, MoveId, Nonce, Side};
use rehome_records::ControlEvent;

const PHASES: [&str; 12] = [
    "planned",
    "copying",
    "catching-up",
    "cutting-over",
    "ending", // cutting over, with a cancellation that waits for the outcome
    "switched",
    "completing",
    "completed",
    "cancelling",
    "cancelled",
    "failing",
    "failed",
];

fn at(phase: &str) -> World {
    let mut world = World::with_move(KEEP);
    match phase {
        "ending" => {
            world.bring_to("cutting-over");
            world.tell(cancel(world.job()));
        }
        "cancelling" | "cancelled" => {
            world.bring_to("catching-up");
            world.tell(cancel(world.job()));
            world.bring_to(phase);
        }
        "failing" | "failed" => {
            world.bring_to("catching-up");
            world.tell(ControlEvent::MoveFailed { move_id: MoveId(1), reason: "no room".into() });
            world.bring_to(phase);
        }
        _ => world.bring_to(phase),
    }
    world
}

/// Every event about a move, as it would come if the sender saw the move in the phase where the event belongs.
fn events(world: &World) -> Vec<(&'static str, ControlEvent)> {
    let (id, copy, job) = (MoveId(1), 1, world.job());
    let attempt = world.first().attempts.last().copied().unwrap_or(AttemptId(1));
    let reason = || "gone".to_owned();
    vec![
        ("start", ControlEvent::MoveStarted { move_id: id }),
        ("snapshot", snapshot(id, copy, EVEN, 7)),
        ("ingested", ControlEvent::CopyIngested { move_id: id, copy, node: ODD, digest: digest(7) }),
        ("copy failed", ControlEvent::CopyFailed { move_id: id, copy, node: ODD, reason: reason() }),
        ("cut over", ControlEvent::CutoverStarted { move_id: id, nonce: Nonce(5), predicted_pause_us: 1 }),
        ("source ready", ready(attempt, EVEN, Side::Source, 50, 8)),
        ("destination ready", ready(attempt, ODD, Side::Destination, 50, 8)),
        ("abort", aborted(attempt, 50)),
        ("complete", ControlEvent::CompleteRequested { job }),
        ("cancel", cancel(job)),
        ("pause", pause(job)),
        ("resume", ControlEvent::ResumeRequested { job }),
        ("source clean", ControlEvent::CleanupDone { move_id: id, node: EVEN }),
        ("destination clean", ControlEvent::CleanupDone { move_id: id, node: ODD }),
        ("fail", ControlEvent::MoveFailed { move_id: id, reason: reason() }),
    ]
}

/// What each event does: the phase it leads to, `.` when it is accepted and the phase stays, `=` when it was done
/// before. Events that are refused are left out.
fn table() -> String {
    let mut out = String::new();
    for phase in PHASES {
        let start = at(phase);
        out += &format!("{phase}:");
        for (name, event) in events(&start) {
            let mut world = start.clone();
            let before = world.first().phase.clone();
            let decision = world.tell(event);
            let after = &world.first().phase;
            let effect = match word(&decision) {
                "accepted" if *after == before => ".".to_owned(),
                "accepted" => after.name().to_owned(),
                "done" => "=".to_owned(),
                _ => "-".to_owned(),
            };
            if effect == "=" || effect == "-" {
                assert_eq!(*after, before, "{name} in {phase} is not accepted and changes nothing");
            }
            if effect != "-" {
                out += &format!(" {name} {effect},");
            }
        }
        out.pop();
        out += "\n";
    }
    out
}

#[test]
fn each_phase_takes_the_events_of_its_row_and_no_other() {
    let expected = "\
planned: start copying, cancel cancelled, pause ., fail failed
copying: start =, snapshot ., copy failed ., cancel cancelling, pause ., fail failing
catching-up: start =, snapshot =, ingested =, copy failed copying, cut over cutting-over, cancel cancelling, pause ., fail failing
cutting-over: start =, snapshot =, ingested =, source ready ., destination ready ., abort catching-up, cancel ., pause ., fail .
ending: start =, snapshot =, ingested =, source ready ., destination ready ., abort cancelling, cancel =
switched: start =, snapshot =, ingested =, source ready =, destination ready =, complete completing
completing: start =, snapshot =, ingested =, source ready =, destination ready =, complete =, source clean completed
completed: start =, snapshot =, ingested =, source ready =, destination ready =, complete =, source clean =
cancelling: start =, snapshot =, ingested =, cancel =, destination clean cancelled
cancelled: snapshot =, ingested =, cancel =, destination clean =
failing: start =, snapshot =, ingested =, destination clean failed, fail =
failed: snapshot =, ingested =, destination clean =, fail =
";
    assert_eq!(table(), expected);
}
