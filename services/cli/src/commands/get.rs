//! `rehome get`.

use super::print;
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure};
use crate::wire::{Encoding, RowShape, RowsQuery, RowsShape};

/// Read one row, or the rows of one partition key
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  rehome get flights ORD 2001-01-01\n  rehome get flights ORD --list --limit 10 --reverse"
)]
pub struct Args {
    keyspace: String,
    /// Partition key
    key: String,
    /// Sort key; '' for a row without one
    #[arg(required_unless_present = "list", conflicts_with = "list")]
    sort: Option<String>,
    /// List the rows of the partition key
    #[arg(long)]
    list: bool,
    /// First sort key of a list
    #[arg(long, requires = "list")]
    from: Option<String>,
    /// Sort key before which a list ends
    #[arg(long, requires = "list")]
    to: Option<String>,
    /// Last sort key first
    #[arg(long, requires = "list")]
    reverse: bool,
    /// Rows of a list
    #[arg(long, requires = "list", default_value_t = 100)]
    limit: usize,
    /// How keys are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,
    /// linearizable, eventual, or a token from a write's answer
    #[arg(long, default_value = "linearizable")]
    level: String,
    #[command(flatten)]
    pub remote: Remote,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let query = RowsQuery {
        key: args.key.clone(),
        sort: args.sort.clone(),
        from: args.from.clone(),
        to: args.to.clone(),
        reverse: args.reverse,
        limit: args.list.then_some(args.limit),
        encoding: args.encoding,
        level: Some(args.level.clone()),
    };
    let path = format!("/v1/keyspaces/{}/rows", segment(&args.keyspace));
    let found: RowsShape = Client::new(&args.remote).get(&path, &query)?;
    if !args.list && found.rows.is_empty() {
        return Err(Failure::new(Exit::NotFound, "row-unknown", "there is no such row")
            .next(format!("rehome get {} {} --list", args.keyspace, args.key)));
    }
    print(args.remote.json, &found, |found| lines(&found.rows));
    Ok(())
}

/// Returns rows as lines: partition key, sort key, version, value.
pub fn lines(rows: &[RowShape]) -> String {
    rows.iter().map(|row| format!("{}\t{}\t{}\t{}\n", row.key, row.sort, row.version, row.value)).collect()
}
