//! `rehome rejects list|retry`.

use super::{count, next_lines, print, print_with, quoted, table};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure};
use crate::wire::{RejectShape, RejectsQuery, RejectsShape, RetriedShape, RetryBody};
use clap::Subcommand;

/// Longest part of a value or reason that a table shows, in characters.
const SHOWN_CHARS: usize = 60;

/// Show what foreign producers wrote that could not be applied, and send it again
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub command: Which,
}

#[derive(Debug, Subcommand)]
pub enum Which {
    /// List what could not be applied, with where it lay and why
    #[command(after_help = "Examples:\n  rehome rejects list flights\n  rehome rejects list flights --limit 10 --json")]
    List {
        keyspace: String,
        /// Most rejects to show
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Go on where an earlier list ended
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
        #[command(flatten)]
        remote: Remote,
    },
    /// Send rejects again, each as a new write: over whatever was written to its row since
    ///
    /// Each has a request id of its own, so one that is sent twice is done once. What was done is listed no more.
    #[command(
        after_help = "Examples:\n  rehome rejects retry flights --dry-run\n  rehome rejects retry flights --at inbox/0@17 --at data/3@811\n  rehome rejects retry flights"
    )]
    Retry {
        keyspace: String,
        /// Only the reject that lay there, as `rejects list` shows it; can be given several times [default: the oldest 1000]
        #[arg(long, value_name = "PLACE")]
        at: Vec<String>,
        /// Say what would be sent, and send nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        remote: Remote,
    },
}

impl Which {
    pub fn remote(&self) -> &Remote {
        match self {
            Which::List { remote, .. } | Which::Retry { remote, .. } => remote,
        }
    }
}

pub fn run(command: &Which) -> Result<(), Failure> {
    let json = command.remote().json;
    let client = Client::new(command.remote());
    match command {
        Which::List { keyspace, limit, after, .. } => {
            let query = RejectsQuery { limit: Some(*limit), after: after.clone() };
            let page: RejectsShape = client.get(&format!("/v1/keyspaces/{}/rejects", segment(keyspace)), &query)?;
            let name = quoted(keyspace);
            let more =
                page.next.as_ref().map(|after| format!("rehome rejects list {name} --limit {limit} --after {after}"));
            let retry = (!page.rejects.is_empty()).then(|| format!("rehome rejects retry {name} --dry-run"));
            let next: Vec<String> = more.into_iter().chain(retry).collect();
            print_with(json, &page, next.clone(), |page| lines(&page.rejects) + &next_lines(&next));
            Ok(())
        }
        Which::Retry { keyspace, at, dry_run, .. } => {
            let body = RetryBody { at: at.clone(), dry_run: *dry_run };
            let path = format!("/v1/keyspaces/{}/rejects/retry", segment(keyspace));
            let told: RetriedShape = client.post(&path, &body)?;
            print(json, &told, describe);
            if told.refused == 0 {
                return Ok(());
            }
            let message = format!("{} could still not be applied", count(told.refused as u64, "reject"));
            let failure = Failure::new(Exit::Refused, "rejects_left", message).silent_if(json);
            Err(failure.next(format!("rehome rejects list {}", quoted(keyspace))))
        }
    }
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn lines(rejects: &[RejectShape]) -> String {
    if rejects.is_empty() {
        return "nothing is rejected".into();
    }
    let rows = rejects.iter().map(|reject| {
        let value = reject.value.as_deref().unwrap_or(if reject.cut { "(too large)" } else { "(none)" });
        let key = reject.key.clone().unwrap_or_else(|| "(none)".into());
        [reject.at.clone(), shortened(&key), shortened(&reject.sort), shortened(value), reject.reason.clone()]
    });
    table(&["AT", "KEY", "SORT", "VALUE", "REASON"], rows)
}

fn describe(told: &RetriedShape) -> String {
    let rows = told.results.iter().map(|result| {
        [result.at.clone(), result.outcome.replace('_', " "), result.message.clone().unwrap_or_default()]
    });
    let all = if told.results.is_empty() { String::new() } else { table(&["AT", "OUTCOME", "WHY"], rows) + "\n" };
    let sent = count(told.sent as u64, "reject");
    let what = if told.dry_run { "would be sent" } else { "sent" };
    format!("{all}{sent} {what}, {} refused{}", told.refused, next_lines(&told.next_steps))
}
