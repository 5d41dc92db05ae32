//! Writes the runs of a snapshot, and its manifest last.

use crate::errors::{not_written, rocks};
use crate::folder::MANIFEST;
use crate::options::RUNS;
use rehome_ports::{FinishedParts, PartWriter, PortError, SnapshotWriter, run_checksum, run_name};
use rehome_records::{Manifest, RunInfo};
use rocksdb::SstFileWriter;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes of entries in a run. Reason: where removals lie in the way, runs are taken in on the top level, and from 20
/// tables there every flush waits for a compaction: 28 small runs made one wait for 8 s.
const RUN_BYTES: u64 = 64 << 20;

/// Free bytes of the disk below which no copy is written. Reason: a log that cannot write stops everybody, a copy can
/// wait; so much does the log write ahead, and the stores of a node flush, before an operator can act.
const KEPT_FREE_BYTES: u64 = 64 << 20;
/// Bytes of entries between two looks at the room.
const CHECK_ROOM_EVERY_BYTES: u64 = 4 << 20;

/// Writes one snapshot into its folder.
pub struct FolderWriter {
    dir: PathBuf,
    run_bytes: u64,
    parts: FinishedParts,
}

impl FolderWriter {
    pub fn new(dir: PathBuf, run_bytes: Option<u64>) -> FolderWriter {
        FolderWriter { dir, run_bytes: run_bytes.unwrap_or(RUN_BYTES), parts: FinishedParts::default() }
    }
}

impl SnapshotWriter for FolderWriter {
    fn part(&self, number: u32) -> Result<Box<dyn PartWriter>, PortError> {
        Ok(Box::new(RunWriter {
            dir: self.dir.clone(),
            run_bytes: self.run_bytes,
            part: number,
            parts: self.parts.clone(),
            unchecked_bytes: CHECK_ROOM_EVERY_BYTES,
            current: None,
            last_key: Vec::new(),
            any_key: false,
            runs: Vec::new(),
        }))
    }

    fn seal(self: Box<Self>, manifest: &Manifest) -> Result<(), PortError> {
        if manifest.runs != self.parts.runs() {
            let message = format!("the manifest of {} names other runs than were written", self.dir.display());
            return Err(PortError::broken(message));
        }
        let path = self.dir.join(MANIFEST);
        write_durably(&path, &manifest.encode()).map_err(|error| not_written(&path, &error))
    }
}

/// Writes the runs of one part.
struct RunWriter {
    dir: PathBuf,
    run_bytes: u64,
    part: u32,
    parts: FinishedParts,
    /// Bytes of entries since the room was looked at.
    unchecked_bytes: u64,
    current: Option<Current>,
    last_key: Vec<u8>,
    any_key: bool,
    runs: Vec<RunInfo>,
}

struct Current {
    writer: SstFileWriter<'static>,
    name: String,
    entries: u64,
    bytes: u64,
}

impl RunWriter {
    /// Errors: `NotApplied` when the disk has no room for a copy; what was written so far is of no use.
    fn check_room(&mut self, entry_bytes: u64) -> Result<(), PortError> {
        self.unchecked_bytes += entry_bytes;
        if self.unchecked_bytes < CHECK_ROOM_EVERY_BYTES {
            return Ok(());
        }
        self.unchecked_bytes = 0;
        let room = rustix::fs::statvfs(&self.dir).map_err(|error| not_written(&self.dir, &error.into()))?;
        let free_bytes = room.f_bavail * room.f_frsize;
        if free_bytes >= KEPT_FREE_BYTES {
            return Ok(());
        }
        Err(PortError::not_applied(format!(
            "only {} MiB are free where snapshots are written, in {}, and {} MiB are kept for the log and the stores; the copy goes \
             on when there is more room",
            free_bytes >> 20,
            self.dir.parent().unwrap_or(&self.dir).display(),
            KEPT_FREE_BYTES >> 20
        )))
    }

    fn end_run(&mut self) -> Result<(), PortError> {
        let Some(Current { mut writer, name, entries, .. }) = self.current.take() else { return Ok(()) };
        // Syncs the file.
        writer.finish().map_err(|error| rocks("ending a run", &error))?;
        drop(writer);
        let path = self.dir.join(&name);
        let (checksum, bytes) = run_checksum(&path).map_err(|error| not_written(&path, &error))?;
        self.runs.push(RunInfo { name, entries, bytes, checksum });
        Ok(())
    }
}

impl PartWriter for RunWriter {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), PortError> {
        if self.any_key && key <= self.last_key.as_slice() {
            return Err(PortError::broken(format!("keys of {} do not ascend", self.dir.display())));
        }
        self.any_key = true;
        self.check_room((key.len() + value.len()) as u64)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        let current = match &mut self.current {
            Some(current) => current,
            none => {
                let name = format!("{}.sst", run_name(self.part, self.runs.len()));
                let writer = start_run(&self.dir.join(&name))?;
                none.insert(Current { writer, name, entries: 0, bytes: 0 })
            }
        };
        current.writer.put(key, value).map_err(|error| rocks("writing a run", &error))?;
        current.entries += 1;
        current.bytes += (key.len() + value.len()) as u64;
        if current.bytes >= self.run_bytes { self.end_run() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<RunInfo>, PortError> {
        self.end_run()?;
        self.parts.finished(self.part, &self.runs);
        Ok(self.runs)
    }
}

/// Writes the entries, which ascend, as one table.
pub fn write_run(path: &Path, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), PortError> {
    let mut writer = start_run(path)?;
    for (key, value) in entries {
        writer.put(key, value).map_err(|error| rocks("writing a run", &error))?;
    }
    writer.finish().map_err(|error| rocks("ending a run", &error))
}

fn start_run(path: &Path) -> Result<SstFileWriter<'static>, PortError> {
    let writer = SstFileWriter::create(&RUNS);
    // The borrow of `open` lasts as long as the writer's options, which are for ever.
    writer.open(path).map_err(|error| rocks("starting a run", &error))?;
    Ok(writer)
}

/// Writes the file so that after a crash it is there whole or not at all.
fn write_durably(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    let mut file = File::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    let dir = path.parent().unwrap_or(Path::new("."));
    // The runs' names first, then the manifest's.
    sync_dir(dir)?;
    std::fs::rename(&unfinished, path)?;
    sync_dir(dir)?;
    sync_dir(dir.parent().unwrap_or(Path::new(".")))
}

fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}
