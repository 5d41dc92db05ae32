//! Sorted runs with a manifest, between a source and a destination.
//!
//! Contract: a snapshot without its manifest does not exist; the manifest is written last, durably. Runs are sorted,
//! and no run starts before the one before it ends.

use crate::error::PortError;
use rehome_records::{Manifest, RunInfo};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// Writes one snapshot. Its parts can be written at the same time.
pub trait SnapshotWriter: Sync {
    /// Starts a part. Its keys lie above those of every part with a lower number.
    fn part(&self, number: u32) -> Result<Box<dyn PartWriter>, PortError>;

    /// Writes the manifest durably: from here on the snapshot exists.
    ///
    /// Errors: the manifest does not name the runs of all finished parts, by number.
    fn seal(self: Box<Self>, manifest: &Manifest) -> Result<(), PortError>;
}

/// Writes one part of a snapshot.
pub trait PartWriter: Send {
    /// Adds an entry; keys ascend strictly.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), PortError>;

    /// Ends the last run and returns them all, checksummed, in order.
    fn finish(self: Box<Self>) -> Result<Vec<RunInfo>, PortError>;
}

/// The runs of the parts that were finished, for those who implement [`SnapshotWriter`]. Clones are the same.
#[derive(Clone, Default)]
pub struct FinishedParts(Arc<Mutex<BTreeMap<u32, Vec<RunInfo>>>>);

impl FinishedParts {
    pub fn finished(&self, number: u32, runs: &[RunInfo]) {
        self.lock().insert(number, runs.to_vec());
    }

    /// Returns the runs of all of them, in key order.
    pub fn runs(&self) -> Vec<RunInfo> {
        self.lock().values().flatten().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Vec<RunInfo>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of a run: by part, then by its number in it.
pub fn run_name(part: u32, number: usize) -> String {
    format!("{part:03}-{number:06}")
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
