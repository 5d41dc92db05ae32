//! `rehome scan`.

use super::get::{LINEARIZABLE, level, lines};
use super::{count, print_with, quoted};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure, tell};
use crate::wire::{RowsShape, ScanQuery};

/// Rows of one page. Reason: an answer of some hundred kilobytes.
const PAGE: usize = 1_000;

/// Read rows of all partition keys, in the order in which they are placed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  rehome scan flights --limit 20\n  rehome scan flights --all | wc -l")]
pub struct Args {
    keyspace: String,
    /// Most rows to print
    #[arg(long, default_value_t = 100, conflicts_with = "all")]
    limit: usize,
    /// Print every row; with --json one object a page
    #[arg(long)]
    all: bool,
    /// Go on where an earlier scan ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// linearizable, or eventual
    #[arg(long, default_value = LINEARIZABLE)]
    level: String,
    #[command(flatten)]
    pub remote: Remote,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let client = Client::new(&args.remote);
    let path = format!("/v1/keyspaces/{}/scan", segment(&args.keyspace));
    let mut left = if args.all { usize::MAX } else { args.limit };
    let mut after = args.after.clone();
    while left > 0 {
        let query = ScanQuery { limit: Some(left.min(PAGE)), after: after.take(), level: Some(args.level.clone()) };
        let page: RowsShape = client.get(&path, &query)?;
        left -= page.rows.len().min(left);
        // What this very command goes on with is no next step.
        let next = page.next.as_deref().filter(|_| left == 0).map(|after| go_on(args, after));
        print_with(args.remote.json, &page, next.into_iter().collect(), |page| lines(&page.rows));
        if !page.missing.is_empty() {
            let message = format!("{} could not be read in time", count(page.missing.len() as u64, "range"));
            return Err(Failure::new(Exit::TimedOut, "scan_incomplete", message).next("rehome status"));
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if let Some(after) = after.filter(|_| !args.remote.json) {
        tell(&format!("there are more rows\n  next: {}", go_on(args, &after)));
    }
    Ok(())
}

/// Returns the same command for the rows that follow.
fn go_on(args: &Args, after: &str) -> String {
    let Args { keyspace, limit, .. } = args;
    format!("rehome scan {} --limit {limit}{} --after {after}", quoted(keyspace), level(&args.level))
}
