//! A folder with its clients, through several lives of the process. `REHOME_KEEP=1` keeps the folders afterwards.

use crate::client::{Client, fact, row_name};
use crate::endpoint::Endpoint;
use crate::folder::Folder;
use crate::http::Http;
use crate::load::Load;
use crate::medium::Medium;
use crate::memory::{BUCKETS, Fact, Memory, RowName};
use crate::pipe::Pipe;
use crate::process::{Ending, Signal};
use crate::{Arming, Process, binaries, wait};
use anyhow::{Context, bail, ensure};
use rehome_oracle::MovePhase;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The keyspace of every bench.
pub const KEYSPACE: &str = "bench";
/// Closed-loop clients of a bench.
const CLIENTS: u32 = 4;
/// Longest time for jobs to end, once nothing fails any more.
const JOBS_MAX: Duration = Duration::from_secs(60);

/// A folder and what its clients know. Never two processes at once.
pub struct Bench {
    dir: TempDir,
    program: PathBuf,
    clients: Vec<Client>,
    endpoint: Endpoint,
    process: Option<Process>,
    load: Option<Load>,
    /// What others than the clients were answered.
    told: Memory,
}

/// A folder and its clients, to start from.
pub struct Prepared {
    dir: TempDir,
    clients: Vec<Client>,
}

impl Prepared {
    /// Returns a copy in memory, which goes its own way.
    pub fn bench(&self) -> anyhow::Result<Bench> {
        let copy = Bench::empty(0, Medium::Memory)?;
        let copied = Command::new("cp").arg("-a").arg(self.dir.path().join("data")).arg(copy.dir()).status()?;
        ensure!(copied.success(), "cp: {copied}");
        Ok(Bench { clients: self.clients.clone(), ..copy })
    }
}

impl Bench {
    /// Returns an empty folder with clients that have asked nothing yet.
    pub fn empty(seed: u64, medium: Medium) -> anyhow::Result<Bench> {
        Ok(Bench::with(seed, medium.make_folder()?))
    }

    /// Returns the same below that folder, for a test that brings its own file system.
    pub fn on(seed: u64, parent: &Path) -> anyhow::Result<Bench> {
        Ok(Bench::with(seed, tempfile::tempdir_in(parent)?))
    }

    fn with(seed: u64, dir: TempDir) -> Bench {
        let clients = (0..CLIENTS).map(|number| Client::new(number, seed)).collect();
        let program = binaries::with_fail_points();
        Bench {
            dir,
            program,
            clients,
            endpoint: Endpoint::default(),
            process: None,
            load: None,
            told: Memory::default(),
        }
    }

    /// Returns a bench whose keyspace has that many shards, and every row once.
    pub fn filled(seed: u64, medium: Medium, shards: u32) -> anyhow::Result<Bench> {
        let mut bench = Bench::empty(seed, medium)?;
        bench.start(&Arming::default())?;
        bench.create_keyspace(shards)?;
        bench.fill()?;
        bench.stop()?;
        Ok(bench)
    }

    /// Writes every row once. Requires that a process runs.
    pub fn fill(&mut self) -> anyhow::Result<()> {
        let (http, endpoint) = (Http::default(), self.endpoint.clone());
        std::thread::scope(|scope| {
            let fill = |client| {
                let (http, endpoint) = (&http, &endpoint);
                scope.spawn(move || Client::fill(client, http, endpoint))
            };
            let fillers: Vec<_> = self.clients.iter_mut().map(fill).collect();
            fillers.into_iter().try_for_each(|filler| filler.join().expect("a client does not panic"))
        })
    }

    /// Returns folder and clients as they are now, to start from any number of times.
    ///
    /// Errors: a process runs, or clients work.
    pub fn freeze(self) -> anyhow::Result<Prepared> {
        ensure!(self.process.is_none() && self.load.is_none(), "a folder in use cannot be copied");
        Ok(Prepared { dir: self.dir, clients: self.clients })
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts the process; clients find it as soon as it listens. It may be over already, if it is armed.
    pub fn start(&mut self, arming: &Arming) -> anyhow::Result<()> {
        ensure!(self.process.is_none(), "it runs already");
        let process = Process::start(&self.program, self.dir.path(), arming)?;
        let address = process.address()?;
        ensure!(address.is_some() || arming.fail_at.is_some(), "the process ended at its start");
        self.endpoint.set(address);
        self.process = Some(process);
        Ok(())
    }

    /// Starts the process, which is to stand still at that point.
    pub fn start_held(&mut self, point: &str) -> anyhow::Result<Pipe> {
        let pipe = Pipe::make(self.dir().join("pipe"))?;
        self.start(&Arming::hold_at(point, pipe.path()))?;
        Ok(pipe)
    }

    /// Lets the clients work from now on, through every life, until [`Bench::rest`].
    pub fn work(&mut self) {
        self.load = Some(Load::start(std::mem::take(&mut self.clients), &self.endpoint));
    }

    /// Lets each client finish what it asked. Requires that a process runs.
    pub fn rest(&mut self) -> anyhow::Result<()> {
        if let Some(load) = self.load.take() {
            self.clients = load.finish()?;
        }
        Ok(())
    }

    /// Waits until the process has killed itself.
    pub fn wait_killed(&mut self, limit: Duration) -> anyhow::Result<()> {
        self.running()?.wait_killed(limit)?;
        self.process = None;
        self.endpoint.set(None);
        Ok(())
    }

    /// Kills the process from outside.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.endpoint.set(None);
        self.process.take().context("no process runs")?.kill()
    }

