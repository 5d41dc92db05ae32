//! `rehome import`: the rows of a file as an ordered source, so that importing it again doubles nothing.

mod example;
mod input;
mod rejects;
mod sending;

use super::format::FileArgs;
use super::progress::{Done, Progress};
use super::{command_again, count, next_lines, print, quoted};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure, tell};
use crate::wire::{KeyspaceShape, StatusShape};
use example::Example;
use input::Input;
use rehome_router::limits::KEY_BYTES_MAX;
use rehome_sources::{RowError, RowReader, SourceRow};
use rejects::Rejects;
use sending::Sender;
use serde::Serialize;
use std::collections::HashSet;
use std::path::PathBuf;

/// Wrong rows that a dry run names.
const NAMED_MAX: u64 = 10;

const HELP: &str = "\
Each row becomes one row of the keyspace; its value is a JSON object of all columns (of a JSON line, the line itself).
A wrong row has the wrong number of columns, is no JSON object or no UTF-8, lacks its key, or has a key above 4096 bytes
or a value above what the server takes. Without --rejects the import stops at the first one, the rows before it written. With it, each
is a line of that file, {\"row\", \"line\", \"reason\", \"text\"}, the rest is written, and the exit code is 0.

Running the same import again, also after it was stopped, doubles and changes nothing: every row is sent again, and the
server leaves those alone that it has from the time before. So it takes about as long as the first time.
A file that was changed is another source: its rows overwrite those with the same keys.

With --sort and without --unique, a sort key is the column, a zero byte and the row number in twelve digits, so that no
two rows share one. Read such rows as a list from the column on, or one of them by both keys in base64:
  rehome get flights ORD --list --from 2001-01-01 --limit 1
  rehome get flights T1JE MjAwMS0wMS0wMQAwMDAwMDAwMDAwMDE= --encoding base64
With --unique the sort key is the column alone; without --sort it is the row number alone, such as 000000000001.

Examples:
  rehome import flights flights.parquet --key origin --sort date
  zcat rows.csv.gz | rehome import flights - --format csv --key origin --rejects rejects.jsonl
  rehome import copy flights.jsonl --exported";

/// Write the rows of a CSV, JSON lines or Parquet file; importing the same file again doubles nothing
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    keyspace: String,
    /// File, or - for standard input, which goes to a temporary file first
    file: PathBuf,
    #[command(flatten)]
    how: FileArgs,
    /// Column that becomes the partition key
    #[arg(long, value_name = "COLUMN", required_unless_present = "exported")]
    key: Option<String>,
    /// Column that becomes the sort key, with the row number appended; without it the row number alone
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
    /// The sort column is unique within each partition key: append no row number. A second row of the same keys is a
    /// wrong row; to see it, the import holds 16 to 40 bytes of memory a row
    #[arg(long, requires = "sort")]
    unique: bool,
    /// The file is one of `rehome export`: write the rows that were exported, byte for byte. Repeated keys are wrong
    /// rows, as with --unique
    #[arg(long, conflicts_with_all = ["key", "sort", "unique"])]
    exported: bool,
    /// Write wrong rows to this file, with line number (row number for Parquet) and reason, and go on
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Read and check every row, and write none to the keyspace
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub remote: Remote,
}

/// What an import did.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Imported {
    keyspace: String,
    file: String,
    format: &'static str,
    /// Rows of the file, wrong ones included.
    rows: u64,
    accepted: u64,
    /// Rows that an earlier import of the same file had written.
    done_before: u64,
    /// Wrong rows.
    rejected: u64,
    /// The file that they are in.
    #[serde(skip_serializing_if = "Option::is_none")]
    rejects: Option<String>,
    dry_run: bool,
    /// The sort keys are the column, a zero byte and the row number: there was `--sort` without `--unique`.
    sort_keys_end_with_row_numbers: bool,
    source: String,
    next_steps: Vec<String>,
}

