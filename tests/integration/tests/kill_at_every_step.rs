//! The process killed with SIGKILL before and after every effect that it has, restarted, and compared three ways.

use anyhow::{Context, ensure};
use rehome_integration::folder::named;
use rehome_integration::http::Http;
use rehome_integration::memory::BUCKETS;
use rehome_integration::pipe::Pipe;
use rehome_integration::wait;
use rehome_integration::{Arming, Bench, Folder, KEYSPACE, Medium, Prepared, binaries, pairs};
use rehome_keyspace::{Nonce, Placement};
use rehome_oracle::{MovePhase, MoveStory};
use rehome_records::control::data_topic;
use rehome_records::data::{AttemptMark, Mark};
use rehome_records::{ControlEvent, TopicPartition};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Longest time until a point is reached. Reason: abort by timeout takes two seconds of it.
const REACHED_MAX: Duration = Duration::from_secs(30);
/// Attempts after which a controller gives a move up.
const ATTEMPTS_MAX: u32 = 16;
const SEED: u64 = 20_260_711;

/// What the process has before it when it starts with its fail point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// An empty folder: it is started for the first time, and asked for a keyspace.
    Nothing,
    /// Rows on 3 shards, and the job that makes them 5, of which nothing is done.
    Up,
    /// Rows on 5 shards, and the job that makes them 2, of which nothing is done.
    Down,
    /// As `Up`, but a replica never tells that it is ready, so that the cutover is aborted by timeout.
    UpWithoutAnswer,
    /// As `Up`, further: a snapshot is taken, and altered on disk.
    UpWithAlteredSnapshot,
    /// As `Up`, further: the log holds that a snapshot was taken, and the source store does not.
    UpExported,
    /// As `Up`, further: a copy is in, and the job is cancelled.
    UpCancelled,
    /// As `Up`, further: one move was aborted as often as a move may be.
    UpGivenUp,
    /// Rows on 3 shards of a keyspace that keeps request ids for seconds only, and no job.
    Forgetful,
    /// As `Forgetful`, with a second keyspace that holds rows and was dropped, and nothing of it is removed yet.
    Dropped,
}

struct Scenario {
    start: Start,
    point: String,
}

/// The folders from which scenarios start.
struct Starts {
    up: Prepared,
    down: Prepared,
    altered: Prepared,
    exported: Prepared,
    cancelled: Prepared,
    given_up: Prepared,
    forgetful: Prepared,
    dropped: Prepared,
}

/// Returns the scenarios that reach the point. An effect that nobody named here has to show up in any reshard.
fn scenarios(point: &str) -> Vec<Scenario> {
    let (effect, _) = point.rsplit_once('.').expect("points are named role.effect.when");
    let starts: &[(Start, u32)] = match effect {
        "node.propose-registered" => &[(Start::Nothing, 1), (Start::Up, 1)],
        "controller.ensure-partitions" => &[(Start::Nothing, 1), (Start::Up, 1), (Start::Down, 1)],
        "node.propose-copy-failed" => &[(Start::UpWithAlteredSnapshot, 1)],
        "node.count" => &[(Start::UpExported, 1)],
        "controller.abort-cutover" => &[(Start::UpWithoutAnswer, 1)],
        "controller.append-horizon" => &[(Start::Forgetful, 1)],
        "node.remove-stores"
        | "node.remove-snapshots"
        | "node.propose-keyspace-removed"
        | "controller.remove-topic"
        | "controller.propose-topic-removed" => &[(Start::Dropped, 1)],
        "controller.fail-move" => &[(Start::UpGivenUp, 1)],
        "node.wipe-for-cleanup" | "node.remove-snapshot" | "node.propose-cleanup-done" => {
            &[(Start::Up, 1), (Start::Down, 2), (Start::UpCancelled, 1)]
        }
        // These happen at any time, so the second run is killed somewhere in the middle of the job.
        "node.write"
        | "node.verdicts"
        | "router.append"
        | "router.read"
        | "router.answer-write"
        | "router.answer-read" => &[(Start::Up, 1), (Start::Down, 40)],
        _ => &[(Start::Up, 1), (Start::Down, 2)],
    };
    starts.iter().map(|(start, count)| Scenario { start: *start, point: format!("{point}:{count}") }).collect()
}

#[test]
fn killed_at_every_step_of_a_reshard_nothing_is_lost_doubled_or_brought_back() {
    let starts = Starts::prepare().expect("the folders to start from");
    let all = binaries::fail_points().into_iter().flat_map(|point| scenarios(&point)).map(|scenario| {
        let name = format!("{:34} {:?}", scenario.point, scenario.start);
        (name, scenario)
    });
    let all: Vec<_> = all.collect();
    pairs::run("SIGKILL at every step", &all, |scenario| starts.run(scenario));
}

#[test]
fn every_fail_point_has_a_scenario() {
    let points = binaries::fail_points();
    assert!(points.len() >= 56, "{points:?}");
    assert!(points.iter().all(|point| !scenarios(point).is_empty()));
}

