//! Every verb of the command line against one server, while clients write and shards move; then the comparison: what the
//! router answered, what lies in the stores, and what the logs say must be.

use anyhow::{Context, ensure};
use rehome_integration::client::{fact, row_name};
use rehome_integration::memory::{BUCKETS, Fact, Memory, RowName, ticks, version};
use rehome_integration::shell::{rehome, verbs};
use rehome_integration::{Arming, Bench, KEYSPACE, Medium};
use rehome_keyspace::RequestId;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const SEED: u64 = 20_260_714;
/// Rows of the imported file.
const ROWS_IMPORTED: usize = 500;
/// Rows that are typed in each round.
const ROWS_TYPED: usize = 12;

#[test]
fn every_verb_leaves_routers_answers_stores_and_logs_equal() {
    run().unwrap_or_else(|error| panic!("{error:#}"));
}

/// Commands as they are typed one after the other, and what they answered.
struct Typed {
    server: String,
    all: Vec<String>,
    ran: BTreeSet<String>,
    memory: Memory,
}

impl Typed {
    /// Runs a command that must succeed, and returns the last line that it says as JSON.
    fn run(&mut self, line: &str) -> anyhow::Result<Value> {
        let said = rehome(&self.server, &format!("{line} --json"));
        ensure!(said.exit == 0, "rehome {line}: {said:?}");
        // The longest name that the line begins with: `keyspace create` before `keyspace`.
        let begins = |verb: &&String| line == verb.as_str() || line.starts_with(&format!("{verb} "));
        let verb = self.all.iter().filter(begins).max_by_key(|verb| verb.len());
        self.ran.insert(verb.with_context(|| format!("`{line}` is no verb"))?.clone());
        let last = said.out.lines().last().unwrap_or_default();
        serde_json::from_str(last).with_context(|| format!("rehome {line}: {last:?}"))
    }

    fn write(&mut self, line: &str, name: RowName, value: Option<&str>) -> anyhow::Result<()> {
        let issued_at = ticks();
        let answer = self.run(line)?;
        let text = |field: &str| answer[field].as_str().with_context(|| format!("{answer} has no {field}"));
        let request = RequestId(u128::from_str_radix(text("request")?, 16)?.to_be_bytes());
        let fact = Fact { version: version(text("version")?)?, value: value.map(str::to_owned) };
        self.memory.wrote(&name, request, fact, issued_at);
        Ok(())
    }

    /// Runs a command that answers rows, which linearizable reads have found; returns them.
    fn read(&mut self, line: &str) -> anyhow::Result<Vec<(RowName, Fact)>> {
        let issued_at = ticks();
        let answer = self.run(line)?;
        let rows = answer["rows"].as_array().with_context(|| format!("{answer} has no rows"))?;
        let rows = rows.iter().map(|row| Ok((row_name(row)?, fact(row)?))).collect::<anyhow::Result<Vec<_>>>()?;
        rows.iter().for_each(|(name, fact)| self.memory.read(name, Some(fact), issued_at));
        Ok(rows)
    }

    /// Writes, overwrites, deletes and reads some rows, which nobody else writes.
    fn type_rows(&mut self, round: usize) -> anyhow::Result<()> {
        for row in 0..ROWS_TYPED {
            let name = (format!("typed-{row}"), format!("sort-{}", row % 3));
            let (key, sort, value) = (&name.0, &name.1, format!("round-{round}-row-{row}"));
            self.write(&format!("put {KEYSPACE} {key} {sort} {value}"), name.clone(), Some(&value))?;
            let found = self.read(&format!("get {KEYSPACE} {key} {sort}"))?;
            ensure!(found.len() == 1 && found[0].1.value.as_ref() == Some(&value), "{found:?} after {value} was put");
            if (row + round).is_multiple_of(3) {
                self.write(&format!("delete {KEYSPACE} {key} {sort}"), name.clone(), None)?;
                let found = self.read(&format!("get {KEYSPACE} {key} --list"))?;
                ensure!(found.is_empty(), "{found:?} after it was deleted");
            }
        }
        let found = self.read(&format!("scan {KEYSPACE} --limit 150"))?;
        ensure!(!found.is_empty(), "a scan finds nothing");
        Ok(())
    }

    /// Imports a file, and learns of its rows by reading them.
    fn import(&mut self, dir: &Path) -> anyhow::Result<()> {
        let file = dir.join("rows.csv");
        let rows: String = (0..ROWS_IMPORTED).map(|row| format!("imported-{},{row},{row}\n", row % 40)).collect();
        std::fs::write(&file, format!("origin,date,delay\n{rows}"))?;
        let told = self.run(&format!("import {KEYSPACE} {} --key origin --sort date", file.display()))?;
        ensure!(told["accepted"] == ROWS_IMPORTED, "{told}");
        for key in 0..40 {
            for (name, fact) in self.read(&format!("get {KEYSPACE} imported-{key} --list"))? {
                self.memory.rows.insert(name, fact);
            }
        }
        let learned = self.memory.rows.keys().filter(|name| name.0.starts_with("imported-")).count();
        ensure!(learned == ROWS_IMPORTED, "{learned} of the imported rows are read");
        Ok(())
    }

    /// Runs every verb that looks at the job.
    fn look(&mut self, job: &Value) -> anyhow::Result<()> {
        for line in ["status", "list", "keyspace list", "keyspace show bench", "keyspace show bench --key typed-1"] {
            self.run(line)?;
        }
        self.run(&format!("show {job}"))?;
        self.run(&format!("explain {job}")).map(drop)
    }

