//! `rehome watch` beside a server that stands still, goes away and comes back.

use anyhow::{Context, bail, ensure};
use rehome_integration::shell::{command, rehome};
use rehome_integration::{Arming, Medium, Process, binaries};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

/// A server whose one job stands still: where its copies go, there is a file.
struct Standing {
    dir: TempDir,
    process: Process,
    server: String,
    job: u64,
}

impl Standing {
    fn make() -> anyhow::Result<Standing> {
        let dir = Medium::Memory.make_folder()?;
        let process = Process::start(&binaries::plain(), dir.path(), &Arming::default())?;
        let server = process.address()?.context("the process ended at its start")?;
        good(&server, "keyspace create flights --shards 2 --buckets 64")?;
        for row in 0..40 {
            good(&server, &format!("put flights key-{row} a value"))?;
        }
        let snapshots = dir.path().join("data/snapshots");
        std::fs::remove_dir_all(&snapshots)?;
        std::fs::write(&snapshots, "in the way")?;
        let job = good(&server, "reshard flights --shards 3 --json")?["job"].as_u64().context("a job")?;
        Ok(Standing { dir, process, server, job })
    }

    fn snapshots(&self) -> PathBuf {
        self.dir.path().join("data/snapshots")
    }
}

/// Runs a command that must succeed; returns its JSON, if it is some.
fn good(server: &str, line: &str) -> anyhow::Result<Value> {
    let said = rehome(server, line);
    ensure!(said.exit == 0, "rehome {line}: {said:?}");
    Ok(serde_json::from_str(&said.out).unwrap_or_default())
}

/// A `rehome watch` under way. Killed when dropped.
struct Watch {
    child: Child,
    lines: Receiver<Value>,
    told: Vec<Value>,
    complaints: Receiver<String>,
}

impl Watch {
    fn start(server: &str, line: &str) -> anyhow::Result<Watch> {
        let mut child = command(server, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let lines = read(child.stdout.take().context("its output")?, |line| {
            serde_json::from_str(&line).unwrap_or_else(|error| json!({ "no_json": line, "error": error.to_string() }))
        });
        let complaints = read(child.stderr.take().context("its errors")?, |line| line);
        Ok(Watch { child, lines, told: Vec::new(), complaints })
    }

    /// Reads lines up to one that fits.
    fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        loop {
            let line = self.lines.recv_timeout(LIMIT);
            let line = line.with_context(|| format!("no line with {what} after {:?}", self.told))?;
            self.told.push(line);
            if self.told.last().is_some_and(&fits) {
                return Ok(());
            }
        }
    }

    /// Reads what is left; returns its exit code, its lines and its complaints.
    fn end(mut self) -> anyhow::Result<(Option<i32>, Vec<Value>, Vec<String>)> {
        let mut told = std::mem::take(&mut self.told);
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) => told.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("it goes on after {told:?}"),
            }
        }
        // Its output has ended, so it has.
        let exit = self.child.wait()?.code();
        Ok((exit, told, self.complaints.iter().collect()))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may be over already; both calls then do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read<T: Send + 'static>(from: impl Read + Send + 'static, of: fn(String) -> T) -> Receiver<T> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(from)
            .lines()
            .map_while(Result::ok)
            .take_while(|line| tell.send(of(line.clone())).is_ok())
            .count()
    });
    told
}

fn stands_still(line: &Value) -> bool {
    line["stands_still"].as_str().is_some_and(|reason| reason.contains("snapshots"))
}

#[test]
fn a_watch_waits_for_a_server_that_was_killed_and_tells_every_change_once() {
    through_a_restart().unwrap_or_else(|error| panic!("{error:#}"));
}

