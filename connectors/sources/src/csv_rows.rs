//! Rows of a CSV file with a header line. Every value is text.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use csv::{ErrorKind, StringRecord};

use crate::errors::{OpenError, RowError};
use crate::exported;
use crate::format::Format;
use crate::json;
use crate::open_quote::open_quote_line;
use crate::reader::{Chosen, Layout, Place, ROW_BYTES_MAX, ReadRow};

#[derive(Debug)]
pub(crate) struct CsvRows {
    reader: csv::Reader<BoundedFile>,
    file_bytes: u64,
    chosen: Chosen,
    names: Vec<String>,
    prefixes: Vec<Vec<u8>>,
    record: StringRecord,
    /// Rows read so far, broken ones included.
    row: u64,
    place: Place,
    ended: bool,
}

impl CsvRows {
    pub(crate) fn open(file: File, path: &Path, layout: &Layout) -> Result<CsvRows, OpenError> {
        let file_bytes = file.metadata().map_err(|source| OpenError::io(path, source))?.len();
        let mut reader = csv::ReaderBuilder::new().buffer_capacity(256 << 10).from_reader(BoundedFile {
            file,
            bytes_left: ROW_BYTES_MAX,
            at_end: false,
        });
        let unreadable = |reason| OpenError::unreadable(path, Format::Csv, reason);
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
        let chosen = Chosen::find(path, &names, layout, true)?;
        let prefixes = json::member_prefixes(names.iter().map(String::as_str));
        Ok(CsvRows {
            reader,
            file_bytes,
            chosen,
            names,
            prefixes,
            record: StringRecord::new(),
            row: 0,
            place: Place::default(),
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

    pub(crate) fn file(&self) -> &File {
        &self.reader.get_ref().file
    }

    /// Returns where the row that was read last lies, line ends in front of it included.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn read(&mut self, sort_text: &mut Vec<u8>) -> Option<Result<ReadRow, RowError>> {
        if self.ended {
            return None;
        }
        self.reader.get_mut().bytes_left = ROW_BYTES_MAX;
        let (start, line) = (self.reader.position().byte(), self.reader.position().line());
        let read = self.reader.read_record(&mut self.record);
        self.place = Place { start, end: self.reader.position().byte(), line };
        if !matches!(read, Ok(false))
            && let Some(line) = self.reader.get_mut().open_quote_line(start, line)
        {
            self.row += 1;
            self.ended = true;
            return Some(Err(RowError { row: self.row, rows: 1, line: Some(line), reason: never_closed(line) }));
        }
        let reason = match read {
            Ok(false) => {
                self.ended = true;
                return None;
            }
            Ok(true) => {
                self.row += 1;
                match self.build_row(sort_text) {
                    Ok(row) => return Some(Ok(row)),
                    Err(reason) => reason,
                }
            }
            Err(error) => {
                self.row += 1;
                // Other kinds concern one record, and the reader stands at the next.
                self.ended = matches!(error.kind(), ErrorKind::Io(_));
                reason(&error)
            }
        };
        let line = Some(self.place.first_line(self.file()));
        Some(Err(RowError { row: self.row, rows: 1, line, reason }))
    }

    fn build_row(&self, sort_text: &mut Vec<u8>) -> Result<ReadRow, String> {
        let record = &self.record;
        let (key, sort) = match self.chosen {
            Chosen::Columns { key, sort } => (key, sort),
            Chosen::Exported { key, sort, value, encoding } => {
                let encoding = encoding.map_or("utf8", |encoding| &record[encoding]);
                let row = exported::decode(&record[key], &record[sort], &record[value], encoding)?;
                sort_text.extend_from_slice(&row.sort_key);
                let (partition_key, value) = (row.partition_key, row.value);
                return Ok(ReadRow { row: self.row, partition_key, value, sort_is_null: false });
            }
        };
        if record[key].is_empty() {
            return Err(exported::no_key(&self.names[key]));
        }
        if let Some(sort) = sort {
            sort_text.extend_from_slice(record[sort].as_bytes());
        }
        let mut value = Vec::with_capacity(record.as_slice().len() + 16 * self.prefixes.len());
        for (prefix, field) in self.prefixes.iter().zip(record) {
            value.extend_from_slice(prefix);
            json::push_string(&mut value, field);
        }
        value.push(b'}');
        Ok(ReadRow { row: self.row, partition_key: record[key].as_bytes().to_vec(), value, sort_is_null: false })
    }
}

fn never_closed(line: u64) -> String {
    format!("a quote is opened in line {line} and never closed, so everything from there on is one field")
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
