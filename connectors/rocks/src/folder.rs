//! Snapshots in a local folder: one folder each, with its runs, and its manifest last.

use crate::errors::{not_read, not_written};
use crate::run_writer::FolderWriter;
use rehome_ports::{PortError, Run, SnapshotStore, SnapshotWriter, plain_name, run_checksum};
use rehome_records::{Manifest, RunInfo};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

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
        Ok(self.dir.join(plain_name(name)?))
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
        Ok(Box::new(FolderWriter::new(folder, self.run_bytes)))
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
        let path = self.folder(name)?.join(plain_name(&run.name)?);
        let found = run_checksum(&path).map_err(|error| not_read(&path, &error))?;
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
            names.extend(name.ok().filter(|name| plain_name(name).is_ok()));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), PortError> {
        let folder = self.folder(name)?;
        self.throw_away(&folder).map_err(|error| not_written(&folder, &error))
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
