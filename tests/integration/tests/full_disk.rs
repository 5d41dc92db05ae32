//! A disk that fills up: a copy stands still, says so, and goes on when there is room; the log says so too, and nothing
//! acknowledged is lost; a dropped keyspace's topic is removed once there is room.

use anyhow::{Context, ensure};
use rehome_integration::http::Http;
use rehome_integration::pipe::Pipe;
use rehome_integration::small_disk::SmallDisk;
use rehome_integration::{Arming, Bench, Folder, KEYSPACE, wait};
use rehome_records::TopicPartition;
use rehome_records::control::data_topic;
use serde_json::json;
use std::time::Duration;

const SEED: u64 = 20_260_717;
const WAIT_MAX: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
/// Free bytes below which no copy is written.
const KEPT_FREE: u64 = 64 * MIB;

#[test]
fn a_copy_that_finds_no_room_stands_still_says_so_and_goes_on_when_there_is_some() {
    copy_without_room().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn a_log_that_finds_no_room_says_so_and_goes_on_after_a_start_with_everything_acknowledged() {
    log_without_room().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn a_topic_that_finds_no_room_to_be_removed_is_removed_when_there_is_some() {
    topic_without_room().unwrap_or_else(|error| panic!("{error:#}"));
}

fn copy_without_room() -> anyhow::Result<()> {
    let disk = SmallDisk::mount(384)?;
    let mut bench = Bench::on(SEED, disk.path())?;
    bench.start(&Arming::default())?;
    bench.create_keyspace(2)?;
    bench.fill()?;
    bench.work();
    let ballast = disk.fill(KEPT_FREE - MIB)?;
    let job = bench.reshard(3)?;
    let says = "are free where snapshots are written";
    wait::until("the move to say that there is no room", WAIT_MAX, || {
        let log = std::fs::read_to_string(bench.dir().join("process.log"))?;
        Ok((log.matches(says).count() >= 3).then_some(()))
    })?;
    // Clients are answered all the while, and the move waits without giving a copy up.
    let story = bench.explain(job)?;
    for one in story["moves"].as_array().context("no moves")? {
        let lines = one["story"].as_array().context("no story")?;
        let gave_up = lines.iter().any(|line| line["what"].as_str().is_some_and(|what| what.contains("given up")));
        ensure!(!gave_up && one["phase"] != "failed", "{one}");
    }
    ensure!(bench.jobs()?.iter().all(|job| job["state"] == "running"), "{:?}", bench.jobs()?);
    ballast.remove()?;
    let ended = bench.wait_jobs()?;
    ensure!(ended == ["completed"], "the job is {ended:?}");
    bench.conclude().map(drop)
}

fn log_without_room() -> anyhow::Result<()> {
    let disk = SmallDisk::mount(160)?;
    let mut bench = Bench::on(SEED, disk.path())?;
    bench.start(&Arming::default())?;
    bench.create_keyspace(2)?;
    bench.fill()?;
    bench.stop()?;
    bench.start(&Arming::default())?;
    bench.work();
    let ballast = disk.fill(0)?;
    // Large writes use up what the log has made ahead.
    let (http, server) = (Http::default(), bench.server()?);
    let path = format!("/v1/keyspaces/{KEYSPACE}/rows");
    let value = "x".repeat(MIB as usize);
    let mut written = 0;
    let refused = wait::until("a write to be refused", 3 * WAIT_MAX, || {
        let body = json!({ "key": "large", "sort": "one", "value": value });
        match http.post(&server, &path, &body) {
            Ok(answer) if answer.status < 300 => {
                written += 1;
                Ok(None)
            }
            Ok(answer) => Ok(Some(Some(answer))),
            // The process ends when a role of it cannot go on.
            Err(_) => Ok(Some(None)),
        }
    })?;
    if let Some(answer) = &refused {
        ensure!(answer.is_passing(), "{answer:?}");
        ensure!(
            answer.body["error"]["message"].as_str().is_some_and(|text| text.contains("No space left")),
            "{answer:?}"
        );
    }
    let log = std::fs::read_to_string(bench.dir().join("process.log"))?;
    ensure!(log.contains("log stopped") && log.contains("No space left"), "{log}");
    bench.kill()?;
    ballast.remove()?;
    std::fs::remove_file(bench.dir().join("process.log"))?;
    bench.start(&Arming::default())?;
    let query = [("key", "large"), ("sort", "one"), ("request", "00000000000000000000000000000001")];
    let removed = Http::default().delete(&bench.server()?, &path, &query)?.good()?;
    ensure!(removed["verdict"] == "accepted", "{removed}");
    bench.conclude().map(drop)
}

/// A keyspace beside that of the bench.
const SPARE: &str = "spare";

fn topic_without_room() -> anyhow::Result<()> {
    let disk = SmallDisk::mount(160)?;
    let mut bench = Bench::on(SEED, disk.path())?;
    let pipe = Pipe::make(bench.dir().join("pipe"))?;
    // It dies as soon as the topic is gone.
    let fail_at = Some("controller.propose-topic-removed.before".to_owned());
    bench.start(&Arming { fail_at, ..Arming::hold_at("controller.remove-topic.before", pipe.path()) })?;
    bench.create_keyspace(2)?;
    let (http, server) = (Http::default(), bench.server()?);
    http.post(&server, "/v1/keyspaces", &json!({ "name": SPARE, "shards": 40, "buckets": 64 }))?.good()?;
    let row = json!({ "key": "key", "sort": "a", "value": "v" });
    http.post(&server, &format!("/v1/keyspaces/{SPARE}/rows"), &row)?.good()?;
    http.delete(&server, &format!("/v1/keyspaces/{SPARE}"), &[])?.good()?;
    let held = pipe.wait_held(WAIT_MAX)?;
    // Room for what it says, and not for what it writes down at each family that goes.
    let ballast = disk.fill(64 << 10)?;
    drop(held);
    let path = bench.dir().join("process.log");
    wait::until("the removal to find no room", WAIT_MAX, || {
        let log = std::fs::read_to_string(&path)?;
        let is_told = |line: &&str| line.contains("step is taken again") && line.contains("RemoveTopic");
        let told = log.lines().filter(is_told).filter(|line| line.contains("No space left")).count();
        Ok((told >= 2).then_some(()))
    })?;
    ballast.remove()?;
    bench.wait_killed(WAIT_MAX)?;
    bench.check_log()?;
    let folder = Folder::open(bench.dir())?;
    let story = folder.story()?;
    let (id, dropped) = story.dropped.first_key_value().context("nothing was dropped")?;
    ensure!((dropped.name.as_str(), dropped.topic_removed) == (SPARE, false), "{dropped:?}");
    ensure!(folder.records(TopicPartition::new(data_topic(SPARE, *id), 0)).is_err(), "the topic is there");
    folder.close()?;
    bench.start(&Arming::default())?;
    bench.fill()?;
    bench.work();
    bench.conclude().map(drop)
}
