//! Snapshots in a local folder: one folder each, with its runs, and its manifest last.

use crate::errors::{not_read, not_written};
use crate::run_writer::RunWriter;
use rehome_ports::{PortError, Run, SnapshotStore, SnapshotWriter};
use rehome_records::{Manifest, RunInfo};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

pub const MANIFEST: &str = "manifest";

/// Snapshots in a local folder. Keep it on the file system of the stores: runs are then taken in by name only.
pub struct SnapshotFolder {
    dir: PathBuf,
    run_bytes: Option<u64>,
}

impl SnapshotFolder {
    /// Opens the folder, which is made if it does not exist.
    pub fn open(dir: &Path) -> Result<SnapshotFolder, PortError> {
        std::fs::create_dir_all(dir).map_err(|error| not_written(dir, &error))?;
        Ok(SnapshotFolder { dir: dir.to_path_buf(), run_bytes: None })
    }

    /// Ends runs after so many bytes of entries instead of the usual number.
    pub fn with_run_bytes(self, run_bytes: u64) -> SnapshotFolder {
        SnapshotFolder { run_bytes: Some(run_bytes), ..self }
    }

    fn folder(&self, name: &str) -> Result<PathBuf, PortError> {
        Ok(self.dir.join(plain(name)?))
    }

    fn throw_away(&self, folder: &Path) -> io::Result<()> {
        // The manifest first: without it, what is left is no snapshot.
        absent_is_fine(std::fs::remove_file(folder.join(MANIFEST)))?;
        absent_is_fine(std::fs::remove_dir_all(folder))
    }
}

impl SnapshotStore for SnapshotFolder {
    fn create(&self, name: &str) -> Result<Box<dyn SnapshotWriter>, PortError> {
        let folder = self.folder(name)?;
        self.throw_away(&folder)
            .and_then(|()| std::fs::create_dir(&folder))
            .map_err(|error| not_written(&folder, &error))?;
        Ok(Box::new(RunWriter::new(folder, self.run_bytes)))
    }

    fn manifest(&self, name: &str) -> Result<Option<Manifest>, PortError> {
        let path = self.folder(name)?.join(MANIFEST);
        match std::fs::read(&path) {
            Ok(bytes) => Manifest::decode(&bytes)
                .map(Some)
                .map_err(|error| PortError::broken(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(not_read(&path, &error)),
        }
    }

    fn run(&self, name: &str, run: &RunInfo) -> Result<Run, PortError> {
        let path = self.folder(name)?.join(plain(&run.name)?);
        let found = checksum(&path).map_err(|error| not_read(&path, &error))?;
        if found != (run.checksum, run.bytes) {
            return Err(PortError::broken(format!("{} was altered", path.display())));
        }
        Ok(Run::SortedFile(path))
    }

    fn names(&self) -> Result<Vec<String>, PortError> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(|error| not_read(&self.dir, &error))? {
            let name = entry.map_err(|error| not_read(&self.dir, &error))?.file_name().into_string();
            // What no snapshot can be called is somebody else's.
            names.extend(name.ok().filter(|name| plain(name).is_ok()));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), PortError> {
        let folder = self.folder(name)?;
        self.throw_away(&folder).map_err(|error| not_written(&folder, &error))
    }
}

/// Returns XXH3-64 and length of the file.
pub fn checksum(path: &Path) -> io::Result<(u64, u64)> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((hasher.digest(), bytes)),
            count => {
                hasher.update(&buffer[..count]);
                bytes += count as u64;
            }
        }
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Refuses names that would lead out of the folder: they come from records and manifests.
fn plain(name: &str) -> Result<&str, PortError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(PortError::broken(format!("{name:?} is no name of a snapshot or run")));
    }
    Ok(name)
}
