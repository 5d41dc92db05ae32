//! The only user of RocksDB here.
//!
//! ```text
//! family default      topic/NAME            number of partitions: u32 BE | those with a family: u32 BE, unless all
//!                     start/NAME/PARTITION  lowest offset kept: u64 BE | latest append time before it, ms: u64 BE
//!                     next/NAME/PARTITION   lowest offset to give after opening, if above the last record: u64 BE
//! families            see [`crate::families`]
//! ```

mod topics;

use crate::errors::{OpenError, port_error};
use crate::families::{Families, Place};
use crate::frames::{Frames, decode};
use crate::holder::Holder;
use crate::options;
use crate::synced_end::SyncedEnd;
use crate::tear;
use rehome_keyspace::Offset;
use rehome_ports::{Batch, PortError, ReadLimits};
use rehome_records::{Logged, TopicPartition};
use rocksdb::{
    BoundColumnFamily, Cache, ColumnFamilyDescriptor, DB, DBWithThreadMode, FlushOptions, MultiThreaded, ReadOptions,
    WriteBatch, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const TOPIC: &str = "topic/";
const START: &str = "start/";
const NEXT: &str = "next/";
/// Family that holds what fills the log files made ahead, for as long as that takes. No topic has this name: a
/// partition's family has a slash.
const AHEAD: &str = "ahead";
/// What fills the log files made ahead: whoever reads such a file knows it.
pub const FILLING: &[u8; 32] = b"no record, only room made ahead\n";

/// Records on disk.
pub struct Disk {
    db: DBWithThreadMode<MultiThreaded>,
    cache: Cache,
    /// Families that were there at the start.
    found: Vec<String>,
    synced: WriteOptions,
    unsynced: WriteOptions,
    /// Every write up to this number is durable. It is what a test may take away at most.
    synced_sequence: AtomicU64,
    /// The same for a later opening.
    synced_end: Mutex<SyncedEnd>,
    families: Families,
    /// Held by whoever writes, until it is noted what of it is durable: so no synced write takes one for durable that is
    /// not. And once it was held, nobody writes to a partition any more that was removed before.
    committing: Mutex<()>,
    /// Given back last: fields are dropped in order.
    _holder: Holder,
}

/// Where a partition stands on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub start: Offset,
    pub end: Offset,
    /// Append time of the last record, in milliseconds since 1970.
    pub last_append_time_ms: u64,
}

impl Disk {
    /// Opens what is in the folder, or starts anew.
    ///
    /// Errors: `Held` when another process has it open.
    pub fn open(dir: &Path, log_file_bytes: usize) -> Result<Disk, OpenError> {
        std::fs::create_dir_all(dir).map_err(|source| OpenError::Io { path: dir.to_path_buf(), source })?;
        let holder = Holder::take(dir)?;
        let cut = tear::look(dir)?;
        let rocks = |source| OpenError::Rocks { dir: dir.to_path_buf(), source };
        let options = options::database();
        let families = match dir.join("CURRENT").exists() {
            true => DB::list_cf(&options, dir).map_err(rocks)?,
            false => vec!["default".to_string()],
        };
        let cache = options::cache();
        let descriptors = families.iter().map(|family| ColumnFamilyDescriptor::new(family, options::partition(&cache)));
        let db = DBWithThreadMode::open_cf_descriptors(&options, dir, descriptors).map_err(rocks)?;
        if let Some(cut) = cut {
            tracing::warn!(
                file = %cut.file.display(),
                at = cut.at,
                torn_bytes = cut.torn_bytes,
                whole_bytes_behind = cut.beyond_bytes,
                whole_records_behind = cut.beyond_records,
                "the log is not whole at its end and is cut there: only what was not synced is lost, unless the disk itself lost more"
            );
        }
        let mut unsynced = WriteOptions::default();
        unsynced.set_memtable_insert_hint_per_batch(true);
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        synced.set_memtable_insert_hint_per_batch(true);
        let synced_sequence = AtomicU64::new(db.latest_sequence_number());
        let disk = Disk {
            db,
            cache,
            found: families,
            synced,
            unsynced,
            synced_sequence,
            synced_end: Mutex::new(SyncedEnd::open(dir)),
            families: Families::default(),
            committing: Mutex::new(()),
            _holder: holder,
        };
        let damaged = |error: PortError| OpenError::Damaged { dir: dir.to_path_buf(), reason: error.message };
        disk.read_topics().map_err(damaged)?;
        disk.write_log_files_ahead(log_file_bytes).map_err(rocks)?;
        Ok(disk)
    }