impl Starts {
    fn prepare() -> anyhow::Result<Starts> {
        let forgetful = fill_forgetful()?;
        let rows = Bench::filled(SEED, Medium::Memory, 3)?.freeze()?;
        let mut up = rows.bench()?;
        submit_and_die(&mut up, 5)?;
        let up = up.freeze()?;
        let mut down = up.bench()?;
        down.start(&Arming::default())?;
        ensure!(down.wait_jobs()? == ["completed"], "the reshard to 5 shards does not complete");
        down.stop()?;
        submit_and_die(&mut down, 2)?;
        let altered = go_on_until(&up, "node.wipe-for-ingest.before")?;
        alter_snapshots(&altered.dir().join("data/snapshots"))?;
        let exported = go_on_until(&up, "node.wipe-for-ingest.before")?;
        let cancelled = go_on_until(&up, "node.propose-copy-ingested.before")?;
        cancel_offline(&cancelled)?;
        let given_up = go_on_until(&up, "controller.start-cutover.before")?;
        abort_offline(&given_up)?;
        let dropped = drop_and_die(&rows)?;
        Ok(Starts {
            up,
            down: down.freeze()?,
            altered: altered.freeze()?,
            exported: exported.freeze()?,
            cancelled: cancelled.freeze()?,
            given_up: given_up.freeze()?,
            forgetful,
            dropped,
        })
    }

    fn run(&self, scenario: &Scenario) -> anyhow::Result<String> {
        let mut bench = match scenario.start {
            Start::Nothing => Bench::empty(SEED, Medium::Memory)?,
            Start::Up | Start::UpWithoutAnswer => self.up.bench()?,
            Start::Down => self.down.bench()?,
            Start::UpWithAlteredSnapshot => self.altered.bench()?,
            Start::UpExported => self.exported.bench()?,
            Start::UpCancelled => self.cancelled.bench()?,
            Start::UpGivenUp => self.given_up.bench()?,
            Start::Forgetful => self.forgetful.bench()?,
            Start::Dropped => self.dropped.bench()?,
        };
        let mut arming = Arming::fail_at(&scenario.point);
        if scenario.start == Start::UpWithoutAnswer {
            let pipe = Pipe::make(bench.dir().join("pipe"))?;
            arming.hold_at = Some(("node.propose-ready.before".into(), pipe.path().to_owned()));
        }
        bench.start(&arming)?;
        if scenario.start == Start::Nothing {
            // The process may die of it, before or after it answers; or it died before it could listen.
            let _ = bench.listens().then(|| bench.create_keyspace(3));
        } else {
            bench.work();
        }
        bench.wait_killed(REACHED_MAX).with_context(|| format!("{} was never reached", scenario.point))?;
        bench.start(&Arming::default())?;
        if scenario.start == Start::Nothing {
            bench.create_keyspace(3)?;
            bench.work();
        }
        if scenario.start == Start::Dropped {
            nothing_is_left_of_the_spare(&bench)?;
        }
        if matches!(scenario.start, Start::Nothing | Start::Forgetful | Start::Dropped) {
            bench.reshard(5)?;
        }
        let ended = bench.wait_jobs()?;
        match scenario.start {
            Start::UpCancelled => again_after(&mut bench, &ended, "cancelled")?,
            Start::UpGivenUp => again_after(&mut bench, &ended, "failed")?,
            _ => ensure!(ended.iter().all(|state| state == "completed"), "jobs are {ended:?}"),
        }
        bench.conclude()
    }
}

/// A job that ended early leaves nothing in the way of the next one.
fn again_after(bench: &mut Bench, ended: &[String], expected: &str) -> anyhow::Result<()> {
    ensure!(ended == [expected], "jobs are {ended:?}");
    bench.reshard(5)?;
    let ended = bench.wait_jobs()?;
    ensure!(ended == [expected, "completed"], "jobs are {ended:?}");
    Ok(())
}

/// Returns rows on 3 shards of a keyspace that keeps request ids for seconds only: longer than any retry takes.
fn fill_forgetful() -> anyhow::Result<Prepared> {
    let mut bench = Bench::empty(SEED, Medium::Memory)?;
    bench.start(&Arming::default())?;
    bench.stop()?;
    let folder = Folder::open(bench.dir())?;
    folder.propose(ControlEvent::KeyspaceCreated {
        name: KEYSPACE.into(),
        placement: Placement::buckets(BUCKETS)?,
        shards: 3,
        request_retention_ms: 15_000,
    })?;
    folder.close()?;
    bench.start(&Arming::default())?;
    bench.fill()?;
    bench.stop()?;
    bench.freeze()
}

/// A keyspace beside that of the bench.
const SPARE: &str = "spare";

/// Returns the rows, and a second keyspace with rows that a process dropped and died before it removed anything.
fn drop_and_die(rows: &Prepared) -> anyhow::Result<Prepared> {
    let mut bench = rows.bench()?;
    bench.start(&Arming::fail_at("node.remove-stores.before"))?;
    let (http, server) = (Http::default(), bench.server()?);
    http.post(&server, "/v1/keyspaces", &json!({ "name": SPARE, "shards": 2, "buckets": 16 }))?.good()?;
    for key in 0..20 {
        let body = json!({ "key": format!("key-{key}"), "sort": "a", "value": "v" });
        http.post(&server, &format!("/v1/keyspaces/{SPARE}/rows"), &body)?.good()?;
    }
    // It may die before it answers.
    let _ = http.delete(&server, &format!("/v1/keyspaces/{SPARE}"), &[]);
    bench.wait_killed(REACHED_MAX)?;
    bench.freeze()
}