    /// Ends the process cleanly.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.endpoint.set(None);
        self.process.take().context("no process runs")?.stop()
    }

    /// Sends the signal while clients still ask, and returns once they ask no more of this life.
    pub fn stop_under_load(&mut self, signal: Signal) -> anyhow::Result<()> {
        let ended = self.process.take().context("no process runs")?.end(signal)?.wait();
        self.endpoint.set(None);
        ended
    }

    /// Sends the signal, and does not wait for the end.
    pub fn begin_end(&mut self, signal: Signal) -> anyhow::Result<Ending> {
        let ending = self.process.take().context("no process runs")?.end(signal)?;
        self.endpoint.set(None);
        Ok(ending)
    }

    /// Waits until the clients have done that many things more.
    pub fn wait_done(&self, things: u64) -> anyhow::Result<()> {
        let load = self.load.as_ref().context("no clients work")?;
        let goal = load.done() + things;
        wait::until("clients to get on", JOBS_MAX, || Ok((load.done() >= goal || load.has_failed()).then_some(())))
    }

    fn running(&mut self) -> anyhow::Result<&mut Process> {
        self.process.as_mut().context("no process runs")
    }

    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Tells whether the newest life came as far as to listen.
    pub fn listens(&self) -> bool {
        self.endpoint.next(None, std::time::Instant::now()).is_some()
    }

    /// Returns the server's address. Requires that a process runs and listens.
    pub fn server(&self) -> anyhow::Result<String> {
        self.endpoint.next(None, std::time::Instant::now() + Duration::from_secs(30)).context("no process listens")
    }

    /// Creates the keyspace, unless it is there.
    pub fn create_keyspace(&self, shards: u32) -> anyhow::Result<()> {
        let body = json!({ "name": KEYSPACE, "shards": shards, "buckets": BUCKETS });
        let answer = Http::default().post(&self.server()?, "/v1/keyspaces", &body)?;
        match answer.body["error"]["code"].as_str() {
            Some("name_taken") => Ok(()),
            _ => answer.good().map(drop),
        }
    }

    /// Submits a reshard, and returns its job.
    pub fn reshard(&self, shards: u32) -> anyhow::Result<u64> {
        let body = json!({ "shards": shards, "requested_by": "a test" });
        let path = format!("/v1/keyspaces/{KEYSPACE}/reshard");
        let answer = Http::default().post(&self.server()?, &path, &body)?.good()?;
        answer["job"].as_u64().with_context(|| format!("{answer} names no job"))
    }

    pub fn cancel(&self, job: u64) -> anyhow::Result<Value> {
        Http::default().post(&self.server()?, &format!("/v1/jobs/{job}/cancel"), &json!({}))?.good()
    }

    pub fn pause(&self, job: u64) -> anyhow::Result<Value> {
        Http::default().post(&self.server()?, &format!("/v1/jobs/{job}/pause"), &json!({}))?.good()
    }

    pub fn resume(&self, job: u64) -> anyhow::Result<Value> {
        Http::default().post(&self.server()?, &format!("/v1/jobs/{job}/resume"), &json!({}))?.good()
    }

    pub fn explain(&self, job: u64) -> anyhow::Result<Value> {
        Http::default().get(&self.server()?, &format!("/v1/jobs/{job}/explain"), &[])?.good()
    }

    pub fn jobs(&self) -> anyhow::Result<Vec<Value>> {
        let answer = Http::default().get(&self.server()?, "/v1/jobs", &[])?.good()?;
        Ok(answer["jobs"].as_array().context("no jobs")?.clone())
    }

    /// Waits until every job has ended, and returns how each did.
    pub fn wait_jobs(&self) -> anyhow::Result<Vec<String>> {
        let mut seen = Value::Null;
        let ended = wait::until("every job to end", JOBS_MAX, || {
            let jobs = self.jobs()?;
            let ended = jobs.iter().all(|job| job["ended"] == true);
            seen = jobs.iter().filter(|job| job["ended"] != true).cloned().collect();
            Ok(ended.then(|| jobs.iter().map(|job| job["state"].as_str().unwrap_or_default().to_owned()).collect()))
        });
        // A replica that stopped says more than the jobs that wait for it.
        self.check_log()?;
        ended.with_context(|| format!("{} has open jobs: {seen}", self.dir().display()))
    }

    /// Takes in what others than the clients were answered.
    pub fn learn(&mut self, told: Memory) {
        self.told.extend(told);
    }

    /// Waits for the end of a process that somebody else has told to end.
    pub fn wait_stopped(&mut self) -> anyhow::Result<()> {
        self.endpoint.set(None);
        self.process.take().context("no process runs")?.wait_ended()
    }

    /// Returns everything that was answered. Requires that clients rest.
    pub fn memory(&self) -> Memory {
        let mut all = self.told.clone();
        self.clients.iter().for_each(|client| all.extend(client.memory.clone()));
        all
    }

    /// Returns where clients of the test itself find the process.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    /// Scans all rows at the linearizable level, and holds them against what was acknowledged.
    pub fn check_scan(&self) -> anyhow::Result<()> {
        let server = self.server()?;
        let (http, path) = (Http::default(), format!("/v1/keyspaces/{KEYSPACE}/scan"));
        let mut found: BTreeMap<RowName, Fact> = BTreeMap::new();
        let mut after: Option<String> = None;
        loop {
            let mut query = vec![("limit", "500")];
            query.extend(after.as_deref().map(|after| ("after", after)));
            let page = http.get(&server, &path, &query)?.good()?;
            for row in page["rows"].as_array().context("no rows")? {
                let (name, fact) = (row_name(row)?, fact(row)?);
                if found.insert(name.clone(), fact).is_some() {
                    bail!("{name:?} came twice in one scan");
                }
            }
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => break,
            }
        }
        let memory = self.memory();
        let expected = memory.visible();
        for (name, fact) in &expected {
            let seen = found.get(*name);
            ensure!(seen == Some(fact), "{name:?}: {fact:?} was acknowledged last, the scan shows {seen:?}");
        }
        let more = found.keys().find(|name| !expected.contains_key(name));
        ensure!(more.is_none(), "the scan shows {more:?}, which is deleted");
        Ok(())
    }

    /// Reads every row by itself at the linearizable level, and holds it against what was acknowledged.
    pub fn check_every_row(&mut self) -> anyhow::Result<()> {
        let memory = self.memory();
        let (http, endpoint) = (Http::default(), self.endpoint.clone());
        let client = self.clients.first_mut().context("no clients")?;
        for (name, fact) in &memory.rows {
            let expected = fact.value.is_some().then(|| fact.clone());
            let found = client.read(&http, &endpoint, name)?;
            ensure!(found == expected, "{name:?}: {expected:?} was acknowledged last, and {found:?} is read");
        }
        Ok(())
    }

    /// Lets the clients rest, ends the process cleanly, and compares three ways. Returns a remark.
    pub fn conclude(&mut self) -> anyhow::Result<String> {
        self.rest()?;
        self.check_scan()?;
        self.stop()?;
        self.compare()
    }

    /// Compares three ways. Requires that no process runs. Returns a remark.
    pub fn compare(&self) -> anyhow::Result<String> {
        self.check_log()?;
        let memory = self.memory();
        let folder = Folder::open(self.dir())?;
        let compared = folder.compare(KEYSPACE, &memory)?;
        ensure!(compared.findings.is_clean(), "the comparison found:\n{}", compared.findings);
        let visible = memory.visible().len() as u64;
        ensure!(compared.rows_visible == visible, "{} rows are visible, not {visible}", compared.rows_visible);
        let story = folder.story()?;
        let open = story.moves.values().find(|moved| moved.phase != MovePhase::Ended);
        ensure!(open.is_none(), "a move has not ended: {open:?}");
        folder.removed_topics_are_gone(&story)?;
        folder.close()?;
        let counts = memory.counts;
        Ok(format!("{} writes, {} retries", counts.puts + counts.deletes, counts.retries))
    }

    /// Errors: the process logged an error.
    pub fn check_log(&self) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(self.dir().join("process.log")).unwrap_or_default();
        let errors: Vec<&str> =
            text.lines().filter(|line| line.contains(" ERROR ") || line.contains("panicked")).collect();
        ensure!(errors.is_empty(), "the process logged errors:\n{}", errors.join("\n"));
        Ok(())
    }
}
