//! The commands as an operator types them, against a process of their own.

use crate::medium::Medium;
use crate::{Arming, Process, binaries};
use anyhow::Context;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
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
        let dir = Medium::Memory.make_folder()?;
        let process = Process::start(&binaries::plain(), dir.path(), &Arming::default())?;
        let server = process.address()?.context("the process ended at its start")?;
        Ok(Shell { dir, process, server })
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
    let mut command = Command::new(binaries::plain());
    command.args(line.split_whitespace().map(|word| if word == "''" { "" } else { word }));
    command.env("REHOME_SERVER", server).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { exit: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
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