fn through_a_restart() -> anyhow::Result<()> {
    let standing = Standing::make()?;
    let mut watch = Watch::start(&standing.server, &format!("watch {} --json", standing.job))?;
    watch.until("a reason", stands_still)?;
    let snapshots = standing.snapshots();
    let Standing { dir, process, server, job } = standing;
    process.kill()?;
    let complaint = watch.complaints.recv_timeout(LIMIT).context("it does not say that the server has gone")?;
    ensure!(complaint.contains("waited for"), "{complaint}");
    std::fs::remove_file(&snapshots)?;
    let port = server.rsplit(':').next().context("a port")?;
    let process = Process::start_with(&binaries::plain(), dir.path(), &Arming::default(), &["--port", port])?;
    ensure!(process.address()?.as_deref() == Some(&*server), "it is where it was");
    let (exit, told, complaints) = watch.end()?;
    let last = told.last().context("no line")?;
    ensure!((exit, &last["state"], &last["ended"]) == (Some(0), &json!("completed"), &json!(true)), "{exit:?} {last}");
    ensure!(complaints.is_empty(), "told once that the server has gone: {complaints:?}");
    let goes_on = told.iter().skip_while(|line| !stands_still(line)).any(|line| line["stands_still"].is_null());
    ensure!(goes_on, "it does not say that the move goes on: {told:?}");
    // What it told is the story, from the first line to the last, nothing twice.
    let changes: Vec<&Value> = told.iter().filter(|line| line["position"].is_u64()).collect();
    let changes: Vec<Value> = changes.into_iter().map(|line| json!([line["position"], line["what"]])).collect();
    let story = good(&server, &format!("explain {job} --json"))?;
    let of_move = story["moves"].as_array().context("moves")?.iter().flat_map(|one| one["story"].as_array());
    let mut lines: Vec<&Value> = of_move.flatten().collect();
    lines.sort_by_key(|line| line["position"].as_u64());
    let expected: Vec<Value> = lines.into_iter().map(|line| json!([line["position"], line["what"]])).collect();
    ensure!(expected.len() > 5 && changes == expected, "told {changes:?}, the story is {expected:?}");
    process.stop()
}

#[test]
fn a_watch_of_a_cancelled_job_ends_as_refused() {
    let run = || -> anyhow::Result<()> {
        let standing = Standing::make()?;
        let job = standing.job;
        let mut watch = Watch::start(&standing.server, &format!("watch {job} --json"))?;
        watch.until("a reason", stands_still)?;
        good(&standing.server, &format!("cancel {job}"))?;
        // What was written of the copies is looked for, and there is none.
        std::fs::remove_file(standing.snapshots())?;
        std::fs::create_dir(standing.snapshots())?;
        let (exit, told, complaints) = watch.end()?;
        let last = told.last().context("no line")?;
        ensure!(exit == Some(3) && last["state"] == "cancelled" && last["job"] == job, "{exit:?} {last}");
        ensure!(complaints.is_empty(), "all was told as JSON: {complaints:?}");
        standing.process.stop()
    };
    run().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn a_watch_of_a_paused_job_names_the_command_that_lets_it_go_on() {
    let run = || -> anyhow::Result<()> {
        let standing = Standing::make()?;
        let job = standing.job;
        good(&standing.server, &format!("pause {job} --reason lunch"))?;
        let mut watch = Watch::start(&standing.server, &format!("watch {job}"))?;
        let is = |text: String| move |line: &Value| line["no_json"].as_str().is_some_and(|line| line.ends_with(&text));
        watch.until("the pause", is(format!("job {job} is paused: lunch")))?;
        watch.until("the way on", is(format!("next: rehome resume {job}")))?;
        standing.process.stop()
    };
    run().unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn a_watch_gives_up_when_its_patience_is_over() {
    let run = || -> anyhow::Result<()> {
        let standing = Standing::make()?;
        let mut watch = Watch::start(&standing.server, &format!("watch {} --json --patience 0", standing.job))?;
        watch.until("a reason", stands_still)?;
        standing.process.kill()?;
        let (exit, told, complaints) = watch.end()?;
        let last = told.last().context("no line")?;
        ensure!(exit == Some(5) && last["error"]["code"] == "unreachable", "{exit:?} {last}");
        ensure!(complaints.len() == 1 && complaints[0].contains("waited for"), "{complaints:?}");
        Ok(())
    };
    run().unwrap_or_else(|error| panic!("{error:#}"));
}
