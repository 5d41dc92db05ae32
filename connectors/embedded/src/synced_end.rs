//! How far the log is durable, kept beside it: so that damage below that is never taken for an end that a crash tore.
//!
//! ```text
//! file   two slots, 512 bytes apart, written in turn
//! slot   number of the last durable record: u64 BE | checksum of that: u32 BE
//! ```
//! Written only after the sync that it tells of, be that of a commit or of everything, so it is never ahead of what is
//! durable. Not synced itself: a power loss may leave an older number, or none, and then less damage is told; a slot that
//! is torn leaves the other one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const FILE: &str = "synced";
const SLOT_BYTES: usize = 12;
/// A disk writes so many bytes at once: a torn write of one slot leaves the other alone.
const SLOTS_APART: usize = 512;

/// Keeps the number of the last durable record.
pub struct SyncedEnd {
    path: PathBuf,
    file: Option<File>,
    newest: u64,
    /// Where the newest number lies not.
    slot: usize,
    /// Told once; what is kept stays true.
    failed: bool,
}

impl SyncedEnd {
    /// Goes on with what is kept in the folder. Nothing is written before the first number is.
    pub fn open(dir: &Path) -> SyncedEnd {
        let slots = slots(dir);
        let newest = slots.iter().flatten().max().copied();
        let slot = usize::from(newest.is_some() && slots[0] == newest);
        SyncedEnd { path: dir.join(FILE), file: None, newest: newest.unwrap_or(0), slot, failed: false }
    }

    /// Keeps the number, unless a higher one is kept. Requires that everything up to it is durable.
    pub fn keep(&mut self, sequence: u64) {
        if self.failed || sequence <= self.newest {
            return;
        }
        match self.write(sequence) {
            Ok(()) => {
                self.newest = sequence;
                self.slot = 1 - self.slot;
            }
            Err(error) => {
                self.failed = true;
                tracing::warn!(%error, file = %self.path.display(), "cannot keep how far the log is durable: damage may be taken for a torn end");
            }
        }
    }

    fn write(&mut self, sequence: u64) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?),
        };
        file.write_all_at(&encode(sequence), (self.slot * SLOTS_APART) as u64)
    }
}

/// Returns the number of the last record that is known to be durable; nothing when none is kept whole.
pub fn read(dir: &Path) -> Option<u64> {
    slots(dir).into_iter().flatten().max()
}

fn slots(dir: &Path) -> [Option<u64>; 2] {
    let bytes = std::fs::read(dir.join(FILE)).unwrap_or_default();
    [0, SLOTS_APART].map(|at| bytes.get(at..at + SLOT_BYTES).and_then(decode))
}

fn encode(sequence: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(&sequence.to_be_bytes());
    slot[8..].copy_from_slice(&crc32c::crc32c(&sequence.to_be_bytes()).to_be_bytes());
    slot
}

fn decode(slot: &[u8]) -> Option<u64> {
    let sequence = u64::from_be_bytes(slot.get(..8)?.try_into().ok()?);
    (encode(sequence) == slot).then_some(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_is_kept_through_openings() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        for (kept, newest) in [(5, 5), (7, 7), (6, 7), (1 << 40, 1 << 40)] {
            SyncedEnd::open(dir.path()).keep(kept);
            assert_eq!(read(dir.path()), Some(newest));
        }
        let mut end = SyncedEnd::open(dir.path());
        for more in 1..5 {
            end.keep((1 << 40) + more);
            assert_eq!(read(dir.path()), Some((1 << 40) + more));
        }
    }

    #[test]
    fn a_write_that_is_torn_at_any_byte_leaves_the_number_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let mut end = SyncedEnd::open(dir.path());
        [1_000, 2_000, 70_000].into_iter().for_each(|number| end.keep(number));
        for number in [0x0102_0304_0506_0708, 0x1112_1314_1516_1718] {
            let before = std::fs::read(&path).unwrap();
            let older = read(dir.path());
            SyncedEnd::open(dir.path()).keep(number);
            let after = std::fs::read(&path).unwrap();
            let changed: Vec<_> = (0..after.len()).filter(|at| before.get(*at) != Some(&after[*at])).collect();
            assert!(changed.len() > 8, "{changed:?}");
            for torn in 1..changed.len() {
                let mut bytes = before.clone();
                changed[..torn].iter().for_each(|at| bytes[*at] = after[*at]);
                std::fs::write(&path, bytes).unwrap();
                assert_eq!(read(dir.path()), older, "{torn} bytes written");
            }
            std::fs::write(&path, after).unwrap();
            assert_eq!(read(dir.path()), Some(number));
        }
    }

    #[test]
    fn a_file_of_anything_else_holds_no_number() {
        let dir = tempfile::tempdir().unwrap();
        for bytes in [vec![], vec![0; 600], vec![0xff; 600], b"text".to_vec()] {
            std::fs::write(dir.path().join(FILE), &bytes).unwrap();
            assert_eq!(read(dir.path()), None, "{bytes:?}");
        }
        SyncedEnd::open(dir.path()).keep(3);
        assert_eq!(read(dir.path()), Some(3));
    }
}
