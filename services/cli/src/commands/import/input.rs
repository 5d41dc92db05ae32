//! What an import reads: a file that can be read twice, once for its name as a source and once for its rows.

use super::Args;
use crate::commands::format::STANDARD;
use crate::exit::Failure;
use anyhow::Context;
use rehome_sources::{Columns, Format, Layout, OpenError, RowReader};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// An opened input. Standard input and pipes were copied to a temporary file that has no name.
pub struct Input {
    file: File,
    name: String,
    format: Format,
    layout: Layout,
    /// Of the file.
    pub bytes: u64,
}

impl Input {
    pub fn open(args: &Args, format: Format) -> Result<Input, Failure> {
        let (file, name) = if args.file.as_os_str() == STANDARD {
            (kept(io::stdin().lock())?, "standard input".to_owned())
        } else {
            (regular(&args.file)?, args.file.display().to_string())
        };
        let layout = match &args.key {
            Some(key) => Layout::Columns(Columns { key: key.clone(), sort: args.sort.clone() }),
            None => Layout::Exported,
        };
        let bytes = file.metadata().map_err(anyhow::Error::from)?.len();
        Ok(Input { file, name, format, layout, bytes })
    }

    /// Returns the name of the source: the same bytes read the same way have the same one.
    pub fn source(&mut self, args: &Args) -> Result<String, Failure> {
        let mut hasher = Xxh3::new();
        let columns = [args.key.as_deref(), args.sort.as_deref()].map(Option::unwrap_or_default);
        let ways =
            [args.unique.then_some("unique"), args.exported.then_some("exported")].map(Option::unwrap_or_default);
        for part in columns.into_iter().chain(ways).chain([self.format.name()]) {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        hash(&mut self.file, &mut hasher).with_context(|| format!("cannot read {}", self.name))?;
        Ok(format!("file-{:032x}", hasher.digest128()))
    }

    /// Reads the rows. Errors: what is wrong with the file as a whole, before anything was imported.
    pub fn rows(self, is_unique: bool) -> Result<RowReader, Failure> {
        let rows = RowReader::from_file(self.file, &self.name, self.format, &self.layout).map_err(|error| {
            let hint = match &error {
                OpenError::Unreadable { format: Format::Parquet, .. } => "; is the file whole, and is it Parquet?",
                _ => "",
            };
            let told = Failure::from(anyhow::Error::from(error)).message;
            Failure::usage(format!("{told}{hint} (nothing was imported)"))
        })?;
        Ok(if is_unique { rows.with_unique_sort() } else { rows })
    }
}

/// Opens a file; what cannot be read twice is copied.
fn regular(path: &Path) -> Result<File, Failure> {
    let wrong = |error: io::Error| Failure::usage(format!("cannot open {}: {error}", path.display()));
    let file = File::open(path).map_err(wrong)?;
    let about = file.metadata().map_err(wrong)?;
    if about.is_dir() {
        return Err(Failure::usage(format!("{} is a folder: name one file of it", path.display())));
    }
    if about.is_file() { Ok(file) } else { kept(file) }
}

/// Copies to a temporary file, which is gone when this process is.
fn kept(mut from: impl Read) -> Result<File, Failure> {
    let folder = std::env::temp_dir();
    let mut keep = || -> io::Result<File> {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut from, &mut file)?;
        file.rewind()?;
        Ok(file)
    };
    Ok(keep()
        .with_context(|| format!("cannot keep the input in {} (TMPDIR chooses another folder)", folder.display()))?)
}

fn hash(file: &mut File, hasher: &mut Xxh3) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return file.rewind(),
            bytes => hasher.update(&buffer[..bytes]),
        }
    }
}
