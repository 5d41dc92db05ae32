//! Three tellings against each other: what clients were answered, what lies in the stores, what the logs say must be.

mod clients;
mod entries;

use crate::control::{ControlStory, KeyspaceStory};
use crate::findings::{Finding, Findings};
use crate::fingerprint::{Fingerprint, ValueHash};
use crate::fold::Folded;
use crate::history::ClientHistory;
use rehome_keyspace::{ShardId, SlotId, Version};
use rehome_records::{FirstAnswer, StateRegion};
use std::collections::BTreeMap;

/// A comparison under way. Requires that the logs were folded to the end, and that nothing was written since.
pub struct Comparison<'a> {
    story: &'a ControlStory,
    keyspace: &'a KeyspaceStory,
    folded: Folded,
    findings: Findings,
    /// By shard, as the fold has it and as its store has it: the sum of a hash of each entry that the shard owns.
    sums: BTreeMap<ShardId, (u128, u128)>,
    /// Slot states of each store, as its entries tell them, in order of keys.
    states: BTreeMap<ShardId, Vec<StateRegion>>,
    rows_visible: u64,
}

impl<'a> Comparison<'a> {
    /// Starts a comparison with what the control log itself tells: copies and cutovers with unequal digests.
    ///
    /// Requires that `folded` is the fold of one of the story's keyspaces.
    pub fn new(story: &'a ControlStory, folded: Folded) -> Comparison<'a> {
        let keyspace = &story.keyspaces[&folded.keyspace];
        let mut findings = Findings::default();
        for attempt in story.attempts.values().filter(|attempt| attempt.unequal_digests) {
            findings.note(Finding::DigestMismatch, || {
                format!(
                    "attempt {} of move {}: both sides reported different digests",
                    attempt.attempt, attempt.move_id
                )
            });
        }
        for moved in story.moves.values() {
            for _ in 0..moved.unequal_copies {
                findings.note(Finding::DigestMismatch, || {
                    format!(
                        "move {}: a copy read back at shard {} is not what was exported",
                        moved.id, moved.destination
                    )
                });
            }
        }
        let shards = (0..keyspace.shards).map(|shard| (ShardId(shard), (0, 0)));
        let sums = shards.collect();
        Comparison { story, keyspace, folded, findings, sums, states: BTreeMap::new(), rows_visible: 0 }
    }

    /// Holds what clients were answered against the fold.
    pub fn history(&mut self, history: &ClientHistory) {
        clients::compare(self, history);
    }

    /// Takes in one entry of the store of a shard. Requires every entry of each store, each store in key order.
    pub fn store_entry(&mut self, shard: ShardId, key: &[u8], value: &[u8]) {
        entries::compare(self, shard, key, value);
    }

    /// Returns what disagrees, and how many rows readers can see.
    ///
    /// Requires that every store was given whole: rows that were in none are lost.
    pub fn finish(mut self) -> (Findings, u64) {
        let rows = std::mem::take(&mut self.folded.rows);
        for (name, row) in &rows {
            let owner = self.owner(name.slot());
            if row.value.is_some() && !row.seen.at_owner {
                self.findings.note(Finding::Lost, || {
                    format!(
                        "row of slot {}, version {}: not in the store of its owner, shard {owner}",
                        name.slot(),
                        row.version
                    )
                });
            }
            self.sum_of_fold(*name, row_facts(row.version, row.value));
        }
        for (name, request) in std::mem::take(&mut self.folded.requests) {
            self.sum_of_fold(name, request_facts(request.content_hash, request.answer, request.version));
        }
        for (name, source) in std::mem::take(&mut self.folded.sources) {
            self.sum_of_fold(name, source_facts(source.position, source.version));
        }
        for (shard, (fold, store)) in &self.sums {
            if fold != store {
                self.findings.note(Finding::DigestMismatch, || {
                    format!("shard {shard}: sum {store:032x} over its store, {fold:032x} over the fold of the logs")
                });
            }
        }
        (self.findings, self.rows_visible)
    }

    fn owner(&self, slot: SlotId) -> ShardId {
        self.keyspace.routes[slot.0 as usize].0
    }

    fn sum_of_fold(&mut self, name: Fingerprint, facts: [u64; 4]) {
        let sum = &mut self.sums.entry(self.owner(name.slot())).or_default().0;
        *sum = sum.wrapping_add(name.with(&facts));
    }

    fn sum_of_store(&mut self, shard: ShardId, name: Fingerprint, facts: [u64; 4]) {
        let sum = &mut self.sums.entry(shard).or_default().1;
        *sum = sum.wrapping_add(name.with(&facts));
    }

    /// Returns the partition in which a write of that version lies; nothing when its epoch was never granted there.
    fn partition_of(&self, slot: SlotId, version: Version) -> Option<ShardId> {
        self.story.granted(self.keyspace, slot, version.epoch)
    }

    fn is_accepted(&self, slot: SlotId, version: Version) -> bool {
        self.partition_of(slot, version).is_some_and(|shard| self.folded.accepted.contains(shard, version.offset))
    }

    fn is_repeated(&self, slot: SlotId, version: Version) -> bool {
        self.partition_of(slot, version).is_some_and(|shard| self.folded.repeated.contains(shard, version.offset))
    }
}

fn row_facts(version: Version, value: Option<ValueHash>) -> [u64; 4] {
    [version.epoch.0, version.offset.0, ValueHash::number(value), 0]
}

fn request_facts(content_hash: u64, answer: FirstAnswer, version: Version) -> [u64; 4] {
    // An accepted request names its own version again; a failed condition names the version that was found.
    let found = match answer {
        FirstAnswer::Accepted { .. } => 1,
        FirstAnswer::ConditionFailed { current: None } => 2,
        FirstAnswer::ConditionFailed { current: Some(current) } => 3 + (current.epoch.0 << 40) + current.offset.0,
    };
    [version.epoch.0, version.offset.0, content_hash, found]
}

fn source_facts(position: u64, version: Version) -> [u64; 4] {
    [version.epoch.0, version.offset.0, position, 0]
}
