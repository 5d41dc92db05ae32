//! The file of rejected rows: one JSON object a line.

use crate::exit::Failure;
use crate::wire::Encoding;
use anyhow::Context;
use rehome_sources::RowError;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A rejected row.
#[derive(Debug, Serialize)]
struct Reject<'a> {
    /// Counted from 1, without a header.
    row: u64,
    /// How many rows this is about, where a stretch of a Parquet file cannot be read.
    #[serde(skip_serializing_if = "is_one")]
    rows: u64,
    /// Counted from 1, with the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    reason: &'a str,
    /// The row as it stands in the file, where the format has lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// `base64`, where the row is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<Encoding>,
    /// The text is only the row's beginning.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

/// A rejects file that is being written.
pub struct Rejects {
    out: BufWriter<File>,
    path: PathBuf,
}

impl Rejects {
    /// Starts the file anew. Errors: it is the input itself, or cannot be written.
    pub fn create(path: &Path, input: &Path) -> Result<Rejects, Failure> {
        let place = |path: &Path| std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
        if place(path).is_some_and(|rejects| place(input) == Some(rejects)) {
            return Err(Failure::usage("the rejects would overwrite the input: name another file for --rejects"));
        }
        let file = File::create(path)
            .map_err(|error| Failure::usage(format!("cannot write the rejects to {}: {error}", path.display())))?;
        Ok(Rejects { out: BufWriter::new(file), path: path.to_path_buf() })
    }

    /// Writes a row down, and what stands in the file, if that is known, with whether it is all of it.
    pub fn write(&mut self, error: &RowError, raw: Option<(Vec<u8>, bool)>) -> Result<(), Failure> {
        let encoding = raw.as_ref().map(|(raw, _)| Encoding::that_fits(&[raw]));
        let reject = Reject {
            row: error.row,
            rows: error.rows,
            line: error.line,
            reason: &error.reason,
            text: raw.as_ref().zip(encoding).map(|((raw, _), encoding)| encoding.write(raw)),
            encoding: encoding.filter(|encoding| *encoding == Encoding::Base64),
            cut: raw.is_some_and(|(_, is_whole)| !is_whole),
        };
        let line = serde_json::to_string(&reject).expect("these shapes always are JSON");
        let written = writeln!(self.out, "{line}");
        Ok(written.with_context(|| format!("cannot write the rejects to {}", self.path.display()))?)
    }

    /// Hands everything over to the file.
    pub fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush().with_context(|| format!("cannot write the rejects to {}", self.path.display()))?)
    }
}

fn is_one(rows: &u64) -> bool {
    *rows == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reject_names_row_line_reason_and_what_stood_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rejects.jsonl");
        let mut rejects = Rejects::create(&path, Path::new("rows.csv")).unwrap();
        let error = |row, rows, line| RowError { row, rows, line, reason: "why".into() };
        rejects.write(&error(4, 1, Some(5)), Some((b"a,\"b".to_vec(), true))).unwrap();
        rejects.write(&error(5, 1, Some(6)), Some((b"\xff".to_vec(), false))).unwrap();
        rejects.write(&error(6, 100, None), None).unwrap();
        rejects.flush().unwrap();
        let lines = [
            r#"{"row":4,"line":5,"reason":"why","text":"a,\"b"}"#,
            r#"{"row":5,"line":6,"reason":"why","text":"/w==","encoding":"base64","cut":true}"#,
            r#"{"row":6,"rows":100,"reason":"why"}"#,
        ];
        assert_eq!(std::fs::read_to_string(&path).unwrap(), lines.join("\n") + "\n");
        assert!(Rejects::create(&path, &path).is_err(), "the input is left alone");
        assert!(std::fs::metadata(&path).unwrap().len() > 0);
    }
}
