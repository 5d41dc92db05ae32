//! `rehome demo`.

use crate::exit::Failure;
use std::path::PathBuf;

/// Load rows, change the shard count under load, and compare everything three ways
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  rehome demo --input zipf\n  rehome demo --input flights.parquet --key origin --sort date --plan 3,5,2 --json"
)]
pub struct Args {
    /// A Parquet or CSV file, or `zipf` for generated rows
    #[arg(long)]
    input: Option<String>,
    /// Column that becomes the partition key
    #[arg(long)]
    key: Option<String>,
    /// Column that becomes the sort key, with the row number appended
    #[arg(long)]
    sort: Option<String>,
    /// Shard counts, one after the other: the first is made, the others are resharded to under load
    #[arg(long, default_value = "3,5,2", value_parser = plan)]
    plan: Plan,
    /// Folder to work in, kept afterwards; must be empty. By default a temporary one
    #[arg(long)]
    data: Option<PathBuf>,
    /// Closed-loop writers
    #[arg(long, default_value_t = 32)]
    writers: u32,
    /// Load only so many rows
    #[arg(long)]
    rows: Option<u64>,
    /// Seed of what the writers do
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the figures as one JSON object, the last line of standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Debug)]
pub struct Plan(pub Vec<u32>);

fn plan(text: &str) -> Result<Plan, String> {
    let counts: Option<Vec<u32>> = text.split(',').map(|part| part.parse().ok().filter(|count| *count > 0)).collect();
    let counts = counts.filter(|counts| counts.len() > 1);
    counts.map(Plan).ok_or_else(|| "a plan is two or more shard counts, such as 3,5,2".into())
}

pub fn run(_args: &Args) -> Result<(), Failure> {
    Ok(())
}
