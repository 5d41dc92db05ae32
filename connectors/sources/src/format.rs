//! The formats of row files.

use std::fmt;
use std::path::Path;

/// How the rows of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated, with a header line (RFC 4180); every value is text.
    Csv,
    /// One JSON object a line.
    JsonLines,
    /// Flat columns of Apache Parquet.
    Parquet,
}

/// What a file's name must end in, as messages say it.
pub(crate) const SUFFIXES: &str = ".csv, .jsonl, .ndjson or .parquet";

impl Format {
    /// Returns the format that the name's ending tells, in capitals or not.
    pub fn of_path(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Format::Csv),
            "jsonl" | "ndjson" => Some(Format::JsonLines),
            "parquet" => Some(Format::Parquet),
            _ => None,
        }
    }

    /// Returns the name in commands and their JSON: `csv`, `jsonl` or `parquet`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::JsonLines => "jsonl",
            Format::Parquet => "parquet",
        }
    }
}

/// The name in messages.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Csv => "CSV",
            Format::JsonLines => "JSON lines",
            Format::Parquet => "Parquet",
        })
    }
}
