//! The folder of a shard's store is gone when the server starts: rebuilt from the logs, moved-in rows included, or refused
//! with the position that is lacking. Never served empty.

use anyhow::{Context, ensure};
use rehome_integration::folder::named;
use rehome_integration::http::Http;
use rehome_integration::memory::placement;
use rehome_integration::{Arming, Bench, Folder, KEYSPACE, Medium, Prepared, pairs, wait};
use rehome_keyspace::ShardId;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

const SEED: u64 = 20_260_714;
const REACHED_MAX: Duration = Duration::from_secs(30);

/// What had happened before the stores were lost, and which were.
#[derive(Clone, Copy, Debug)]
struct Loss {
    /// Reshards from 3 shards on, all completed.
    reshards: &'static [u32],
    lost: &'static [u32],
}

#[test]
fn a_lost_store_is_rebuilt_from_the_logs_with_the_rows_that_moved_in() {
    let rows = Bench::filled(SEED, Medium::Memory, 3).and_then(Bench::freeze).expect("a folder with rows");
    let losses = [
        Loss { reshards: &[], lost: &[1] },
        Loss { reshards: &[5], lost: &[0] },
        Loss { reshards: &[5], lost: &[3] },
        Loss { reshards: &[5], lost: &[0, 1, 2, 3, 4] },
        // Shard 2 has lost all it had, and shards 0 and 1 hold it.
        Loss { reshards: &[2], lost: &[0, 1, 2] },
    ];
    let all: Vec<_> = losses.iter().map(|loss| (format!("{loss:?}"), *loss)).collect();
    pairs::run("lost stores, rebuilt", &all, |loss| rebuilt(&rows, *loss));
}

#[test]
fn a_store_lost_while_a_move_catches_up_is_rebuilt_and_gets_another_copy() {
    let rows = Bench::filled(SEED, Medium::Memory, 3).and_then(Bench::freeze).expect("a folder with rows");
    let all = [("the source", 0), ("the destination", 3)].map(|(name, shard)| (name.to_owned(), shard));
    pairs::run("lost while catching up", &all, |shard| lost_while_catching_up(&rows, *shard));
}

#[test]
fn a_lost_store_whose_rows_no_log_holds_is_refused_with_the_position_and_the_others_serve() {
    let rows = Bench::filled(SEED, Medium::Memory, 3).and_then(Bench::freeze).expect("a folder with rows");
    refused(&rows).unwrap_or_else(|error| panic!("{error:#}"));
}

fn rebuilt(rows: &Prepared, loss: Loss) -> anyhow::Result<String> {
    let mut bench = rows.bench()?;
    reshard(&mut bench, loss.reshards)?;
    for shard in loss.lost {
        std::fs::remove_dir_all(store_dir(&bench, *shard)?)?;
    }
    bench.start(&Arming::default())?;
    bench.work();
    // Every read until here may have come while a store was behind; each was checked by its client.
    bench.reshard(4)?;
    let ended = bench.wait_jobs()?;
    ensure!(ended.iter().all(|state| state == "completed"), "jobs are {ended:?}");
    wait_dropped(&bench)?;
    bench.conclude()
}

fn lost_while_catching_up(rows: &Prepared, shard: u32) -> anyhow::Result<String> {
    let mut bench = rows.bench()?;
    bench.start(&Arming::fail_at("controller.start-cutover.before"))?;
    bench.work();
    bench.reshard(4)?;
    bench.wait_killed(REACHED_MAX)?;
    std::fs::remove_dir_all(store_dir(&bench, shard)?)?;
    bench.start(&Arming::default())?;
    let ended = bench.wait_jobs()?;
    ensure!(ended == ["completed"], "jobs are {ended:?}");
    wait_dropped(&bench)?;
    bench.conclude()
}

