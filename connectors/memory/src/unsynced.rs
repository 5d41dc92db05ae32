//! What can be read and is not durable.

use crate::waiting::What;
use rand::Rng;
use rand::rngs::StdRng;
use rehome_keyspace::Offset;
use rehome_records::TopicPartition;
use std::collections::VecDeque;

/// A record that a power loss took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub partition: TopicPartition,
    pub offset: Offset,
    pub appended_ms: u64,
}

/// The records of all partitions that are not durable, in the order they were appended.
#[derive(Default)]
pub struct Unsynced {
    every_ms: Option<u64>,
    records: VecDeque<Lost>,
}

impl Unsynced {
    pub fn set_every_ms(&mut self, every_ms: Option<u64>) {
        self.every_ms = every_ms;
        if every_ms.is_none() {
            self.clear();
        }
    }

    /// Everything is durable now.
    pub fn clear(&mut self) {
        self.records.clear();
    }

    /// Notes an append. In the protocol lane it is durable, with everything before it.
    pub fn appended(&mut self, partition: &TopicPartition, offsets: &[Offset], what: What, now_ms: u64) {
        if self.every_ms.is_none() || what == What::AppendProtocol {
            return self.clear();
        }
        let lost = |offset: &Offset| Lost { partition: partition.clone(), offset: *offset, appended_ms: now_ms };
        self.records.extend(offsets.iter().map(lost));
    }

    /// A sync covers everything that is there once the oldest has waited for long enough.
    pub fn sync_what_is_due(&mut self, now_ms: u64) {
        let due = |oldest: &Lost| self.every_ms.is_none_or(|every_ms| oldest.appended_ms + every_ms <= now_ms);
        if self.records.front().is_some_and(due) {
            self.clear();
        }
    }

    /// Loses the newest by chance, none or all of them.
    pub fn lose(&mut self, rng: &mut StdRng) -> Vec<Lost> {
        let kept = rng.random_range(0..=self.records.len());
        let lost = self.records.split_off(kept);
        self.clear();
        lost.into()
    }
}
