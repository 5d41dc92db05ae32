//! `rehome import`: the rows of a file as an ordered source, so that importing it again doubles nothing.

use super::print;
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure};
use crate::wire::{Encoding, ImportBody, ImportRow, ImportShape};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use rehome_sources::{Columns, RowReader, SourceRow};
use serde::Serialize;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Rows of one request. Reason: a few milliseconds of work, some hundred kilobytes.
const BATCH: usize = 2_000;
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
    source: String,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let columns = Columns { key: args.key.clone(), sort: args.sort.clone() };
    let mut rows = RowReader::open(&args.file, &columns).map_err(|error| Failure::usage(error.to_string()))?;
    if args.unique {
        rows = rows.with_unique_sort();
    }
    let mut imported = Imported { source: source_name(args)?, ..Imported::default() };
    let bar = progress_bar(rows.rows_total());
    let client = Client::new(&args.remote);
    let mut position = 0;
    let mut batch = Vec::with_capacity(BATCH);
    for row in rows {
        position += 1;
        match row {
            Ok(row) => batch.push((position, row)),
            Err(error) => {
                imported.unreadable += 1;
                bar.println(format!("left out: {error}"));
            }
        }
        if batch.len() == BATCH {
            send(args, &client, &mut batch, &mut imported)?;
            bar.set_position(imported.rows);
        }
    }
    send(args, &client, &mut batch, &mut imported)?;
    bar.finish_and_clear();
    print(args.remote.json, &imported, |imported| {
        let Imported { rows, accepted, done_before, unreadable, .. } = imported;
        format!(
            "{rows} rows: {accepted} written, {done_before} were there from an earlier import, {unreadable} unreadable"
        )
    });
    if imported.unreadable > 0 {
        let message = format!("{} rows of the file could not be read and were left out", imported.unreadable);
        return Err(Failure::new(Exit::Failed, "rows-unreadable", message));
    }
    Ok(())
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
        let answer: ImportShape = client.post(&path, &body)?;
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
    Err(Failure::new(Exit::TimedOut, "import-stuck", message).next("rehome status"))
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
