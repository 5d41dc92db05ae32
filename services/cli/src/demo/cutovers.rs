//! How near to each cutover its keys were written, by what clients were answered.

use super::client::Shared;
use crate::pause::measured_pause_ms;
use rehome_control_core::{Attempt, ControlState, Move};
use rehome_keyspace::{Epoch, MoveId, Outcome, Side, SlotId};
use rehome_oracle::ClientHistory;
use rehome_records::TopicPartition;
use serde::Serialize;
use std::collections::BTreeMap;

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
        let within = |ms: Option<f64>| ms.is_some_and(|ms| ms <= WRITTEN_WITHIN_MS);
        self.rows >= ROWS_MIN && within(self.written_before_ms) && within(self.written_after_ms)
    }
}

/// When the keys of a slot were written under an epoch, in nanoseconds since the clients' start.
#[derive(Clone, Copy)]
struct Written {
    last_issued_at: u64,
    first_answered_at: u64,
}

type Writes = BTreeMap<(SlotId, Epoch), Written>;

/// Returns the cutovers of those moves that switched.
pub fn seen<'a>(
    shared: &Shared,
    history: &ClientHistory,
    moves: impl IntoIterator<Item = &'a MoveId>,
) -> Vec<CutoverSeen> {
    let writes = by_slot_and_epoch(history);
    let state = shared.cluster.desk().state();
    moves.into_iter().filter_map(|id| one_seen(shared, &state, &writes, state.move_(*id)?)).collect()
}

fn one_seen(shared: &Shared, state: &ControlState, writes: &Writes, one: &Move) -> Option<CutoverSeen> {
    let mut attempts = one.attempts.iter().filter_map(|id| state.attempt_record(*id));
    let attempt = attempts.find(|attempt| matches!(attempt.outcome(), Some(Outcome::Switched { .. })))?;
    let partition = TopicPartition::new(state.keyspace(one.keyspace)?.data_topic(), one.source.0);
    let fence_to_switch_ms = measured_pause_ms(shared.cluster.log(), &partition, attempt);
    let since_start_ms = |time_ms: u64| time_ms as f64 - shared.epoch_ms as f64;
    let fenced_ms = attempt.decided_ms.zip(fence_to_switch_ms).map(|(decided, pause)| since_start_ms(decided - pause));
    let decided_ms = attempt.decided_ms.map(since_start_ms);
    let (before, after) = around(writes, one.slot_ids(), attempt.facts.epoch);
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

/// Returns when the last write before the epoch was asked for, and when the first one under it was answered, in
/// milliseconds since the clients' start.
fn around(writes: &Writes, slots: impl Iterator<Item = SlotId>, epoch: Epoch) -> (Option<f64>, Option<f64>) {
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

/// A write that was sent again counts where it was sent first.
fn by_slot_and_epoch(history: &ClientHistory) -> Writes {
    let mut first: Vec<_> = history.writes.iter().collect();
    first.sort_by_key(|write| (write.row.slot(), write.version, write.issued_at));
    first.dedup_by_key(|write| (write.row.slot(), write.version));
    let mut writes = Writes::new();
    for write in first {
        let new = Written { last_issued_at: write.issued_at, first_answered_at: write.answered_at };
        let written = writes.entry((write.row.slot(), write.version.epoch)).or_insert(new);
        written.last_issued_at = written.last_issued_at.max(write.issued_at);
        written.first_answered_at = written.first_answered_at.min(write.answered_at);
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehome_keyspace::{Offset, Placement, Version};
    use rehome_oracle::{Fingerprint, WriteAnswered};

    #[test]
    fn the_nearest_writes_on_either_side_are_found_and_a_retry_counts_where_it_was_first() {
        let placement = Placement::buckets(16).expect("a good count");
        let slot = placement.slot(b"key");
        let write = |epoch, offset, issued_at_ms: u64, answered_at_ms: u64| WriteAnswered {
            row: Fingerprint::row(&placement, b"key", b"sort"),
            request: None,
            version: Version { epoch: Epoch(epoch), offset: Offset(offset) },
            value: None,
            issued_at: issued_at_ms * 1_000_000,
            answered_at: answered_at_ms * 1_000_000,
        };
        let mut history = ClientHistory::new();
        // The newest write under epoch 1 is asked for at 20, and again, after the switch, at 90.
        history.writes = vec![
            write(1, 5, 10, 12),
            write(1, 6, 20, 22),
            write(4, 1, 30, 60),
            write(4, 2, 31, 59),
            write(1, 6, 90, 91),
        ];
        let writes = by_slot_and_epoch(&history);
        assert_eq!(around(&writes, [slot].into_iter(), Epoch(4)), (Some(20.0), Some(59.0)));
        assert_eq!(around(&writes, [slot].into_iter(), Epoch(9)), (Some(31.0), None));
        assert_eq!(around(&writes, std::iter::empty(), Epoch(4)), (None, None));
    }
}