    /// Leaves a few write-ahead log files to be written over.
    ///
    /// Why: syncing a file that grows waits for the file system's journal, and with it for every other file that is
    /// being synced or removed: 50 to 160 ms were seen while tables were written beside it. Syncing blocks that exist
    /// waits for the disk alone. RocksDB keeps log files for that, but only of its present life, so they are made anew.
    fn write_log_files_ahead(&self, log_file_bytes: usize) -> Result<(), rocksdb::Error> {
        let family = |db: &DBWithThreadMode<MultiThreaded>| db.cf_handle(AHEAD).is_some();
        if !family(&self.db) {
            self.db.create_cf(AHEAD, &options::partition(&self.cache))?;
        }
        let chunk = FILLING.repeat((1 << 20) / FILLING.len());
        for _ in 0..options::LOG_FILES_AHEAD {
            if let Some(family) = self.db.cf_handle(AHEAD) {
                for number in 0..(log_file_bytes >> 20) {
                    self.db.put_cf(&family, number.to_be_bytes(), &chunk)?;
                }
                self.db.flush_cf(&family)?;
            }
        }
        self.db.drop_cf(AHEAD)
    }

    /// Returns where the partition stands.
    pub fn extent(&self, partition: &TopicPartition) -> Result<Extent, PortError> {
        let failed = |error: rocksdb::Error| port_error(&format!("opening {partition}"), &error);
        let mut extent = Extent::default();
        if let Some(value) = self.db.get(start_key(partition)).map_err(failed)? {
            let (start, time) = value.split_at_checked(8).unwrap_or_default();
            extent.start = Offset(number(start, partition)?);
            extent.end = extent.start;
            extent.last_append_time_ms = number(time, partition)?;
        }
        if let Some(next) = self.db.get(next_key(partition)).map_err(failed)? {
            extent.end = extent.end.max(Offset(number(&next, partition)?));
        }
        let (place, family) = self.place(partition)?;
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(place.key(Offset(0)));
        let mut newest = self.db.raw_iterator_cf_opt(&family, options);
        newest.seek_for_prev(place.key(Offset(u64::MAX)));
        if let Some((key, value)) = newest.item() {
            let last = read(partition, &place, key, value)?;
            extent.end = extent.end.max(last.offset.next());
            extent.last_append_time_ms = extent.last_append_time_ms.max(last.append_time_ms);
        }
        newest.status().map_err(failed)?;
        Ok(extent)
    }

