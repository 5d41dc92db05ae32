//! What a crash tore off the end of the log, or why it was no crash.
//!
//! A power loss may leave the writes that were not synced in any shape. RocksDB goes on before the first that is not
//! whole, whatever lies behind it. That is right for what was not synced; where synced records lie behind, it is damage,
//! and cutting them off would lose them silently. So the files are looked through before RocksDB opens them:
//! - under `Fsync::Always` one write at most is not synced, the last: a whole one behind a torn one is damage;
//! - where the folder is marked, as it is while `Fsync::Every` is in force, up to so many records may be cut;
//! - nothing may be cut up to the end that a sync is known to have made durable, as far as that is kept: under both.

use crate::disk::readable_end;
use crate::errors::OpenError;
use crate::synced_end;
use crate::syncs::UNSYNCED_RECORDS_MAX;
use crate::wal::{self, Contents};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Says that records may have been read and acknowledged that were not synced. There from before the first of them
/// until a clean end.
const MARK: &str = "unsynced";

/// What is cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub file: PathBuf,
    /// Where the log goes on being whole up to.
    pub at: usize,
    /// Bytes of the write that is torn there, as far as they are on disk.
    pub torn_bytes: usize,
    /// Bytes and records of whole writes behind it, which are cut off with it.
    pub beyond_bytes: usize,
    pub beyond_records: u64,
}

impl Cut {
    fn at(file: PathBuf, torn: Range<usize>) -> Cut {
        Cut { file, at: torn.start, torn_bytes: torn.len(), beyond_bytes: 0, beyond_records: 0 }
    }
}

/// Tells what will be cut off when the log is opened, if anything.
///
/// Errors: `Damaged` when records are not whole that were synced.
pub fn look(dir: &Path) -> Result<Option<Cut>, OpenError> {
    let mut cut: Option<Cut> = None;
    let mut damage = false;
    let synced_end = synced_end::read(dir);
    let was_synced = |sequence: u64| synced_end.is_some_and(|end| sequence <= end);
    let was_synced_beyond = |sequence: u64| was_synced(sequence + 1);
    let mut synced_is_lost = false;
    // Where the newest file ends, and the number of the record that comes there.
    let mut end: Option<(Cut, u64)> = None;
    for (number, path) in log_files(dir).map_err(|source| OpenError::Io { path: dir.to_path_buf(), source })? {
        let bytes = std::fs::read(&path).map_err(|source| OpenError::Io { path: path.clone(), source })?;
        let contents = wal::read(&bytes, number);
        let whole_up_to = contents.end();
        let Contents { writes, torn, beyond, next } = contents;
        let behind = match &mut cut {
            // Whatever follows a torn file goes with it.
            Some(_) => writes.iter().chain(&beyond).collect::<Vec<_>>(),
            none => {
                let at = torn.clone().or_else(|| beyond.first().map(|write| write.bytes.start..write.bytes.start));
                let Some(at) = at else {
                    end = next.map(|next| (Cut::at(path, whole_up_to..whole_up_to), next));
                    continue;
                };
                synced_is_lost = next.is_some_and(was_synced);
                *none = Some(Cut::at(path, at));
                beyond.iter().collect()
            }
        };
        let cut = cut.as_mut().expect("it was there or has just been set");
        for write in behind.into_iter().filter(|write| !write.filling) {
            cut.beyond_bytes += write.bytes.len();
            cut.beyond_records += u64::from(write.records);
            damage = true;
            synced_is_lost |= was_synced(write.sequence);
        }
    }
    let is_torn = cut.is_some();
    // What follows in the newest file is in no table: those are written only when the next file is begun.
    let cut = cut.or_else(|| end.filter(|(_, next)| was_synced(*next)).map(|(cut, _)| cut));
    let Some(cut) = cut else { return Ok(None) };
    synced_is_lost |= !is_torn || synced_end.is_some() && readable_end(dir).is_some_and(was_synced_beyond);
    let damaged = |why: String| OpenError::Damaged {
        dir: dir.to_path_buf(),
        reason: format!("{} is not whole at byte {}, {why}", cut.file.display(), cut.at),
    };
    if synced_is_lost {
        return Err(damaged(format!(
            "where everything was synced: {} whole records lie behind, and a sync is known to have gone up to number {} of all \
             that was written",
            cut.beyond_records,
            synced_end.unwrap_or_default()
        )));
    }
    if damage && !(is_marked(dir) && cut.beyond_records <= UNSYNCED_RECORDS_MAX) {
        return Err(damaged(format!("and {} records lie behind that were synced", cut.beyond_records)));
    }
    Ok(Some(cut))
}

/// Returns the write-ahead log files that hold something, with their numbers, oldest first.
pub fn log_files(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".log"));
        files.extend(name.and_then(|number| number.parse().ok()).map(|number| (number, path.clone())));
    }
    files.sort();
    Ok(files)
}

/// Tells whether records may have been read that were not synced.
pub fn is_marked(dir: &Path) -> bool {
    dir.join(MARK).exists()
}

/// Marks the folder, or takes the mark away, durably.
pub fn mark(dir: &Path, marked: bool) -> io::Result<()> {
    let path = dir.join(MARK);
    match marked {
        true => File::create(&path)?.sync_all()?,
        false if path.exists() => std::fs::remove_file(&path)?,
        false => return Ok(()),
    }
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests;
