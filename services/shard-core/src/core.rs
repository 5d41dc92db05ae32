//! One replica's core: the live tail of its own partition.

use crate::horizon;
use crate::judge::Judge;
use crate::marks::{self, MarkApplied, MarkEffect, MarkKind};
use crate::pending::Pending;
use crate::regions;
use crate::rejects;
use crate::rows::{Accepted, Reading};
use crate::stop::Stop;
use crate::times::Times;
use crate::view::{View, ViewError};
use rehome_keyspace::{Attempts, Epoch, KeyRange, MoveId, Offset, Placement, Version};
use rehome_records::data::AttemptMark;
use rehome_records::store_value::{StoredApplied, StoredIdentity, StoredInbound, StoredOutbound, StoredTimes};
use rehome_records::{DataRecord, Digest, Logged, Mark, SlotState, StateRegion, Verdict, Write, store_key};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What a record is judged upon: the store, the changes before it, and what the control log tells of attempts.
pub struct Ground<'a> {
    pub view: &'a dyn View,
    pub attempts: &'a dyn Attempts,
    pub pending: &'a mut Pending,
}

impl Ground<'_> {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        self.pending.get(self.view, key)
    }
}

/// What became of a record. Both are nothing when it was applied before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The answer to a write, or to what cannot be read.
    pub verdict: Option<Verdict>,
    pub mark: Option<MarkApplied>,
    /// It is kept as a reject: nobody will send it again.
    pub rejected: bool,
}

/// An entry of a move that is put into the store by the next [`ShardCore::seal`] if it changed.
pub(crate) struct Kept<T> {
    pub stored: T,
    pub changed: bool,
}

pub(crate) type Outbounds = BTreeMap<MoveId, Kept<StoredOutbound>>;
pub(crate) type Inbounds = BTreeMap<MoveId, Kept<StoredInbound>>;

/// The state of one replica of one shard, apart from the entries of its store.
pub struct ShardCore {
    pub(crate) identity: StoredIdentity,
    pub(crate) placement: Placement,
    pub(crate) applied: Option<StoredApplied>,
    applied_changed: bool,
    times: Times,
    /// Covers every key.
    pub(crate) states: Vec<StateRegion>,
    pub(crate) outbounds: Outbounds,
    pub(crate) inbounds: Inbounds,
    /// Marks that cite a control record that does not exist: the newest of the live tail, and of each replay.
    pub(crate) unfounded: BTreeMap<Option<MoveId>, Offset>,
}

impl ShardCore {
    /// Starts an empty replica: owned where granted at the keyspace's creation, closed everywhere else.
    /// `retention_ms`: how long request ids are kept, in milliseconds of the log's time.
    pub fn create(
        identity: StoredIdentity,
        placement: Placement,
        retention_ms: u64,
        granted: &[(KeyRange, Epoch)],
        pending: &mut Pending,
    ) -> ShardCore {
        let states = regions::granted(granted);
        pending.put(store_key::identity(), identity.encode());
        put_states(&states, pending);
        ShardCore::with(identity, placement, states, Times::new(retention_ms, StoredTimes::default()))
    }

    /// Goes on from what a store holds; nothing when the store is empty. `retention_ms` as for [`ShardCore::create`].
    ///
    /// Errors: `Broken` when it is another replica's store, or damaged.
    pub fn recover(
        identity: StoredIdentity,
        placement: Placement,
        retention_ms: u64,
        view: &dyn View,
    ) -> Result<Option<ShardCore>, Stop> {
        let Some(found) = view.get(&store_key::identity())? else {
            let mut entries = 0;
            view.scan(&KeyRange::all(), &mut |_, _| {
                entries += 1;
                ControlFlow::Break(())
            })?;
            return if entries == 0 { Ok(None) } else { Err(Stop::Broken("a store with entries has no owner".into())) };
        };
        let found = StoredIdentity::decode(&found)?;
        if found != identity {
            return Err(Stop::Broken(format!(
                "the store belongs to shard {} of keyspace {}, not to shard {} of keyspace {}",
                found.shard, found.keyspace, identity.shard, identity.keyspace
            )));
        }
        let states = collect(view, store_key::KIND_STATE, |_, value| Ok(StateRegion::decode(value)?))?;
        if !regions::cover_everything(&states) {
            return Err(Stop::Broken("the store's slot states do not cover every key once".into()));
        }
        let times = view.get(&store_key::times())?.map(|times| StoredTimes::decode(&times)).transpose()?;
        let times = Times::new(retention_ms, times.unwrap_or_default());
        let mut core = ShardCore::with(identity, placement, states, times);
        core.applied = view.get(&store_key::applied())?.map(|applied| StoredApplied::decode(&applied)).transpose()?;
        collect(view, store_key::KIND_MOVE, |key, value| core.take_in_move(key, value))?;
        Ok(Some(core))
    }

