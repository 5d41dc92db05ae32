//! Records of one partition, with gaps between them.

use rand::Rng;
use rand::rngs::StdRng;
use rehome_keyspace::Offset;
use rehome_ports::{Batch, PortError, ReadLimits, Waker};
use rehome_records::{Logged, Record};
use std::collections::BTreeMap;

use crate::broker::Faults;

/// One partition: what was appended, and who follows it.
#[derive(Default)]
pub struct Partition {
    records: BTreeMap<Offset, Logged>,
    start: Offset,
    /// Above every record, and above the gap that may follow the last one.
    end: Offset,
    last_append_time_ms: u64,
    /// Tails by number, each with its handle's number.
    pub tails: BTreeMap<u64, (u64, Waker)>,
}

impl Partition {
    /// Appends the records, leaving gaps by chance; returns their offsets.
    pub fn append(
        &mut self,
        records: impl IntoIterator<Item = Record>,
        now_ms: u64,
        faults: Faults,
        rng: &mut StdRng,
    ) -> Vec<Offset> {
        let append_time_ms = self.last_append_time_ms.max(now_ms);
        self.last_append_time_ms = append_time_ms;
        let mut offsets = Vec::new();
        for record in records {
            let offset = self.end;
            self.records.insert(offset, Logged { offset, append_time_ms, record });
            offsets.push(offset);
            self.end = offset.next();
            self.leave_gap(faults, rng);
        }
        offsets
    }

    /// Leaves a gap at the end by chance, as an aborted transaction does.
    pub fn leave_gap(&mut self, faults: Faults, rng: &mut StdRng) {
        if faults.gap_len_max > 0 && rng.random_range(0..1000) < faults.gaps_per_mille {
            self.end = Offset(self.end.0 + rng.random_range(1..=faults.gap_len_max));
        }
    }

    pub fn start(&self) -> Offset {
        self.start
    }

    pub fn end(&self) -> Offset {
        self.end
    }

    /// Returns all that is kept, in order.
    pub fn records(&self) -> impl Iterator<Item = &Logged> {
        self.records.values()
    }

    /// Returns what lies from `from` on and was appended at or before `visible_until_ms`.
    ///
    /// Errors: `Broken` when `from` was trimmed away or lies beyond the end.
    pub fn read(&self, from: Offset, limits: ReadLimits, visible_until_ms: u64) -> Result<Batch, PortError> {
        if from < self.start {
            return Err(PortError::broken(format!("offset {from} was trimmed, the log starts at {}", self.start)));
        }
        if from > self.end {
            return Err(PortError::broken(format!("offset {from} lies beyond the end {}", self.end)));
        }
        let mut batch = Batch { records: Vec::new(), next: from };
        let mut bytes = 0;
        for logged in self.records.range(from..).map(|(_, logged)| logged) {
            let full = batch.records.len() >= limits.records_max || bytes >= limits.bytes_max;
            if full || logged.append_time_ms > visible_until_ms {
                return Ok(batch);
            }
            bytes += logged.record.bytes();
            batch.next = logged.offset.next();
            batch.records.push(logged.clone());
        }
        batch.next = self.end;
        Ok(batch)
    }

    /// Loses the record at that offset; a gap is left.
    pub fn lose(&mut self, offset: Offset) {
        self.records.remove(&offset);
    }

    /// Forgets the records below that offset.
    pub fn trim(&mut self, before: Offset) {
        let before = before.min(self.end);
        if before > self.start {
            self.start = before;
            self.records = self.records.split_off(&before);
        }
    }
}
