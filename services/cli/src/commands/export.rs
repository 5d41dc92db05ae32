//! `rehome export`: all rows of a keyspace to a file, read page by page.

use super::format::{FileArgs, STANDARD};
use super::progress::{Done, Progress};
use super::{command_again, count, print, quoted};
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::exit::{Exit, Failure, tell};
use crate::wire::{RowShape, RowsShape, ScanQuery};
use rehome_sources::{Format, RowWriter, SourceRow};
use serde::Serialize;
use std::fs::{File, Permissions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::NamedTempFile;

/// Rows of one page. Reason: an answer of some hundred kilobytes; the server ends a page of large rows earlier.
const PAGE: usize = 1_000;
/// Pages without a row, because a shard does not answer, before the export gives up. Reason: the server itself tries
/// for its deadline each time.
const TRIES_MAX: u32 = 5;

const HELP: &str = "\
The file has a row for each row of the keyspace, in the order in which they are placed:
  CSV         columns key, sort, value, encoding
  JSON lines  {\"key\":\"ORD\",\"sort\":\"2001-01-01\",\"value\":\"delayed\",\"encoding\":\"utf8\"}
  Parquet     binary columns key, sort, value: the bytes themselves
Where key, sort key or value of a row is not UTF-8, its encoding is base64 and all three are base64; else it is utf8.
`rehome import OTHER FILE --exported` writes the same rows, byte for byte.

The file appears when it is complete; until then, and if the export fails, what was there before stays as it was.

Every row is read once, as it is at some moment between start and end of the export. A row that nobody writes meanwhile
is in the file as it is; of one that is written meanwhile, the state before or after; rows are not all of one moment.
A reshard meanwhile changes nothing of that.

Examples:
  rehome export flights flights.parquet
  rehome export flights - --format csv | gzip > flights.csv.gz";

/// Write all rows of a keyspace to a file that `rehome import --exported` takes back
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    keyspace: String,
    /// File, or - for standard output
    file: PathBuf,
    #[command(flatten)]
    how: FileArgs,
    #[command(flatten)]
    pub remote: Remote,
}

impl Args {
    pub fn is_to_standard_output(&self) -> bool {
        self.file.as_os_str() == STANDARD
    }
}

/// What an export did.
#[derive(Debug, Serialize)]
struct Exported {
    keyspace: String,
    file: String,
    format: &'static str,
    rows: u64,
    /// Rows that stand there as base64; none in Parquet.
    rows_base64: u64,
    bytes: u64,
    next_steps: Vec<String>,
}

type Output = Counted<Box<dyn Write + Send>>;

pub fn run(args: &Args) -> Result<(), Failure> {
    let format = args.how.format(&args.file)?;
    if !args.is_to_standard_output() {
        return to_file(args, format);
    }
    if args.remote.json {
        return Err(Failure::usage("with - the rows take standard output: --json needs a file"));
    }
    if format == Format::Parquet && io::stdout().is_terminal() {
        return Err(Failure::usage("Parquet is nothing for a terminal: name a file, or redirect the output"));
    }
    let written = export(args, format, Box::new(io::stdout()))?;
    tell(&text(&written));
    Ok(())
}

fn to_file(args: &Args, format: Format) -> Result<(), Failure> {
    let target = Target::open(&args.file).map_err(|error| cannot_write(args, &error))?;
    let file = target.temporary.as_file().try_clone().map_err(|error| cannot_write(args, &error))?;
    let written = export(args, format, Box::new(file)).map_err(|failure| left_alone(args, failure))?;
    target.complete().map_err(|error| left_alone(args, cannot_write(args, &error)))?;
    print(args.remote.json, &written, text);
    Ok(())
}

fn text(written: &Exported) -> String {
    let Exported { rows, rows_base64, bytes, file, .. } = written;
    let base64 = if *rows_base64 > 0 { format!(", {rows_base64} of them as base64") } else { String::new() };
    let place = if file == STANDARD { "standard output" } else { file };
    format!("{}{base64}, {bytes} bytes to {place}", count(*rows, "row"))
}

/// Writes every row.
fn export(args: &Args, format: Format, out: Box<dyn Write + Send>) -> Result<Exported, Failure> {
    let wrong = |error: io::Error| gone_or(args, &error);
    let client = Client::new(&args.remote);
    let mut pages = Pages { path: format!("/v1/keyspaces/{}/scan", segment(&args.keyspace)), after: None, tries: 0 };
    // Before the header is written: the keyspace may be unknown.
    let mut page = pages.next(&client)?;
    let bytes = Arc::new(AtomicU64::new(0));
    let mut writer = RowWriter::new(format, Counted { out, bytes: Arc::clone(&bytes) }).map_err(wrong)?;
    let mut progress = Progress::start("export", false, args.how.progress_every);
    while let Some(rows) = page {
        for row in rows {
            writer.write(bytes_of(&row)?).map_err(wrong)?;
        }
        let bytes = bytes.load(Ordering::Relaxed);
        progress.show(Done { rows: writer.rows(), rejected: None, bytes, bytes_total: None });
        page = pages.next(&client)?;
    }
    let (rows, rows_base64) = (writer.rows(), writer.rows_base64());
    let mut out: Output = writer.finish().map_err(wrong)?;
    out.flush().map_err(wrong)?;
    progress.finish();
    let step = format!("rehome import OTHER {} --exported", quoted(&args.file.to_string_lossy()));
    Ok(Exported {
        keyspace: args.keyspace.clone(),
        file: args.file.display().to_string(),
        format: format.name(),
        rows,
        rows_base64,
        bytes: bytes.load(Ordering::Relaxed),
        next_steps: vec![step],
    })
}

/// The pages of a scan, one after the other.
struct Pages {
    path: String,
    after: Option<String>,
    /// Pages in a row that brought nothing.
    tries: u32,
}

impl Pages {
    /// Returns the rows of the next page; nothing after the last one.
    fn next(&mut self, client: &Client) -> Result<Option<Vec<RowShape>>, Failure> {
        if self.after.as_deref() == Some("") {
            return Ok(None);
        }
        let level = Some("linearizable".to_owned());
        let query = ScanQuery { limit: Some(PAGE), after: self.after.clone(), level };
        let page: RowsShape = client.get(&self.path, &query)?;
        self.tries = if page.rows.is_empty() && !page.missing.is_empty() { self.tries + 1 } else { 0 };
        if self.tries == TRIES_MAX {
            let message = format!("a part of the rows could not be read, {TRIES_MAX} times");
            return Err(Failure::new(Exit::TimedOut, "scan_incomplete", message).next("rehome status"));
        }
        self.after = Some(page.next.unwrap_or_default());
        Ok(Some(page.rows))
    }
}

fn bytes_of(row: &RowShape) -> Result<SourceRow, Failure> {
    let read = |text: &str| {
        let wrong = |error| Failure::new(Exit::Failed, "answer_unreadable", error).next("rehome --version");
        row.encoding.read(text).map_err(wrong)
    };
    Ok(SourceRow { partition_key: read(&row.key)?, sort_key: read(&row.sort)?, value: read(&row.value)? })
}

/// A file that is not there before it is complete.
struct Target {
    temporary: NamedTempFile,
    path: PathBuf,
}

impl Target {
    /// Starts a file under another name, in the same folder.
    fn open(path: &Path) -> io::Result<Target> {
        // Through a link, so that the link stays one.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let there = std::fs::metadata(&path).ok();
        if there.as_ref().is_some_and(|about| !about.is_file()) {
            return Err(io::Error::other(
                "it is there and is no regular file; to write to a pipe, export to - and redirect",
            ));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let permissions = there.map_or(Permissions::from_mode(0o666), |about| about.permissions());
        let mut builder = tempfile::Builder::new();
        builder.prefix(".rehome-export-").suffix(".partial").permissions(permissions);
        Ok(Target { temporary: builder.tempfile_in(folder)?, path })
    }

    /// Gives the file its name, once its bytes are on the disk.
    fn complete(self) -> io::Result<()> {
        let folder = self.temporary.path().parent().map(Path::to_path_buf);
        self.temporary.as_file().sync_all()?;
        self.temporary.persist(&self.path).map_err(|error| error.error)?;
        folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }
}

/// Counts what goes through.
struct Counted<W> {
    out: W,
    bytes: Arc<AtomicU64>,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.out.write(buffer)?;
        self.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A reader of standard output that has gone, as `head` does, ends the process quietly.
fn gone_or(args: &Args, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe && args.is_to_standard_output() {
        std::process::exit(0);
    }
    cannot_write(args, error)
}

fn cannot_write(args: &Args, error: &io::Error) -> Failure {
    let message = format!("cannot write to {}: {error}", args.file.display());
    Failure::new(Exit::Failed, "export_failed", message).next(command_again(&[]))
}

/// Says what became of the file.
fn left_alone(args: &Args, failure: Failure) -> Failure {
    let message = format!("{}; nothing was written to {}", failure.message, args.file.display());
    Failure { message, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_complete_and_keeps_its_mode_and_its_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a.csv"), dir.path().join("link.csv"));
        let names = || std::fs::read_dir(dir.path()).unwrap().count();
        drop(Target::open(&path).unwrap());
        assert_eq!(names(), 0, "what was not completed leaves nothing");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut target = Target::open(&link).unwrap();
        target.temporary.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        target.complete().unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"new".to_vec(), 2));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_device_or_a_folder_is_not_replaced() {
        for path in ["/dev/null", "/tmp"] {
            let error = Target::open(Path::new(path)).err().expect("no regular file");
            assert!(error.to_string().contains("no regular file"), "{error}");
        }
    }
}
