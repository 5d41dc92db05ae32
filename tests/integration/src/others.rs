//! Kafka clients of others: kcat, and Python with confluent-kafka. `scripts/python.sh` makes sure of both.

use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../oracle").join(name)
}

fn python() -> anyhow::Result<Command> {
    let python =
        std::env::var("REHOME_PYTHON").context("REHOME_PYTHON names no Python; scripts/python.sh prints one")?;
    let mut command = Command::new(python);
    // Nothing is left beside the scripts.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// A running script, told line by line what it says.
pub struct Script {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Script {
    pub fn start(name: &str, words: &[&str]) -> anyhow::Result<Script> {
        let mut child = python()?.arg(script(name)).args(words).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().context("its output is piped")?;
        Ok(Script { child, lines: BufReader::new(out).lines() })
    }

    /// Waits for its next line.
    pub fn line(&mut self) -> anyhow::Result<String> {
        Ok(self.lines.next().context("the script has ended")??)
    }

    /// Waits until it says that line.
    pub fn until(&mut self, wanted: &str) -> anyhow::Result<()> {
        while self.line()? != wanted {}
        Ok(())
    }

    /// Waits for its end, and returns the last line as JSON.
    pub fn finish(mut self) -> anyhow::Result<serde_json::Value> {
        let mut last = String::new();
        for line in self.lines.by_ref() {
            last = line?;
        }
        let status = self.child.wait()?;
        let told = serde_json::from_str(&last).with_context(|| format!("it ended with {status} and {last:?}"))?;
        ensure!(status.success(), "it ended with {status}: {told}");
        Ok(told)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets kcat produce those lines; with a key before the colon, if so.
pub fn kcat(broker: &str, topic: &str, is_keyed: bool, more: &[&str], lines: &str) -> anyhow::Result<()> {
    let mut command = Command::new("kcat");
    command.args(["-P", "-b", broker, "-t", topic]).args(more);
    if is_keyed {
        command.arg("-K:");
    }
    let mut child =
        command.stdin(Stdio::piped()).spawn().context("kcat is not there; scripts/python.sh installs it")?;
    child.stdin.take().context("its input is piped")?.write_all(lines.as_bytes())?;
    let status = child.wait()?;
    ensure!(status.success(), "kcat ended with {status}");
    Ok(())
}

/// Returns the topics that kcat sees, but Kafka's own.
pub fn topics(broker: &str) -> anyhow::Result<Vec<String>> {
    let listed = Command::new("kcat").args(["-b", broker, "-L", "-J"]).output();
    let listed = listed.context("kcat is not there; scripts/python.sh installs it")?;
    ensure!(listed.status.success(), "kcat ended with {}", listed.status);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
    let topics = listed["topics"].as_array().context("kcat lists no topics")?;
    let names = topics.iter().filter_map(|topic| topic["topic"].as_str());
    Ok(names.filter(|name| !name.starts_with("__")).map(str::to_owned).collect())
}
