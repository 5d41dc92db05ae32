//! Rows of a Parquet file of flat columns, read column by column in batches.

use std::fmt;
use std::fs::File;
use std::path::Path;

use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray, Int96};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::cells::{Cell, Kind};
use crate::errors::{OpenError, RowError};
use crate::exported;
use crate::format::Format;
use crate::guarded::guarded;
use crate::json;
use crate::reader::{Chosen, Layout, ReadRow};

/// Rows that are decoded at a time: enough that the cost per batch vanishes, few enough to stay in the cache.
const BATCH_ROWS: usize = 2048;

pub(crate) struct ParquetRows {
    reader: SerializedFileReader<File>,
    rows_total: u64,
    chosen: Chosen,
    columns: Vec<Column>,
    /// The row group that is read next.
    group_next: usize,
    /// The open row group's columns, or none.
    cursors: Vec<Cursor>,
    /// Rows of the open row group that are not in a batch yet.
    group_rows_left: u64,
    /// Rows of the batch that were not returned yet.
    batch_rows_left: usize,
    /// Rows returned or skipped so far.
    row: u64,
    /// The length of the last value, as a guess for the next.
    value_bytes: usize,
}

struct Column {
    name: String,
    kind: Kind,
    json_prefix: Vec<u8>,
    /// The definition level of a value that is not null; 0 where nulls cannot be.
    level_max: i16,
}

/// One column of the open row group and its decoded batch.
struct Cursor {
    values: Values,
    levels: Vec<i16>,
    level_at: usize,
    value_at: usize,
}

/// The values of a batch that are not null, by physical type, and where more come from.
enum Values {
    Boolean(Typed<parquet::data_type::BoolType>),
    Int32(Typed<parquet::data_type::Int32Type>),
    Int64(Typed<parquet::data_type::Int64Type>),
    Int96(Typed<parquet::data_type::Int96Type>),
    Float(Typed<parquet::data_type::FloatType>),
    Double(Typed<parquet::data_type::DoubleType>),
    Bytes(Typed<parquet::data_type::ByteArrayType>),
    FixedBytes(Typed<parquet::data_type::FixedLenByteArrayType>),
}

struct Typed<T: DataType> {
    reader: ColumnReaderImpl<T>,
    batch: Vec<T::T>,
}

