//! Rows from files and generated ones, as what the store holds: partition key, sort key, value.
//!
//! - [`reader`]: [`RowReader`], the rows of one file, its format told by the extension
//! - [`csv_rows`], [`parquet_rows`]: one format each
//! - [`open_quote`]: a quote that the end of the file leaves open
//! - [`cells`]: a typed Parquet cell as text and as JSON; [`times`]: dates and times as ISO 8601; [`json`]: escaping
//! - [`sort_key`]: how a sort column and a row number become a sort key
//! - [`zipf`]: [`Zipf`], generated rows with a skew
//! - [`digest`]: [`InputDigest`], one number for a set of rows

mod cells;
mod csv_rows;
mod digest;
mod errors;
mod json;
mod open_quote;
mod parquet_rows;
mod reader;
mod sort_key;
mod times;
mod zipf;

pub use digest::InputDigest;
pub use errors::{OpenError, RowError};
pub use reader::{Columns, RowReader, SourceRow};
pub use sort_key::row_number_text;
pub use zipf::{Zipf, ZipfRows};
