//! The rows of one file.

use std::path::Path;

use crate::csv_rows::CsvRows;
use crate::errors::{OpenError, RowError};
use crate::parquet_rows::ParquetRows;
use crate::sort_key::sort_key;

/// One row as the store will hold it. The value is a JSON object of all columns in the file's order, the key and the
/// sort column included, so that a row is whole wherever it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    pub partition_key: Vec<u8>,
    /// See [`crate::row_number_text`] and `sort_key.rs`: unique within a file unless the caller promised uniqueness.
    pub sort_key: Vec<u8>,
    pub value: Vec<u8>,
}

/// Which columns make the key. In CSV every value is text, in Parquet numbers and booleans stay so in the JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    pub key: String,
    /// None: rows are sorted by their number in the file.
    pub sort: Option<String>,
}

/// Reads the rows of one file as a stream: memory does not grow with the file.
///
/// A broken row is an `Err`, and reading goes on with the next that can be read. After `None` it stays `None`.
#[derive(Debug)]
pub struct RowReader {
    rows: Rows,
    has_sort: bool,
    sort_is_unique: bool,
    sort_text: Vec<u8>,
}

#[derive(Debug)]
enum Rows {
    Csv(Box<CsvRows>),
    Parquet(Box<ParquetRows>),
}

/// A row before its sort key is made; the sort column's text went into a buffer that is used again for each row.
pub(crate) struct ReadRow {
    pub(crate) row: u64,
    pub(crate) partition_key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl RowReader {
    /// Opens a file whose format its extension tells: `.parquet` or `.csv`.
    pub fn open(path: impl AsRef<Path>, columns: &Columns) -> Result<RowReader, OpenError> {
        let path = path.as_ref();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let rows = match extension.to_ascii_lowercase().as_str() {
            "csv" => Rows::Csv(Box::new(CsvRows::open(path, columns)?)),
            "parquet" => Rows::Parquet(Box::new(ParquetRows::open(path, columns)?)),
            _ => return Err(OpenError::UnknownFormat { path: path.to_path_buf() }),
        };
        Ok(RowReader { rows, has_sort: columns.sort.is_some(), sort_is_unique: false, sort_text: Vec::new() })
    }

    /// Leaves the row number off the sort key. Requires that no two rows of a partition key share the sort column's
    /// value: of those that do, the last would overwrite the others.
    pub fn with_unique_sort(mut self) -> RowReader {
        self.sort_is_unique = true;
        self
    }

    /// Returns how many rows the file has, where the format says so up front.
    pub fn rows_total(&self) -> Option<u64> {
        match &self.rows {
            Rows::Csv(_) => None,
            Rows::Parquet(rows) => Some(rows.rows_total()),
        }
    }

    /// Returns the number of the row that was read last, counted from 1; 0 before the first.
    pub fn row(&self) -> u64 {
        match &self.rows {
            Rows::Csv(rows) => rows.row(),
            Rows::Parquet(rows) => rows.row(),
        }
    }

    /// Returns how much of the file was read, from 0 to 1.
    pub fn fraction_read(&self) -> f64 {
        match &self.rows {
            Rows::Csv(rows) => rows.fraction_read(),
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
            Rows::Parquet(rows) => rows.read(&mut self.sort_text),
        };
        read.map(|read| {
            let ReadRow { row, partition_key, value } = read?;
            let text = self.has_sort.then_some(self.sort_text.as_slice());
            Ok(SourceRow { partition_key, sort_key: sort_key(text, self.sort_is_unique, row), value })
        })
    }
}

/// Where the key and the sort column are among a file's columns.
pub(crate) struct Chosen {
    pub(crate) key: usize,
    pub(crate) sort: Option<usize>,
}

impl Chosen {
    /// Finds the columns by name.
    pub(crate) fn find(path: &Path, names: &[String], columns: &Columns) -> Result<Chosen, OpenError> {
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                return Err(OpenError::DuplicateColumn { path: path.to_path_buf(), column: name.clone() });
            }
        }
        let find = |column: &String| {
            names.iter().position(|name| name == column).ok_or_else(|| OpenError::UnknownColumn {
                path: path.to_path_buf(),
                column: column.clone(),
                columns: names.to_vec(),
            })
        };
        Ok(Chosen { key: find(&columns.key)?, sort: columns.sort.as_ref().map(find).transpose()? })
    }
}
