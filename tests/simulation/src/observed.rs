//! What the product did, as the invariants take it: what its fold granted, what its replicas accepted.

use rehome_control_core::{Attempt, ControlState};
use rehome_invariants::{Accepted, Cutover, Fence, Grant, History};
use rehome_keyspace::{KeyspaceId, Offset, Outcome, ShardId, Side, SlotId, Version};
use rehome_oracle::{ControlStory, Folded, KeyspaceStory};
use rehome_ports::VerdictBatch;
use rehome_records::{DataRecord, Logged, Verdict};
use std::collections::BTreeMap;

/// Every verdict that was told, by any life of any replica.
#[derive(Clone, Default)]
pub struct Verdicts {
    of: BTreeMap<(KeyspaceId, ShardId, Offset), Verdict>,
    /// The first record that was judged twice, and not alike (R9).
    pub differing: Option<String>,
}

impl Verdicts {
    pub fn note(&mut self, batch: &VerdictBatch) {
        for (offset, verdict) in &batch.verdicts {
            let first = self.of.entry((batch.keyspace, batch.shard, *offset)).or_insert_with(|| verdict.clone());
            if first != verdict {
                let text = format!("R9: shard {} judged {offset} as {first:?}, and again as {verdict:?}", batch.shard);
                self.differing.get_or_insert(text);
            }
        }
    }

    /// A power loss took records: others may come to lie at their positions.
    pub fn forget(&mut self, is_lost: impl Fn(KeyspaceId, ShardId, Offset) -> bool) {
        self.of.retain(|(keyspace, shard, offset), _| !is_lost(*keyspace, *shard, *offset));
    }
}

/// Returns what the production fold granted, and what it knew at each switch.
pub fn granted(control: &[Logged], story: &ControlStory, keyspace: &KeyspaceStory) -> History {
    let mut state = ControlState::new();
    for logged in control {
        state.fold(logged);
    }
    let mut history = History::default();
    for (epoch, grant) in &keyspace.grants {
        if let rehome_oracle::Grant::Created(shard) = grant {
            let mine = |slot: &u32| story.granted(keyspace, SlotId(*slot), *epoch) == Some(*shard);
            let slots = (0..keyspace.placement.slot_count()).filter(mine).map(SlotId);
            history.grants.push(Grant { epoch: *epoch, shard: *shard, selector: keyspace.placement.selector(slots) });
        }
    }
    for attempt in state.attempts().filter(|attempt| attempt.facts.keyspace == keyspace.id) {
        let facts = &attempt.facts;
        let Some(outcome) = facts.outcome else { continue };
        let shard = if outcome.winner() == Side::Source { facts.source } else { facts.destination };
        let (epoch, offset) = (facts.epoch, outcome.fence());
        history.grants.push(Grant { epoch, shard, selector: (*facts.selector).clone() });
        let selector = (*facts.selector).clone();
        history.fences.push(Fence { attempt: facts.attempt, shard: facts.source, selector, epoch, offset });
        if matches!(outcome, Outcome::Switched { .. }) {
            history.cutovers.push(cutover(attempt));
        }
    }
    history
}

fn cutover(attempt: &Attempt) -> Cutover {
    let of = |side| attempt.readies.iter().filter(move |ready| ready.side == side).map(|ready| ready.digest);
    Cutover {
        attempt: attempt.facts.attempt,
        source: of(Side::Source).next(),
        destinations: of(Side::Destination).collect(),
    }
}

/// Returns the writes that replicas accepted, as the versions that they told. What none told, since each life ended
/// before it could, is taken from the oracle's fold.
pub fn accepted(
    keyspace: &KeyspaceStory,
    partitions: &[Vec<Logged>],
    verdicts: &Verdicts,
    folded: &Folded,
) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    for (shard, records) in (0..).map(ShardId).zip(partitions) {
        for logged in records {
            let Ok(DataRecord::Write(write)) = DataRecord::read(&logged.record) else { continue };
            let version = match verdicts.of.get(&(keyspace.id, shard, logged.offset)) {
                Some(Verdict::Accepted { version }) => Some(*version),
                Some(_) => None,
                None if folded.accepted.contains(shard, logged.offset) => {
                    Some(Version { epoch: write.epoch, offset: logged.offset })
                }
                None => None,
            };
            accepted.extend(version.map(|version| Accepted {
                version,
                ..Accepted::of(shard, logged.offset, &keyspace.placement, &write)
            }));
        }
    }
    accepted
}
