//! `rehome list|show|pause|resume|cancel|complete`.

use super::{count, next_lines, print, table};
use crate::args::Remote;
use crate::client::Client;
use crate::exit::Failure;
use crate::wire::{JobShape, JobsShape, MoveShape};

/// List all jobs
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome list")]
pub struct ListArgs {
    #[command(flatten)]
    pub remote: Remote,
}

/// Show a job and its moves
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome show 12")]
pub struct ShowArgs {
    job: u64,
    #[command(flatten)]
    pub remote: Remote,
}

/// Let a job take no further step before `rehome resume`; a cutover that is under way ends first
///
/// No further move starts, none cuts over, and no copy is begun. A copy that is being written is finished, and what was
/// copied goes on following its source. The pause is kept in the control log, so a restart does not end it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome pause 12")]
pub struct PauseArgs {
    job: u64,
    /// Why, for the story
    #[arg(long, default_value = "an operator asked for it")]
    reason: String,
    #[command(flatten)]
    pub remote: Remote,
}

/// Let a paused job go on
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome resume 12")]
pub struct ResumeArgs {
    job: u64,
    #[command(flatten)]
    pub remote: Remote,
}

/// Cancel the moves of a job that have not switched; nothing of them is left behind
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome cancel 12")]
pub struct CancelArgs {
    job: u64,
    /// Why, for the story
    #[arg(long, default_value = "an operator asked for it")]
    reason: String,
    #[command(flatten)]
    pub remote: Remote,
}

/// Let the sources of a switched job drop the rows they no longer own
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome complete 12")]
pub struct CompleteArgs {
    job: u64,
    #[command(flatten)]
    pub remote: Remote,
}

pub fn list(args: &ListArgs) -> Result<(), Failure> {
    let all: JobsShape = Client::new(&args.remote).get("/v1/jobs", &())?;
    print(args.remote.json, &all, |all| {
        let rows = all.jobs.iter().map(|job| {
            let keyspace = keyspace(job);
            let JobShape { job, state, shards, moves, .. } = job;
            [job.to_string(), keyspace, state.clone(), shards.to_string(), moves.len().to_string()]
        });
        table(&["JOB", "KEYSPACE", "STATE", "SHARDS", "MOVES"], rows)
    });
    Ok(())
}

pub fn show(args: &ShowArgs) -> Result<(), Failure> {
    let job = Client::new(&args.remote).get(&format!("/v1/jobs/{}", args.job), &())?;
    print(args.remote.json, &job, describe);
    Ok(())
}

pub fn cancel(args: &CancelArgs) -> Result<(), Failure> {
    let body = serde_json::json!({ "reason": args.reason });
    let job = Client::new(&args.remote).post(&format!("/v1/jobs/{}/cancel", args.job), &body)?;
    print(args.remote.json, &job, describe);
    Ok(())
}

pub fn pause(args: &PauseArgs) -> Result<(), Failure> {
    let body = serde_json::json!({ "reason": args.reason });
    let job = Client::new(&args.remote).post(&format!("/v1/jobs/{}/pause", args.job), &body)?;
    print(args.remote.json, &job, describe);
    Ok(())
}

pub fn resume(args: &ResumeArgs) -> Result<(), Failure> {
    let body = serde_json::json!({});
    let job = Client::new(&args.remote).post(&format!("/v1/jobs/{}/resume", args.job), &body)?;
    print(args.remote.json, &job, describe);
    Ok(())
}

pub fn complete(args: &CompleteArgs) -> Result<(), Failure> {
    let body = serde_json::json!({});
    let job = Client::new(&args.remote).post(&format!("/v1/jobs/{}/complete", args.job), &body)?;
    print(args.remote.json, &job, describe);
    Ok(())
}

/// Returns how far a replay is behind: `?` while it runs and that is unknown, `-` where there is none.
fn lag(one: &MoveShape) -> String {
    let unknown = if matches!(one.phase.as_str(), "catching-up" | "cutting-over") { "?" } else { "-" };
    one.lag_records.map_or(unknown.into(), |lag| lag.to_string())
}

/// Returns the keyspace's name, marked where it was dropped: a new one may have the same.
fn keyspace(job: &JobShape) -> String {
    let mark = if job.keyspace_dropped { " (dropped)" } else { "" };
    format!("{}{mark}", job.keyspace)
}

/// Returns a job with its moves, as text.
pub fn describe(job: &JobShape) -> String {
    let rows = job.moves.iter().map(|one| {
        let number = |value: Option<u64>| value.map_or("-".into(), |value| value.to_string());
        let phase = match &one.reason {
            Some(reason) => format!("{} ({reason})", one.phase),
            None => one.phase.clone(),
        };
        [
            one.move_id.to_string(),
            format!("{} -> {}", one.source, one.destination),
            one.slots.to_string(),
            phase,
            number(one.rows),
            lag(one),
            one.attempts_made.to_string(),
        ]
    });
    let table = table(&["MOVE", "SHARDS", "SLOTS", "PHASE", "ROWS", "LAG", "ATTEMPTS"], rows);
    let JobShape { job: id, state, shards, requested_by, .. } = job;
    let (keyspace, shards) = (keyspace(job), count(u64::from(*shards), "shard"));
    let reason = job.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let next = next_lines(&job.next_steps);
    format!("job {id}, keyspace {keyspace} to {shards}, asked for by {requested_by}: {state}{reason}\n{table}{next}")
}