    /// Writes down durably from which offset each partition goes on when it is opened again.
    pub fn reserve<'a>(&self, ends: impl Iterator<Item = (&'a TopicPartition, Offset)>) -> Result<(), PortError> {
        let mut batch = WriteBatch::default();
        ends.for_each(|(partition, next)| batch.put(next_key(partition), next.0.to_be_bytes()));
        self.write_synced(batch).map_err(|error| port_error("reserving offsets", &error))
    }

    /// Writes the records, all or none of them, each group from that offset on. When `synced`, they are durable then,
    /// with everything before them.
    pub fn commit<'a>(
        &self,
        groups: impl Iterator<Item = (&'a TopicPartition, Offset, &'a Frames)>,
        synced: bool,
    ) -> Result<(), PortError> {
        let _committing = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = WriteBatch::default();
        for (partition, first, frames) in groups {
            let (place, family) = self.place(partition)?;
            for (offset, frame) in (first.0..).zip(frames.iter()) {
                batch.put_cf(&family, place.key(Offset(offset)), frame);
            }
        }
        // Part of it may reach the disk although the sync failed.
        let options = if synced { &self.synced } else { &self.unsynced };
        self.db.write_opt(batch, options).map_err(|error| PortError::unknown(format!("committing: {error}")))?;
        if synced {
            self.note_synced(self.db.latest_sequence_number());
        }
        Ok(())
    }

    /// Writes the batch, durably, with everything before it.
    fn write_synced(&self, batch: WriteBatch) -> Result<(), rocksdb::Error> {
        let _committing = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        self.db.write_opt(batch, &self.synced)?;
        self.note_synced(self.db.latest_sequence_number());
        Ok(())
    }

    /// Takes that everything up to this write is durable.
    fn note_synced(&self, sequence: u64) {
        self.synced_sequence.fetch_max(sequence, Ordering::SeqCst);
        self.synced_end.lock().unwrap_or_else(PoisonError::into_inner).keep(sequence);
    }

    /// Makes everything durable that was written before.
    pub fn sync(&self) -> Result<(), PortError> {
        // Only what was written before the sync began: others may write meanwhile.
        let sequence = self.db.latest_sequence_number();
        self.db.flush_wal(true).map_err(|error| PortError::broken(format!("syncing: {error}")))?;
        self.note_synced(sequence);
        Ok(())
    }

    /// Returns the number of the last write that is known to be durable.
    pub fn synced_sequence(&self) -> u64 {
        self.synced_sequence.load(Ordering::SeqCst)
    }

    /// Returns the records with `from <= offset < end`, as many as the limits let through.
    pub fn read(
        &self,
        partition: &TopicPartition,
        from: Offset,
        end: Offset,
        limits: ReadLimits,
    ) -> Result<Batch, PortError> {
        let (place, family) = self.place(partition)?;
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(place.key(end));
        let mut records = self.db.raw_iterator_cf_opt(&family, options);
        records.seek(place.key(from));
        let mut batch = Batch { records: Vec::new(), next: from };
        let mut bytes = 0;
        while let Some((key, value)) = records.item() {
            if batch.records.len() >= limits.records_max || bytes >= limits.bytes_max {
                return Ok(batch);
            }
            let logged = read(partition, &place, key, value)?;
            bytes += logged.record.bytes();
            batch.next = logged.offset.next();
            batch.records.push(logged);
            records.next();
        }
        records.status().map_err(|error| port_error(&format!("reading {partition}"), &error))?;
        batch.next = end;
        Ok(batch)
    }

    /// Writes down that the partition starts at `extent.start`, then gives back the files below.
    pub fn trim(&self, partition: &TopicPartition, extent: Extent) -> Result<(), PortError> {
        let failed = |error: rocksdb::Error| port_error(&format!("trimming {partition}"), &error);
        let mut value = extent.start.0.to_be_bytes().to_vec();
        value.extend_from_slice(&extent.last_append_time_ms.to_be_bytes());
        let (place, family) = self.place(partition)?;
        let mut batch = WriteBatch::default();
        batch.put(start_key(partition), value);
        if place.is_shared() {
            // Its tables hold records of others, too: they go when those are written anew.
            batch.delete_range_cf(&family, place.key(Offset(0)), place.key(extent.start));
        }
        self.write_synced(batch).map_err(failed)?;
        // Whole files only, and RocksDB counts the last key of the range as in it. What is left of the last file is
        // never read again, and goes with a later trim.
        let Some(last) = extent.start.0.checked_sub(1) else { return Ok(()) };
        self.db.delete_file_in_range_cf(&family, place.key(Offset(0)), place.key(Offset(last))).map_err(failed)
    }

    /// Moves everything from the write-ahead log to tables, so that opening again reads nothing back.
    pub fn flush(&self) -> Result<(), PortError> {
        let failed = |error: rocksdb::Error| port_error("flushing", &error);
        self.db.flush().map_err(failed)?;
        for family in self.families.all() {
            // One that is not there is told by whoever reads it.
            if let Some(family) = self.db.cf_handle(&family) {
                self.db.flush_cf_opt(&family, &FlushOptions::default()).map_err(failed)?;
            }
        }
        Ok(())
    }

    pub fn path(&self) -> PathBuf {
        self.db.path().to_path_buf()
    }

    fn place(&self, partition: &TopicPartition) -> Result<(Place, Arc<BoundColumnFamily<'_>>), PortError> {
        let lost = || PortError::broken(format!("{partition} is registered, but its records are gone"));
        let place = self.families.of(&partition.topic).place(partition);
        let family = self.db.cf_handle(place.family()).ok_or_else(lost)?;
        Ok((place, family))
    }
}

/// Returns the number of the last record that an opening would find, or a higher one: the manifest may name one that
/// only the log had. Changes nothing.
pub fn readable_end(dir: &Path) -> Option<u64> {
    let found = DB::open_for_read_only(&options::database(), dir, false);
    found.ok().map(|db| db.latest_sequence_number())
}

fn start_key(partition: &TopicPartition) -> String {
    format!("{START}{partition}")
}

fn next_key(partition: &TopicPartition) -> String {
    format!("{NEXT}{partition}")
}

fn number(bytes: &[u8], partition: &TopicPartition) -> Result<u64, PortError> {
    let damaged = |_| PortError::broken(format!("the start of {partition} is damaged"));
    bytes.try_into().map(u64::from_be_bytes).map_err(damaged)
}

fn read(partition: &TopicPartition, place: &Place, key: &[u8], value: &[u8]) -> Result<Logged, PortError> {
    let offset = place.offset(key).ok_or_else(|| PortError::broken(format!("{partition} has a damaged key")))?;
    decode(partition, offset, value)
}

#[cfg(test)]
mod tests;