    fn with(identity: StoredIdentity, placement: Placement, states: Vec<StateRegion>, times: Times) -> ShardCore {
        ShardCore {
            identity,
            placement,
            applied: None,
            applied_changed: false,
            times,
            states,
            outbounds: BTreeMap::new(),
            inbounds: BTreeMap::new(),
            unfounded: BTreeMap::new(),
        }
    }

    fn take_in_move(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        match key.last() {
            Some(b'o') => {
                let stored = StoredOutbound::decode(value)?;
                self.outbounds.insert(stored.move_id, Kept { stored, changed: false });
            }
            Some(b'i') => {
                let stored = StoredInbound::decode(value)?;
                self.inbounds.insert(stored.move_id, Kept { stored, changed: false });
            }
            _ => return Err(Stop::Broken(format!("the store holds an unknown part of a move: {key:02x?}"))),
        }
        Ok(())
    }

    pub fn identity(&self) -> StoredIdentity {
        self.identity
    }

    /// Returns how far the own partition is applied; nothing before the first record.
    pub fn applied(&self) -> Option<StoredApplied> {
        self.applied
    }

    /// Returns the newest offset of the own partition that is known to be older than request ids are kept, with all
    /// before it: what a `Horizon` may forget. A function of the applied prefix.
    pub fn horizon(&self) -> Option<Offset> {
        self.times.horizon(self.applied?.time_ms)
    }

    /// Applies the next record of the own partition. One at or below the applied offset is skipped.
    ///
    /// Errors: `Wait`: nothing was changed, give the same record again once that was seen. `Broken`: stop.
    pub fn apply(&mut self, logged: &Logged, ground: &mut Ground<'_>) -> Result<Applied, Stop> {
        if self.applied.is_some_and(|applied| logged.offset <= applied.offset) {
            return Ok(Applied::default());
        }
        let done = match DataRecord::read(&logged.record) {
            Err(invalid) => {
                rejects::keep(logged, &invalid.0, ground.pending);
                let verdict = Some(Verdict::Invalid { reason: invalid.0 });
                Applied { verdict, rejected: true, ..Applied::default() }
            }
            Ok(DataRecord::Write(write)) => {
                let is_named = write.request.is_some() || write.source.is_some();
                let verdict = self.apply_write(write, logged.offset, ground)?;
                let rejected = verdict == Verdict::StaleRoute && !is_named;
                if rejected {
                    rejects::keep(logged, rejects::STALE, ground.pending);
                }
                Applied { verdict: Some(verdict), rejected, ..Applied::default() }
            }
            Ok(DataRecord::Mark(mark)) => {
                Applied { mark: Some(self.apply_mark(&mark, logged.offset, ground)?), ..Applied::default() }
            }
        };
        let time_ms = self.applied.map_or(0, |applied| applied.time_ms).max(logged.append_time_ms);
        self.applied = Some(StoredApplied { offset: logged.offset, record_hash: logged.hash(), time_ms });
        self.applied_changed = true;
        self.times.note(logged.offset, time_ms);
        Ok(done)
    }

    /// Puts what changed for the batch as a whole: the applied offset, times, and the entries of moves. Called once, before
    /// the batch is written.
    pub fn seal(&mut self, pending: &mut Pending) {
        if let Some(applied) = self.applied
            && std::mem::take(&mut self.applied_changed)
        {
            pending.put(store_key::applied(), applied.encode());
        }
        if let Some(times) = self.times.take_changed() {
            pending.put(store_key::times(), times.encode());
        }
        for (move_id, outbound) in &mut self.outbounds {
            if std::mem::take(&mut outbound.changed) {
                pending.put(store_key::outbound(*move_id), outbound.stored.encode());
            }
        }
        for (move_id, inbound) in &mut self.inbounds {
            if std::mem::take(&mut inbound.changed) {
                pending.put(store_key::inbound(*move_id), inbound.stored.encode());
            }
        }
    }

    /// Tells the core that the mark at that offset (of the source's partition, when a move is named) cites a control
    /// record that does not exist: it waited for [`crate::WaitFor::Control`], and the control log's end, fetched after
    /// that, was not above the cited offset. A mark is appended after the record it cites, so this one is forged: the
    /// next `apply` or `replay` of it refuses it, as every replica does that judges it later.
    pub fn refuse_unfounded(&mut self, replay_of: Option<MoveId>, offset: Offset) {
        self.unfounded.insert(replay_of, offset);
    }

    fn apply_write(&mut self, write: Write, offset: Offset, ground: &mut Ground<'_>) -> Result<Verdict, Stop> {
        let placed = self.placement.place(&write.partition_key);
        let index = regions::find(&self.states, &placed.0).expect("the states cover every key");
        let judged = self.judge(ground).write(self.states[index].state, write.epoch)?;
        if judged.state != self.states[index].state {
            self.states[index].state = judged.state;
            put_states(&self.states[index..=index], ground.pending);
        }
        if !judged.effective {
            return Ok(Verdict::StaleRoute);
        }
        let moving = self.outbounds.values().any(|outbound| outbound.stored.selector.contains(&placed.0));
        let reading = if moving { Reading::Moving } else { Reading::Blind };
        let version = Version { epoch: write.epoch, offset };
        let (verdict, change) = Accepted { write, placed: &placed, version, reading }.answer(ground)?;
        if moving {
            change_outbound(&mut self.outbounds, &placed.0, |digest| digest.plus(change));
        }
        Ok(verdict)
    }

