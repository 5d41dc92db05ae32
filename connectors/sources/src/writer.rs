//! Rows to a file, as [`crate::Layout::Exported`] reads them back.

use std::io::{self, BufWriter, Write};

use crate::SourceRow;
use crate::exported;
use crate::format::Format;
use crate::json;
use crate::parquet_sink::ParquetSink;

/// Writes rows as a stream: memory does not grow with their number.
///
/// Nothing is a whole file before [`RowWriter::finish`].
pub struct RowWriter<W: Write + Send> {
    sink: Sink<W>,
    texts: [String; 3],
    rows: u64,
    rows_base64: u64,
}

enum Sink<W: Write + Send> {
    Csv(Box<csv::Writer<W>>),
    JsonLines { out: BufWriter<W>, line: Vec<u8> },
    Parquet(Box<ParquetSink<W>>),
}

impl<W: Write + Send> RowWriter<W> {
    /// Starts a file. Errors: what the output says.
    pub fn new(format: Format, out: W) -> io::Result<RowWriter<W>> {
        let sink = match format {
            Format::Csv => {
                let mut csv = csv::WriterBuilder::new().buffer_capacity(256 << 10).from_writer(out);
                csv.write_record([exported::KEY, exported::SORT, exported::VALUE, exported::ENCODING])?;
                Sink::Csv(Box::new(csv))
            }
            Format::JsonLines => Sink::JsonLines { out: BufWriter::with_capacity(256 << 10, out), line: Vec::new() },
            Format::Parquet => Sink::Parquet(Box::new(ParquetSink::new(out)?)),
        };
        Ok(RowWriter { sink, texts: Default::default(), rows: 0, rows_base64: 0 })
    }

    /// Writes one row. Errors: what the output says; the file is of no use then.
    pub fn write(&mut self, row: SourceRow) -> io::Result<()> {
        self.rows += 1;
        let mut encode = || {
            let encoding = exported::encode([&row.partition_key, &row.sort_key, &row.value], &mut self.texts);
            self.rows_base64 += u64::from(encoding != exported::UTF8);
            encoding
        };
        match &mut self.sink {
            Sink::Csv(csv) => {
                let encoding = encode();
                csv.write_record(self.texts.iter().map(String::as_str).chain([encoding]))?;
            }
            Sink::JsonLines { out, line } => {
                let encoding = encode();
                line.clear();
                let names = [exported::KEY, exported::SORT, exported::VALUE, exported::ENCODING];
                let texts = self.texts.iter().map(String::as_str).chain([encoding]);
                for (at, (name, text)) in names.into_iter().zip(texts).enumerate() {
                    line.push(if at == 0 { b'{' } else { b',' });
                    json::push_string(line, name);
                    line.push(b':');
                    json::push_string(line, text);
                }
                line.extend_from_slice(b"}\n");
                out.write_all(line)?;
            }
            Sink::Parquet(sink) => sink.write(row)?,
        }
        Ok(())
    }

    /// Returns how many rows were written.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns how many of them are not UTF-8 and stand there as base64; 0 in Parquet, which holds bytes.
    pub fn rows_base64(&self) -> u64 {
        self.rows_base64
    }

    /// Ends the file and returns the output, everything handed over to it.
    pub fn finish(self) -> io::Result<W> {
        match self.sink {
            Sink::Csv(csv) => csv.into_inner().map_err(csv::IntoInnerError::into_error),
            Sink::JsonLines { out, .. } => out.into_inner().map_err(io::IntoInnerError::into_error),
            Sink::Parquet(sink) => sink.finish(),
        }
    }
}
