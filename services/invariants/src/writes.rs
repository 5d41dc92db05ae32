//! R6 and R8: once, and in order.

use crate::history::{Accepted, Ack, History, Invariant, Violation};
use rehome_keyspace::{PlacedKey, ShardId, Version};
use std::collections::BTreeMap;

/// A request id, or a source position, of a partition key has at most one accepted write, over all shards and epochs.
pub fn r6_requests_are_done_once(history: &History) -> Result<(), Violation> {
    let mut requests = BTreeMap::new();
    let mut sources = BTreeMap::new();
    for write in &history.accepted {
        let before = [
            write.request.and_then(|id| requests.insert((&write.placed, id), write.version)),
            write.source.as_ref().and_then(|at| sources.insert((&write.placed, at), write.version)),
        ];
        if let Some(before) = before.into_iter().flatten().next() {
            return Err(Violation {
                id: Invariant::R6,
                text: format!(
                    "{} and {before} of key {:?} are one request, accepted twice",
                    write.version, write.placed
                ),
            });
        }
    }
    Ok(())
}

/// Per key, the order of accepted writes is the order of (epoch, offset): within a partition epochs never fall, no two
/// writes share a version, and a write that was asked for after another was answered has the greater version.
pub fn r8_writes_of_a_key_are_in_order(history: &History) -> Result<(), Violation> {
    epochs_grow_with_offsets(&history.accepted)?;
    let mut acks: BTreeMap<&PlacedKey, Vec<&Ack>> = BTreeMap::new();
    for ack in &history.acks {
        acks.entry(&ack.placed).or_default().push(ack);
    }
    acks.values().try_for_each(|acks| answered_before_asked(acks))
}

fn epochs_grow_with_offsets(accepted: &[Accepted]) -> Result<(), Violation> {
    let mut by_key: BTreeMap<(&PlacedKey, ShardId), Vec<Version>> = BTreeMap::new();
    for write in accepted {
        by_key.entry((&write.placed, write.shard)).or_default().push(write.version);
    }
    for ((placed, shard), mut versions) in by_key {
        versions.sort_by_key(|version| version.offset);
        for pair in versions.windows(2) {
            if pair[1] <= pair[0] || pair[1].offset == pair[0].offset {
                return Err(Violation {
                    id: Invariant::R8,
                    text: format!("shard {shard} accepted {} of key {placed:?} and then {}", pair[0], pair[1]),
                });
            }
        }
    }
    Ok(())
}

fn answered_before_asked(acks: &[&Ack]) -> Result<(), Violation> {
    let mut by_answer = acks.to_vec();
    by_answer.sort_by_key(|ack| ack.answered);
    let mut by_question = acks.to_vec();
    by_question.sort_by_key(|ack| ack.asked);
    let mut answered = by_answer.into_iter().peekable();
    let mut highest: Option<&Ack> = None;
    for later in by_question {
        while let Some(earlier) = answered.next_if(|earlier| earlier.answered < later.asked) {
            if highest.is_none_or(|highest| highest.version < earlier.version) {
                highest = Some(earlier);
            }
        }
        if let Some(earlier) = highest.filter(|earlier| earlier.version >= later.version) {
            return Err(Violation {
                id: Invariant::R8,
                text: format!(
                    "key {:?}: {} was asked for after {} was answered",
                    later.placed, later.version, earlier.version
                ),
            });
        }
    }
    Ok(())
}
