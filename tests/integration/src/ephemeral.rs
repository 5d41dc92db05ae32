//! A server as users' own tests start it: `rehome up --ephemeral --port 0`.

use crate::binaries;
use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A server on a folder of its own. Killed when dropped.
pub struct Ephemeral {
    child: Child,
    out: BufReader<ChildStdout>,
    first_line: String,
    url: String,
    data: PathBuf,
}

impl Ephemeral {
    /// Starts one, and reads its address.
    pub fn start() -> anyhow::Result<Ephemeral> {
        let mut command = Command::new(binaries::plain());
        command.args(["up", "--ephemeral", "--port", "0"]).env("REHOME_LOG", "error");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("the program starts")?;
        let mut out = BufReader::new(child.stdout.take().context("standard output is not there")?);
        let mut first_line = String::new();
        // Ends with the line, or with the process.
        out.read_line(&mut first_line)?;
        let told: Value = serde_json::from_str(&first_line).with_context(|| format!("{first_line:?} is no JSON"))?;
        let text = |field: &str| told[field].as_str().with_context(|| format!("{told} has no {field}"));
        let (url, data) = (text("server")?.to_owned(), text("data")?.into());
        ensure!(told["pid"] == child.id(), "{told} is not of process {}", child.id());
        Ok(Ephemeral { child, out, first_line, url, data })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Ends it by the signal, and returns everything that it wrote to standard output.
    ///
    /// Errors: it does not end well.
    pub fn stop(mut self, signal: Signal) -> anyhow::Result<String> {
        kill_process(Pid::from_child(&self.child), signal).context("cannot end the process")?;
        let mut said = std::mem::take(&mut self.first_line);
        self.out.read_to_string(&mut said)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "{signal:?} ended it with {status}");
        Ok(said)
    }
}

impl Drop for Ephemeral {
    fn drop(&mut self) {
        // It may be over already; both calls then do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
