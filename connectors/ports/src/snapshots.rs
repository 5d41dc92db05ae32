//! Sorted runs with a manifest, between a source and a destination.
//!
//! Contract: a snapshot without its manifest does not exist; the manifest is written last, durably. Runs are sorted,
//! and no run starts before the one before it ends.

use crate::error::PortError;
use rehome_records::{Manifest, RunInfo};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// One run of a snapshot, in the shape in which its store can give it.
pub enum Run {
    /// A file in RocksDB's sorted table format. The taker may move it away.
    SortedFile(PathBuf),
    /// The entries themselves.
    Entries(Vec<(Vec<u8>, Vec<u8>)>),
}

/// Keeps snapshots by name: a local folder, memory.
pub trait SnapshotStore: Send + Sync {
    /// Starts a snapshot; what an unfinished one of that name left is thrown away.
    fn create(&self, name: &str) -> Result<Box<dyn SnapshotWriter>, PortError>;

    /// Returns the manifest; nothing when there is no whole snapshot of that name.
    fn manifest(&self, name: &str) -> Result<Option<Manifest>, PortError>;

    /// Returns a run whose checksum was compared with the manifest's.
    ///
    /// Errors: `Broken` when it is missing or altered; the snapshot is then useless.
    fn run(&self, name: &str, run: &RunInfo) -> Result<Run, PortError>;

    /// Returns the name of every snapshot that takes room, whole or not, in order.
    fn names(&self) -> Result<Vec<String>, PortError>;

    /// Removes the snapshot, whole or not. Nothing there is no error.
    fn remove(&self, name: &str) -> Result<(), PortError>;
}

/// Writes one snapshot.
pub trait SnapshotWriter {
    /// Adds an entry; keys ascend strictly.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), PortError>;

    /// Ends the last run and returns them all, checksummed.
    fn finish_runs(&mut self) -> Result<Vec<RunInfo>, PortError>;

    /// Writes the manifest durably: from here on the snapshot exists.
    fn seal(self: Box<Self>, manifest: &Manifest) -> Result<(), PortError>;
}

/// Returns XXH3-64 and length of a run's file, as [`RunInfo`] tells them.
pub fn run_checksum(path: &Path) -> io::Result<(u64, u64)> {
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

/// Refuses names of snapshots and runs that would lead out of a folder: they come from records and manifests.
pub fn plain_name(name: &str) -> Result<&str, PortError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(PortError::broken(format!("{name:?} is no name of a snapshot or run")));
    }
    Ok(name)
}
