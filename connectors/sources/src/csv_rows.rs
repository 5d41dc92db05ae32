//! Rows of a CSV file with a header line. Every value is text.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use csv::{ErrorKind, StringRecord};

use crate::errors::{OpenError, RowError};
use crate::json;
use crate::open_quote::open_quote_line;
use crate::reader::{Chosen, Columns, ReadRow};

/// The most that one row may take, so that a quote left open does not read the whole file into memory.
/// 16 MiB: far above any row that one would store, far below what a small machine has.
const ROW_BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct CsvRows {
    reader: csv::Reader<BoundedFile>,
    file_bytes: u64,
    key: usize,
    sort: Option<usize>,
    names: Vec<String>,
    prefixes: Vec<Vec<u8>>,
    record: StringRecord,
    /// Rows read so far, broken ones included.
    row: u64,
    ended: bool,
}

impl CsvRows {
    pub(crate) fn open(path: &Path, columns: &Columns) -> Result<CsvRows, OpenError> {
        let io_error = |source| OpenError::Io { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(io_error)?;
        let file_bytes = file.metadata().map_err(io_error)?.len();
        let mut reader = csv::ReaderBuilder::new().buffer_capacity(256 << 10).from_reader(BoundedFile {
            file,
            bytes_left: ROW_BYTES_MAX,
            at_end: false,
        });
        let unreadable = |reason| OpenError::Unreadable { path: path.to_path_buf(), format: "CSV", reason };
        if file_bytes == 0 {
            return Err(unreadable("the file is empty".to_string()));
        }
        let names: Vec<String> = match reader.headers() {
            Ok(names) => names.iter().map(str::to_string).collect(),
            Err(error) => return Err(unreadable(format!("header: {error}"))),
        };
        if let Some(line) = reader.get_mut().open_quote_line(0, 1) {
            return Err(unreadable(format!("header: {}", never_closed(line))));
        }
        let Chosen { key, sort } = Chosen::find(path, &names, columns)?;
        let prefixes = json::member_prefixes(names.iter().map(String::as_str));
        Ok(CsvRows {
            reader,
            file_bytes,
            key,
            sort,
            names,
            prefixes,
            record: StringRecord::new(),
            row: 0,
            ended: false,
        })
    }

    pub(crate) fn fraction_read(&self) -> f64 {
        if self.ended || self.file_bytes == 0 {
            return 1.0;
        }
        (self.reader.position().byte() as f64 / self.file_bytes as f64).min(1.0)
    }

    /// Returns the number of the row that was read last, 0 before the first.
    pub(crate) fn row(&self) -> u64 {
        self.row
    }

    pub(crate) fn read(&mut self, sort_text: &mut Vec<u8>) -> Option<Result<ReadRow, RowError>> {
        if self.ended {
            return None;
        }
        self.reader.get_mut().bytes_left = ROW_BYTES_MAX;
        let (start, line) = (self.reader.position().byte(), self.reader.position().line());
        let read = self.reader.read_record(&mut self.record);
        if !matches!(read, Ok(false))
            && let Some(line) = self.reader.get_mut().open_quote_line(start, line)
        {
            self.row += 1;
            self.ended = true;
            return Some(Err(RowError { row: self.row, line: Some(line), reason: never_closed(line) }));
        }
        match read {
            Ok(true) => self.row += 1,
            Ok(false) => {
                self.ended = true;
                return None;
            }
            Err(error) => {
                self.row += 1;
                // Other kinds concern one record, and the reader stands at the next.
                self.ended = matches!(error.kind(), ErrorKind::Io(_));
                return Some(Err(RowError {
                    row: self.row,
                    line: line_of(&error).or(Some(line)),
                    reason: reason(&error),
                }));
            }
        }
        let key = &self.record[self.key];
        if key.is_empty() {
            let line = self.record.position().map(csv::Position::line);
            let reason = format!("column {:?}, the partition key, is empty", self.names[self.key]);
            return Some(Err(RowError { row: self.row, line, reason }));
        }
        if let Some(sort) = self.sort {
            sort_text.extend_from_slice(self.record[sort].as_bytes());
        }
        let mut value = Vec::with_capacity(self.record.as_slice().len() + 16 * self.prefixes.len());
        for (prefix, field) in self.prefixes.iter().zip(&self.record) {
            value.extend_from_slice(prefix);
            json::push_string(&mut value, field);
        }
        value.push(b'}');
        Some(Ok(ReadRow { row: self.row, partition_key: key.as_bytes().to_vec(), value }))
    }
}

fn never_closed(line: u64) -> String {
    format!("a quote is opened in line {line} and never closed, so everything from there on is one field")
}

fn line_of(error: &csv::Error) -> Option<u64> {
    error.position().map(csv::Position::line)
}

fn reason(error: &csv::Error) -> String {
    match error.kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("it has {len} fields, the header has {expected_len}")
        }
        ErrorKind::Utf8 { err, .. } => format!("field {} is not UTF-8", err.field() + 1),
        ErrorKind::Io(error) => error.to_string(),
        _ => error.to_string(),
    }
}

/// A file of which only so many bytes may be read until the allowance is renewed.
#[derive(Debug)]
struct BoundedFile {
    file: File,
    bytes_left: usize,
    /// Everything was read.
    at_end: bool,
}

impl BoundedFile {
    /// Returns the line of the quote that the last record leaves open at the end of the file. Requires: the record
    /// that was read last starts at that byte and line.
    fn open_quote_line(&mut self, start: u64, line: u64) -> Option<u64> {
        if !self.at_end {
            return None;
        }
        // Nothing is left to read, so the file may stand anywhere.
        let mut record = Vec::new();
        self.file.seek(SeekFrom::Start(start)).ok()?;
        self.file.by_ref().take(2 * ROW_BYTES_MAX as u64).read_to_end(&mut record).ok()?;
        open_quote_line(record.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&record), line)
    }
}

impl Read for BoundedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes_left == 0 {
            return Err(io::Error::other(format!("it is longer than {ROW_BYTES_MAX} bytes: is a quote left open?")));
        }
        let wanted = buffer.len().min(self.bytes_left);
        let read = self.file.read(&mut buffer[..wanted])?;
        self.bytes_left -= read;
        self.at_end |= read == 0;
        Ok(read)
    }
}
