//! The Store port in memory. A crash loses what was not flushed.

use rand::{Rng, RngCore};
use rehome_keyspace::KeyRange;
use rehome_ports::{BeforeFlush, Change, PortError, Reader, Run, SnapshotStore, Store, Visitor, WriteBatch};
use rehome_records::Manifest;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Entries in memory, and what of them would survive a crash.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    before_flush: Option<BeforeFlush>,
}

#[derive(Default)]
struct State {
    /// What readers see. Shared with snapshots, copied when written while one is held.
    seen: Arc<Entries>,
    /// What a crash leaves at least.
    durable: Entries,
    /// What was written since, batch by batch.
    unflushed: Vec<WriteBatch>,
    /// How many entries the next wipe or ingest gets done before it is cut short.
    cut_short_after: Option<usize>,
}

impl MemoryStore {
    pub fn new() -> Arc<MemoryStore> {
        Arc::new(MemoryStore::default())
    }

    /// Returns an empty store that calls that before anything in it becomes durable.
    pub fn guarded(before_flush: BeforeFlush) -> Arc<MemoryStore> {
        Arc::new(MemoryStore { before_flush: Some(before_flush), ..MemoryStore::default() })
    }

    /// Loses everything that is not flushed: whatever it had flushed by itself, it had done before.
    pub fn lose_power(&self) {
        let mut state = self.lock();
        state.unflushed.clear();
        state.seen = Arc::new(state.durable.clone());
        state.cut_short_after = None;
    }

    fn before_flush(&self) -> Result<(), PortError> {
        self.before_flush.as_ref().map_or(Ok(()), |before_flush| before_flush())
    }

    /// Loses the last few unflushed batches, by chance none or all of them, as a crash does.
    pub fn crash(&self, rng: &mut dyn RngCore) {
        let mut state = self.lock();
        let mut kept = rng.random_range(0..=state.unflushed.len());
        // What survives was flushed before the crash.
        if kept > 0 && self.before_flush().is_err() {
            kept = 0;
        }
        state.unflushed.truncate(kept);
        state.flush();
        state.seen = Arc::new(state.durable.clone());
        state.cut_short_after = None;
    }

    /// Cuts the next wipe or ingest short after so many entries: it returns `Unknown`, and its caller must crash.
    pub fn cut_short_next(&self, entries: usize) {
        self.lock().cut_short_after = Some(entries);
    }

    /// Returns how many batches a crash could lose.
    pub fn unflushed(&self) -> usize {
        self.lock().unflushed.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) -> View {
        View(Arc::clone(&self.lock().seen))
    }
}

impl State {
    fn flush(&mut self) {
        for batch in self.unflushed.drain(..) {
            apply(&mut self.durable, batch);
        }
    }

    /// Makes durable changes, all or as many as the next fault lets through.
    fn change_durably(&mut self, changes: WriteBatch) -> Result<(), PortError> {
        let count = self.cut_short_after.take().map_or(changes.len(), |after| after.min(changes.len()));
        let cut_short = count < changes.len();
        let done: WriteBatch = changes.into_iter().take(count).collect();
        apply(Arc::make_mut(&mut self.seen), done.clone());
        apply(&mut self.durable, done);
        if cut_short { Err(PortError::unknown(format!("cut short after {count} entries"))) } else { Ok(()) }
    }
}

impl Store for MemoryStore {
    fn write(&self, batch: WriteBatch) -> Result<(), PortError> {
        let mut state = self.lock();
        apply(Arc::make_mut(&mut state.seen), batch.clone());
        state.unflushed.push(batch);
        Ok(())
    }

    fn estimate_entries(&self, ranges: &[KeyRange]) -> Result<u64, PortError> {
        let seen = self.look().0;
        Ok(ranges.iter().map(|range| entries_in(&seen, range).count() as u64).sum())
    }

    fn flush(&self) -> Result<(), PortError> {
        let mut state = self.lock();
        self.before_flush()?;
        state.flush();
        Ok(())
    }

    fn snapshot(&self, look: &mut dyn FnMut(&dyn Reader) -> Result<(), PortError>) -> Result<(), PortError> {
        look(&self.look())
    }

    fn wipe(&self, ranges: &[KeyRange]) -> Result<(), PortError> {
        let mut state = self.lock();
        self.before_flush()?;
        // As on disk: what makes the wipe durable makes everything before it durable too.
        state.flush();
        let seen = Arc::clone(&state.seen);
        let removes = ranges.iter().flat_map(|range| entries_in(&seen, range));
        let changes = removes.map(|(key, _)| Change::Remove { key: key.clone() }).collect();
        drop(seen);
        state.change_durably(changes)
    }

    fn ingest(&self, snapshots: &dyn SnapshotStore, name: &str, manifest: &Manifest) -> Result<(), PortError> {
        let mut changes = WriteBatch::new();
        for run in &manifest.runs {
            match snapshots.run(name, run)? {
                Run::Entries(entries) => {
                    changes.extend(entries.into_iter().map(|(key, value)| Change::Put { key, value }));
                }
                Run::SortedFile(path) => {
                    return Err(PortError::broken(format!("a store in memory cannot take in {}", path.display())));
                }
            }
        }
        let mut state = self.lock();
        let ingested = |key: &Vec<u8>| {
            let below = changes.first().is_some_and(|first| key < key_of(first));
            let above = changes.last().is_none_or(|last| key > key_of(last));
            !below && !above
        };
        // As a store on disk does: older batches in the way become durable first, others may still be lost.
        if state.unflushed.iter().flatten().any(|change| ingested(key_of(change))) {
            self.before_flush()?;
            state.flush();
        }
        state.change_durably(changes)
    }
}

impl Reader for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PortError> {
        self.look().get(key)
    }

    fn scan(&self, range: &KeyRange, reverse: bool, visit: &mut Visitor<'_>) -> Result<(), PortError> {
        self.look().scan(range, reverse, visit)
    }
}

/// The entries at one moment.
struct View(Arc<Entries>);

impl Reader for View {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PortError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, range: &KeyRange, reverse: bool, visit: &mut Visitor<'_>) -> Result<(), PortError> {
        let mut entries = entries_in(&self.0, range);
        while let Some((key, value)) = if reverse { entries.next_back() } else { entries.next() } {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn entries_in<'a>(
    entries: &'a Entries,
    range: &KeyRange,
) -> impl DoubleEndedIterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> + use<'a> {
    let end = range.end.clone().map_or(Bound::Unbounded, |end| Bound::Excluded(end.max(range.start.clone())));
    entries.range((Bound::Included(range.start.clone()), end))
}

fn apply(entries: &mut Entries, batch: WriteBatch) {
    for change in batch {
        match change {
            Change::Put { key, value } => entries.insert(key, value),
            Change::Remove { key } => entries.remove(&key),
        };
    }
}

fn key_of(change: &Change) -> &Vec<u8> {
    match change {
        Change::Put { key, .. } | Change::Remove { key } => key,
    }
}