    fn apply_mark(&mut self, mark: &Mark, offset: Offset, ground: &mut Ground<'_>) -> Result<MarkApplied, Stop> {
        match mark {
            Mark::Open(mark) => self.apply_attempt_mark(MarkKind::Open, mark, offset, ground),
            Mark::Fence(mark) => self.apply_attempt_mark(MarkKind::Fence, mark, offset, ground),
            Mark::Horizon { regions, version } => self.apply_horizon(regions, *version, ground),
        }
    }

    fn apply_attempt_mark(
        &mut self,
        kind: MarkKind,
        mark: &AttemptMark,
        offset: Offset,
        ground: &mut Ground<'_>,
    ) -> Result<MarkApplied, Stop> {
        let applied = |effect| MarkApplied { attempt: Some(mark.attempt), effect };
        if self.unfounded.get(&None) == Some(&offset) {
            return Ok(applied(MarkEffect::Refused { reason: "the control record it cites does not exist".into() }));
        }
        let facts = match marks::allowed(kind, mark, ground.attempts, self.identity.keyspace, self.identity.shard)? {
            Ok(facts) => facts,
            Err(reason) => return Ok(applied(MarkEffect::Refused { reason })),
        };
        let plan = marks::plan(kind, mark, &self.states, &self.judge(ground))?;
        self.assign(&plan.parts, ground.pending);
        if !plan.effective {
            return Ok(applied(MarkEffect::Ignored));
        }
        Ok(applied(match kind {
            MarkKind::Open => {
                if let Some(inbound) = self.inbounds.get_mut(&facts.move_id) {
                    inbound.stored.opens.push((mark.attempt, offset));
                    inbound.changed = true;
                }
                MarkEffect::Opened
            }
            MarkKind::Fence => {
                if let Some(outbound) = self.outbounds.get_mut(&facts.move_id) {
                    outbound.stored.fences.push((mark.attempt, offset));
                    outbound.changed = true;
                }
                MarkEffect::Fenced
            }
        }))
    }

    fn apply_horizon(
        &mut self,
        named: &[(KeyRange, Epoch)],
        version: Version,
        ground: &mut Ground<'_>,
    ) -> Result<MarkApplied, Stop> {
        let plan = horizon::plan(named, &self.states, &self.judge(ground))?;
        let outbounds = &mut self.outbounds;
        let mut entries = 0;
        for range in &plan.ranges {
            entries += horizon::forget(range, version, ground, &mut |key, gone| {
                change_outbound(outbounds, key, |digest| digest.minus(gone));
            })?;
        }
        self.assign(&plan.resolved, ground.pending);
        let effect = if plan.ranges.is_empty() { MarkEffect::Ignored } else { MarkEffect::Forgot { entries } };
        Ok(MarkApplied { attempt: None, effect })
    }

    /// Returns the judge of the own partition.
    pub(crate) fn judge<'a>(&'a self, ground: &Ground<'a>) -> Judge<'a> {
        Judge { attempts: ground.attempts, partition: self.identity.shard, inbounds: &self.inbounds }
    }

    /// Gives the regions their states, in the store too.
    pub(crate) fn assign(&mut self, parts: &[(KeyRange, SlotState)], pending: &mut Pending) {
        for (range, state) in parts {
            put_states(&regions::assign(&mut self.states, range, *state), pending);
        }
    }
}

fn change_outbound(outbounds: &mut Outbounds, key: &[u8], change: impl Fn(Digest) -> Digest) {
    for outbound in outbounds.values_mut().filter(|outbound| outbound.stored.selector.contains(key)) {
        outbound.stored.change = change(outbound.stored.change);
        outbound.changed = true;
    }
}

fn put_states(states: &[StateRegion], pending: &mut Pending) {
    for region in states {
        pending.put(store_key::state(&region.range.start), region.encode());
    }
}

fn collect<T>(
    view: &dyn View,
    kind: u8,
    mut read: impl FnMut(&[u8], &[u8]) -> Result<T, Stop>,
) -> Result<Vec<T>, Stop> {
    let mut found = Vec::new();
    let mut problem = None;
    view.scan(&store_key::kind_range(kind), &mut |key, value| match read(key, value) {
        Ok(value) => {
            found.push(value);
            ControlFlow::Continue(())
        }
        Err(stop) => {
            problem = Some(stop);
            ControlFlow::Break(())
        }
    })?;
    problem.map_or(Ok(found), Err)
}
