//! The SnapshotStore port in memory. Runs can be damaged.

use rehome_ports::{FinishedParts, PartWriter, PortError, Run, SnapshotStore, SnapshotWriter, run_name};
use rehome_records::{Manifest, RunInfo};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Entries per run. Few, so that a small simulation has snapshots of several runs.
const RUN_ENTRIES_MAX: usize = 64;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;
type Shared = Arc<Mutex<BTreeMap<String, Snapshot>>>;

/// Snapshots by name, in memory. Clones are the same snapshots.
#[derive(Clone, Default)]
pub struct MemorySnapshots {
    snapshots: Shared,
}

#[derive(Default)]
struct Snapshot {
    runs: BTreeMap<String, Entries>,
    manifest: Option<Vec<u8>>,
}

impl MemorySnapshots {
    pub fn new() -> Arc<MemorySnapshots> {
        Arc::new(MemorySnapshots::default())
    }

    /// Alters one byte of the snapshot's first run. Returns false when there is nothing to damage.
    pub fn damage(&self, name: &str) -> bool {
        let first = lock(&self.snapshots).get(name).and_then(|snapshot| snapshot.runs.keys().next().cloned());
        first.is_some_and(|run| self.damage_run(name, &run))
    }

    /// Alters one byte of that run. Returns false when there is nothing to damage.
    pub fn damage_run(&self, name: &str, run: &str) -> bool {
        let mut snapshots = lock(&self.snapshots);
        let run = snapshots.get_mut(name).and_then(|snapshot| snapshot.runs.get_mut(run));
        let Some((key, value)) = run.and_then(|entries| entries.first_mut()) else { return false };
        match value.first_mut() {
            Some(byte) => *byte ^= 1,
            None => key.push(0),
        }
        true
    }

    /// Takes that run away. Returns false when there is none.
    pub fn lose_run(&self, name: &str, run: &str) -> bool {
        lock(&self.snapshots).get_mut(name).is_some_and(|snapshot| snapshot.runs.remove(run).is_some())
    }
}

impl SnapshotStore for MemorySnapshots {
    fn create(&self, name: &str) -> Result<Box<dyn SnapshotWriter>, PortError> {
        lock(&self.snapshots).insert(name.to_string(), Snapshot::default());
        let writer =
            Writer { snapshots: Arc::clone(&self.snapshots), name: name.to_string(), parts: FinishedParts::default() };
        Ok(Box::new(writer))
    }

    fn manifest(&self, name: &str) -> Result<Option<Manifest>, PortError> {
        let snapshots = lock(&self.snapshots);
        let Some(bytes) = snapshots.get(name).and_then(|snapshot| snapshot.manifest.as_deref()) else {
            return Ok(None);
        };
        Manifest::decode(bytes).map(Some).map_err(|error| PortError::broken(format!("manifest of {name}: {error}")))
    }

    fn run(&self, name: &str, run: &RunInfo) -> Result<Run, PortError> {
        let snapshots = lock(&self.snapshots);
        let entries = snapshots.get(name).and_then(|snapshot| snapshot.runs.get(&run.name));
        let entries = entries.ok_or_else(|| PortError::broken(format!("run {} of {name} is missing", run.name)))?;
        if checksum(entries) != run.checksum || entries.len() as u64 != run.entries {
            return Err(PortError::broken(format!("run {} of {name} was altered", run.name)));
        }
        Ok(Run::Entries(entries.clone()))
    }

    fn names(&self) -> Result<Vec<String>, PortError> {
        Ok(lock(&self.snapshots).keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> Result<(), PortError> {
        lock(&self.snapshots).remove(name);
        Ok(())
    }
}

struct Writer {
    snapshots: Shared,
    name: String,
    parts: FinishedParts,
}

struct Part {
    snapshots: Shared,
    name: String,
    number: u32,
    parts: FinishedParts,
    entries: Entries,
    last_key: Option<Vec<u8>>,
    runs: Vec<RunInfo>,
}

impl Part {
    fn end_run(&mut self) -> Result<(), PortError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.entries);
        let info = RunInfo {
            name: run_name(self.number, self.runs.len()),
            entries: entries.len() as u64,
            bytes: entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum(),
            checksum: checksum(&entries),
        };
        let mut snapshots = lock(&self.snapshots);
        let snapshot = snapshots.get_mut(&self.name).ok_or_else(|| removed(&self.name))?;
        snapshot.runs.insert(info.name.clone(), entries);
        self.runs.push(info);
        Ok(())
    }
}

impl PartWriter for Part {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), PortError> {
        if self.last_key.as_deref().is_some_and(|last| key <= last) {
            return Err(PortError::broken(format!("keys of snapshot {} do not ascend", self.name)));
        }
        self.last_key = Some(key.to_vec());
        self.entries.push((key.to_vec(), value.to_vec()));
        if self.entries.len() >= RUN_ENTRIES_MAX { self.end_run() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<RunInfo>, PortError> {
        self.end_run()?;
        self.parts.finished(self.number, &self.runs);
        Ok(self.runs)
    }
}

impl SnapshotWriter for Writer {
    fn part(&self, number: u32) -> Result<Box<dyn PartWriter>, PortError> {
        Ok(Box::new(Part {
            snapshots: Arc::clone(&self.snapshots),
            name: self.name.clone(),
            number,
            parts: self.parts.clone(),
            entries: Vec::new(),
            last_key: None,
            runs: Vec::new(),
        }))
    }

    fn seal(self: Box<Self>, manifest: &Manifest) -> Result<(), PortError> {
        if manifest.runs != self.parts.runs() {
            return Err(PortError::broken(format!("the manifest of {} names other runs than were written", self.name)));
        }
        let mut snapshots = lock(&self.snapshots);
        snapshots.get_mut(&self.name).ok_or_else(|| removed(&self.name))?.manifest = Some(manifest.encode());
        Ok(())
    }
}

fn removed(name: &str) -> PortError {
    PortError::not_applied(format!("snapshot {name} was removed while it was written"))
}

fn checksum(entries: &Entries) -> u64 {
    let mut hasher = Xxh3::new();
    for part in entries.iter().flat_map(|(key, value)| [key, value]) {
        hasher.update(&xxh3_64(part).to_be_bytes());
    }
    hasher.digest()
}

fn lock(snapshots: &Shared) -> MutexGuard<'_, BTreeMap<String, Snapshot>> {
    snapshots.lock().unwrap_or_else(PoisonError::into_inner)
}
