//! `rehome plan|reshard`.

use super::{count, next_lines, print, table};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure};
use crate::wire::{EstimateShape, PlannedShape, ReshardBody, ReshardShape};

/// Change how many shards own a keyspace, while it is written to
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  rehome reshard flights --shards 5 --dry-run\n  rehome reshard flights --shards 5")]
pub struct Args {
    keyspace: String,
    /// Shards that own its slots afterwards
    #[arg(long, allow_negative_numbers = true)]
    shards: u32,
    /// Keep the rows at their sources until `rehome complete JOB`
    #[arg(long)]
    keep_source: bool,
    /// As `rehome plan`: print what it would take, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub remote: Remote,
}

/// Print what a reshard would take (moves, rows, bytes, seconds, pause), and change nothing
///
/// Little is counted, more is estimated from a sample; speeds are those that were seen in this folder, or are named as
/// assumed. When a move could not end (its replay cannot catch up, or there is too little disk) the plan says so and the
/// exit code is 3.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome plan flights --shards 5")]
pub struct PlanArgs {
    keyspace: String,
    /// Shards that would own its slots afterwards
    #[arg(long, allow_negative_numbers = true)]
    shards: u32,
    #[command(flatten)]
    pub remote: Remote,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    ask(&args.remote, &args.keyspace, args.shards, args.keep_source, args.dry_run)
}

pub fn plan(args: &PlanArgs) -> Result<(), Failure> {
    ask(&args.remote, &args.keyspace, args.shards, false, true)
}

fn ask(remote: &Remote, keyspace: &str, shards: u32, keep_source: bool, dry_run: bool) -> Result<(), Failure> {
    let requested_by = std::env::var("USER").unwrap_or_else(|_| "an operator".into());
    let body = ReshardBody { shards, keep_source, dry_run, requested_by };
    let path = format!("/v1/keyspaces/{}/reshard", segment(keyspace));
    let plan: ReshardShape = Client::new(remote).post(&path, &body)?;
    print(remote.json, &plan, describe);
    match plan.estimate.and_then(|estimate| estimate.warnings.into_iter().next()) {
        // What stands in the way was printed with the plan.
        Some(warning) => Err(Failure::new(Exit::Refused, warning.code, warning.message).silent_if(true)),
        None => Ok(()),
    }
}

fn describe(plan: &ReshardShape) -> String {
    let next = next_lines(&plan.next_steps);
    match (plan.job, &plan.estimate) {
        (Some(job), _) => {
            let rows = plan.moves.iter();
            let rows = rows.map(|one| [one.source, one.destination, one.slots].map(|number| number.to_string()));
            let moves = table(&["FROM", "TO", "SLOTS"], rows);
            format!("job {job} is submitted: {}\n{moves}{next}", count(plan.moves.len() as u64, "move"))
        }
        (None, estimate) => {
            let head = ["FROM", "TO", "SLOTS", "ROWS", "BYTES", "SECONDS", "PAUSE"];
            let moves = table(&head, plan.moves.iter().map(planned));
            let total = estimate.as_ref().map(total).unwrap_or_default();
            format!("{} would be made\n{moves}\n{total}{next}", count(plan.moves.len() as u64, "move"))
        }
    }
}

fn planned(one: &PlannedShape) -> [String; 7] {
    let number = |value: Option<u64>| value.map_or("?".into(), |value| value.to_string());
    [
        one.source.to_string(),
        one.destination.to_string(),
        one.slots.to_string(),
        number(one.rows),
        number(one.bytes),
        seconds(one.seconds),
        one.pause_ms.map_or("?".into(), |pause_ms| format!("{pause_ms:.0} ms")),
    ]
}

fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or("never".into(), |seconds| format!("{seconds:.1}"))
}

fn total(all: &EstimateShape) -> String {
    let about = if all.counted { "" } else { "about " };
    let EstimateShape { rows, bytes, pause_ms, disk_free_bytes, .. } = all;
    let mut out = format!(
        "{about}{}, {bytes} bytes; {} expected, longest pause {pause_ms:.0} ms; {disk_free_bytes} bytes of disk free",
        count(*rows, "row"),
        all.seconds.map_or("never".into(), |seconds| format!("{seconds:.1} s"))
    );
    if !all.assumed.is_empty() {
        out += &format!("\nassumed, since nothing was measured here yet: {}", all.assumed.join(", "));
    }
    all.warnings.iter().fold(out, |out, warning| out + "\nwarning: " + &warning.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WarningShape;

    #[test]
    fn a_plan_says_what_was_assumed_and_what_stands_in_the_way() {
        let warning = WarningShape { code: "disk_short".into(), message: "not enough disk".into() };
        let all = EstimateShape {
            counted: false,
            rows: 7,
            assumed: vec!["10 ms of pause".into()],
            warnings: vec![warning],
            ..EstimateShape::default()
        };
        let text = total(&all);
        assert!(text.starts_with("about 7 rows, 0 bytes; never expected"), "{text}");
        assert!(text.contains("measured here yet: 10 ms of pause\nwarning: not enough disk"), "{text}");
    }
}