/// An import under way.
struct Import<'a> {
    args: &'a Args,
    sender: Sender<'a>,
    /// What the server takes.
    value_bytes_max: usize,
    rejects: Option<Rejects>,
    /// Hashes of the keys that came by, where no two rows may share them.
    seen: Option<HashSet<u128>>,
    imported: Imported,
    progress: Progress,
    bytes_total: u64,
    /// The first row whose sort key has a row number appended.
    example: Option<Example>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let format = args.how.format(&args.file)?;
    let mut input = Input::open(args, format)?;
    let client = Client::new(&args.remote);
    let keyspace: KeyspaceShape =
        client.get(&format!("/v1/keyspaces/{}", segment(&args.keyspace)), &serde_json::json!({}))?;
    let status: StatusShape = client.get("/v1/status", &serde_json::json!({}))?;
    let source = input.source(args)?;
    let bytes_total = input.bytes;
    let rows = input.rows(args.unique)?;
    let rejects = args.rejects.as_deref().map(|path| Rejects::create(path, &args.file)).transpose()?;
    let import = Import {
        args,
        sender: Sender::new(&client, &keyspace, &source),
        value_bytes_max: usize::try_from(status.value_bytes_max).unwrap_or(usize::MAX),
        rejects,
        seen: (args.unique || args.exported).then(HashSet::new),
        imported: Imported {
            keyspace: args.keyspace.clone(),
            file: args.file.display().to_string(),
            format: format.name(),
            rejects: args.rejects.as_ref().map(|path| path.display().to_string()),
            dry_run: args.dry_run,
            source,
            ..Imported::default()
        },
        progress: Progress::start("import", true, args.how.progress_every),
        bytes_total,
        example: None,
    };
    import.run(rows)
}

impl Args {
    /// Tells whether sort keys end with the row number.
    fn appends_numbers(&self) -> bool {
        self.sort.is_some() && !self.unique
    }
}

impl Import<'_> {
    fn run(mut self, mut rows: RowReader) -> Result<(), Failure> {
        let mut position = 0;
        while let Some(read) = rows.next() {
            position += 1;
            let good = read.and_then(|row| match self.wrong(&row) {
                None => Ok(row),
                // Never sent: the server would hold back the key's next rows until it is offered again.
                Some(reason) => Err(RowError { row: rows.row(), rows: 1, line: rows.line(), reason }),
            });
            let is_told = match good {
                Ok(_) if self.args.dry_run => position % 10_000 == 0,
                Ok(row) => {
                    if self.example.is_none() && self.args.appends_numbers() {
                        self.example = Example::of(&row);
                    }
                    self.sender.push(position, row, &mut self.imported)?
                }
                Err(error) => {
                    self.reject(&error, &rows)?;
                    false
                }
            };
            if is_told {
                let bytes = (rows.fraction_read() * self.bytes_total as f64) as u64;
                let (rejected, bytes_total) = (Some(self.imported.rejected), Some(self.bytes_total));
                self.progress.show(Done { rows: rows.row(), rejected, bytes, bytes_total });
            }
        }
        self.sender.flush(&mut self.imported)?;
        if let Some(rejects) = &mut self.rejects {
            rejects.flush()?;
        }
        self.progress.finish();
        self.imported.rows = rows.row();
        self.end()
    }

    /// Returns why the row cannot be written, if so.
    fn wrong(&mut self, row: &SourceRow) -> Option<String> {
        over_limit(row, self.value_bytes_max).or_else(|| {
            let is_new = self.seen.as_mut().is_none_or(|seen| seen.insert(hash_of_keys(row)));
            (!is_new).then(|| "an earlier row of the file has the same partition key and sort key".to_owned())
        })
    }

    /// Writes a wrong row to the rejects; where there are none, it ends the import.
    fn reject(&mut self, error: &RowError, rows: &RowReader) -> Result<(), Failure> {
        self.imported.rejected += error.rows;
        if let Some(rejects) = &mut self.rejects {
            return rejects.write(error, rows.raw());
        }
        if self.args.dry_run {
            if self.imported.rejected <= NAMED_MAX {
                self.progress.suspend(|| tell(&format!("wrong: {error}")));
            }
            return Ok(());
        }
        self.sender.flush(&mut self.imported)?;
        self.progress.finish();
        let Imported { accepted, done_before, .. } = self.imported;
        let written = count(accepted, "row");
        let before = format!("before it: {written} written, {done_before} there from an earlier import");
        let message =
            format!("{error}; {before}; with --rejects FILE wrong rows go to that file and the rest is written");
        Err(Failure::new(Exit::Failed, "row_wrong", message).next(command_again(&["--rejects", "rejects.jsonl"])))
    }

    fn end(mut self) -> Result<(), Failure> {
        let (args, imported) = (self.args, &mut self.imported);
        let is_failed = args.dry_run && imported.rejected > 0 && self.rejects.is_none();
        imported.next_steps = vec![match (args.dry_run, is_failed) {
            (true, true) => command_again(&["--rejects", "rejects.jsonl"]),
            (true, false) => command_again(&[]).replace(" --dry-run", ""),
            _ => match &self.example {
                Some(example) => example.line(&args.keyspace),
                None => format!("rehome scan {} --limit 10", quoted(&args.keyspace)),
            },
        }];
        imported.sort_keys_end_with_row_numbers = args.appends_numbers();
        // A failure tells its next steps itself.
        print(args.remote.json, &self.imported, |imported| match is_failed {
            true => imported.text(),
            false => imported.text() + &next_lines(&imported.next_steps),
        });
        if !is_failed {
            return Ok(());
        }
        let message = format!("wrong rows of the file: {}", self.imported.rejected);
        let failure = Failure::new(Exit::Failed, "rows_wrong", message).silent_if(args.remote.json);
        Err(self.imported.next_steps.into_iter().fold(failure, Failure::next))
    }
}

