//! `rehome put`.

use super::{print, quoted, request_id};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::Failure;
use crate::wire::{Encoding, PutBody, WriteShape};

/// Write one row
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  rehome put flights ORD 2001-01-01 '{\"delay\":3}'\n  rehome put flights ORD 2001-01-01 '{}' --if absent\n\nA key or sort key has at most 4096 bytes, a value at most 1048576, or what `rehome up\n--value-bytes-max` says; a key is not empty."
)]
pub struct Args {
    keyspace: String,
    /// Partition key
    key: String,
    /// Sort key; '' for a row without one
    sort: String,
    value: String,
    /// How key, sort key and value are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,
    /// Request id of 32 hex digits: the same id again does nothing again
    #[arg(long, value_parser = request_id)]
    request: Option<String>,
    /// Write only if the row is `absent`, `present`, or has this version (such as 4@811)
    #[arg(long = "if", value_name = "CONDITION")]
    condition: Option<String>,
    #[command(flatten)]
    pub remote: Remote,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let body = PutBody {
        key: args.key.clone(),
        sort: args.sort.clone(),
        value: args.value.clone(),
        encoding: args.encoding,
        request: args.request.clone(),
        condition: args.condition.clone(),
    };
    let path = format!("/v1/keyspaces/{}/rows", segment(&args.keyspace));
    let answer = Client::new(&args.remote).post(&path, &body);
    report(&args.remote, answer, next(&args.keyspace, &args.key, &args.sort))
}

/// Returns the command that shows the row.
pub fn next(keyspace: &str, key: &str, sort: &str) -> String {
    format!("rehome get {keyspace} {} {}", quoted(key), quoted(sort))
}

/// Prints a write's answer. After a failed condition, `next` shows what is there instead.
pub fn report(remote: &Remote, answer: Result<WriteShape, Failure>, next: String) -> Result<(), Failure> {
    let written = answer.map_err(|failure| match failure.code.as_str() {
        // `write` in JSON tells which version was found.
        "condition_failed" => Failure { next_steps: vec![next], ..failure },
        _ => failure,
    })?;
    print(remote.json, &written, |written| {
        let before = if written.repeated { " before" } else { "" };
        let version = written.version.as_ref().map(|version| format!(" as version {version}")).unwrap_or_default();
        format!("{}{before}{version}, readable at token {}", written.verdict, written.token)
    });
    Ok(())
}
