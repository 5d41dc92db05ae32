//! Several processes with a role or two each, over one broker, and clients that ask the one with the router.

use crate::bench::KEYSPACE;
use crate::broker::Broker;
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::folder::{Folder, records};
use crate::http::Http;
use crate::load::Load;
use crate::memory::{BUCKETS, Memory};
use crate::{Process, binaries, wait};
use anyhow::{Context, ensure};
use rehome_records::control::CONTROL_TOPIC;
use rehome_records::{ControlEvent, ControlRecord, TopicPartition};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest time for what the processes must come to by themselves.
const COME_MAX: Duration = Duration::from_secs(60);
const CLIENTS: u32 = 4;

/// Processes by name, each with a folder of its own. The one with the router is where clients ask.
pub struct Apart {
    broker: Broker,
    dir: TempDir,
    processes: BTreeMap<String, Process>,
    /// Where the API of each answers.
    servers: BTreeMap<String, String>,
    clients: Vec<Client>,
    endpoint: Endpoint,
    load: Option<Load>,
}

impl Apart {
    /// Starts a broker; nothing else runs yet.
    pub fn start(seed: u64) -> anyhow::Result<Apart> {
        Ok(Apart {
            broker: Broker::start()?,
            dir: tempfile::tempdir()?,
            processes: BTreeMap::new(),
            servers: BTreeMap::new(),
            clients: (0..CLIENTS).map(|number| Client::new(number, seed)).collect(),
            endpoint: Endpoint::default(),
            load: None,
        })
    }

    /// Starts the process of that name, which goes on with its folder if it has one. Waits until its API answers.
    pub fn serve(&mut self, name: &str, roles: &str) -> anyhow::Result<()> {
        let address = self.broker.address();
        let flags = ["--roles", roles, "--kafka-brokers", &address, "--replication-factor", "1"];
        let process = Process::serve(&binaries::plain(), &self.dir.path().join(name), &flags)?;
        let server = process.address()?.with_context(|| format!("{name} has ended"))?;
        self.servers.insert(name.to_owned(), server.clone());
        if roles.contains("router") {
            self.endpoint.set(Some(server));
        }
        self.processes.insert(name.to_owned(), process);
        Ok(())
    }

    /// Returns where the API of that process answers.
    pub fn server_of(&self, name: &str) -> anyhow::Result<&str> {
        self.servers.get(name).map(String::as_str).with_context(|| format!("{name} was never started"))
    }

    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Ends every process as its operator would.
    pub fn stop(mut self) -> anyhow::Result<()> {
        std::mem::take(&mut self.processes).into_values().try_for_each(Process::stop)
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self, name: &str) -> anyhow::Result<()> {
        self.processes.remove(name).with_context(|| format!("{name} does not run"))?.kill()
    }

    /// Waits until so many nodes are registered.
    pub fn wait_nodes(&self, count: usize) -> anyhow::Result<()> {
        let log = self.broker.log()?;
        wait::until("nodes to register", COME_MAX, || {
            let mut nodes = std::collections::BTreeSet::new();
            for logged in records(&*log, &TopicPartition::new(CONTROL_TOPIC, 0))? {
                let logged = logged?;
                if let ControlEvent::NodeRegistered { node, .. } = ControlRecord::read(&logged.record)?.event {
                    nodes.insert(node);
                }
            }
            Ok((nodes.len() >= count).then_some(()))
        })
    }

    fn server(&self) -> anyhow::Result<String> {
        self.endpoint.next(None, Instant::now() + COME_MAX).context("no router listens")
    }

    /// Creates the keyspace and writes every row once.
    pub fn fill(&mut self, shards: u32) -> anyhow::Result<()> {
        let body = json!({ "name": KEYSPACE, "shards": shards, "buckets": BUCKETS });
        Http::default().post(&self.server()?, "/v1/keyspaces", &body)?.good()?;
        let (http, endpoint) = (Http::default(), self.endpoint.clone());
        self.clients.iter_mut().try_for_each(|client| client.fill(&http, &endpoint))
    }

    /// Lets the clients work.
    pub fn work(&mut self) {
        self.load = Some(Load::start(self.clients.drain(..).collect(), &self.endpoint));
    }

    /// Waits until the clients have done so many things more.
    pub fn wait_done(&self, things: u64) -> anyhow::Result<()> {
        let load = self.load.as_ref().context("no clients work")?;
        let enough = load.done() + things;
        wait::until("clients to be answered", COME_MAX, || {
            ensure!(!load.has_failed(), "a client has given up");
            Ok((load.done() >= enough).then_some(()))
        })
    }

    pub fn reshard(&self, shards: u32) -> anyhow::Result<u64> {
        let path = format!("/v1/keyspaces/{KEYSPACE}/reshard");
        let answer = Http::default().post(&self.server()?, &path, &json!({ "shards": shards }))?.good()?;
        answer["job"].as_u64().with_context(|| format!("{answer} names no job"))
    }

    /// Waits until the job has completed; the router may be another process by then.
    pub fn wait_completed(&self, job: u64) -> anyhow::Result<()> {
        let mut seen = Value::Null;
        let ended = wait::until("the job to end", COME_MAX, || {
            seen = Http::default().get(&self.server()?, &format!("/v1/jobs/{job}"), &[])?.good()?;
            Ok((seen["ended"] == true).then_some(()))
        });
        ended.with_context(|| format!("{}: {seen}", self.dir.path().display()))?;
        ensure!(seen["state"] == "completed", "job {job} ended as {seen}");
        Ok(())
    }

    /// Lets the clients rest, reads every row, ends every process and compares three ways. Returns what was written.
    pub fn conclude(mut self) -> anyhow::Result<Memory> {
        self.clients = self.load.take().context("no clients work")?.finish()?;
        let mut memory = Memory::default();
        self.clients.iter().for_each(|client| memory.extend(client.memory.clone()));
        let (http, endpoint) = (Http::default(), self.endpoint.clone());
        for (name, fact) in &memory.rows {
            let expected = fact.value.is_some().then(|| fact.clone());
            let found = self.clients[0].read(&http, &endpoint, name)?;
            ensure!(found == expected, "{name:?}: {expected:?} was acknowledged last, and {found:?} is read");
        }
        let names: Vec<String> = self.processes.keys().cloned().collect();
        std::mem::take(&mut self.processes).into_values().try_for_each(Process::stop)?;
        let stores: Vec<PathBuf> = names.iter().map(|name| self.dir.path().join(name).join("data/stores")).collect();
        let stores: Vec<PathBuf> = stores.into_iter().filter(|dir| dir.is_dir()).collect();
        for dir in &stores {
            ensure!(std::fs::read_dir(dir)?.next().is_some(), "{} hosts nothing", dir.display());
        }
        let folder = Folder::apart(self.broker.log()?, &stores)?;
        let compared = folder.compare(KEYSPACE, &memory)?;
        ensure!(compared.findings.is_clean(), "the comparison found:\n{}", compared.findings);
        let visible = memory.visible().len() as u64;
        ensure!(compared.rows_visible == visible, "{} rows are visible, not {visible}", compared.rows_visible);
        Ok(memory)
    }
}
