//! Which records of the partition are older than request ids are kept, by the log's own time.
//!
//! A sample of (time, offset) is taken now and then; it lies in the store, in the batch of the record it was taken of.
//! So what is too old is a function of the partition's prefix, whatever was restarted.

use rehome_keyspace::Offset;
use rehome_records::store_value::{StoredTimes, TimeSample};

/// Samples in one retention. Reason: what is too old is known a twenty-fourth of the retention late, at most.
const SAMPLES_PER_RETENTION: u64 = 24;

/// The samples of one partition.
pub(crate) struct Times {
    retention_ms: u64,
    stored: StoredTimes,
    changed: bool,
}

impl Times {
    pub fn new(retention_ms: u64, stored: StoredTimes) -> Times {
        Times { retention_ms, stored, changed: false }
    }

    /// Takes a sample of the record that was just applied, if the last one is old enough. `time_ms` is the running
    /// maximum of append times.
    pub fn note(&mut self, offset: Offset, time_ms: u64) {
        let step_ms = self.retention_ms.div_ceil(SAMPLES_PER_RETENTION).max(1);
        let samples = &mut self.stored.samples;
        if samples.last().is_some_and(|last| time_ms < last.time_ms.saturating_add(step_ms)) {
            return;
        }
        samples.push(TimeSample { time_ms, offset });
        // Of those that are too old the newest tells all. So there are never more than one retention holds, and two.
        let old = samples.iter().take_while(|sample| is_old(sample, self.retention_ms, time_ms)).count();
        samples.drain(..old.saturating_sub(1));
        debug_assert!(samples.len() as u64 <= SAMPLES_PER_RETENTION + 2, "samples lie a step apart");
        self.changed = true;
    }

    /// Returns the newest offset that is known to be older than the retention, with all before it.
    pub fn horizon(&self, time_ms: u64) -> Option<Offset> {
        let old = self.stored.samples.iter().take_while(|sample| is_old(sample, self.retention_ms, time_ms));
        old.last().map(|sample| sample.offset)
    }

    /// Returns what is to be stored, if it has changed since it was last taken.
    pub fn take_changed(&mut self) -> Option<&StoredTimes> {
        std::mem::take(&mut self.changed).then_some(&self.stored)
    }
}

fn is_old(sample: &TimeSample, retention_ms: u64, time_ms: u64) -> bool {
    sample.time_ms.saturating_add(retention_ms) <= time_ms
}
