//! What can be wrong with a file as a whole, and with one row of it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::format::{Format, SUFFIXES};

/// Says why a file cannot be read at all. Nothing was read; mend the file or the arguments and open it again.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open {}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("cannot tell the format of {} from its name: it must end in {SUFFIXES}", path.display())]
    UnknownFormat { path: PathBuf },
    #[error("{} is not readable as {format}: {reason}", path.display())]
    Unreadable { path: PathBuf, format: Format, reason: String },
    #[error("{} has no column {column:?}; its columns are {}{}", path.display(), columns.join(", "), hint(columns))]
    UnknownColumn { path: PathBuf, column: String, columns: Vec<String> },
    #[error("{} has more than one column {column:?}: rename one", path.display())]
    DuplicateColumn { path: PathBuf, column: String },
    #[error("column {column:?} of {} is a list or a map, which is not supported: write the file without it", path.display())]
    NestedColumn { path: PathBuf, column: String },
    #[error("column {column:?} of {} is not binary: is the file an export?", path.display())]
    NotBinary { path: PathBuf, column: String },
}

impl OpenError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> OpenError {
        OpenError::Io { path: path.to_path_buf(), source }
    }

    pub(crate) fn unreadable(path: &Path, format: Format, reason: String) -> OpenError {
        OpenError::Unreadable { path: path.to_path_buf(), format, reason }
    }
}

/// Returns what is probably wrong with a header of one column.
fn hint(columns: &[String]) -> &'static str {
    match columns {
        [one] if one.contains([';', '\t']) => "; columns are separated by commas, not by semicolons or tabs",
        _ => "",
    }
}

/// Says why one row, or a stretch of rows, is left out. The reader goes on with the next that it can read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RowError {
    /// The number of the row, counted from 1 without the header, broken rows included.
    pub row: u64,
    /// How many rows are left out: 1, unless a stretch of a file cannot be read.
    pub rows: u64,
    /// The line of the file at which the row starts, counted from 1, where the format has lines.
    pub line: Option<u64>,
    pub reason: String,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "row {} (line {line}): {}", self.row, self.reason),
            None => write!(f, "row {}: {}", self.row, self.reason),
        }
    }
}
