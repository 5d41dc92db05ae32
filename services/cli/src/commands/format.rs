//! The format of a row file, told by `--format` or by the file's name.

use super::quoted;
use crate::exit::Failure;
use rehome_sources::Format;
use std::path::Path;

/// The file's name that stands for standard input or output.
pub const STANDARD: &str = "-";

/// What `--format` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatArg {
    /// Comma-separated, with a header line
    Csv,
    /// One JSON object a line
    Jsonl,
    /// Apache Parquet
    Parquet,
}

/// What `import` and `export` share.
#[derive(Clone, Debug, clap::Args)]
pub struct FileArgs {
    /// Format of the file; without it, what its name ends in
    #[arg(long, value_enum)]
    format: Option<FormatArg>,
    /// Seconds between two lines of progress, where standard error is no terminal
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub progress_every: u64,
}

impl FileArgs {
    /// Returns the format that was asked for, or else the one that the name tells.
    pub fn format(&self, file: &Path) -> Result<Format, Failure> {
        let asked = self.format.map(|asked| match asked {
            FormatArg::Csv => Format::Csv,
            FormatArg::Jsonl => Format::JsonLines,
            FormatArg::Parquet => Format::Parquet,
        });
        asked.or_else(|| Format::of_path(file)).ok_or_else(|| {
            let file = quoted(&file.to_string_lossy());
            let what =
                format!("the name {file} does not tell the format: it ends in .csv, .jsonl, .ndjson or .parquet");
            Failure::usage(format!("{what}, or --format csv|jsonl|parquet says it"))
        })
    }
}
