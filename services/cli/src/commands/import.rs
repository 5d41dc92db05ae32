//! `rehome import`: the rows of a file as an ordered source, so that importing it again doubles nothing.

use super::{print, quoted};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure, tell};
use crate::wire::{Encoding, ImportBody, ImportRow, ImportShape};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use rehome_router::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use rehome_sources::{Columns, RowReader, SourceRow};
use serde::Serialize;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Rows of one request. Reason: a few milliseconds of work, some hundred kilobytes.
const BATCH: usize = 2_000;
/// Bytes of keys and values at which a request is full. Reason: escaped as JSON they may take six times as much, which
/// the server must still take.
const BATCH_BYTES: usize = 4 << 20;
/// Rows that are named to a person, and in the JSON, when they are left out.
const NAMED_MAX: usize = 10;
const LISTED_MAX: usize = 1_000;
/// Times a batch is sent before the import gives up. Reason: the server itself retries for its deadline each time.
const TRIES_MAX: u32 = 20;

/// Write the rows of a Parquet or CSV file; importing the same file again doubles nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome import flights flights.parquet --key origin --sort date")]
pub struct Args {
    keyspace: String,
    /// File whose name ends in .parquet or .csv
    file: PathBuf,
    /// Column that becomes the partition key
    #[arg(long)]
    key: String,
    /// Column that becomes the sort key, with the row number appended; without it the row number alone
    #[arg(long)]
    sort: Option<String>,
    /// The sort column is unique within each partition key: append no row number
    #[arg(long, requires = "sort")]
    unique: bool,
    #[command(flatten)]
    pub remote: Remote,
}

/// What an import did.
#[derive(Debug, Default, Serialize)]
struct Imported {
    rows: u64,
    accepted: u64,
    /// Rows that an earlier import of the same file had written.
    done_before: u64,
    /// Rows of the file that cannot be read.
    unreadable: u64,
    /// Those, and rows whose key or value no keyspace takes.
    left_out_total: u64,
    /// The first of them.
    left_out: Vec<LeftOut>,
    source: String,
}

/// A row that is not imported.
#[derive(Debug, Serialize)]
struct LeftOut {
    /// Counted from 1, without a header.
    row: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    reason: String,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let columns = Columns { key: args.key.clone(), sort: args.sort.clone() };
    let mut rows = RowReader::open(&args.file, &columns)
        .map_err(|error| Failure::usage(Failure::from(anyhow::Error::from(error)).message))?;
    if args.unique {
        rows = rows.with_unique_sort();
    }
    let mut imported = Imported { source: source_name(args)?, ..Imported::default() };
    let bar = progress_bar(rows.rows_total());
    let client = Client::new(&args.remote);
    let mut position = 0;
    let (mut batch, mut batch_bytes) = (Vec::with_capacity(BATCH), 0);
    while let Some(row) = rows.next() {
        position += 1;
        match row {
            Ok(row) => match over_limit(&row) {
                None => {
                    batch_bytes += row.partition_key.len() + row.sort_key.len() + row.value.len();
                    batch.push((position, row));
                }
                // Never sent: the server would hold back the key's next rows until it is offered again.
                Some(reason) => imported.leave_out(&bar, LeftOut { row: rows.row(), line: None, reason }),
            },
            Err(error) => {
                imported.unreadable += 1;
                imported.leave_out(&bar, LeftOut { row: error.row, line: error.line, reason: error.reason });
            }
        }
        if batch.len() == BATCH || batch_bytes >= BATCH_BYTES {
            send(args, &client, &mut batch, &mut imported)?;
            batch_bytes = 0;
            bar.set_position(imported.rows);
        }
    }
    send(args, &client, &mut batch, &mut imported)?;
    bar.finish_and_clear();
    imported.end(args.remote.json)
}

impl Imported {
    fn leave_out(&mut self, bar: &ProgressBar, row: LeftOut) {
        self.left_out_total += 1;
        if self.left_out_total <= NAMED_MAX as u64 {
            bar.suspend(|| tell(&format!("left out: {row}")));
        }
        if self.left_out.len() < LISTED_MAX {
            self.left_out.push(row);
        }
    }

    fn end(&self, json: bool) -> Result<(), Failure> {
        let unnamed = self.left_out_total.saturating_sub(NAMED_MAX as u64);
        if unnamed > 0 {
            tell(&format!("left out: and {unnamed} more"));
        }
        print(json, self, |imported| {
            let Imported { rows, accepted, done_before, left_out_total, .. } = imported;
            format!(
                "{rows} rows: {accepted} written, {done_before} were there from an earlier import; {left_out_total} left out"
            )
        });
        if self.left_out_total == 0 {
            return Ok(());
        }
        let message = format!("rows of the file that were left out: {}", self.left_out_total);
        Err(Failure::new(Exit::Failed, "rows_left_out", message).silent_if(json))
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line.map(|line| format!(" (line {line})")).unwrap_or_default();
        write!(f, "row {}{line}: {}", self.row, self.reason)
    }
}

