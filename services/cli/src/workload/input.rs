//! Where the rows come from.

use anyhow::Context;
use rehome_sources::{Columns, RowReader, SourceRow, Zipf};
use std::path::PathBuf;

/// Rows of a file, or generated ones.
#[derive(Clone, Debug)]
pub enum Input {
    File(FileInput),
    Zipf { seed: u64 },
}

/// A file, and which of its columns make the key.
#[derive(Clone, Debug)]
pub struct FileInput {
    pub path: PathBuf,
    pub columns: Columns,
}

/// Rows one by one; the first that cannot be read ends the load.
pub type Rows = Box<dyn Iterator<Item = anyhow::Result<SourceRow>>>;

impl Input {
    /// Returns the first so many rows, and how many there are where that is known.
    pub fn rows(&self, rows_max: Option<u64>) -> anyhow::Result<(Rows, Option<u64>)> {
        let rows_max = rows_max.unwrap_or(u64::MAX);
        let (rows, total) = self.all_rows()?;
        let first = (0..rows_max).zip(rows).map(|(_, row)| row);
        Ok((Box::new(first), total.map(|total| total.min(rows_max))))
    }

    fn all_rows(&self) -> anyhow::Result<(Rows, Option<u64>)> {
        match self {
            Input::File(file) => {
                let reader = RowReader::open(&file.path, &file.columns)?;
                let total = reader.rows_total();
                let path = file.path.clone();
                let rows = reader.map(move |row| row.with_context(|| format!("in {}", path.display())));
                Ok((Box::new(rows), total))
            }
            Input::Zipf { seed } => {
                let zipf = Zipf { seed: *seed, ..Zipf::default() };
                let total = zipf.rows;
                Ok((Box::new(zipf.rows().map(Ok)), Some(total)))
            }
        }
    }
}
