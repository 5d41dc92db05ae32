//! One running `rehome up` or `rehome serve`.

use crate::folder::wait_until_free;
use anyhow::{Context, bail, ensure};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Longest time from start to listening, and from SIGTERM to the end.
const START_OR_STOP_MAX: Duration = Duration::from_secs(30);

/// Where a life of the process is to end, or to stand still, and how its log is synced.
#[derive(Clone, Debug, Default)]
pub struct Arming {
    /// As `--fsync` has it; without it, as is usual.
    pub fsync: Option<&'static str>,
    /// `POINT` or `POINT:N`.
    pub fail_at: Option<String>,
    /// `POINT` or `POINT:N`, and the named pipe.
    pub hold_at: Option<(String, PathBuf)>,
}

impl Arming {
    pub fn fail_at(point: impl Into<String>) -> Arming {
        Arming { fail_at: Some(point.into()), ..Arming::default() }
    }

    /// Stands still there, until the named pipe is opened.
    pub fn hold_at(point: impl Into<String>, pipe: &Path) -> Arming {
        Arming { hold_at: Some((point.into(), pipe.to_owned())), ..Arming::default() }
    }
}

/// A process on a folder. Killed when dropped.
pub struct Process {
    pid: Pid,
    ended: Receiver<ExitStatus>,
    address: Receiver<String>,
    log: PathBuf,
    is_over: bool,
}

impl Process {
    /// Starts `rehome up` on the folder; what it logs goes to a file beside the folder's data.
    pub fn start(program: &Path, dir: &Path, arming: &Arming) -> anyhow::Result<Process> {
        Process::start_with(program, dir, arming, &[])
    }

    /// The same, with more flags.
    pub fn start_with(program: &Path, dir: &Path, arming: &Arming, flags: &[&str]) -> anyhow::Result<Process> {
        wait_until_free(dir)?;
        let mut command = Command::new(program);
        command.args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(dir.join("data")).args(flags);
        command.args(arming.fsync.map(|fsync| format!("--fsync={fsync}")));
        command.env_remove("REHOME_FAIL_AT").env_remove("REHOME_HOLD_AT");
        if let Some(point) = &arming.fail_at {
            command.env("REHOME_FAIL_AT", point);
        }
        if let Some((point, pipe)) = &arming.hold_at {
            command.env("REHOME_HOLD_AT", point).env("REHOME_HOLD_PIPE", pipe);
        }
        Process::spawn(command, dir)
    }

    /// Starts `rehome serve` with those flags and the folder's data; its ports are free ones.
    pub fn serve(program: &Path, dir: &Path, flags: &[&str]) -> anyhow::Result<Process> {
        std::fs::create_dir_all(dir).context("cannot make the folder")?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--data"]);
        command.arg(dir.join("data")).args(flags);
        Process::spawn(command, dir)
    }

    fn spawn(mut command: Command, dir: &Path) -> anyhow::Result<Process> {
        let log = dir.join("process.log");
        let stderr = File::options().create(true).append(true).open(&log).context("cannot write the log")?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).env_remove("REHOME_LOG");
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let pid = Pid::from_child(&child);
        let stdout = child.stdout.take().context("standard output is not there")?;
        let (tell_address, address) = mpsc::channel();
        std::thread::spawn(move || read_address(stdout, &tell_address));
        let (tell_ended, ended) = mpsc::channel();
        std::thread::spawn(move || {
            // Fails only if somebody else has waited for it, and nobody can.
            if let Ok(status) = child.wait() {
                let _ = tell_ended.send(status);
            }
        });
        Ok(Process { pid, ended, address, log, is_over: false })
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until the API listens, and returns its address; nothing when the process has ended before.
    pub fn address(&self) -> anyhow::Result<Option<String>> {
        match self.address.recv_timeout(START_OR_STOP_MAX) {
            Ok(address) => Ok(Some(address)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => bail!("the process did not listen within {START_OR_STOP_MAX:?}"),
        }
    }

    /// Waits until the process has been killed by itself: SIGKILL, and nothing else.
    pub fn wait_killed(&mut self, limit: Duration) -> anyhow::Result<()> {
        let status = self.ended.recv_timeout(limit).with_context(|| format!("still running after {limit:?}"))?;
        self.is_over = true;
        ensure!(
            status.signal() == Some(9),
            "ended with {status} instead of SIGKILL; its log says:\n{}",
            self.log_end()
        );
        Ok(())
    }

    /// Ends it with SIGKILL, from outside.
    pub fn kill(mut self) -> anyhow::Result<()> {
        kill_process(self.pid, Signal::KILL).context("cannot kill the process")?;
        self.wait_killed(START_OR_STOP_MAX)
    }

    /// Ends it with SIGTERM. Errors: it does not end well.
    pub fn stop(self) -> anyhow::Result<()> {
        self.end(Signal::TERM)?.wait()
    }

    /// Waits for its end, which somebody else has asked for. Errors: it does not end well.
    pub fn wait_ended(self) -> anyhow::Result<()> {
        Ending { process: self, signal: Signal::TERM }.wait()
    }

    /// Sends the signal.
    pub fn end(self, signal: Signal) -> anyhow::Result<Ending> {
        kill_process(self.pid, signal).context("cannot end the process")?;
        Ok(Ending { process: self, signal })
    }

    fn log_end(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// A process that was told to end.
pub struct Ending {
    process: Process,
    signal: Signal,
}

impl Ending {
    /// Waits for the end. Errors: it does not come in time, or not well.
    pub fn wait(mut self) -> anyhow::Result<()> {
        let (process, signal) = (&mut self.process, self.signal);
        let status = process.ended.recv_timeout(START_OR_STOP_MAX);
        let status = status.with_context(|| format!("{signal:?} does not end the process"))?;
        process.is_over = true;
        ensure!(status.success(), "{signal:?} ended it with {status}; its log says:\n{}", process.log_end());
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Once it was waited for, its id may be another's.
        if !self.is_over && self.ended.try_recv().is_err() {
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = self.ended.recv_timeout(START_OR_STOP_MAX);
        }
    }
}

/// Tells the address as soon as it is printed, and goes on reading, so that the process never waits for a reader.
fn read_address(stdout: ChildStdout, tell: &mpsc::Sender<String>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if let Some((_, address)) = line.split_once("API at ") {
            let _ = tell.send(address.trim().to_owned());
        }
    }
}