impl ParquetRows {
    pub(crate) fn open(file: File, path: &Path, layout: &Layout) -> Result<ParquetRows, OpenError> {
        let reader = guarded(|| SerializedFileReader::new(file))
            .map_err(|error| OpenError::unreadable(path, Format::Parquet, error.to_string()))?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        if let Some(nested) = schema.columns().iter().find(|column| column.max_rep_level() > 0) {
            return Err(OpenError::NestedColumn { path: path.to_path_buf(), column: nested.path().string() });
        }
        let chosen = Chosen::find(path, &names, layout, false)?;
        if let Chosen::Exported { key, sort, value, .. } = chosen {
            let is_binary = |at: &usize| schema.column(*at).physical_type() == Physical::BYTE_ARRAY;
            if let Some(at) = [key, sort, value].into_iter().find(|at| !is_binary(at)) {
                return Err(OpenError::NotBinary { path: path.to_path_buf(), column: names[at].clone() });
            }
        }
        let prefixes = json::member_prefixes(names.iter().map(String::as_str));
        let columns = schema.columns().iter().zip(names).zip(prefixes).map(|((column, name), json_prefix)| Column {
            name,
            kind: Kind::of(column),
            json_prefix,
            level_max: column.max_def_level(),
        });
        Ok(ParquetRows {
            rows_total: u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0),
            chosen,
            columns: columns.collect(),
            group_next: 0,
            cursors: Vec::new(),
            group_rows_left: 0,
            batch_rows_left: 0,
            row: 0,
            value_bytes: 64,
            reader,
        })
    }

    /// Returns the number of the row that was read last, 0 before the first.
    pub(crate) fn row(&self) -> u64 {
        self.row
    }

    pub(crate) fn rows_total(&self) -> u64 {
        self.rows_total
    }

    pub(crate) fn fraction_read(&self) -> f64 {
        if self.rows_total == 0 { 1.0 } else { (self.row as f64 / self.rows_total as f64).min(1.0) }
    }

    pub(crate) fn read(&mut self, sort_text: &mut Vec<u8>) -> Option<Result<ReadRow, RowError>> {
        while self.batch_rows_left == 0 {
            let more = if self.group_rows_left > 0 { self.decode_batch() } else { self.open_group()? };
            if let Err(error) = more {
                return Some(Err(self.skip_group(&error)));
            }
        }
        self.batch_rows_left -= 1;
        self.row += 1;
        Some(self.build_row(sort_text))
    }

    /// Opens the next row group; None after the last.
    fn open_group(&mut self) -> Option<Result<(), ParquetError>> {
        if self.group_next == self.reader.num_row_groups() {
            return None;
        }
        self.cursors.clear();
        let rows = self.reader.metadata().row_group(self.group_next).num_rows();
        self.group_rows_left = u64::try_from(rows).unwrap_or(0);
        self.group_next += 1;
        let group = self.group_next - 1;
        Some(guarded(|| self.open_columns(group)))
    }

    fn open_columns(&mut self, group: usize) -> Result<(), ParquetError> {
        let group = self.reader.get_row_group(group)?;
        for at in 0..self.columns.len() {
            self.cursors.push(Cursor::new(group.get_column_reader(at)?));
        }
        Ok(())
    }

    fn decode_batch(&mut self) -> Result<(), ParquetError> {
        let rows = BATCH_ROWS.min(usize::try_from(self.group_rows_left).unwrap_or(BATCH_ROWS));
        for (cursor, column) in self.cursors.iter_mut().zip(&self.columns) {
            guarded(|| cursor.decode(rows, column.level_max))?;
        }
        self.group_rows_left -= rows as u64;
        self.batch_rows_left = rows;
        Ok(())
    }

    /// Gives the rest of the open row group up: its columns cannot be brought in step again.
    fn skip_group(&mut self, error: &ParquetError) -> RowError {
        let row = self.row + 1;
        let rows = std::mem::take(&mut self.group_rows_left);
        self.row = self.row.saturating_add(rows);
        RowError { row, rows, line: None, reason: format!("{rows} rows from here on are skipped: {error}") }
    }

    fn build_row(&mut self, sort_text: &mut Vec<u8>) -> Result<ReadRow, RowError> {
        let built = match self.chosen {
            Chosen::Columns { key, sort } => self.build_object(key, sort, sort_text),
            Chosen::Exported { key, sort, value, .. } => self.build_exported([key, sort, value], sort_text),
        };
        built.map_err(|reason| RowError { row: self.row, rows: 1, line: None, reason })
    }

    fn build_object(&mut self, key: usize, sort: Option<usize>, sort_text: &mut Vec<u8>) -> Result<ReadRow, String> {
        let mut value = Vec::with_capacity(self.value_bytes + 16);
        let mut partition_key = Vec::new();
        let mut sort_is_null = false;
        for (at, (column, cursor)) in self.columns.iter().zip(&mut self.cursors).enumerate() {
            value.extend_from_slice(&column.json_prefix);
            let Some(cell) = cursor.next_cell(column.level_max) else {
                sort_is_null |= sort == Some(at);
                value.extend_from_slice(b"null");
                continue;
            };
            column.kind.push_json(&mut value, cell);
            if at == key {
                column.kind.push_text(&mut partition_key, cell);
            }
            if sort == Some(at) {
                column.kind.push_text(sort_text, cell);
            }
        }
        value.push(b'}');
        self.value_bytes = value.len();
        if partition_key.is_empty() {
            return Err(exported::no_key(&self.columns[key].name));
        }
        Ok(ReadRow { row: self.row, partition_key, value, sort_is_null })
    }

    /// Takes the bytes of key, sort key and value as they are.
    fn build_exported(&mut self, wanted: [usize; 3], sort_text: &mut Vec<u8>) -> Result<ReadRow, String> {
        let mut parts = [None, None, None];
        for (at, (column, cursor)) in self.columns.iter().zip(&mut self.cursors).enumerate() {
            let cell = cursor.next_cell(column.level_max);
            if let (Some(part), Some(Cell::Bytes(bytes))) = (wanted.iter().position(|wanted| *wanted == at), cell) {
                parts[part] = Some(bytes.to_vec());
            }
        }
        let [key, sort, value] = parts;
        let partition_key = key.filter(|key| !key.is_empty()).ok_or_else(|| exported::no_key(exported::KEY))?;
        let (Some(sort), Some(value)) = (sort, value) else {
            return Err("its sort key or its value is null".to_string());
        };
        sort_text.extend_from_slice(&sort);
        Ok(ReadRow { row: self.row, partition_key, value, sort_is_null: false })
    }
}

