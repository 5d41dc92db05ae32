//! `rehome explain`.

use super::{count, next_lines, print};
use crate::args::Remote;
use crate::client::Client;
use crate::exit::Failure;
use crate::wire::{AttemptShape, ExplainShape, MoveStoryShape};
use std::fmt::Write;

/// Tell a job, or one of its moves, as a story from the logs
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  rehome explain 12\n  rehome explain --move 3")]
pub struct Args {
    #[arg(required_unless_present = "move_id", conflicts_with = "move_id")]
    job: Option<u64>,
    /// Only this move
    #[arg(long = "move", value_name = "MOVE")]
    move_id: Option<u64>,
    #[command(flatten)]
    pub remote: Remote,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let path = match (args.job, args.move_id) {
        (_, Some(move_id)) => format!("/v1/moves/{move_id}/explain"),
        (job, None) => format!("/v1/jobs/{}/explain", job.unwrap_or_default()),
    };
    let story: ExplainShape = Client::new(&args.remote).get(&path, &())?;
    print(args.remote.json, &story, tell);
    Ok(())
}

fn tell(story: &ExplainShape) -> String {
    let ExplainShape { job, keyspace, requested_by, state, .. } = story;
    let mut out = format!("Job {job} on keyspace {keyspace}, asked for by {requested_by}, is {state}.\n");
    for one in &story.moves {
        tell_move(&mut out, one, story.created_ms);
    }
    out + &next_lines(&story.next_steps)
}

fn tell_move(out: &mut String, one: &MoveStoryShape, created_ms: u64) {
    let summary = &one.summary;
    let _ = writeln!(
        out,
        "\nMove {}: {} from shard {} to shard {}, {}{}.",
        summary.move_id,
        count(u64::from(summary.slots), "slot"),
        summary.source,
        summary.destination,
        summary.phase,
        summary.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default()
    );
    if let (Some(position), Some(rows)) = (one.snapshot_position, summary.rows) {
        let _ = writeln!(
            out,
            "  The copy was taken at X = {position} of partition {}: {}, {} bytes, digest {}.",
            summary.source,
            count(rows, "row"),
            summary.bytes.unwrap_or_default(),
            one.snapshot_digest.as_deref().unwrap_or("unknown")
        );
    }
    one.attempts.iter().for_each(|attempt| tell_attempt(out, attempt));
    for line in &one.story {
        let after = line.time_ms.saturating_sub(created_ms) as f64 / 1000.0;
        let _ = writeln!(out, "  {after:>9.3} s  at {:>6}  {}", line.position, line.what);
    }
}

fn tell_attempt(out: &mut String, attempt: &AttemptShape) {
    let _ = write!(out, "  Attempt {} for epoch {}: {}", attempt.attempt, attempt.epoch, attempt.outcome);
    if let Some(fence) = attempt.fence {
        let _ = write!(out, " at F = {fence}");
    }
    let _ = write!(out, "; pause predicted {:.1} ms", attempt.predicted_pause_ms);
    if let Some(measured) = attempt.measured_pause_ms {
        let _ = write!(out, ", measured {measured} ms");
    }
    let _ = writeln!(out, "{}.", attempt.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default());
    for report in &attempt.reports {
        let _ = writeln!(
            out,
            "    {} on node {}: {} and {}, digest {}",
            report.side,
            report.node,
            count(report.rows, "row"),
            count(report.tombstones, "tombstone"),
            report.digest
        );
    }
}