/// Waits until stores and partitions of the spare keyspace are gone. Its name can be used again, and finds no row.
fn nothing_is_left_of_the_spare(bench: &Bench) -> anyhow::Result<()> {
    let (http, server) = (Http::default(), bench.server()?);
    let listed = http.get(&server, "/v1/keyspaces", &[])?.good()?;
    let only = listed["keyspaces"].as_array().context("no keyspaces")?;
    ensure!(only.len() == 1 && only[0]["name"] == KEYSPACE, "{listed}");
    let id = only[0]["id"].as_u64().context("no id")?;
    let of_bench = format!("{id}-");
    wait::until("the stores to be gone", REACHED_MAX, || {
        let mut left = Vec::new();
        for entry in std::fs::read_dir(bench.dir().join("data/stores"))? {
            left.extend(entry?.file_name().into_string().ok().filter(|name| !name.starts_with(&of_bench)));
        }
        Ok(left.is_empty().then_some(()))
    })?;
    http.post(&server, "/v1/keyspaces", &json!({ "name": SPARE, "shards": 1, "buckets": 16 }))?.good()?;
    let scan = http.get(&server, &format!("/v1/keyspaces/{SPARE}/scan"), &[("limit", "10")])?.good()?;
    ensure!(scan["rows"].as_array().is_some_and(Vec::is_empty), "rows came back: {scan}");
    Ok(())
}

/// Submits a job to a process that dies before the job's first step.
fn submit_and_die(bench: &mut Bench, shards: u32) -> anyhow::Result<()> {
    bench.start(&Arming::fail_at("controller.start-move.before"))?;
    // It may die before it answers.
    let _ = bench.reshard(shards);
    bench.wait_killed(REACHED_MAX)
}

fn go_on_until(from: &Prepared, point: &str) -> anyhow::Result<Bench> {
    let mut bench = from.bench()?;
    bench.start(&Arming::fail_at(point))?;
    bench.wait_killed(REACHED_MAX).with_context(|| format!("{point} was never reached"))?;
    Ok(bench)
}

/// Flips one byte in the middle of every run of every snapshot.
fn alter_snapshots(dir: &Path) -> anyhow::Result<()> {
    let mut altered = 0;
    for snapshot in std::fs::read_dir(dir)? {
        for file in std::fs::read_dir(snapshot?.path())? {
            let path = file?.path();
            if path.file_name().is_some_and(|name| name != "manifest") {
                let mut bytes = std::fs::read(&path)?;
                let middle = bytes.len() / 2;
                // A run that another move had only begun is empty.
                let Some(byte) = bytes.get_mut(middle) else { continue };
                *byte ^= 1;
                std::fs::write(&path, bytes)?;
                altered += 1;
            }
        }
    }
    ensure!(altered > 0, "no snapshot to alter");
    Ok(())
}

/// Asks for the end of the only job in the log of a process that is dead.
fn cancel_offline(bench: &Bench) -> anyhow::Result<()> {
    let folder = Folder::open(bench.dir())?;
    let job = folder.story()?.moves.values().next().context("no move")?.job;
    folder.propose(ControlEvent::CancelRequested { job, reason: "a test asked for it".into() })?;
    folder.close()
}

/// Writes into the logs of a dead process what a controller writes that starts a cutover and gives it up, as often as
/// a move may be aborted.
fn abort_offline(bench: &Bench) -> anyhow::Result<()> {
    let folder = Folder::open(bench.dir())?;
    let catches_up = |one: &&MoveStory| one.phase == MovePhase::CatchingUp;
    let story = folder.story()?;
    let one = story.moves.values().find(catches_up).context("no move catches up")?;
    for number in 0..ATTEMPTS_MAX {
        let nonce = Nonce(u64::from(number) + 1);
        let started = ControlEvent::CutoverStarted { move_id: one.id, nonce, predicted_pause_us: 1_000 };
        folder.propose(started)?;
        let story = folder.story()?;
        let keyspace = named(&story, KEYSPACE)?;
        let attempt = story.attempts.values().last().context("no attempt was begun")?;
        ensure!(attempt.nonce == nonce, "the last attempt is another");
        let mark = AttemptMark {
            move_id: one.id,
            attempt: attempt.attempt,
            epoch: attempt.epoch,
            selector: keyspace.placement.selector(one.slots.iter().copied()),
            control_offset: attempt.control_offset,
            nonce,
        };
        let partition = TopicPartition::new(data_topic(&keyspace.name, keyspace.id), one.source.0);
        let fence = folder.append(partition, Mark::Fence(mark).into_record())?;
        let (attempt, reason) = (attempt.attempt, format!("the test gives up attempt {number}"));
        folder.propose(ControlEvent::CutoverAborted { attempt, fence, reason })?;
    }
    folder.close()
}
