//! The rows of one file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::csv_rows::CsvRows;
use crate::errors::{OpenError, RowError};
use crate::exported;
use crate::format::Format;
use crate::json_rows::JsonRows;
use crate::parquet_rows::ParquetRows;
use crate::sort_key::sort_key;

/// The most that one row of text may take, so that a quote left open or a file without line ends does not fill the
/// memory. 64 MiB: an exported value of 8 MiB, the largest that a server takes, may need six bytes for each of its own.
pub(crate) const ROW_BYTES_MAX: usize = 64 << 20;
/// The most of a row that is shown as it stands in the file. 64 KiB: enough to recognise it.
const RAW_BYTES_MAX: usize = 64 << 10;

/// One row as the store will hold it. The value is a JSON object of all columns in the file's order, the key and the
/// sort column included, so that a row is whole wherever it goes; or, from an export, the bytes that were exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    pub partition_key: Vec<u8>,
    /// See [`crate::row_number_text`] and `sort_key.rs`: unique within a file unless the caller promised uniqueness.
    pub sort_key: Vec<u8>,
    pub value: Vec<u8>,
}

/// Which columns make the key. In CSV every value is text; in Parquet and JSON lines numbers and booleans stay so in
/// the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    pub key: String,
    /// None: rows are sorted by their number in the file.
    pub sort: Option<String>,
}

/// How rows are made from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// These columns are the key, and the value is all of them.
    Columns(Columns),
    /// What [`crate::RowWriter`] wrote: each row again as it was.
    Exported,
}

/// Reads the rows of one file as a stream: memory does not grow with the file.
///
/// A broken row is an `Err`, and reading goes on with the next that can be read. After `None` it stays `None`.
#[derive(Debug)]
pub struct RowReader {
    rows: Rows,
    sort_column: Option<String>,
    sort_is_unique: bool,
    sort_text: Vec<u8>,
}

#[derive(Debug)]
enum Rows {
    Csv(Box<CsvRows>),
    JsonLines(Box<JsonRows>),
    Parquet(Box<ParquetRows>),
}

/// A row before its sort key is made; the sort column's text went into a buffer that is used again for each row.
pub(crate) struct ReadRow {
    pub(crate) row: u64,
    pub(crate) partition_key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) sort_is_null: bool,
}

/// Where a row lies in a file of lines.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The line of the first byte, counted from 1.
    pub(crate) line: u64,
}

impl RowReader {
    /// Opens a file whose format its name tells: see [`Format::of_path`].
    pub fn open(path: impl AsRef<Path>, columns: &Columns) -> Result<RowReader, OpenError> {
        let path = path.as_ref();
        let format = Format::of_path(path).ok_or_else(|| OpenError::UnknownFormat { path: path.to_path_buf() })?;
        let file = File::open(path).map_err(|source| OpenError::io(path, source))?;
        RowReader::from_file(file, path, format, &Layout::Columns(columns.clone()))
    }

    /// Reads an open file from its start, where it must stand; `name` is what errors call it. Requires a file that can
    /// be read at any place, not a pipe.
    pub fn from_file(
        file: File,
        name: impl AsRef<Path>,
        format: Format,
        layout: &Layout,
    ) -> Result<RowReader, OpenError> {
        let path = name.as_ref();
        let rows = match format {
            Format::Csv => Rows::Csv(Box::new(CsvRows::open(file, path, layout)?)),
            Format::JsonLines => Rows::JsonLines(Box::new(JsonRows::open(file, path, layout)?)),
            Format::Parquet => Rows::Parquet(Box::new(ParquetRows::open(file, path, layout)?)),
        };
        let (sort_column, sort_is_unique) = match layout {
            Layout::Columns(columns) => (columns.sort.clone(), false),
            Layout::Exported => (Some(exported::SORT.to_string()), true),
        };
        Ok(RowReader { rows, sort_column, sort_is_unique, sort_text: Vec::new() })
    }

    /// Leaves the row number off the sort key, and takes a null of the sort column as an error. Requires that no two
    /// rows of a partition key share the sort column's value: of those that do, the last would overwrite the others.
    pub fn with_unique_sort(mut self) -> RowReader {
        self.sort_is_unique = true;
        self
    }

    /// Returns how many rows the file has, where the format says so up front.
    pub fn rows_total(&self) -> Option<u64> {
        match &self.rows {
            Rows::Csv(_) | Rows::JsonLines(_) => None,
            Rows::Parquet(rows) => Some(rows.rows_total()),
        }
    }

    /// Returns the number of the row that was read last, counted from 1; 0 before the first.
    pub fn row(&self) -> u64 {
        match &self.rows {
            Rows::Csv(rows) => rows.row(),
            Rows::JsonLines(rows) => rows.row(),
            Rows::Parquet(rows) => rows.row(),
        }
    }

