//! One replica's sorted entries.

use crate::errors::{not_written, rocks};
use crate::guard::Guard;
use crate::options::unlogged;
use crate::reader::{Moment, Newest, is_empty};
use crate::run_writer::write_run;
use rehome_keyspace::KeyRange;
use rehome_ports::{Change, PortError, Reader, Run, SnapshotStore, Store, Visitor, WriteBatch};
use rehome_records::Manifest;
use rocksdb::{DB, FlushOptions, IngestExternalFileOptions, Options, Range, WaitForCompactOptions};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Folder for runs that do not come as files. What a crash leaves there is written over.
const ARRIVING: &str = "arriving";
/// Removals that are not in tables yet, of the two kinds of write buffers.
const UNFLUSHED_REMOVALS: [&str; 2] = ["rocksdb.num-deletes-active-mem-table", "rocksdb.num-deletes-imm-mem-tables"];

/// Entries of the whole store, as far as RocksDB can tell without reading them.
const ENTRIES: &str = "rocksdb.estimate-num-keys";

/// One replica's sorted entries.
pub struct RocksStore {
    db: DB,
    dir: PathBuf,
    guard: Option<Guard>,
}

impl RocksStore {
    pub fn open(dir: &Path, options: &Options, guard: Option<Guard>) -> Result<RocksStore, PortError> {
        let db = DB::open(options, dir).map_err(|error| rocks(&format!("opening {}", dir.display()), &error))?;
        Ok(RocksStore { db, dir: dir.to_path_buf(), guard })
    }

    /// Waits until nothing is left to do in the background. What is not flushed stays so.
    pub fn settle(&self) -> Result<(), PortError> {
        self.db.wait_for_compact(&WaitForCompactOptions::default()).map_err(|error| rocks("settling", &error))
    }

    /// Does what may make everything durable that was written.
    fn durably<T>(&self, act: impl FnOnce() -> Result<T, PortError>) -> Result<T, PortError> {
        match &self.guard {
            Some(guard) => guard.flush(act),
            None => act(),
        }
    }

    fn flush_buffers(&self) -> Result<(), PortError> {
        self.db.flush().map_err(|error| rocks("flushing", &error))
    }

    /// Makes room in a guarded store, without waiting until it is there.
    fn make_room(&self) -> Result<(), PortError> {
        let mut options = FlushOptions::default();
        options.set_wait(false);
        self.durably(|| self.db.flush_opt(&options).map_err(|error| rocks("flushing", &error)))
    }

