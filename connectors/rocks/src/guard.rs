//! Lets nothing become durable before the log is.
//!
//! RocksDB flushes when its write buffers fill, and asks nobody. So a guarded store never lets them fill: it flushes
//! itself, far below what RocksDB would flush at, and calls the guard first. Only writes, flushes, wipes and ingests
//! make RocksDB flush, and all of them pass here; closing flushes nothing.
//!
//! ```text
//! flush   raise the flag | call the guard                   | RocksDB switches to a new write buffer, writes the old
//! write                  ^ flag is up: call the guard first ^ lower the flag
//! ```
//! What was written before the flag went up is covered by the flush's own call, what is written later by the writer's.

use crate::node::Memory;
use rehome_ports::{BeforeFlush, Change, PortError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes that an entry takes in a write buffer beyond its key and value.
const ENTRY_BYTES: usize = 64;
/// RocksDB flushes by itself at so many times what a guarded store flushes at.
pub const MARGIN: usize = 16;

/// Stands before everything that becomes durable in one store.
pub struct Guard {
    before_flush: BeforeFlush,
    memory: Memory,
    /// Bytes in the write buffer of this store, and in those of all stores of the node.
    mine: AtomicUsize,
    all: Arc<AtomicUsize>,
    /// Flushes under way.
    flushing: AtomicUsize,
    /// Held shared by each write, so that a flag that is up is seen by every write that comes after.
    writing: RwLock<()>,
}

impl Guard {
    pub fn new(before_flush: BeforeFlush, memory: Memory, all: Arc<AtomicUsize>) -> Guard {
        Guard {
            before_flush,
            memory,
            mine: AtomicUsize::new(0),
            all,
            flushing: AtomicUsize::new(0),
            writing: RwLock::new(()),
        }
    }

    /// Does what may make everything durable that was written.
    pub fn flush<T>(&self, act: impl FnOnce() -> Result<T, PortError>) -> Result<T, PortError> {
        self.flushing.fetch_add(1, Ordering::SeqCst);
        drop(self.writing.write().unwrap_or_else(PoisonError::into_inner));
        let mine = self.mine.load(Ordering::SeqCst);
        let done = (self.before_flush)().and_then(|()| act());
        if done.is_ok() {
            for count in [&self.mine, &*self.all] {
                // Two flushes at once may both count the same bytes.
                let _ = count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_sub(mine)));
            }
        }
        self.flushing.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// Writes so many changes, once what they follow from may become durable, if a flush is under way.
    pub fn write<T>(&self, changes: &[Change], act: impl FnOnce() -> Result<T, PortError>) -> Result<T, PortError> {
        let _writing = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        if self.flushing.load(Ordering::SeqCst) > 0 {
            (self.before_flush)()?;
        }
        let bytes: usize = changes.iter().map(bytes).sum();
        self.mine.fetch_add(bytes, Ordering::SeqCst);
        self.all.fetch_add(bytes, Ordering::SeqCst);
        act()
    }

    /// Tells whether the store is to be flushed before it is written to.
    pub fn is_full(&self) -> bool {
        let (mine, all) = (self.mine.load(Ordering::SeqCst), self.all.load(Ordering::SeqCst));
        // Of many stores the larger ones make room.
        mine >= self.memory.write_buffer_bytes || all >= self.memory.write_buffers_bytes && mine >= all / 8
    }
}

impl Drop for Guard {
    /// What it counted is in no write buffer any more.
    fn drop(&mut self) {
        let mine = self.mine.load(Ordering::SeqCst);
        let _ = self.all.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_sub(mine)));
    }
}

fn bytes(change: &Change) -> usize {
    ENTRY_BYTES
        + match change {
            Change::Put { key, value } => key.len() + value.len(),
            Change::Remove { key } => key.len(),
        }
}
