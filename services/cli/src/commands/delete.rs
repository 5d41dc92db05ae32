//! `rehome delete`.

use super::{put, request_id};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::Failure;
use crate::wire::{DeleteQuery, Encoding};

/// Delete one row
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome delete flights ORD 2001-01-01")]
pub struct Args {
    keyspace: String,
    /// Partition key
    key: String,
    /// Sort key; '' for a row without one
    sort: String,
    /// How key and sort key are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,
    /// Request id of 32 hex digits: the same id again does nothing again
    #[arg(long, value_parser = request_id)]
    request: Option<String>,
    /// Delete only if the row is `present`, or has this version (such as 4@811)
    #[arg(long = "if", value_name = "CONDITION")]
    condition: Option<String>,
    #[command(flatten)]
    pub remote: Remote,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let next = put::next(&args.keyspace, &args.key, &args.sort);
    if args.condition.as_deref() == Some("absent") {
        let message = "a delete of what is absent is nothing: --if of a delete is present, or a version such as 4@811";
        return Err(Failure::usage(message).next(next.replacen(" get ", " delete ", 1) + " --if present"));
    }
    let query = DeleteQuery {
        key: args.key.clone(),
        sort: args.sort.clone(),
        encoding: args.encoding,
        request: args.request.clone(),
        condition: args.condition.clone(),
    };
    let path = format!("/v1/keyspaces/{}/rows", segment(&args.keyspace));
    put::report(&args.remote, Client::new(&args.remote).delete(&path, &query), next)
}