impl Imported {
    fn text(&self) -> String {
        let Imported { rows, accepted, done_before, rejected, .. } = self;
        let rejects = self.rejects.as_ref().filter(|_| *rejected > 0).map(|file| format!(" to {file}"));
        let rejected = format!("{rejected} rejected{}", rejects.unwrap_or_default());
        if self.dry_run {
            let good = rows - self.rejected;
            return format!("{}: {good} would be written, {rejected}; a dry run writes none", count(*rows, "row"));
        }
        let before = format!("{done_before} were there from an earlier import");
        let told = format!("{}: {accepted} written, {before}, {rejected}", count(*rows, "row"));
        if !self.sort_keys_end_with_row_numbers {
            return told;
        }
        told + "\neach sort key ends with a zero byte and the row number, as --unique was not given: read rows as a list"
    }
}

/// Returns why no keyspace takes the row, if so.
fn over_limit(row: &SourceRow, value_bytes_max: usize) -> Option<String> {
    if row.partition_key.is_empty() {
        return Some("the partition key is empty".into());
    }
    let parts = [
        ("partition key", row.partition_key.len(), KEY_BYTES_MAX),
        ("sort key", row.sort_key.len(), KEY_BYTES_MAX),
        ("value", row.value.len(), value_bytes_max),
    ];
    let (what, bytes, bytes_max) = parts.into_iter().find(|(_, bytes, bytes_max)| bytes > bytes_max)?;
    Some(format!("a {what} has at most {bytes_max} bytes, not {bytes}"))
}

fn hash_of_keys(row: &SourceRow) -> u128 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(&(row.partition_key.len() as u64).to_be_bytes());
    hasher.update(&row.partition_key);
    hasher.update(&row.sort_key);
    hasher.digest128()
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
        assert_eq!(over_limit(&row(KEY_BYTES_MAX, KEY_BYTES_MAX, 2_000), 2_000), None);
        let told = |row| over_limit(&row, 2_000).expect("over a limit");
        assert_eq!(told(row(0, 1, 1)), "the partition key is empty");
        assert_eq!(told(row(KEY_BYTES_MAX + 1, 1, 1)), "a partition key has at most 4096 bytes, not 4097");
        assert_eq!(told(row(1, KEY_BYTES_MAX + 1, 1)), "a sort key has at most 4096 bytes, not 4097");
        assert_eq!(told(row(1, 1, 2_001)), "a value has at most 2000 bytes, not 2001");
    }

    #[test]
    fn rows_share_a_hash_only_if_they_share_both_keys() {
        let hash = |key: &str, sort: &str| {
            hash_of_keys(&SourceRow { partition_key: key.into(), sort_key: sort.into(), value: Vec::new() })
        };
        assert_eq!(hash("a", "b"), hash("a", "b"));
        assert!(hash("ab", "c") != hash("a", "bc") && hash("a", "b") != hash("b", "a"));
    }
}
