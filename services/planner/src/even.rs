//! The policy `even`: every shard below n owns the same number of slots, but for one; shards above own none.

use rehome_keyspace::{ShardId, SlotId};
use rehome_records::control::{MoveWanted, SlotSpan};
use std::collections::BTreeMap;
use thiserror::Error;

/// Why there is no plan. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanRefused {
    #[error("0 shards cannot own anything; give `--shards` of at least 1")]
    NoShards,
    #[error("{shards} shards cannot share {slots} slots; give `--shards` of at most {slots}")]
    MoreShardsThanSlots { shards: u32, slots: u32 },
    #[error("the slots lie evenly on {shards} shards already, nothing is to be done; run `rehome status`")]
    NothingToMove { shards: u32 },
}

impl PlanRefused {
    /// Returns the stable code of the refusal, for scripts and for the docs.
    pub fn code(&self) -> &'static str {
        match self {
            PlanRefused::NoShards => "plan-no-shards",
            PlanRefused::MoreShardsThanSlots { .. } => "plan-more-shards-than-slots",
            PlanRefused::NothingToMove { .. } => "plan-nothing-to-move",
        }
    }
}

/// Returns the moves after which shards `0..shards_wanted` own the slots evenly and no other shard owns any.
///
/// `owners` names the owner of each slot, by slot number.
///
/// Ensures: after the moves, counts differ by at most 1; only what is surplus at its owner moves, so no plan moves
/// fewer slots; one move per pair of shards; the same input gives the same plan; planning again gives nothing.
/// A shard gives its highest slots, so that what it keeps and what it gives stay contiguous where they were.
pub fn even(owners: &[ShardId], shards_wanted: u32) -> Result<Vec<MoveWanted>, PlanRefused> {
    let slots = u32::try_from(owners.len()).unwrap_or(u32::MAX);
    if shards_wanted == 0 {
        return Err(PlanRefused::NoShards);
    }
    if shards_wanted > slots {
        return Err(PlanRefused::MoreShardsThanSlots { shards: shards_wanted, slots });
    }
    let mut owned: BTreeMap<ShardId, Vec<SlotId>> = BTreeMap::new();
    for (slot, owner) in (0..slots).map(SlotId).zip(owners) {
        owned.entry(*owner).or_default().push(slot);
    }
    let targets = targets(&owned, slots, shards_wanted);
    let moved = pair_up(surplus(owned.clone(), &targets), lacking(&owned, &targets));
    if moved.is_empty() {
        return Err(PlanRefused::NothingToMove { shards: shards_wanted });
    }
    let wanted = |((source, destination), slots)| MoveWanted { source, destination, slots: spans(slots) };
    Ok(moved.into_iter().map(wanted).collect())
}

/// Says how many slots each wanted shard gets. One more than the others go to the shards that own most already, so
/// that the least moves.
fn targets(owned: &BTreeMap<ShardId, Vec<SlotId>>, slots: u32, shards_wanted: u32) -> BTreeMap<ShardId, usize> {
    let (share, rest) = ((slots / shards_wanted) as usize, (slots % shards_wanted) as usize);
    let mut by_count: Vec<(usize, ShardId)> =
        (0..shards_wanted).map(ShardId).map(|shard| (owned.get(&shard).map_or(0, Vec::len), shard)).collect();
    by_count.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let target = |(rank, (_, shard)): (usize, (usize, ShardId))| (shard, share + usize::from(rank < rest));
    by_count.into_iter().enumerate().map(target).collect()
}

/// Returns the slots that each shard has above its target, ascending.
fn surplus(owned: BTreeMap<ShardId, Vec<SlotId>>, targets: &BTreeMap<ShardId, usize>) -> Vec<(ShardId, Vec<SlotId>)> {
    let above = |(shard, mut slots): (ShardId, Vec<SlotId>)| {
        let kept = targets.get(&shard).copied().unwrap_or(0).min(slots.len());
        (shard, slots.split_off(kept))
    };
    owned.into_iter().map(above).collect()
}

/// Returns how many slots each wanted shard lacks.
fn lacking(owned: &BTreeMap<ShardId, Vec<SlotId>>, targets: &BTreeMap<ShardId, usize>) -> Vec<(ShardId, usize)> {
    let lack =
        |(shard, target): (&ShardId, &usize)| (*shard, target.saturating_sub(owned.get(shard).map_or(0, Vec::len)));
    targets.iter().map(lack).collect()
}

/// Gives the surplus, in order, to those who lack slots, in order: at most one pair per shard more than there are.
fn pair_up(
    surplus: Vec<(ShardId, Vec<SlotId>)>,
    lacking: Vec<(ShardId, usize)>,
) -> BTreeMap<(ShardId, ShardId), Vec<SlotId>> {
    let mut moved: BTreeMap<(ShardId, ShardId), Vec<SlotId>> = BTreeMap::new();
    let mut takers = lacking.into_iter().flat_map(|(shard, count)| std::iter::repeat_n(shard, count));
    for (source, slots) in surplus {
        for slot in slots {
            let destination = takers.next().expect("what is surplus somewhere is lacking elsewhere");
            moved.entry((source, destination)).or_default().push(slot);
        }
    }
    moved
}

/// Returns the slots, which ascend, as spans that do not touch.
pub fn spans(slots: Vec<SlotId>) -> Vec<SlotSpan> {
    let mut spans: Vec<SlotSpan> = Vec::new();
    for slot in slots {
        match spans.last_mut() {
            Some(span) if span.last.0 + 1 == slot.0 => span.last = slot,
            _ => spans.push(SlotSpan { first: slot, last: slot }),
        }
    }
    spans
}

#[cfg(test)]
mod tests;
