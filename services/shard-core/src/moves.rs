//! What a replica keeps for moves, and what it may claim about them.

use crate::core::{Ground, Kept, ShardCore};
use crate::judge::Judge;
use crate::marks;
use crate::pending::Pending;
use crate::regions;
use crate::stop::Stop;
use rehome_keyspace::{AttemptFacts, Attempts, KeyRange, MoveId, Offset, Selector, ShardId, Side};
use rehome_records::store_value::{StoredInbound, StoredOutbound};
use rehome_records::{Digest, SlotState, StateRegion, store_key};

/// What a replica may report as `Ready`, once it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyFacts {
    pub side: Side,
    /// F, in the source's partition.
    pub fence: Offset,
    /// The `Open`, in the destination's partition; nothing at the source.
    pub open: Option<Offset>,
    /// Digest of the selector's state at F.
    pub digest: Digest,
}

impl ShardCore {
    /// Starts to keep the running digest of keys that move out: its change starts at zero. Replaces the entry of an
    /// earlier copy, except for its fences.
    pub fn start_outbound(&mut self, move_id: MoveId, copy: u32, selector: Selector, pending: &mut Pending) {
        let fences = self.outbounds.get(&move_id).map(|kept| kept.stored.fences.clone()).unwrap_or_default();
        let stored = StoredOutbound { move_id, copy, selector, base: None, change: Digest::default(), fences };
        self.keep_outbound(stored, pending);
    }

    /// Gives the running digest its base: the digest of a snapshot, less the entry's `change` in that snapshot. Without
    /// an entry of that copy nothing happens.
    pub fn set_outbound_base(&mut self, move_id: MoveId, copy: u32, base: Digest, pending: &mut Pending) {
        if let Some(kept) = self.outbounds.get(&move_id).filter(|kept| kept.stored.copy == copy) {
            let stored = StoredOutbound { base: Some(base), ..kept.stored.clone() };
            self.keep_outbound(stored, pending);
        }
    }

    /// Starts to keep a move on its way in: it has no copy yet. Replaces the entry of an earlier copy, except for its
    /// opens.
    pub fn start_inbound(
        &mut self,
        move_id: MoveId,
        copy: u32,
        source: ShardId,
        selector: Selector,
        pending: &mut Pending,
    ) {
        let opens = self.inbounds.get(&move_id).map(|kept| kept.stored.opens.clone()).unwrap_or_default();
        self.keep_inbound(StoredInbound { move_id, copy, source, selector, replay: None, opens }, pending);
    }

    /// Forgets what is kept for a move that ended, on both sides.
    ///
    /// Requires: at the destination of a switched move, [`ShardCore::passed`] its attempt; else the keys wait for a
    /// replay that does not exist.
    pub fn forget_move(&mut self, move_id: MoveId, pending: &mut Pending) {
        self.unfounded.remove(&Some(move_id));
        if self.outbounds.remove(&move_id).is_some() {
            pending.remove(store_key::outbound(move_id));
        }
        if self.inbounds.remove(&move_id).is_some() {
            pending.remove(store_key::inbound(move_id));
        }
    }

    pub fn outbound(&self, move_id: MoveId) -> Option<&StoredOutbound> {
        self.outbounds.get(&move_id).map(|kept| &kept.stored)
    }

    pub fn inbound(&self, move_id: MoveId) -> Option<&StoredInbound> {
        self.inbounds.get(&move_id).map(|kept| &kept.stored)
    }

    pub fn outbounds(&self) -> impl Iterator<Item = &StoredOutbound> {
        self.outbounds.values().map(|kept| &kept.stored)
    }

    pub fn inbounds(&self) -> impl Iterator<Item = &StoredInbound> {
        self.inbounds.values().map(|kept| &kept.stored)
    }

    /// Returns the state of a placed key.
    pub fn state(&self, placed: &[u8]) -> SlotState {
        let index = regions::find(&self.states, placed).expect("the states cover every key");
        self.states[index].state
    }

    /// Returns every region with its state, in key order.
    pub fn regions(&self) -> impl Iterator<Item = StateRegion> {
        self.states.iter().cloned()
    }

    /// Returns the parts of the regions that lie in the selector, in key order.
    pub fn regions_of(&self, selector: &Selector) -> Vec<StateRegion> {
        regions::parts(&self.states, selector)
    }

    /// Tells whether the selector may be exported from here: everything owned, so with its states resolved, and no
    /// replay of any of it still on its way.
    pub fn holds_whole(&self, selector: &Selector) -> bool {
        let owned = |region: &StateRegion| matches!(region.state, SlotState::Owned { .. });
        // Until the source's fence is replayed, the replay's states say that the source owns the keys.
        let pending = |inbound: &StoredInbound| {
            inbound.selector.overlaps(selector)
                && inbound
                    .replay
                    .as_ref()
                    .is_none_or(|replay| regions::parts(&replay.states, selector).iter().any(owned))
        };
        self.regions_of(selector).iter().all(owned) && !self.inbounds().any(pending)
    }

