//! A process with one keyspace, asked as its OpenAPI description says.

use crate::described::{Ask, Described};
use crate::memory::{BUCKETS, Memory};
use crate::{Arming, Folder, KEYSPACE, Medium, Process, binaries, wait};
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;

pub const LONG: Duration = Duration::from_secs(60);
pub const ROWS: &str = "/v1/keyspaces/{name}/rows";
pub const BATCH: &str = "/v1/keyspaces/{name}/batch";
const IN_KEYSPACE: &[(&str, &str)] = &[("name", KEYSPACE)];

/// A process with one keyspace, and its API.
pub struct Served {
    pub api: Described,
    pub server: String,
    pub process: Process,
    pub dir: TempDir,
}

impl Served {
    /// Starts on a new folder, and creates the keyspace.
    pub fn with_shards(shards: u32) -> anyhow::Result<Served> {
        Served::with_flags(shards, &[])
    }

    /// The same, with more flags of `rehome up`.
    pub fn with_flags(shards: u32, flags: &[&str]) -> anyhow::Result<Served> {
        let served = Served::on(Medium::Memory.make_folder()?, flags)?;
        let body = json!({ "name": KEYSPACE, "shards": shards, "buckets": BUCKETS });
        served.api.good(&post("/v1/keyspaces", body))?;
        Ok(served)
    }

    /// Starts on the folder.
    pub fn on(dir: TempDir, flags: &[&str]) -> anyhow::Result<Served> {
        let process = Process::start_with(&binaries::plain(), dir.path(), &Arming::default(), flags)?;
        let server = process.address()?.context("the process ended at its start")?;
        Ok(Served { api: Described::of(server.clone())?, server, process, dir })
    }

    /// Waits for the job, which must end well.
    pub fn wait_job(&self, job: &str) -> anyhow::Result<()> {
        wait::until("the job to end", LONG, || {
            let in_path = [("job", job)];
            let ask = Ask { query: &[("timeout_ms", "1000")], ..of_job("get", "/v1/jobs/{job}/wait", &in_path) };
            let job = self.api.good(&ask)?;
            ensure!(job["state"] != "failed" && job["state"] != "cancelled", "{job}");
            Ok((job["state"] != "running").then_some(()))
        })
    }

    /// Starts a reshard, after a dry run of it; returns the job.
    pub fn reshard(&self, shards: u32, keep_source: bool) -> anyhow::Result<String> {
        let body = json!({ "shards": shards, "keep_source": keep_source, "dry_run": true });
        self.api.good(&post("/v1/keyspaces/{name}/reshard", body))?;
        let body = json!({ "shards": shards, "keep_source": keep_source });
        let answer = self.api.good(&post("/v1/keyspaces/{name}/reshard", body))?;
        Ok(answer["job"].to_string())
    }

    pub fn wait_ready(&self) -> anyhow::Result<Value> {
        wait::until("every replica to be ready", LONG, || {
            let raw = self.api.ask(&get("/v1/ready", &[]))?;
            Ok(if raw.status == 200 { Some(raw.json()?) } else { None })
        })
    }

    /// Ends the process and compares what was answered, what is stored, and what the log says.
    pub fn conclude(self, memory: &Memory) -> anyhow::Result<()> {
        let Served { process, dir, .. } = self;
        process.stop()?;
        let folder = Folder::open(dir.path())?;
        let compared = folder.compare(KEYSPACE, memory)?;
        ensure!(compared.findings.is_clean(), "the comparison found:\n{}", compared.findings);
        let visible = memory.visible().len() as u64;
        ensure!(compared.rows_visible == visible, "{} rows are visible, not {visible}", compared.rows_visible);
        folder.close()
    }
}

pub fn get<'a>(path: &'a str, query: &'a [(&'a str, &'a str)]) -> Ask<'a> {
    let in_path = if path.contains("{name}") { IN_KEYSPACE } else { &[] };
    Ask { method: "get", path, in_path, query, ..Ask::default() }
}

pub fn post(path: &str, body: Value) -> Ask<'_> {
    let in_path = if path.contains("{name}") { IN_KEYSPACE } else { &[] };
    Ask { method: "post", path, in_path, body: Some(body), ..Ask::default() }
}

pub fn of_job<'a>(method: &'a str, path: &'a str, in_path: &'a [(&'a str, &'a str)]) -> Ask<'a> {
    Ask { method, path, in_path, ..Ask::default() }
}
