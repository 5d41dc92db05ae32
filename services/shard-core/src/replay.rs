//! The source's partition, replayed at a destination: judged by the same rule, with the move's own states.
//!
//! A replay ends at the fence of its switched attempt: from there on the keys are this shard's, and nothing of the
//! source's partition concerns them any more, whatever is moved back there later.

use crate::core::{Ground, ShardCore};
use crate::horizon;
use crate::judge::Judge;
use crate::marks::{self, MarkKind};
use crate::pending::Pending;
use crate::regions;
use crate::rows::{Accepted, Reading};
use crate::stop::Stop;
use rehome_keyspace::{Attempts, Epoch, KeyRange, MoveId, Offset, Outcome, ShardId, Version};
use rehome_records::data::{AttemptMark, HEADER_MARK};
use rehome_records::store_value::{StoredInbound, StoredReplay};
use rehome_records::{DataRecord, Digest, Logged, Manifest, Mark, SlotState, Write, store_key};

impl ShardCore {
    /// Starts the replay of a copy that is ingested, read back and flushed: at position X, with the states and fences
    /// of X. `digest` is that of what was read back.
    pub fn start_replay(&mut self, manifest: &Manifest, digest: Digest, pending: &mut Pending) {
        let opens = self.inbounds.get(&manifest.move_id).map(|kept| kept.stored.opens.clone()).unwrap_or_default();
        let stored = StoredInbound {
            move_id: manifest.move_id,
            copy: manifest.copy,
            source: manifest.source,
            selector: manifest.selector.clone(),
            replay: Some(StoredReplay {
                snapshot: manifest.position,
                position: manifest.position,
                digest,
                states: manifest.states.clone(),
                fences: manifest.fences.clone(),
            }),
            opens,
        };
        self.keep_inbound(stored, pending);
    }

    /// Applies the next record of the source's partition for a move on its way in. One at or below the replayed
    /// position is skipped; of the others only keys of the move's selector count.
    ///
    /// Errors: as [`ShardCore::apply`]; `Broken` also when the move has no replay.
    pub fn replay(&mut self, move_id: MoveId, logged: &Logged, ground: &mut Ground<'_>) -> Result<(), Stop> {
        let inbound = self.inbounds.get(&move_id).map(|kept| &kept.stored);
        let Some((inbound, replay)) = inbound.and_then(|inbound| Some((inbound, inbound.replay.as_ref()?))) else {
            return Err(Stop::Broken(format!("move {move_id} has no replay here")));
        };
        if Some(logged.offset) <= replay.position {
            return Ok(());
        }
        if !ended(inbound, replay, ground.attempts) {
            let mark = logged.record.header(HEADER_MARK).is_some();
            let placed = logged.record.key.as_deref().filter(|_| !mark).map(|key| self.placement.place(key));
            if mark || placed.is_some_and(|placed| inbound.selector.contains(&placed.0)) {
                match DataRecord::read(&logged.record) {
                    Ok(DataRecord::Write(write)) => self.replay_write(move_id, write, logged.offset, ground)?,
                    Ok(DataRecord::Mark(Mark::Open(mark))) => {
                        self.replay_mark(move_id, MarkKind::Open, &mark, logged.offset, ground)?;
                    }
                    Ok(DataRecord::Mark(Mark::Fence(mark))) => {
                        self.replay_mark(move_id, MarkKind::Fence, &mark, logged.offset, ground)?;
                    }
                    Ok(DataRecord::Mark(Mark::Horizon { regions, version })) => {
                        self.replay_horizon(move_id, &regions, version, ground)?;
                    }
                    Err(_) => {}
                }
            }
        }
        self.change_replay(move_id, |replay| replay.position = Some(logged.offset));
        Ok(())
    }