    /// Tells whether the selector may be wiped here: this replica has applied whatever ended its shard's ownership.
    pub fn all_closed(&self, selector: &Selector) -> bool {
        self.regions_of(selector).iter().all(|region| matches!(region.state, SlotState::Closed { .. }))
    }

    /// Tells whether a copy of the move may be ingested here, after a wipe. That is so too when an attempt of this very
    /// move was opened already: the keys were another shard's then, and a replica that lacks its copy could not get one
    /// otherwise.
    pub fn may_ingest(&self, move_id: MoveId, selector: &Selector, attempts: &dyn Attempts) -> bool {
        let opened_by_it = |attempt| {
            let facts = attempts.attempt(attempt);
            facts.is_some_and(|facts| facts.move_id == move_id && facts.destination == self.identity.shard)
        };
        self.regions_of(selector).iter().all(|region| match region.state {
            SlotState::Closed { .. } => true,
            SlotState::Contested { attempt, .. } => opened_by_it(attempt),
            SlotState::Owned { .. } => false,
        })
    }

    /// Tells whether this replica has applied its mark of the attempt on every key and knows what became of it (R11:
    /// only then may the entry of a switched move be forgotten).
    pub fn passed(&self, facts: &AttemptFacts) -> bool {
        self.regions_of(&facts.selector).iter().all(|region| {
            region.state.highest() >= facts.epoch
                && !matches!(region.state, SlotState::Contested { attempt, .. } if attempt == facts.attempt)
        })
    }

    /// Returns what this replica may report as `Ready` for the attempt; nothing until it has applied F (and `Open` at
    /// the destination) with every key contested by exactly this attempt, and knows the digest.
    pub fn ready(&self, facts: &AttemptFacts) -> Option<ReadyFacts> {
        let contested = |regions: &[StateRegion]| {
            let wanted = SlotState::Contested { attempt: facts.attempt, epoch: facts.epoch };
            regions::parts(regions, &facts.selector).iter().all(|region| region.state == wanted)
        };
        if facts.keyspace != self.identity.keyspace || !contested(&self.states) {
            return None;
        }
        if facts.source == self.identity.shard {
            let outbound = self.outbound(facts.move_id)?;
            let fence = marks::seen_at(&outbound.fences, facts.attempt)?;
            return Some(ReadyFacts { side: Side::Source, fence, open: None, digest: outbound.digest()? });
        }
        let inbound = self.inbound(facts.move_id)?;
        let replay = inbound.replay.as_ref().filter(|replay| contested(&replay.states))?;
        let fence = marks::seen_at(&replay.fences, facts.attempt)?;
        let open = Some(marks::seen_at(&inbound.opens, facts.attempt)?);
        Some(ReadyFacts { side: Side::Destination, fence, open, digest: replay.digest })
    }

    /// Resolves every contested region whose attempt's outcome is known (at a destination that won: whose replay has
    /// reached F), in the own states and in those of replays. Returns whether anything changed.
    pub fn settle(&mut self, ground: &mut Ground<'_>) -> Result<bool, Stop> {
        let settled = resolvable(&self.states, &self.judge(ground))?;
        let mut changed = !settled.is_empty();
        self.assign(&settled, ground.pending);
        let replays: Vec<(MoveId, ShardId)> =
            self.inbounds().map(|inbound| (inbound.move_id, inbound.source)).collect();
        for (move_id, source) in replays {
            let Some(replay) = self.inbound(move_id).and_then(|inbound| inbound.replay.as_ref()) else { continue };
            let settled = resolvable(&replay.states, &self.replay_judge(source, ground))?;
            if !settled.is_empty() {
                self.assign_replay(move_id, &settled);
                changed = true;
            }
        }
        Ok(changed)
    }

    fn keep_outbound(&mut self, stored: StoredOutbound, pending: &mut Pending) {
        pending.put(store_key::outbound(stored.move_id), stored.encode());
        self.outbounds.insert(stored.move_id, Kept { stored, changed: false });
    }
}

/// Returns the contested regions that can be resolved now, with what they become.
fn resolvable(regions: &[StateRegion], judge: &Judge<'_>) -> Result<Vec<(KeyRange, SlotState)>, Stop> {
    let mut settled = Vec::new();
    for region in regions {
        if let SlotState::Contested { attempt, epoch } = region.state {
            match judge.resolve(attempt, epoch) {
                Ok(state) => settled.push((region.range.clone(), state)),
                Err(Stop::Wait(_)) => {}
                Err(broken) => return Err(broken),
            }
        }
    }
    Ok(settled)
}
