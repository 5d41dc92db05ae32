//! How near to each cutover its keys were written, by what clients were answered.

use super::client::Shared;
use crate::pause::measured_pause_ms;
use rehome_control_core::{Attempt, ControlState, Move};
use rehome_keyspace::{Epoch, MoveId, Outcome, Side, SlotId, Version};
use rehome_records::TopicPartition;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// One cutover that switched. Times are of the log, so to the millisecond.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CutoverSeen {
    pub move_id: u64,
    /// Rows of the selector at the fence.
    pub rows: u64,
    /// From the fence to the switch; nothing when the log no longer has the fence.
    pub fence_to_switch_ms: Option<u64>,
    /// From the moment at which a client asked for the last acknowledged write of the old owner, to the fence.
    pub written_before_ms: Option<f64>,
    /// From the switch, to the moment at which a client had the first acknowledgement of the new owner.
    pub written_after_ms: Option<f64>,
}

/// Fewest rows of a selector, and longest time between a cutover and an acknowledged write to its keys on either side,
/// for the cutover to count as one under load.
const ROWS_MIN: u64 = 100;
const WRITTEN_WITHIN_MS: f64 = 50.0;

impl CutoverSeen {
    pub fn is_written_around(&self) -> bool {
        // The log tells times to the millisecond, so a write may seem to lie a little on the other side.
        let within = |ms: Option<f64>| ms.is_some_and(|ms| (-2.0..=WRITTEN_WITHIN_MS).contains(&ms));
        self.rows >= ROWS_MIN && within(self.written_before_ms) && within(self.written_after_ms)
    }
}

/// When the keys of each slot were written under each epoch, by whichever client.
#[derive(Default)]
pub struct Writes(Mutex<BTreeMap<(SlotId, Epoch), Written>>);

/// In nanoseconds since the clients' start.
#[derive(Clone, Copy)]
struct Written {
    last_issued_at: u64,
    first_answered_at: u64,
}

impl Writes {
    /// Notes an acknowledgement. One that only repeats an earlier one tells nothing of when the owner wrote.
    pub fn note(&self, slot: SlotId, version: Version, issued_at: u64, answered_at: u64) {
        let mut writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Written { last_issued_at: issued_at, first_answered_at: answered_at };
        let written = writes.entry((slot, version.epoch)).or_insert(new);
        written.last_issued_at = written.last_issued_at.max(issued_at);
        written.first_answered_at = written.first_answered_at.min(answered_at);
    }

    /// Returns when the last write before the epoch was asked for, and when the first one under it was answered, in
    /// milliseconds since the clients' start.
    fn around(&self, slots: impl Iterator<Item = SlotId>, epoch: Epoch) -> (Option<f64>, Option<f64>) {
        let writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut before, mut after): (Option<u64>, Option<u64>) = (None, None);
        for slot in slots {
            let older = writes.range((slot, Epoch(0))..(slot, epoch)).next_back();
            before = before.max(older.map(|(_, written)| written.last_issued_at));
            if let Some(Written { first_answered_at, .. }) = writes.get(&(slot, epoch)) {
                after = Some(after.map_or(*first_answered_at, |at| at.min(*first_answered_at)));
            }
        }
        let in_ms = |at: u64| at as f64 / 1e6;
        (before.map(in_ms), after.map(in_ms))
    }
}

/// Returns the cutovers of those moves that switched.
pub fn seen<'a>(shared: &Shared, moves: impl IntoIterator<Item = &'a MoveId>) -> Vec<CutoverSeen> {
    let state = shared.cluster.desk().state();
    moves.into_iter().filter_map(|id| one_seen(shared, &state, state.move_(*id)?)).collect()
}

fn one_seen(shared: &Shared, state: &ControlState, one: &Move) -> Option<CutoverSeen> {
    let mut attempts = one.attempts.iter().filter_map(|id| state.attempt_record(*id));
    let attempt = attempts.find(|attempt| matches!(attempt.outcome(), Some(Outcome::Switched { .. })))?;
    let partition = TopicPartition::new(state.keyspace(one.keyspace)?.data_topic(), one.source.0);
    let fence_to_switch_ms = measured_pause_ms(shared.cluster.log(), &partition, attempt);
    let since_start_ms = |time_ms: u64| time_ms as f64 - shared.epoch_ms as f64;
    let fenced_ms = attempt.decided_ms.zip(fence_to_switch_ms).map(|(decided, pause)| since_start_ms(decided - pause));
    let decided_ms = attempt.decided_ms.map(since_start_ms);
    let (before, after) = shared.writes.around(one.slot_ids(), attempt.facts.epoch);
    Some(CutoverSeen {
        move_id: one.id.0,
        rows: rows(attempt),
        fence_to_switch_ms,
        written_before_ms: fenced_ms.zip(before).map(|(fenced, before)| fenced - before),
        written_after_ms: decided_ms.zip(after).map(|(decided, after)| after - decided),
    })
}

fn rows(attempt: &Attempt) -> u64 {
    let ready = attempt.readies.iter().find(|ready| ready.side == Side::Destination);
    ready.map_or(0, |ready| ready.digest.row_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehome_keyspace::Offset;

    #[test]
    fn the_nearest_writes_on_either_side_are_found() {
        let slot = SlotId(3);
        let writes = Writes::default();
        for (epoch, offset, issued_at_ms, answered_at_ms) in
            [(1, 6, 20, 22), (1, 5, 10, 12), (4, 1, 30, 60), (4, 2, 31, 59)]
        {
            let version = Version { epoch: Epoch(epoch), offset: Offset(offset) };
            writes.note(slot, version, issued_at_ms * 1_000_000, answered_at_ms * 1_000_000);
        }
        assert_eq!(writes.around([slot].into_iter(), Epoch(4)), (Some(20.0), Some(59.0)));
        assert_eq!(writes.around([slot].into_iter(), Epoch(9)), (Some(31.0), None));
        assert_eq!(writes.around(std::iter::empty(), Epoch(4)), (None, None));
        assert_eq!(writes.around([SlotId(4)].into_iter(), Epoch(4)), (None, None));
    }
}