    fn unflushed_removals(&self) -> Result<bool, PortError> {
        for name in UNFLUSHED_REMOVALS {
            let count = self.db.property_int_value(name).map_err(|error| rocks("reading a property", &error))?;
            if count.is_none_or(|count| count > 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the end of a range, made up for one that has none: just above the last key.
    fn end_of(&self, range: &KeyRange) -> Result<Vec<u8>, PortError> {
        if let Some(end) = &range.end {
            return Ok(end.clone());
        }
        let mut end = range.start.clone();
        self.scan(range, true, &mut |key, _| {
            end = key.to_vec();
            ControlFlow::Break(())
        })?;
        end.push(0);
        Ok(end)
    }

    /// Removes the ranges' entries, and flushes.
    fn wipe_now(&self, ranges: &[KeyRange]) -> Result<(), PortError> {
        let failed = |error: rocksdb::Error| rocks("wiping", &error);
        let mut removals = rocksdb::WriteBatch::default();
        for range in ranges {
            if !is_empty(&self.db, range)? {
                let end = self.end_of(range)?;
                // Whole tables go at once. This may bring older entries of the range back, until they are removed below;
                // nobody reads the range, and a crash in between leaves a wipe that is owed still.
                self.db.delete_file_in_range(&range.start, &end).map_err(failed)?;
                removals.delete_range(&range.start, &end);
            }
        }
        if removals.is_empty() {
            // Empty to a reader is not yet empty on disk: a crash could bring back what unflushed removals removed.
            return if self.unflushed_removals()? { self.flush_buffers() } else { Ok(()) };
        }
        self.db.write_opt(removals, &unlogged()).map_err(failed)?;
        // Flushed before anything is taken in there: taking in over an unflushed range removal stops every writer
        // for half a second.
        self.flush_buffers()
    }

    /// Takes in the tables: by name only where nothing is in the way.
    fn take_in(&self, tables: &[PathBuf]) -> Result<(), PortError> {
        if tables.is_empty() {
            return Ok(());
        }
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        options.set_allow_blocking_flush(false);
        if self.db.ingest_external_file_opts(&options, tables.to_vec()).is_ok() {
            return Ok(());
        }
        // Most likely something unflushed lies between the tables' first and last keys. RocksDB would flush it while
        // every writer waits: flush first, while they write on, so that little is left for that.
        self.flush_buffers()?;
        options.set_allow_blocking_flush(true);
        self.db.ingest_external_file_opts(&options, tables.to_vec()).map_err(|error| rocks("taking in runs", &error))
    }
}

impl Store for RocksStore {
    fn write(&self, batch: WriteBatch) -> Result<(), PortError> {
        let mut changes = rocksdb::WriteBatch::default();
        for change in &batch {
            match change {
                Change::Put { key, value } => changes.put(key, value),
                Change::Remove { key } => changes.delete(key),
            }
        }
        let write = || self.db.write_opt(changes, &unlogged()).map_err(|error| rocks("writing", &error));
        let Some(guard) = &self.guard else { return write() };
        if guard.is_full() {
            self.make_room()?;
        }
        guard.write(&batch, write)
    }

    fn estimate_entries(&self, ranges: &[KeyRange]) -> Result<u64, PortError> {
        let known = self.db.property_int_value(ENTRIES).map_err(|error| rocks("reading a property", &error))?;
        let mut ends = Vec::with_capacity(ranges.len());
        for range in ranges {
            ends.push(self.end_of(range)?);
        }
        let of_tables = |ranges: &[Range<'_>]| self.db.get_approximate_sizes(ranges).iter().sum::<u64>();
        let asked: Vec<_> = ranges.iter().zip(&ends).map(|(range, end)| Range::new(&range.start, end)).collect();
        // No store key starts with this byte.
        let all = of_tables(&[Range::new(&[], &[0xFF])]);
        // Without tables nothing tells where the entries lie: they count as if all were asked for.
        let share = if all == 0 { 1.0 } else { of_tables(&asked) as f64 / all as f64 };
        Ok((known.unwrap_or(0) as f64 * share.min(1.0)).round() as u64)
    }

    fn flush(&self) -> Result<(), PortError> {
        self.durably(|| self.flush_buffers())
    }

    fn snapshot(&self, look: &mut dyn FnMut(&dyn Reader) -> Result<(), PortError>) -> Result<(), PortError> {
        look(&Moment(self.db.snapshot()))
    }

    fn wipe(&self, ranges: &[KeyRange]) -> Result<(), PortError> {
        self.durably(|| self.wipe_now(ranges))
    }

    fn ingest(&self, snapshots: &dyn SnapshotStore, name: &str, manifest: &Manifest) -> Result<(), PortError> {
        let arriving = self.dir.join(ARRIVING);
        let mut tables = Vec::with_capacity(manifest.runs.len());
        for info in &manifest.runs {
            match snapshots.run(name, info)? {
                Run::SortedFile(path) => tables.push(path),
                Run::Entries(entries) => {
                    std::fs::create_dir_all(&arriving).map_err(|error| not_written(&arriving, &error))?;
                    let path = arriving.join(format!("{}.sst", tables.len()));
                    write_run(&path, &entries)?;
                    tables.push(path);
                }
            }
        }
        self.durably(|| self.take_in(&tables))
    }
}

impl Reader for RocksStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PortError> {
        Newest(&self.db).get(key)
    }

    fn scan(&self, range: &KeyRange, reverse: bool, visit: &mut Visitor<'_>) -> Result<(), PortError> {
        Newest(&self.db).scan(range, reverse, visit)
    }
}
