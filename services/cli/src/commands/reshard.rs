//! `rehome reshard`.

use super::{next_lines, print, table};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::Failure;
use crate::wire::{ReshardBody, ReshardShape};

/// Change how many shards own a keyspace, while it is written to
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  rehome reshard flights --shards 5 --dry-run\n  rehome reshard flights --shards 5")]
pub struct Args {
    keyspace: String,
    /// Shards that own its slots afterwards
    #[arg(long)]
    shards: u32,
    /// Keep the rows at their sources until `rehome complete JOB`
    #[arg(long)]
    keep_source: bool,
    /// Print the moves, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub remote: Remote,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let requested_by = std::env::var("USER").unwrap_or_else(|_| "an operator".into());
    let body = ReshardBody { shards: args.shards, keep_source: args.keep_source, dry_run: args.dry_run, requested_by };
    let path = format!("/v1/keyspaces/{}/reshard", segment(&args.keyspace));
    let plan: ReshardShape = Client::new(&args.remote).post(&path, &body)?;
    print(args.remote.json, &plan, |plan| {
        let head = match plan.job {
            Some(job) => format!("job {job} is submitted: {} moves", plan.moves.len()),
            None => format!("{} moves would be made", plan.moves.len()),
        };
        let rows = plan.moves.iter();
        let rows = rows.map(|one| [one.source, one.destination, one.slots].map(|number| number.to_string()));
        format!("{head}\n{}{}", table(&["FROM", "TO", "SLOTS"], rows), next_lines(&plan.next_steps))
    });
    Ok(())
}
