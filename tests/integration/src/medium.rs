//! Where folders lie.

use std::path::Path;
use tempfile::TempDir;

/// The file system that Linux keeps in memory for everybody.
const IN_MEMORY: &str = "/dev/shm";

/// What a folder lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Where temporary files go.
    Disk,
    /// In memory, where there is such a file system. SIGKILL takes nothing from what a process has written to a file, so
    /// this shows the same as a disk, without waiting for it.
    Memory,
}

impl Medium {
    /// Returns a new folder, removed when it is dropped, unless `REHOME_KEEP` is set.
    pub fn make_folder(self) -> std::io::Result<TempDir> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("rehome-bench-").disable_cleanup(std::env::var_os("REHOME_KEEP").is_some());
        match self {
            Medium::Memory if Path::new(IN_MEMORY).is_dir() => builder.tempdir_in(IN_MEMORY),
            Medium::Memory | Medium::Disk => builder.tempdir(),
        }
    }
}
