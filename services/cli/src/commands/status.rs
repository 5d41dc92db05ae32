//! `rehome status`.

use super::{job, keyspace, next_lines, print};
use crate::args::Remote;
use crate::client::Client;
use crate::exit::Failure;
use crate::wire::StatusShape;

/// Show keyspaces, shards, and jobs that have not ended
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome status")]
pub struct Args {
    #[command(flatten)]
    pub remote: Remote,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let status: StatusShape = Client::new(&args.remote).get("/v1/status", &())?;
    print(args.remote.json, &status, |status| {
        let StatusShape { version, pid, data, uptime_ms, control_position, .. } = status;
        let up = uptime_ms / 1000;
        let mut out =
            format!("rehome {version}, process {pid}, on {data}, up {up} s, control log at {control_position}\n");
        for shown in &status.keyspaces {
            out += &format!("\n{}\n", keyspace::describe(shown));
        }
        for shown in &status.jobs {
            out += &format!("\n{}\n", job::describe(shown));
        }
        // Each job has told its own.
        if status.jobs.is_empty() { out + &next_lines(&status.next_steps) } else { out }
    });
    Ok(())
}