fn refused(rows: &Prepared) -> anyhow::Result<()> {
    let mut bench = rows.bench()?;
    // What comes to shard 2 at last was there before, went to shards 0 and 1, and is in no partition whole.
    reshard(&mut bench, &[2, 3])?;
    let folder = Folder::open(bench.dir())?;
    let routes = named(&folder.story()?, KEYSPACE)?.routes.clone();
    folder.close()?;
    let (lost, aside) = (store_dir(&bench, 2)?, bench.dir().join("aside"));
    std::fs::rename(&lost, &aside)?;
    bench.start(&Arming::default())?;
    let (http, server) = (Http::default(), bench.server()?);
    let broken = wait::until("shard 2 to be refused", REACHED_MAX, || {
        let shown = http.get(&server, &format!("/v1/keyspaces/{KEYSPACE}"), &[])?.good()?;
        let shard = shown["shards"].as_array().into_iter().flatten().find(|shard| shard["shard"] == 2);
        Ok(shard.and_then(|shard| shard["broken"].as_str()).map(str::to_owned))
    })?;
    for part in ["the store of shard 2", "up to offset ", "bring the folder", "rehome up"] {
        ensure!(broken.contains(part), "{broken:?} does not say {part:?}");
    }
    let owner = |key: &str| routes[placement().slot(key.as_bytes()).0 as usize].0;
    let memory = bench.memory();
    let read = |name: &(String, String)| {
        let query = [("key", name.0.as_str()), ("sort", name.1.as_str())];
        http.get(&server, &format!("/v1/keyspaces/{KEYSPACE}/rows"), &query)
    };
    let mut served = 0;
    for (name, fact) in memory.visible() {
        if owner(&name.0) != ShardId(2) {
            let found = read(name)?.good()?;
            let value = found["rows"].as_array().and_then(|rows| rows.first()).map(|row| &row["value"]);
            ensure!(value == fact.value.as_ref().map(|value| json!(value)).as_ref(), "{name:?}: {found}");
            served += 1;
        }
    }
    ensure!(served > 0, "no row is at another shard");
    let missing =
        memory.visible().into_keys().find(|name| owner(&name.0) == ShardId(2)).context("no row at shard 2")?;
    let answer = read(missing)?;
    ensure!(answer.status == 503, "a row of the lost store is answered {answer:?}");
    ensure!(
        answer.body["error"]["message"].as_str().is_some_and(|text| text.contains("store of shard 2")),
        "{answer:?}"
    );
    bench.stop()?;
    ensure!(!lost.join("CURRENT").exists() || std::fs::remove_dir_all(&lost).is_ok(), "an empty store is in the way");
    std::fs::rename(&aside, &lost)?;
    std::fs::remove_file(bench.dir().join("process.log"))?;
    bench.start(&Arming::default())?;
    bench.work();
    bench.conclude().map(drop)
}

/// Reshards under load, one after the other, and ends the process.
fn reshard(bench: &mut Bench, counts: &[u32]) -> anyhow::Result<()> {
    bench.start(&Arming::default())?;
    bench.work();
    for count in counts {
        bench.reshard(*count)?;
        let ended = bench.wait_jobs()?;
        ensure!(ended.iter().all(|state| state == "completed"), "jobs are {ended:?}");
    }
    bench.rest()?;
    bench.stop()
}

fn store_dir(bench: &Bench, shard: u32) -> anyhow::Result<PathBuf> {
    let stores = bench.dir().join("data/stores");
    let folders = std::fs::read_dir(&stores)?.collect::<Result<Vec<_>, _>>()?;
    let ending = format!("-{shard}");
    let mut found = folders.iter().map(std::fs::DirEntry::path).filter(|dir| dir.to_string_lossy().ends_with(&ending));
    found.next().with_context(|| format!("no store of shard {shard} in {}", stores.display()))
}

/// Waits until rebuilt stores have dropped again what had moved out of them.
fn wait_dropped(bench: &Bench) -> anyhow::Result<()> {
    wait::until("rebuilt stores to drop what had moved out", REACHED_MAX, || {
        let log = std::fs::read_to_string(bench.dir().join("process.log"))?;
        let owed = log.lines().filter(|line| line.contains("made anew")).filter_map(|line| {
            let (_, count) = line.split_once("moved_out=")?;
            count.split_whitespace().next()?.parse::<usize>().ok()
        });
        let done = log.lines().filter(|line| line.contains("is dropped again")).count();
        Ok((done >= owed.sum()).then_some(()))
    })
}
