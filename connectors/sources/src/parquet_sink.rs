//! Exported rows as a Parquet file: the bytes of key, sort key and value, each a column.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::SourceRow;
use crate::exported;

/// Bytes of keys and values at which a row group is written. 16 MiB: rows that wait are held in memory.
const GROUP_BYTES: usize = 16 << 20;
/// Rows at which it is written, small as they may be. Reason: a row costs some memory beside its bytes.
const GROUP_ROWS: usize = 128 << 10;

/// Gathers rows and writes them group by group.
pub(crate) struct ParquetSink<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// Keys, sort keys and values that are in no group yet.
    columns: [Vec<ByteArray>; 3],
    bytes: usize,
}

impl<W: Write + Send> ParquetSink<W> {
    pub(crate) fn new(out: W) -> io::Result<ParquetSink<W>> {
        let column = |name| {
            let column = Type::primitive_type_builder(name, Physical::BYTE_ARRAY).with_repetition(Repetition::REQUIRED);
            column.build().map(Arc::new)
        };
        let names = [exported::KEY, exported::SORT, exported::VALUE];
        let columns = names.into_iter().map(column).collect::<Result<Vec<_>, _>>().map_err(io_error)?;
        let schema = Type::group_type_builder("rows").with_fields(columns).build().map_err(io_error)?;
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(io_error)?;
        Ok(ParquetSink { writer, columns: Default::default(), bytes: 0 })
    }

    pub(crate) fn write(&mut self, row: SourceRow) -> io::Result<()> {
        for (column, part) in self.columns.iter_mut().zip([row.partition_key, row.sort_key, row.value]) {
            self.bytes += part.len();
            column.push(part.into());
        }
        if self.bytes >= GROUP_BYTES || self.columns[0].len() >= GROUP_ROWS {
            self.write_group().map_err(io_error)?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for values in &mut self.columns {
            let mut column =
                group.next_column()?.ok_or_else(|| ParquetError::General("a column is lacking".to_string()))?;
            column.typed::<ByteArrayType>().write_batch(values, None, None)?;
            column.close()?;
            values.clear();
        }
        group.close()?;
        self.bytes = 0;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        if !self.columns[0].is_empty() {
            self.write_group().map_err(io_error)?;
        }
        self.writer.into_inner().map_err(io_error)
    }
}

/// Returns the error of the output itself, where it is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}
