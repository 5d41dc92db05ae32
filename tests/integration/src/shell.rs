//! The commands as an operator types them, against a process of their own.

use crate::medium::Medium;
use crate::{Arming, Process, binaries};
use anyhow::Context;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A process, and the commands that talk to it.
pub struct Shell {
    dir: TempDir,
    process: Process,
    server: String,
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl Shell {
    pub fn start() -> anyhow::Result<Shell> {
        Shell::on(Medium::Memory.make_folder()?)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends the process cleanly.
    pub fn stop(self) -> anyhow::Result<()> {
        self.process.stop()
    }

    /// Waits for the end of a process that was told to end.
    pub fn wait(self) -> anyhow::Result<()> {
        self.process.wait_ended()
    }

    /// Ends the process cleanly, and returns its folder.
    pub fn into_folder(self) -> anyhow::Result<TempDir> {
        self.process.stop()?;
        Ok(self.dir)
    }

    /// Kills the process, and starts another one on its folder.
    pub fn kill_and_start(self) -> anyhow::Result<Shell> {
        let Shell { dir, process, .. } = self;
        process.kill()?;
        Shell::on(dir)
    }

    fn on(dir: TempDir) -> anyhow::Result<Shell> {
        let process = Process::start(&binaries::plain(), dir.path(), &Arming::default())?;
        let server = process.address()?.context("the process ended at its start")?;
        Ok(Shell { dir, process, server })
    }

    /// Returns the address of its API.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Runs a command, words separated by blanks.
    pub fn run(&self, line: &str) -> Said {
        rehome(&self.server, line)
    }

    /// Runs a command that must succeed.
    pub fn good(&self, line: &str) -> String {
        let said = self.run(line);
        assert_eq!(said.exit, 0, "rehome {line}: {said:?}");
        said.out
    }

    /// Runs a command that must succeed with one JSON object.
    pub fn json(&self, line: &str) -> Value {
        let out = self.good(&format!("{line} --json"));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("rehome {line} --json: {error}: {out}"))
    }
}

/// Runs a command against that server.
pub fn rehome(server: &str, line: &str) -> Said {
    let Piped { exit, out, err } = rehome_piped(server, line, Stdio::null());
    Said { exit, out: String::from_utf8_lossy(&out).into_owned(), err }
}

/// What a command wrote, byte for byte.
#[derive(Debug)]
pub struct Piped {
    pub exit: i32,
    pub out: Vec<u8>,
    pub err: String,
}

/// Runs a command against that server, with that standard input.
pub fn rehome_piped(server: &str, line: &str, stdin: impl Into<Stdio>) -> Piped {
    let output = command(server, line).stdin(stdin).output().expect("the program starts");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Piped { exit: output.status.code().unwrap_or(-1), out: output.stdout, err }
}

/// Returns a command against that server, words separated by blanks, that was not started.
pub fn command(server: &str, line: &str) -> Command {
    let mut command = Command::new(binaries::plain());
    command.args(line.split_whitespace().map(|word| if word == "''" { "" } else { word }));
    command.env("REHOME_SERVER", server);
    command
}

/// Returns the name of every command that can be typed, as the program's own help lists them.
pub fn verbs() -> Vec<String> {
    let mut verbs = Vec::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let help = rehome("", &format!("{path} --help")).out;
        let Some((_, listed)) = help.split_once("Commands:\n") else {
            verbs.push(path);
            continue;
        };
        for line in listed.split("\n\n").next().unwrap_or_default().lines() {
            let name = line.split_whitespace().next().unwrap_or_default();
            if name != "help" && line.starts_with("  ") && !line.starts_with("   ") {
                open.push(format!("{path} {name}").trim().to_owned());
            }
        }
    }
    verbs
}
