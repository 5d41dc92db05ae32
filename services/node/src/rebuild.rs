//! A store that is gone is made anew from the logs, where they hold everything that it held.
//!
//! A shard's own partition holds what was written to that shard, and not the rows that moved in: those were written to
//! the partitions of their sources. Where a source has owned the keys since the keyspace was created, its partition
//! tells them whole, so the move's replay starts again from the start of that partition, with the states of then; its
//! owner's tail waits for it at the first write after the switch, as ever. Where the source had got the keys from
//! elsewhere, its partition is not enough either, and the store is refused: it is never served without them.
//!
//! What had moved out and was dropped comes back with the own partition, and is dropped again once its fence is applied.
//! Until then the move's outbound entry stays, which is how a later life knows.

use crate::moves::{AfterWrite, JobDone, Running, Work};
use crate::replica::Replica;
use rehome_control_core::{ControlState, Keyspace, Move, Phase};
use rehome_keyspace::{AttemptFacts, Attempts, MoveId, Offset, Selector, ShardId, Side};
use rehome_ports::PortError;
use rehome_records::{Digest, Manifest, SlotState, StateRegion};
use rehome_shard_core::{Pending, ShardCore};
use std::sync::Arc;

/// What a new store of a shard takes beside the shard's own partition. Nothing for a shard that is new itself.
#[derive(Default)]
pub(crate) struct Rebuild {
    /// What the source of each move that brought rows had at the start of its partition: its states, and no rows.
    moved_in: Vec<Manifest>,
    /// Moves that took rows away and have ended.
    moved_out: Vec<(MoveId, u32, Arc<Selector>)>,
}

impl Rebuild {
    /// Plans from what the control log tells.
    ///
    /// Errors: `Broken` when rows had moved in that no partition tells whole; the text names the position up to which
    /// they are lacking.
    pub fn plan(state: &ControlState, keyspace: &Keyspace, shard: ShardId) -> Result<Rebuild, PortError> {
        let mut rebuild = Rebuild::default();
        let into = |wanted: ShardId| {
            let moves = state.moves().filter(move |one| one.keyspace == keyspace.id && one.destination == wanted);
            moves.filter_map(|one| Some((one, switched_at(state, one)?)))
        };
        for (one, fence) in into(shard) {
            let granted = keyspace.granted(one.source);
            let since_creation = Selector::new(granted.iter().map(|(range, _)| range.clone()).collect());
            let came_from_elsewhere = into(one.source).any(|(earlier, _)| earlier.selector.overlaps(&one.selector));
            if came_from_elsewhere || !since_creation.covers(&one.selector) {
                return Err(lacking(keyspace, one, fence));
            }
            let parts = one.selector.ranges().iter().flat_map(|range| {
                granted.iter().filter_map(|(owned, epoch)| {
                    let state = SlotState::Owned { epoch: *epoch };
                    Some(StateRegion { range: range.intersection(owned)?, state })
                })
            });
            rebuild.moved_in.push(Manifest {
                keyspace: keyspace.id,
                source: one.source,
                move_id: one.id,
                copy: one.copy,
                selector: (*one.selector).clone(),
                position: None,
                digest: Digest::default(),
                states: parts.collect(),
                fences: Vec::new(),
                runs: Vec::new(),
            });
        }
        let out = state.moves().filter(|one| one.keyspace == keyspace.id && one.source == shard);
        let dropped = out.filter(|one| one.phase == Phase::Completed);
        rebuild.moved_out = dropped.map(|one| (one.id, one.copy, Arc::clone(&one.selector))).collect();
        Ok(rebuild)
    }

    /// Returns of how many moves rows are replayed, and of how many they are dropped again.
    pub fn counts(&self) -> (usize, usize) {
        (self.moved_in.len(), self.moved_out.len())
    }

    /// Notes in the store's first batch what is to be replayed, and what is to be dropped again.
    pub fn begin(&self, core: &mut ShardCore, pending: &mut Pending) {
        for manifest in &self.moved_in {
            core.start_replay(manifest, Digest::default(), pending);
        }
        for (move_id, copy, selector) in &self.moved_out {
            core.start_outbound(*move_id, *copy, (**selector).clone(), pending);
        }
    }
}

/// Returns the fence at which the move switched; nothing if it has not.
fn switched_at(state: &ControlState, one: &Move) -> Option<Offset> {
    let outcome = state.attempt(*one.attempts.last()?)?.outcome?;
    (outcome.winner() == Side::Destination).then(|| outcome.fence())
}

fn lacking(keyspace: &Keyspace, one: &Move, fence: Offset) -> PortError {
    PortError::broken(format!(
        "the store of shard {} of keyspace {} is gone, and the logs do not hold all that it held: move {} brought what shard {} \
         held up to offset {fence}, part of which had moved into that shard before; stop, bring the folder {}-{} back below \
         `stores`, then `rehome up`",
        one.destination, keyspace.name, one.id, one.source, keyspace.id, one.destination
    ))
}

impl Replica {
    /// Drops what a rebuilt store has got back of keys that had moved out and were dropped before it was lost.
    pub(crate) fn drop_again(&mut self, after: &mut AfterWrite, pending: &mut Pending, now_ms: u64) {
        for (facts, copy) in self.dropped_before() {
            let id = facts.move_id;
            match self.running.remove(&id) {
                Some(Running::Working) => drop(self.running.insert(id, Running::Working)),
                Some(Running::Again { at_ms }) if at_ms > now_ms => {
                    self.running.insert(id, Running::Again { at_ms });
                }
                Some(Running::Done(JobDone::Wiped(Ok(())))) => {
                    tracing::info!(move_id = %id, shard = %self.shard, "what had moved out is dropped again");
                    self.core.forget_move(id, pending);
                }
                _ if self.closed_by(&facts) => {
                    self.running.insert(id, Running::Working);
                    let (selector, source) = (Arc::clone(&facts.selector), facts.source);
                    after.start(id, Work::Wipe { selector, source, copy });
                }
                _ => {}
            }
        }
    }

    /// Tells whether keys of the selector are still to be dropped again: a copy must not be taken in meanwhile.
    pub(crate) fn is_to_be_dropped_again(&self, selector: &Selector) -> bool {
        self.dropped_before().iter().any(|(facts, _)| facts.selector.overlaps(selector))
    }

    /// Tells whether another move's replay still brings keys of the selector here: they cannot be counted meanwhile.
    pub(crate) fn is_still_brought(&self, move_id: MoveId, selector: &Selector) -> bool {
        self.core.inbounds().any(|inbound| inbound.move_id != move_id && inbound.selector.overlaps(selector))
    }

    fn dropped_before(&self) -> Vec<(AttemptFacts, u32)> {
        let state = self.follower.state();
        let completed = self.core.outbounds().filter_map(|outbound| {
            let one = state.move_(outbound.move_id).filter(|one| one.phase == Phase::Completed)?;
            Some((state.attempt(*one.attempts.last()?)?, outbound.copy))
        });
        completed.collect()
    }

    fn closed_by(&self, facts: &AttemptFacts) -> bool {
        let closed = |state| matches!(state, SlotState::Closed { highest } if highest >= facts.epoch);
        self.core.regions_of(&facts.selector).iter().all(|region| closed(region.state))
    }
}
