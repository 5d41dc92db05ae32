//! `rehome scan`.

use super::get::lines;
use super::{print, quoted};
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
    #[arg(long, default_value = "linearizable")]
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
        print(args.remote.json, &page, |page| lines(&page.rows));
        if !page.missing.is_empty() {
            let message = format!("{} ranges could not be read in time", page.missing.len());
            return Err(Failure::new(Exit::TimedOut, "scan_incomplete", message).next("rehome status"));
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if let Some(after) = after.filter(|_| !args.remote.json) {
        let (keyspace, limit) = (quoted(&args.keyspace), args.limit);
        tell(&format!("there are more rows\n  next: rehome scan {keyspace} --limit {limit} --after {after}"));
    }
    Ok(())
}
