//! What of the written records is durable, and who makes the rest so.
//!
//! ```text
//! written   everything that can be read, counted
//! synced    of that, from the start on, what no power loss takes
//! ```
//! They differ only under `Fsync::Every`. Then a thread syncs at most so long after the oldest record that waits for it,
//! beside the committer, so that nobody who appends waits.

use crate::disk::Disk;
use rehome_ports::PortError;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Records that may wait for a sync. Bounds what damage could pass for a torn end, and how far offsets jump after one.
pub const UNSYNCED_RECORDS_MAX: u64 = 1 << 20;

/// What of the written records is durable.
#[derive(Default)]
pub struct Syncs {
    state: Mutex<State>,
    changed: Condvar,
    /// One sync at a time.
    syncing: Mutex<()>,
}

#[derive(Default)]
struct State {
    written: u64,
    synced: u64,
    /// When the oldest record that is not synced was written, or earlier.
    since: Option<Instant>,
    stopped: bool,
    /// Set once: what a failed sync left on disk is not known, so the log has stopped.
    failed: Option<PortError>,
}

impl Syncs {
    /// Counts records that were just written, before they can be read.
    pub fn wrote(&self, records: u64, synced: bool) {
        let mut state = self.lock();
        state.written += records;
        if synced {
            // One thread writes: its synced write comes after all its others.
            state.synced = state.written;
            state.since = None;
        } else if state.since.is_none() {
            state.since = Some(Instant::now());
            self.changed.notify_all();
        }
    }

    /// Returns how many written records are not durable.
    pub fn unsynced(&self) -> u64 {
        let state = self.lock();
        state.written - state.synced
    }

    /// Returns why nothing can be made durable any more, if so.
    pub fn failed(&self) -> Option<PortError> {
        self.lock().failed.clone()
    }

    /// Makes durable what is written now.
    pub fn sync(&self, disk: &Disk) -> Result<(), PortError> {
        let wanted = self.lock().written;
        let _one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (covered, began) = {
            let state = self.lock();
            if let Some(error) = state.failed.clone() {
                return Err(error);
            }
            if state.synced >= wanted {
                return Ok(());
            }
            (state.written, Instant::now())
        };
        let result = disk.sync();
        let mut state = self.lock();
        match result {
            Ok(()) => {
                state.synced = state.synced.max(covered);
                state.since = (state.written > state.synced).then_some(began);
                Ok(())
            }
            Err(error) => {
                let error = PortError::broken(format!("the log has stopped: {error}"));
                Err(state.failed.get_or_insert(error).clone())
            }
        }
    }

    /// Syncs whenever a record has waited for so long, until stopped.
    ///
    /// Errors: the first sync that failed.
    pub fn run(&self, disk: &Disk, every: Duration) -> Result<(), PortError> {
        let mut state = self.lock();
        while !state.stopped {
            let now = Instant::now();
            state = match state.since.map(|since| since + every) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > now => {
                    self.changed.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    drop(state);
                    self.sync(disk)?;
                    self.lock()
                }
            };
        }
        Ok(())
    }

    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
