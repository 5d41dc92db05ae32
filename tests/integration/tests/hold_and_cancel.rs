//! A live process with one thread held in the middle of a move: cancelled, paused and killed, or late.

use anyhow::{Context, ensure};
use rehome_integration::pipe::Held;
use rehome_integration::{Arming, Bench, Folder, KEYSPACE, Medium, Prepared, pairs, wait};
use serde_json::Value;
use std::time::Duration;

const SEED: u64 = 20_260_712;
const HELD_MAX: Duration = Duration::from_secs(30);

/// Where a thread is held, and the phase in which a move is then.
const HELD: [(&str, &str); 9] = [
    ("controller.start-move.before", "planned"),
    ("node.export-runs.before", "copying"),
    ("node.seal-snapshot.after", "copying"),
    ("node.ingest.before", "copying"),
    ("node.ingest.after", "copying"),
    ("controller.start-cutover.before", "catching-up"),
    ("controller.append-open.before", "cutting-over"),
    ("controller.append-fence.before", "cutting-over"),
    ("node.propose-ready.before", "cutting-over"),
];

#[test]
fn cancelled_in_every_phase_before_the_switch_nothing_is_left_at_the_destination() {
    let rows = Bench::filled(SEED, Medium::Memory, 3).and_then(Bench::freeze).expect("a folder with rows");
    let all: Vec<_> = HELD.iter().map(|held| (format!("{:34} {}", held.0, held.1), *held)).collect();
    pairs::run("cancelled while held", &all, |(point, phase)| cancel_at(&rows, point, phase));
}

#[test]
fn paused_in_every_phase_before_the_switch_and_killed_nothing_starts_before_it_is_resumed() {
    let rows = Bench::filled(SEED, Medium::Memory, 3).and_then(Bench::freeze).expect("a folder with rows");
    let all: Vec<_> = HELD.iter().map(|held| (format!("{:34} {}", held.0, held.1), *held)).collect();
    pairs::run("paused while held", &all, |(point, phase)| pause_at(&rows, point, phase));
}

#[test]
fn a_cutover_that_lacks_an_answer_is_aborted_and_the_next_one_switches() {
    let rows = Bench::filled(SEED, Medium::Memory, 3).and_then(Bench::freeze).expect("a folder with rows");
    late_answer(&rows).unwrap_or_else(|error| panic!("{error:#}"));
}

/// Starts a job of three moves, each to shard 3, that stands still at the point when one of them is in that phase.
fn held_at(rows: &Prepared, point: &str, phase: &str) -> anyhow::Result<(Bench, u64, Held)> {
    let mut bench = rows.bench()?;
    let pipe = bench.start_held(point)?;
    bench.work();
    let job = bench.reshard(4)?;
    let held = pipe.wait_held(HELD_MAX)?;
    wait::until(&format!("a move to be {phase}"), HELD_MAX, || {
        let story = bench.explain(job)?;
        Ok(moves(&story)?.iter().any(|one| one["phase"] == phase).then_some(()))
    })?;
    Ok((bench, job, held))
}

fn cancel_at(rows: &Prepared, point: &str, phase: &str) -> anyhow::Result<String> {
    let (mut bench, job, held) = held_at(rows, point, phase)?;
    bench.cancel(job)?;
    drop(held);
    let ended = bench.wait_jobs()?;
    ensure!(ended == ["cancelled"], "the job is {ended:?}");
    let story = bench.explain(job)?;
    let switched = moves(&story)?.iter().filter(|one| one["phase"] == "completed").count();
    let remark = bench.conclude()?;
    if switched == 0 {
        let folder = Folder::open(bench.dir())?;
        let entries = folder.entries(KEYSPACE)?;
        folder.close()?;
        let left = entries.last_key_value().context("no stores")?;
        ensure!(entries.len() == 4 && *left.1 == 0, "entries by shard after the cancellation: {entries:?}");
    }
    // Nothing stands in the way of another try.
    bench.start(&Arming::default())?;
    bench.work();
    bench.reshard(4)?;
    let ended = bench.wait_jobs()?;
    ensure!(ended == ["cancelled", "completed"], "jobs are {ended:?}");
    bench.conclude()?;
    Ok(format!("{remark}, {switched} moves had switched"))
}

fn pause_at(rows: &Prepared, point: &str, phase: &str) -> anyhow::Result<String> {
    let (mut bench, job, held) = held_at(rows, point, phase)?;
    let paused = bench.pause(job)?;
    ensure!(paused["state"] == "paused" && paused["next_steps"][0] == format!("rehome resume {job}"), "{paused}");
    drop(held);
    // What is under way ends: then every move stands still.
    wait::until("the moves to stand still", HELD_MAX, || Ok(stands_still(&bench.explain(job)?)?.then_some(())))?;
    bench.kill()?;
    bench.start(&Arming::default())?;
    // The new life would go on by now: what had caught up has caught up again.
    let again = wait::until("the replays to follow again", HELD_MAX, || {
        let story = bench.explain(job)?;
        let follows = |one: &Value| one["phase"] != "catching-up" || one["lag_records"].as_u64() == Some(0);
        Ok(moves(&story)?.iter().all(follows).then_some(story))
    })?;
    ensure!(again["state"] == "paused" && stands_still(&again)?, "a restart ended the pause: {again}");
    bench.resume(job)?;
    let ended = bench.wait_jobs()?;
    ensure!(ended == ["completed"], "the job is {ended:?}");
    let story = bench.explain(job)?;
    for one in moves(&story)? {
        let after_pause = lines(one).skip_while(|line| !line.starts_with("paused"));
        let started = after_pause.take_while(|line| *line != "resumed").find(|line| line.contains("started"));
        ensure!(started.is_none(), "while paused: {started:?} of {one}");
    }
    bench.conclude()
}

/// Tells whether no cutover is under way, and nothing that follows one.
fn stands_still(story: &Value) -> anyhow::Result<bool> {
    let still =
        |one: &Value| matches!(one["phase"].as_str(), Some("planned" | "copying" | "catching-up" | "completed"));
    Ok(moves(story)?.iter().all(still))
}

fn lines(one: &Value) -> impl Iterator<Item = &str> {
    one["story"].as_array().into_iter().flatten().filter_map(|line| line["what"].as_str())
}

fn late_answer(rows: &Prepared) -> anyhow::Result<()> {
    let mut bench = rows.bench()?;
    let pipe = bench.start_held("node.propose-ready.before")?;
    bench.work();
    let job = bench.reshard(4)?;
    let held = pipe.wait_held(HELD_MAX)?;
    wait::until("the attempt to be aborted", HELD_MAX, || {
        let story = bench.explain(job)?;
        let aborted = moves(&story)?.iter().flat_map(attempts).any(|attempt| attempt["outcome"] == "aborted");
        Ok(aborted.then_some(()))
    })?;
    drop(held);
    let ended = bench.wait_jobs()?;
    ensure!(ended == ["completed"], "the job is {ended:?}");
    let story = bench.explain(job)?;
    let aborted: Vec<_> = moves(&story)?.iter().flat_map(attempts).filter(|one| one["outcome"] == "aborted").collect();
    ensure!(aborted.iter().all(|one| one["reason"].as_str().is_some_and(|reason| reason.contains("2000 ms"))));
    bench.conclude().map(drop)
}

fn moves(story: &Value) -> anyhow::Result<&Vec<Value>> {
    story["moves"].as_array().with_context(|| format!("{story} has no moves"))
}

fn attempts(one: &Value) -> impl Iterator<Item = &Value> {
    one["attempts"].as_array().into_iter().flatten()
}