    /// Returns the line at which the row that was read last starts, counted from 1, where the format has lines.
    pub fn line(&self) -> Option<u64> {
        self.place().map(|(place, file)| place.first_line(file))
    }

    /// Returns the row that was read last as it stands in the file, its line end left off, and whether that is all of
    /// it: 64 KiB at most. Nothing where the format has no lines.
    pub fn raw(&self) -> Option<(Vec<u8>, bool)> {
        let (place, file) = self.place()?;
        Some(place.raw(file))
    }

    fn place(&self) -> Option<(Place, &File)> {
        match &self.rows {
            Rows::Csv(rows) => Some((rows.place(), rows.file())),
            Rows::JsonLines(rows) => Some((rows.place(), rows.file())),
            Rows::Parquet(_) => None,
        }
    }

    /// Returns how much of the file was read, from 0 to 1.
    pub fn fraction_read(&self) -> f64 {
        match &self.rows {
            Rows::Csv(rows) => rows.fraction_read(),
            Rows::JsonLines(rows) => rows.fraction_read(),
            Rows::Parquet(rows) => rows.fraction_read(),
        }
    }
}

impl Iterator for RowReader {
    type Item = Result<SourceRow, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.sort_text.clear();
        let read = match &mut self.rows {
            Rows::Csv(rows) => rows.read(&mut self.sort_text),
            Rows::JsonLines(rows) => rows.read(&mut self.sort_text),
            Rows::Parquet(rows) => rows.read(&mut self.sort_text),
        };
        read.map(|read| {
            let ReadRow { row, partition_key, value, sort_is_null } = read?;
            if let (true, true, Some(column)) = (sort_is_null, self.sort_is_unique, &self.sort_column) {
                let reason = format!("column {column:?}, the sort key, is null");
                return Err(RowError { row, rows: 1, line: self.line(), reason });
            }
            let text = self.sort_column.is_some().then_some(self.sort_text.as_slice());
            Ok(SourceRow { partition_key, sort_key: sort_key(text, self.sort_is_unique, row), value })
        })
    }
}

impl Place {
    /// Returns the line of the row's first byte that is no line end.
    pub(crate) fn first_line(self, file: &File) -> u64 {
        let (bytes, _) = self.read(file);
        let line_ends = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
        self.line + line_ends.filter(|byte| **byte == b'\n').count() as u64
    }

    fn raw(self, file: &File) -> (Vec<u8>, bool) {
        let (bytes, is_whole) = self.read(file);
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let start = bytes.iter().position(|byte| !is_line_end(byte)).unwrap_or(bytes.len());
        let end = bytes.iter().rposition(|byte| !is_line_end(byte)).map_or(start, |last| last + 1);
        (bytes[start..if is_whole { end } else { bytes.len() }].to_vec(), is_whole)
    }

    /// Reads the first bytes of the row again, leaving the file where it stands; none if it cannot be read any more.
    fn read(self, file: &File) -> (Vec<u8>, bool) {
        let row_bytes = usize::try_from(self.end.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; row_bytes.min(RAW_BYTES_MAX)];
        let is_read = file.read_exact_at(&mut bytes, self.start).is_ok();
        if !is_read {
            bytes.clear();
        }
        (bytes, is_read && row_bytes <= RAW_BYTES_MAX)
    }
}

/// Where the columns that make a row are among a file's columns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chosen {
    Columns { key: usize, sort: Option<usize> },
    Exported { key: usize, sort: usize, value: usize, encoding: Option<usize> },
}

impl Chosen {
    /// Finds the columns by name. `has_encoding`: an export in this format has a column that tells the encoding.
    pub(crate) fn find(
        path: &Path,
        names: &[String],
        layout: &Layout,
        has_encoding: bool,
    ) -> Result<Chosen, OpenError> {
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                return Err(OpenError::DuplicateColumn { path: path.to_path_buf(), column: name.clone() });
            }
        }
        let find = |column: &str| {
            names.iter().position(|name| name == column).ok_or_else(|| OpenError::UnknownColumn {
                path: path.to_path_buf(),
                column: column.to_string(),
                columns: names.to_vec(),
            })
        };
        Ok(match layout {
            Layout::Columns(columns) => {
                Chosen::Columns { key: find(&columns.key)?, sort: columns.sort.as_deref().map(find).transpose()? }
            }
            Layout::Exported => Chosen::Exported {
                key: find(exported::KEY)?,
                sort: find(exported::SORT)?,
                value: find(exported::VALUE)?,
                encoding: has_encoding.then(|| find(exported::ENCODING)).transpose()?,
            },
        })
    }
}
