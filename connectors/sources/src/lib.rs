//! Rows from files and generated ones, as what the store holds: partition key, sort key, value; and rows to files.
//!
//! - [`reader`]: [`RowReader`], the rows of one file; [`format`]: [`Format`], told by the name's ending
//! - [`csv_rows`], [`json_rows`], [`parquet_rows`]: reading one format each
//! - [`writer`]: [`RowWriter`], rows to a file; [`parquet_sink`]: the columns of a Parquet file
//! - [`guarded`]: a decoder that gives up becomes an error
//! - [`exported`]: how an export writes rows, bytes that are no text included
//! - [`open_quote`]: a quote that the end of the file leaves open
//! - [`cells`]: a typed Parquet cell as text and as JSON; [`times`]: dates and times as ISO 8601; [`json`]: escaping
//! - [`sort_key`]: how a sort column and a row number become a sort key
//! - [`zipf`]: [`Zipf`], generated rows with a skew
//! - [`digest`]: [`InputDigest`], one number for a set of rows

mod cells;
mod csv_rows;
mod digest;
mod errors;
mod exported;
mod format;
mod guarded;
mod json;
mod json_rows;
mod open_quote;
mod parquet_rows;
mod parquet_sink;
mod reader;
mod sort_key;
mod times;
mod writer;
mod zipf;

pub use digest::InputDigest;
pub use errors::{OpenError, RowError};
pub use format::Format;
pub use reader::{Columns, Layout, RowReader, SourceRow};
pub use sort_key::row_number_text;
pub use writer::RowWriter;
pub use zipf::{Zipf, ZipfRows};