/// Returns why no keyspace takes the row, if so.
fn over_limit(row: &SourceRow) -> Option<String> {
    if row.partition_key.is_empty() {
        return Some("the partition key is empty".into());
    }
    let parts = [
        ("partition key", row.partition_key.len(), KEY_BYTES_MAX),
        ("sort key", row.sort_key.len(), KEY_BYTES_MAX),
        ("value", row.value.len(), VALUE_BYTES_MAX),
    ];
    let (what, bytes, bytes_max) = parts.into_iter().find(|(_, bytes, bytes_max)| bytes > bytes_max)?;
    Some(format!("a {what} has at most {bytes_max} bytes, not {bytes}"))
}

/// Says what helps when the server went away half-way: nothing is lost, and nothing has to be undone.
fn cut_short(failure: Failure) -> Failure {
    if matches!(failure.exit, Exit::Usage | Exit::NotFound | Exit::Refused) {
        return failure;
    }
    let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
    let message = format!("{}; then run the same import again, it doubles nothing", failure.message);
    Failure { message, ..failure }.next(format!("rehome {}", words.join(" ")))
}

/// Sends rows until the server has taken them all; what it had taken before is done once.
fn send(
    args: &Args,
    client: &Client,
    batch: &mut Vec<(u64, SourceRow)>,
    imported: &mut Imported,
) -> Result<(), Failure> {
    if batch.is_empty() {
        return Ok(());
    }
    let parts = batch.iter().flat_map(|(_, row)| [&row.partition_key[..], &row.sort_key, &row.value]);
    let encoding = Encoding::that_fits(&parts.collect::<Vec<_>>());
    let shape = |(position, row): &(u64, SourceRow)| ImportRow {
        position: *position,
        key: encoding.write(&row.partition_key),
        sort: encoding.write(&row.sort_key),
        value: encoding.write(&row.value),
    };
    let body =
        ImportBody { source: imported.source.clone(), encoding, rows: batch.iter().map(shape).collect::<Vec<_>>() };
    let path = format!("/v1/keyspaces/{}/import", segment(&args.keyspace));
    let mut done_once = None;
    for _ in 0..TRIES_MAX {
        let answer: ImportShape = client.post(&path, &body).map_err(cut_short)?;
        // Rows that were taken by an earlier try of this very batch are not from an earlier import.
        let done_before = *done_once.get_or_insert(answer.done_before);
        let Some(refusal) = answer.refused.iter().find(|refusal| !refusal.retry).or(answer.refused.first()) else {
            imported.rows += batch.len() as u64;
            imported.done_before += done_before;
            imported.accepted += batch.len() as u64 - done_before;
            batch.clear();
            return Ok(());
        };
        if !refusal.retry {
            let message = format!("row {}: {}", refusal.position, refusal.message);
            return Err(Failure::new(Exit::Refused, refusal.code.clone(), message));
        }
    }
    let message = format!("the server took no rows from row {} on, {TRIES_MAX} times", batch[0].0);
    Err(cut_short(Failure::new(Exit::TimedOut, "import_stuck", message).next("rehome status")))
}

/// Returns the name of the source: the same file read the same way has the same one.
fn source_name(args: &Args) -> Result<String, Failure> {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    for part in [args.key.as_str(), args.sort.as_deref().unwrap_or_default(), if args.unique { "unique" } else { "" }] {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hash_file(&args.file, &mut hasher).with_context(|| format!("cannot read {}", args.file.display()))?;
    Ok(format!("file-{:032x}", hasher.digest128()))
}

fn hash_file(path: &Path, hasher: &mut xxhash_rust::xxh3::Xxh3) -> std::io::Result<()> {
    let mut file = std::fs::File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            bytes => hasher.update(&buffer[..bytes]),
        }
    }
}

fn progress_bar(rows_total: Option<u64>) -> ProgressBar {
    let (bar, template) = match rows_total {
        Some(total) => (ProgressBar::new(total), "{bar:30} {human_pos}/{human_len} rows  {per_sec}  {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {human_pos} rows  {per_sec}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("a good template"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_no_keyspace_takes_is_told_before_it_is_sent() {
        let row = |partition_key, sort_key, value| SourceRow {
            partition_key: vec![b'k'; partition_key],
            sort_key: vec![b's'; sort_key],
            value: vec![b'v'; value],
        };
        assert_eq!(over_limit(&row(KEY_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX)), None);
        let told = |row| over_limit(&row).expect("over a limit");
        assert_eq!(told(row(0, 1, 1)), "the partition key is empty");
        assert_eq!(told(row(KEY_BYTES_MAX + 1, 1, 1)), "a partition key has at most 4096 bytes, not 4097");
        assert_eq!(told(row(1, KEY_BYTES_MAX + 1, 1)), "a sort key has at most 4096 bytes, not 4097");
        assert_eq!(told(row(1, 1, VALUE_BYTES_MAX + 1)), "a value has at most 1048576 bytes, not 1048577");
    }

    #[test]
    fn an_import_that_was_cut_short_says_that_it_can_be_run_again() {
        let cut = cut_short(Failure::new(Exit::Unreachable, "unreachable", "no answer").next("rehome up"));
        assert!(cut.message.contains("it doubles nothing") && cut.next_steps.len() == 2, "{cut}");
        assert_eq!(cut_short(Failure::usage("wrong")).next_steps.len(), 0);
    }
}
