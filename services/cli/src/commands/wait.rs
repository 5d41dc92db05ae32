//! `rehome wait`.

use super::{count, job, print};
use crate::args::Remote;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::wire::{JobShape, WaitQuery};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// Longest single question to the server, in milliseconds. Reason: progress is shown between questions.
const POLL_MS: u64 = 1_000;

/// Wait until a job has ended, or has switched and keeps its sources
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome wait 12 --timeout 600")]
pub struct Args {
    job: u64,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    #[command(flatten)]
    pub remote: Remote,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let client = Client::new(&args.remote);
    let deadline = args.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let bar = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} {msg}").expect("a good template"));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()).as_millis() as u64);
        let query = WaitQuery { timeout_ms: left.unwrap_or(POLL_MS).min(POLL_MS) };
        let found: JobShape = client.get(&format!("/v1/jobs/{}/wait", args.job), &query)?;
        if !matches!(found.state.as_str(), "running" | "paused") {
            bar.finish_and_clear();
            return ended(args, &found);
        }
        bar.set_message(progress(&found));
        bar.tick();
        if left == Some(0) {
            bar.finish_and_clear();
            let message = format!("job {} has not ended in time: {}", args.job, progress(&found));
            return Err(
                Failure::new(Exit::TimedOut, "wait_timed_out", message).next(format!("rehome show {}", args.job))
            );
        }
    }
}

fn ended(args: &Args, found: &JobShape) -> Result<(), Failure> {
    match found.state.as_str() {
        "completed" | "switched" => {
            print(args.remote.json, found, job::describe);
            Ok(())
        }
        state => {
            let reason = found.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let message = format!("job {} is {state}{reason}", args.job);
            let failure = Failure::new(Exit::Refused, format!("job-{state}"), message);
            Err(found.next_steps.iter().fold(failure, Failure::next))
        }
    }
}

/// Returns one line: how many moves are in which phase, and the largest lag.
fn progress(job: &JobShape) -> String {
    let mut phases = std::collections::BTreeMap::new();
    for one in &job.moves {
        *phases.entry(one.phase.as_str()).or_insert(0u32) += 1;
    }
    let phases: Vec<String> = phases.iter().map(|(phase, count)| format!("{count} {phase}")).collect();
    let lag = job.moves.iter().filter_map(|one| one.lag_records).max();
    let lag = lag.map(|lag| format!(", lag {}", count(lag, "record"))).unwrap_or_default();
    let paused = if job.state == "paused" { format!(", paused: `rehome resume {}`", job.job) } else { String::new() };
    format!("moves: {}{lag}{paused}", phases.join(", "))
}
