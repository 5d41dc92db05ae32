//! One partition, read in order: its marks, and the grounds on which a write's epoch is judged.

use super::{FoldError, Folded};
use crate::control::{AttemptStory, ControlStory, Grant, KeyspaceStory};
use rehome_keyspace::{AttemptId, Epoch, KeyRange, Offset, Outcome, ShardId, SlotId, Version};
use rehome_records::data::AttemptMark;
use rehome_records::{DataRecord, Logged, Mark};
use std::collections::BTreeSet;

pub(super) struct Partition<I> {
    shard: ShardId,
    records: I,
    /// Read, and waiting for a fence elsewhere.
    held: Option<(Offset, DataRecord)>,
    done: bool,
    /// By slot: the latest epoch for which a fence was read here; everything below is over.
    fenced: Vec<Epoch>,
    /// Attempts whose mark was read here, `Open` at the destination, `Fence` at the source.
    introduced: BTreeSet<AttemptId>,
}

impl<I: Iterator<Item = Result<Logged, String>>> Partition<I> {
    pub fn new(shard: ShardId, slots: usize, records: I) -> Partition<I> {
        Partition {
            shard,
            records,
            held: None,
            done: false,
            fenced: vec![Epoch(0); slots],
            introduced: BTreeSet::new(),
        }
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Folds records until the end, or until a write that waits; tells whether any was folded, and what it waits for.
    pub fn fold_on(
        &mut self,
        story: &ControlStory,
        keyspace: &KeyspaceStory,
        fences: &mut BTreeSet<AttemptId>,
        folded: &mut Folded,
    ) -> Result<(bool, Option<FoldError>), FoldError> {
        let mut progressed = false;
        loop {
            let (offset, record) = match self.held.take() {
                Some(held) => held,
                None => match self.records.next() {
                    None => {
                        self.done = true;
                        return Ok((progressed, None));
                    }
                    Some(Err(reason)) => return Err(FoldError::Unreadable { shard: self.shard, reason }),
                    Some(Ok(logged)) => match DataRecord::read(&logged.record) {
                        Ok(record) => (logged.offset, record),
                        Err(_) => {
                            progressed = true;
                            continue;
                        }
                    },
                },
            };
            if let Some(missing) = self.waits_for(story, keyspace, offset, &record, fences) {
                self.held = Some((offset, record));
                return Ok((progressed, Some(missing)));
            }
            progressed = true;
            match record {
                DataRecord::Mark(mark) => self.mark(story, keyspace, mark, fences, folded),
                DataRecord::Write(write) => {
                    let slot = keyspace.placement.slot(&write.partition_key);
                    if self.is_current(story, keyspace, slot, write.epoch) {
                        folded.judge(&keyspace.placement, self.shard, offset, &write);
                    } else {
                        folded.stale += 1;
                    }
                }
            }
        }
    }

    /// Rules 1 to 3.
    fn is_current(&self, story: &ControlStory, keyspace: &KeyspaceStory, slot: SlotId, epoch: Epoch) -> bool {
        let introduced = match keyspace.grants.get(&epoch) {
            Some(Grant::Created(_)) => true,
            Some(Grant::Attempt(attempt)) => self.introduced.contains(attempt),
            None => false,
        };
        introduced && story.granted(keyspace, slot, epoch) == Some(self.shard) && self.fenced[slot.0 as usize] <= epoch
    }

    /// Tells which fence must be read elsewhere before the record can be judged: that of an attempt that brought its slot
    /// here. A fence waits too: what left from here before it may have come from further away.
    fn waits_for(
        &self,
        story: &ControlStory,
        keyspace: &KeyspaceStory,
        offset: Offset,
        record: &DataRecord,
        fences: &BTreeSet<AttemptId>,
    ) -> Option<FoldError> {
        let brought_here = |attempt: &AttemptStory| {
            attempt.destination == self.shard && matches!(attempt.outcome, Some(Outcome::Switched { .. }))
        };
        let granted_by = |epoch: Epoch| match keyspace.grants.get(&epoch) {
            Some(Grant::Attempt(id)) => Some(&story.attempts[id]).filter(|attempt| brought_here(attempt)),
            Some(Grant::Created(_)) | None => None,
        };
        let awaited = match record {
            DataRecord::Write(write) => granted_by(write.epoch),
            DataRecord::Mark(Mark::Fence(mark)) => {
                let leaving = story.attempts.get(&mark.attempt).map(|attempt| &story.moves[&attempt.move_id].slots);
                let shares = |attempt: &AttemptStory| {
                    leaving.is_some_and(|slots| !slots.is_disjoint(&story.moves[&attempt.move_id].slots))
                };
                let earlier = self.introduced.iter().map(|id| &story.attempts[id]);
                earlier
                    .filter(|attempt| brought_here(attempt) && shares(attempt))
                    .find(|one| !fences.contains(&one.attempt))
            }
            // It forgets what was brought here, too.
            DataRecord::Mark(Mark::Horizon { regions, .. }) => {
                let mut brought = regions.iter().filter_map(|(_, epoch)| granted_by(*epoch));
                brought.find(|attempt| !fences.contains(&attempt.attempt))
            }
            DataRecord::Mark(Mark::Open(_)) => None,
        };
        let awaited = awaited.filter(|attempt| !fences.contains(&attempt.attempt))?;
        Some(FoldError::FenceMissing {
            shard: self.shard,
            offset,
            attempt: awaited.attempt,
            source_shard: awaited.source,
        })
    }

    fn mark(
        &mut self,
        story: &ControlStory,
        keyspace: &KeyspaceStory,
        mark: Mark,
        fences: &mut BTreeSet<AttemptId>,
        folded: &mut Folded,
    ) {
        match mark {
            Mark::Open(mark) => {
                if let Some(attempt) = allowed(story, keyspace, &mark)
                    && attempt.destination == self.shard
                {
                    self.introduced.insert(mark.attempt);
                }
            }
            Mark::Fence(mark) => {
                if let Some(attempt) = allowed(story, keyspace, &mark)
                    && attempt.source == self.shard
                {
                    self.introduced.insert(mark.attempt);
                    fences.insert(mark.attempt);
                    for slot in &story.moves[&attempt.move_id].slots {
                        let fenced = &mut self.fenced[slot.0 as usize];
                        *fenced = (*fenced).max(mark.epoch);
                    }
                }
            }
            Mark::Horizon { regions, version } => self.horizon(story, keyspace, &regions, version, folded),
        }
    }

    /// Forgets tombstones and request ids, in slots that lie whole in a region whose epoch is current here.
    fn horizon(
        &self,
        story: &ControlStory,
        keyspace: &KeyspaceStory,
        regions: &[(KeyRange, Epoch)],
        version: Version,
        folded: &mut Folded,
    ) {
        let slots: BTreeSet<SlotId> = (0..keyspace.placement.slot_count())
            .map(SlotId)
            .filter(|slot| {
                let whole = keyspace.placement.slot_range(*slot);
                regions.iter().any(|(range, epoch)| {
                    range.intersection(&whole).as_ref() == Some(&whole)
                        && self.is_current(story, keyspace, *slot, *epoch)
                })
            })
            .collect();
        folded.forget(&slots, version);
    }
}

/// Returns the attempt that the mark cites, if it cites it rightly.
fn allowed<'a>(story: &'a ControlStory, keyspace: &KeyspaceStory, mark: &AttemptMark) -> Option<&'a AttemptStory> {
    story.attempts.get(&mark.attempt).filter(|attempt| {
        attempt.keyspace == keyspace.id
            && attempt.move_id == mark.move_id
            && attempt.epoch == mark.epoch
            && attempt.control_offset == mark.control_offset
            && attempt.nonce == mark.nonce
            && mark.selector == keyspace.placement.selector(story.moves[&attempt.move_id].slots.iter().copied())
    })
}