impl fmt::Debug for ParquetRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetRows").field("row", &self.row).field("rows_total", &self.rows_total).finish()
    }
}

impl Cursor {
    fn new(reader: ColumnReader) -> Cursor {
        let values = match reader {
            ColumnReader::BoolColumnReader(reader) => Values::Boolean(Typed::new(reader)),
            ColumnReader::Int32ColumnReader(reader) => Values::Int32(Typed::new(reader)),
            ColumnReader::Int64ColumnReader(reader) => Values::Int64(Typed::new(reader)),
            ColumnReader::Int96ColumnReader(reader) => Values::Int96(Typed::new(reader)),
            ColumnReader::FloatColumnReader(reader) => Values::Float(Typed::new(reader)),
            ColumnReader::DoubleColumnReader(reader) => Values::Double(Typed::new(reader)),
            ColumnReader::ByteArrayColumnReader(reader) => Values::Bytes(Typed::new(reader)),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => Values::FixedBytes(Typed::new(reader)),
        };
        Cursor { values, levels: Vec::new(), level_at: 0, value_at: 0 }
    }

    /// Decodes the next `rows` rows of the column; too few is an error.
    fn decode(&mut self, rows: usize, level_max: i16) -> Result<(), ParquetError> {
        self.levels.clear();
        (self.level_at, self.value_at) = (0, 0);
        let levels = (level_max > 0).then_some(&mut self.levels);
        let values = match &mut self.values {
            Values::Boolean(typed) => typed.decode(rows, levels),
            Values::Int32(typed) => typed.decode(rows, levels),
            Values::Int64(typed) => typed.decode(rows, levels),
            Values::Int96(typed) => typed.decode(rows, levels),
            Values::Float(typed) => typed.decode(rows, levels),
            Values::Double(typed) => typed.decode(rows, levels),
            Values::Bytes(typed) => typed.decode(rows, levels),
            Values::FixedBytes(typed) => typed.decode(rows, levels),
        }?;
        // A damaged file may tell of other numbers than it holds.
        let (levels, expected) = match level_max {
            0 => (rows, rows),
            _ => (self.levels.len(), self.levels.iter().filter(|level| **level >= level_max).count()),
        };
        if (levels, expected) != (rows, values) {
            return Err(ParquetError::General(format!("a column has {levels} of {rows} rows and {values} values")));
        }
        Ok(())
    }

    /// Returns the next row's value, or None where it is null.
    fn next_cell(&mut self, level_max: i16) -> Option<Cell<'_>> {
        if level_max > 0 {
            self.level_at += 1;
            if self.levels[self.level_at - 1] < level_max {
                return None;
            }
        }
        let at = self.value_at;
        self.value_at += 1;
        Some(match &self.values {
            Values::Boolean(typed) => Cell::Boolean(typed.batch[at]),
            Values::Int32(typed) => Cell::Int32(typed.batch[at]),
            Values::Int64(typed) => Cell::Int64(typed.batch[at]),
            Values::Int96(typed) => int96(&typed.batch[at]),
            Values::Float(typed) => Cell::Float(typed.batch[at]),
            Values::Double(typed) => Cell::Double(typed.batch[at]),
            Values::Bytes(typed) => bytes(&typed.batch[at]),
            Values::FixedBytes(typed) => fixed_bytes(&typed.batch[at]),
        })
    }
}

impl<T: DataType> Typed<T> {
    fn new(reader: ColumnReaderImpl<T>) -> Typed<T> {
        Typed { reader, batch: Vec::with_capacity(BATCH_ROWS) }
    }

    /// Returns how many values were decoded.
    fn decode(&mut self, rows: usize, levels: Option<&mut Vec<i16>>) -> Result<usize, ParquetError> {
        self.batch.clear();
        let (mut rows_left, mut levels) = (rows, levels);
        while rows_left > 0 {
            let (read, _, _) = self.reader.read_records(rows_left, levels.as_deref_mut(), None, &mut self.batch)?;
            if read == 0 {
                return Err(ParquetError::EOF(format!("a column ends {rows_left} rows early")));
            }
            rows_left = rows_left.saturating_sub(read);
        }
        Ok(self.batch.len())
    }
}

fn int96(value: &Int96) -> Cell<'_> {
    Cell::Int96(value)
}

fn bytes(value: &ByteArray) -> Cell<'_> {
    Cell::Bytes(value.data())
}

fn fixed_bytes(value: &FixedLenByteArray) -> Cell<'_> {
    Cell::Bytes(value.data())
}