    fn reshard(&mut self, shards: u32, more: &str) -> anyhow::Result<Value> {
        let answer = self.run(&format!("reshard {KEYSPACE} --shards {shards}{more}"))?;
        ensure!(answer["job"].is_u64(), "{answer} names no job");
        Ok(answer["job"].clone())
    }
}

/// Exports the rows, imports them into another keyspace, drops it, and makes it anew: it must be empty.
fn export_and_drop(typed: &mut Typed, dir: &Path) -> anyhow::Result<()> {
    let file = dir.join("rows.jsonl");
    let told = typed.run(&format!("export {KEYSPACE} {}", file.display()))?;
    let rows = told["rows"].as_u64().with_context(|| format!("{told} has no rows"))?;
    ensure!(rows >= ROWS_IMPORTED as u64, "{told}");
    typed.run("keyspace create other --shards 2")?;
    let told = typed.run(&format!("import other {} --exported", file.display()))?;
    ensure!(told["accepted"] == rows, "{told} of {rows} exported rows");
    let told = typed.run("keyspace drop other --dry-run")?;
    ensure!(told["rows"] == rows && told["dropped"] == false, "{told} of {rows} rows");
    let scan = |typed: &mut Typed| typed.run("scan other --limit 1");
    ensure!(scan(typed)?["rows"].as_array().is_some_and(|rows| rows.len() == 1), "a dry run drops nothing");
    typed.run("keyspace drop other --yes")?;
    ensure!(scan(typed).is_err(), "a keyspace that was dropped is found");
    typed.run("keyspace create other --shards 3 --inbox 2")?;
    ensure!(scan(typed)?["rows"].as_array().is_some_and(Vec::is_empty), "rows of a dropped keyspace are found");
    typed.run("keyspace drop other --yes").map(drop)
}

/// Cancels a job; one that has switched by then cannot be cancelled, and another one is tried.
fn cancel(typed: &mut Typed, bench: &Bench) -> anyhow::Result<()> {
    for shards in [2, 4, 2, 4] {
        let job = typed.reshard(shards, "")?;
        let done = typed.run(&format!("cancel {job}"));
        bench.wait_jobs()?;
        if done.is_ok() {
            return Ok(());
        }
    }
    anyhow::bail!("every job was too quick to be cancelled")
}

/// Pauses a job and lets it go on, as [`cancel`] does; returns it.
fn pause(typed: &mut Typed, bench: &Bench) -> anyhow::Result<Value> {
    for shards in [6, 3, 6, 3] {
        let job = typed.reshard(shards, "")?;
        if typed.run(&format!("pause {job}")).is_ok() {
            typed.type_rows(4)?;
            typed.run(&format!("resume {job}"))?;
            return Ok(job);
        }
        bench.wait_jobs()?;
    }
    anyhow::bail!("every job was too quick to be paused")
}

fn run() -> anyhow::Result<()> {
    let mut bench = Bench::empty(SEED, Medium::Memory)?;
    bench.start(&Arming::default())?;
    let all = verbs();
    // Whatever is typed is typed against a server that is up; `serve` is compared over a real broker, in `apart`.
    let ran = BTreeSet::from(["up".to_owned(), "serve".to_owned()]);
    let mut typed = Typed { server: bench.server()?, all, ran, memory: Memory::default() };
    typed.run(&format!("keyspace create {KEYSPACE} --shards 3 --buckets {BUCKETS}"))?;
    bench.fill()?;
    bench.work();
    typed.type_rows(0)?;
    typed.run(&format!("plan {KEYSPACE} --shards 5"))?;
    let kept = typed.reshard(5, " --keep-source")?;
    typed.look(&kept)?;
    typed.import(bench.dir())?;
    typed.type_rows(1)?;
    typed.run(&format!("wait {kept} --timeout 60"))?;
    typed.type_rows(2)?;
    typed.run(&format!("complete {kept}"))?;
    typed.run(&format!("wait {kept} --timeout 60"))?;
    cancel(&mut typed, &bench)?;
    typed.type_rows(3)?;
    let last = pause(&mut typed, &bench)?;
    typed.run(&format!("wait {last} --timeout 60"))?;
    typed.look(&last)?;
    typed.run(&format!("watch {last}"))?;
    let rejects = typed.run(&format!("rejects list {KEYSPACE}"))?;
    ensure!(rejects["rejects"].as_array().is_some_and(Vec::is_empty), "{rejects} of writes by the router");
    typed.run(&format!("rejects retry {KEYSPACE} --dry-run"))?;
    export_and_drop(&mut typed, bench.dir())?;
    bench.rest()?;
    bench.learn(std::mem::take(&mut typed.memory));
    bench.check_scan()?;
    typed.run(&format!("stop --data {}", bench.dir().join("data").display()))?;
    bench.wait_stopped()?;
    bench.compare()?;
    // It compares for itself, and fails if anything differs.
    let demo = bench.dir().join("demo");
    let told = typed.run(&format!("demo --input zipf --rows 3000 --plan 2,3 --writers 2 --data {}", demo.display()))?;
    ensure!(told["cutovers"].as_u64() > Some(0) && told["lost"] == 0, "{told}");
    let folder = bench.dir().display();
    let told = typed.run(&format!(
        "bench --rows 10000 --shards 2 --rates 500 --cutovers 1 --seconds 1 --repeat 1 --data {folder}"
    ))?;
    ensure!(told["figures"].is_array(), "{told}");
    let missing: Vec<_> = typed.all.iter().filter(|verb| !typed.ran.contains(*verb)).collect();
    ensure!(missing.is_empty(), "this test types no {missing:?}: add them to it");
    Ok(())
}