    fn replay_write(
        &mut self,
        move_id: MoveId,
        write: Write,
        offset: Offset,
        ground: &mut Ground<'_>,
    ) -> Result<(), Stop> {
        let placed = self.placement.place(&write.partition_key);
        let (source, replay) = self.replay_of(move_id);
        let Some(index) = regions::find(&replay.states, &placed.0) else {
            return Err(Stop::Broken(format!(
                "the copy of move {move_id} has no slot state for a key of its selector"
            )));
        };
        let judged = self.replay_judge(source, ground).write(replay.states[index].state, write.epoch)?;
        self.change_replay(move_id, |replay| replay.states[index].state = judged.state);
        if !judged.effective {
            return Ok(());
        }
        let version = Version { epoch: write.epoch, offset };
        let (_, change) = Accepted { write, placed: &placed, version, reading: Reading::Replayed }.answer(ground)?;
        self.change_replay(move_id, |replay| replay.digest = replay.digest.plus(change));
        Ok(())
    }

    fn replay_mark(
        &mut self,
        move_id: MoveId,
        kind: MarkKind,
        mark: &AttemptMark,
        offset: Offset,
        ground: &mut Ground<'_>,
    ) -> Result<(), Stop> {
        let (source, replay) = self.replay_of(move_id);
        if self.unfounded.get(&Some(move_id)) == Some(&offset)
            || marks::allowed(kind, mark, ground.attempts, self.identity.keyspace, source)?.is_err()
        {
            return Ok(());
        }
        let plan = marks::plan(kind, mark, &replay.states, &self.replay_judge(source, ground))?;
        self.assign_replay(move_id, &plan.parts);
        if plan.effective && kind == MarkKind::Fence {
            self.change_replay(move_id, |replay| replay.fences.push((mark.attempt, offset)));
        }
        Ok(())
    }

    fn replay_horizon(
        &mut self,
        move_id: MoveId,
        named: &[(KeyRange, Epoch)],
        version: Version,
        ground: &mut Ground<'_>,
    ) -> Result<(), Stop> {
        let (source, replay) = self.replay_of(move_id);
        let plan = horizon::plan(named, &replay.states, &self.replay_judge(source, ground))?;
        let mut gone = Digest::default();
        for range in &plan.ranges {
            horizon::forget(range, version, ground, &mut |_, entry| gone = gone.plus(entry))?;
        }
        self.assign_replay(move_id, &plan.resolved);
        self.change_replay(move_id, |replay| replay.digest = replay.digest.minus(gone));
        Ok(())
    }

    pub(crate) fn replay_judge<'a>(&'a self, source: ShardId, ground: &Ground<'a>) -> Judge<'a> {
        Judge { attempts: ground.attempts, partition: source, inbounds: &self.inbounds }
    }

    pub(crate) fn assign_replay(&mut self, move_id: MoveId, parts: &[(KeyRange, SlotState)]) {
        self.change_replay(move_id, |replay| {
            for (range, state) in parts {
                regions::assign(&mut replay.states, range, *state);
            }
        });
    }

    fn replay_of(&self, move_id: MoveId) -> (ShardId, &StoredReplay) {
        let inbound = &self.inbounds.get(&move_id).expect("the caller looked it up").stored;
        (inbound.source, inbound.replay.as_ref().expect("the caller looked it up"))
    }

    fn change_replay(&mut self, move_id: MoveId, change: impl FnOnce(&mut StoredReplay)) {
        if let Some(kept) = self.inbounds.get_mut(&move_id)
            && let Some(replay) = &mut kept.stored.replay
        {
            change(replay);
            kept.changed = true;
        }
    }

    pub(crate) fn keep_inbound(&mut self, stored: StoredInbound, pending: &mut Pending) {
        pending.put(store_key::inbound(stored.move_id), stored.encode());
        self.inbounds.insert(stored.move_id, crate::core::Kept { stored, changed: false });
    }
}

/// Tells whether the replay has reached the fence of its move's switched attempt.
fn ended(inbound: &StoredInbound, replay: &StoredReplay, attempts: &dyn Attempts) -> bool {
    // The latest attempt tells: an attempt is started only after the one before it was aborted.
    replay.fences.last().and_then(|(attempt, _)| attempts.attempt(*attempt)).is_some_and(|facts| {
        facts.move_id == inbound.move_id
            && matches!(facts.outcome, Some(Outcome::Switched { fence }) if replay.position >= Some(fence))
    })
}
