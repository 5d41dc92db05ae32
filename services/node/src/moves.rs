//! What the replica owes to each move, by its phase and side.
//!
//! Nothing here is remembered that the fold and the store do not say, but for work that is running right now. So a
//! replica that starts again owes exactly what it owed before, and does it again.
//!
//! ```text
//! source        copying      note the change from here on -> export -> note the base -> SnapshotTaken
//!               until switched, where a crash lost the base: count the digest anew
//!               cutting-over fence applied -> Ready
//!               completing   wipe -> CleanupDone
//! destination   copying      wipe, ingest, read back -> note the replay's start -> flush -> CopyIngested
//!               cutting-over fence replayed, open applied -> Ready
//!               cancelling   wipe -> CleanupDone
//! ```
//!
//! While its job is paused, a move begins no export and no ingest; both end if they run, and a replay goes on.

use crate::copy::{Exported, snapshot_name};
use crate::proposals::Topic;
use crate::replica::{Message, Replica};
use crate::step::Step;
use rehome_control_core::{Move, Phase};
use rehome_keyspace::{AttemptFacts, AttemptId, Attempts, MoveId, Selector, ShardId, Side};
use rehome_ports::{PortError, Remedy, around};
use rehome_records::{ControlEvent, Digest, Manifest, SlotState};
use rehome_shard_core::Pending;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pause before work that failed is tried again, in milliseconds.
const AGAIN_AFTER_MS: u64 = 500;

/// Copies of other moves rest for one that catches up or cuts over at most this long, in milliseconds. Reason: usually
/// both take far less; where they do not, resting does not help.
const HOLD_MAX_MS: u64 = 3_000;

/// Work of a move that runs beside the turns, or what it left to be picked up.
pub(crate) enum Running {
    Working,
    Done(JobDone),
    /// What the phase needs is there, and is proposed until the fold has it.
    Told(ControlEvent),
    Again {
        at_ms: u64,
    },
}

/// What a job of a move tells the replica.
pub(crate) enum JobDone {
    Exported(Result<Exported, PortError>),
    /// The base of that copy's running digest.
    Counted(u32, Result<Digest, PortError>),
    Ingested(Result<Manifest, PortError>),
    Flushed(ControlEvent, Result<(), PortError>),
    Wiped(Result<(), PortError>),
}

/// What is done once the turn's batch is written.
#[derive(Default)]
pub(crate) struct AfterWrite {
    proposals: Vec<(Topic, Step, ControlEvent)>,
    jobs: Vec<(MoveId, Work)>,
    /// Snapshots of copies that nobody will take: move, source, copy.
    left_over: Vec<(MoveId, ShardId, u32)>,
}

pub(crate) enum Work {
    Export { copy: u32 },
    Count { copy: u32 },
    Ingest { name: String, selector: Arc<Selector> },
    Flush(ControlEvent),
    Wipe { selector: Arc<Selector>, source: ShardId, copy: u32 },
}

impl AfterWrite {
    /// Starts work of a move.
    pub fn start(&mut self, move_id: MoveId, work: Work) {
        self.jobs.push((move_id, work));
    }
}

/// A move as one of its replicas sees it.
struct Duty {
    id: MoveId,
    side: Side,
    phase: Phase,
    /// When the phase began.
    since_ms: u64,
    /// Its job is paused: nothing new is begun, what is under way ends.
    paused: bool,
    copy: u32,
    source: ShardId,
    selector: Arc<Selector>,
    snapshot: Option<rehome_control_core::SnapshotFacts>,
    attempt: Option<AttemptFacts>,
    /// The fold has this replica's part of the phase already, or of the one before.
    told: bool,
}

impl Replica {
    /// Takes what a job says; it is picked up with the duties of this turn.
    pub(crate) fn job_done(&mut self, move_id: MoveId, done: JobDone, now_ms: u64) {
        let failed = match &done {
            JobDone::Exported(Err(error))
            | JobDone::Counted(_, Err(error))
            | JobDone::Flushed(_, Err(error))
            | JobDone::Wiped(Err(error)) => Some(error),
            JobDone::Ingested(Err(error)) if error.remedy != Remedy::Broken => Some(error),
            _ => None,
        };
        let next = match failed {
            Some(error) => {
                tracing::warn!(move_id = %move_id, shard = %self.shard, %error, "work of a move failed and is tried again");
                self.troubles.insert(move_id, error.message.clone());
                Running::Again { at_ms: now_ms + AGAIN_AFTER_MS }
            }
            None => {
                self.troubles.remove(&move_id);
                Running::Done(done)
            }
        };
        self.running.insert(move_id, next);
    }

    /// Notes in `pending` what the moves here need written, and in `after` what is to be done once it is.
    pub(crate) fn gather_duties(&mut self, pending: &mut Pending, after: &mut AfterWrite, now_ms: u64) {
        let duties = self.duties();
        for duty in &duties {
            if matches!(self.running.get(&duty.id), Some(Running::Again { at_ms }) if *at_ms <= now_ms) {
                self.running.remove(&duty.id);
            }
            match (&duty.phase, duty.side) {
                (Phase::Copying, Side::Source) if duty.snapshot.is_none() => self.export_duty(duty, pending, after),
                (Phase::Copying | Phase::CatchingUp, Side::Source) => self.count_duty(duty, pending, after),
                (Phase::Copying, Side::Destination) => self.ingest_duty(duty, pending, after),
                (Phase::CatchingUp, Side::Destination) => self.hold_copy_duty(duty, after),
                (Phase::CuttingOver { .. }, side) => {
                    if side == Side::Source {
                        self.count_duty(duty, pending, after);
                    }
                    self.ready_duty(duty, after);
                }
                (Phase::Completing { .. }, Side::Source) => self.wipe_duty(duty, pending, after),
                (Phase::Cancelling | Phase::Failing { .. }, Side::Destination) => self.wipe_duty(duty, pending, after),
                (Phase::Cancelling | Phase::Failing { .. }, Side::Source) => self.forget_outbound(duty, pending, after),
                _ => {}
            }
        }
        self.drop_again(after, pending, now_ms);
        self.forget_what_ended(&duties, pending, after);
        let is_urgent = |duty: &Duty| {
            let switches_soon = match duty.phase {
                Phase::CatchingUp => !duty.paused,
                Phase::CuttingOver { .. } => true,
                _ => false,
            };
            switches_soon && now_ms.saturating_sub(duty.since_ms) < HOLD_MAX_MS
        };
        self.hold_jobs(duties.iter().any(is_urgent));
    }

    /// Returns the moves whose replay rests because another one is being cut over here: what they take of a turn would
    /// lengthen its pause. For a bounded time, and only while they catch up: once they are cut over, others wait for them.
    pub(crate) fn resting_replays(&self, now_ms: u64) -> BTreeSet<MoveId> {
        let here = || self.follower.state().open_moves().filter(|one| self.concerns(one));
        let is_urgent = |one: &Move| {
            matches!(one.phase, Phase::CuttingOver { .. }) && now_ms.saturating_sub(one.changed_ms) < HOLD_MAX_MS
        };
        if !here().any(is_urgent) {
            return BTreeSet::new();
        }
        here().filter(|one| one.phase == Phase::CatchingUp).map(|one| one.id).collect()
    }

    fn concerns(&self, one: &Move) -> bool {
        one.keyspace == self.keyspace && (one.source == self.shard || one.destination == self.shard)
    }

    /// What copies read and write would lengthen the pause of a move that is about to switch.
    pub(crate) fn hold_jobs(&mut self, held: bool) {
        if held != self.holds_jobs {
            self.holds_jobs = held;
            self.config.jobs.hold((self.keyspace, self.shard), held);
        }
    }

    fn duties(&self) -> Vec<Duty> {
        let state = self.follower.state();
        let duty = |m: &Move| {
            let side = if m.source == self.shard { Side::Source } else { Side::Destination };
            let attempt = m.attempts.last().and_then(|attempt| state.attempt(*attempt));
            let told = match &m.phase {
                Phase::CatchingUp => m.ingested.contains(&self.config.node),
                Phase::CuttingOver { attempt } => self.has_told_ready(*attempt, side),
                Phase::Completing { .. } | Phase::Cancelling | Phase::Failing { .. } => {
                    !m.cleanup_awaited.contains(&self.config.node)
                }
                _ => false,
            };
            Duty {
                id: m.id,
                side,
                phase: m.phase.clone(),
                since_ms: m.changed_ms,
                paused: state.is_paused(m.job),
                copy: m.copy,
                source: m.source,
                selector: Arc::clone(&m.selector),
                snapshot: m.snapshot,
                attempt,
                told,
            }
        };
        state.open_moves().filter(|one| self.concerns(one)).map(duty).collect()
    }

    fn has_told_ready(&self, attempt: AttemptId, side: Side) -> bool {
        let attempt = self.follower.state().attempt_record(attempt);
        attempt.is_some_and(|attempt| {
            attempt.readies.iter().any(|ready| ready.node == self.config.node && ready.side == side)
        })
    }

    fn export_duty(&mut self, duty: &Duty, pending: &mut Pending, after: &mut AfterWrite) {
        match self.running.remove(&duty.id) {
            Some(Running::Done(JobDone::Exported(Ok(exported)))) if exported.manifest.copy == duty.copy => {
                self.core.set_outbound_base(duty.id, duty.copy, exported.base, pending);
                self.running.insert(duty.id, Running::Told(self.snapshot_taken(&exported.manifest)));
            }
            Some(Running::Told(event)) if matches!(event, ControlEvent::SnapshotTaken { copy, .. } if copy == duty.copy) =>
            {
                after.proposals.push((
                    Topic::SnapshotTaken(duty.id, duty.copy),
                    Step::ProposeSnapshotTaken,
                    event.clone(),
                ));
                self.running.insert(duty.id, Running::Told(event));
            }
            Some(running @ (Running::Working | Running::Again { .. })) => {
                self.running.insert(duty.id, running);
            }
            Some(Running::Done(_) | Running::Told(_)) | None => self.start_export(duty, pending, after),
        }
    }

    /// The running digest follows from the state: where a crash lost its base, the keys are counted again. So the source
    /// need not make it durable, which would stall its writers.
    fn count_duty(&mut self, duty: &Duty, pending: &mut Pending, after: &mut AfterWrite) {
        match self.running.remove(&duty.id) {
            Some(Running::Done(JobDone::Counted(copy, Ok(base)))) if copy == duty.copy => {
                self.core.set_outbound_base(duty.id, copy, base, pending);
            }
            Some(running @ (Running::Working | Running::Again { .. })) => {
                self.running.insert(duty.id, running);
            }
            _ if self.core.outbound(duty.id).is_some_and(|known| known.copy == duty.copy && known.base.is_some()) => {}
            _ if self.is_still_brought(duty.id, &duty.selector) => {}
            _ => {
                self.core.start_outbound(duty.id, duty.copy, (*duty.selector).clone(), pending);
                self.running.insert(duty.id, Running::Working);
                after.jobs.push((duty.id, Work::Count { copy: duty.copy }));
            }
        }
    }

    fn start_export(&mut self, duty: &Duty, pending: &mut Pending, after: &mut AfterWrite) {
        if let Some(event) = self.exported_before(duty) {
            self.running.insert(duty.id, Running::Told(event));
        } else if !duty.paused && self.core.holds_whole(&duty.selector) {
            // Copies are numbered from one.
            after.left_over.extend((duty.copy > 1).then(|| (duty.id, duty.source, duty.copy - 1)));
            self.core.start_outbound(duty.id, duty.copy, (*duty.selector).clone(), pending);
            self.running.insert(duty.id, Running::Working);
            after.jobs.push((duty.id, Work::Export { copy: duty.copy }));
        }
    }

    /// Returns what to propose when an earlier life of this replica had finished the export.
    fn exported_before(&self, duty: &Duty) -> Option<ControlEvent> {
        let outbound = self.core.outbound(duty.id)?;
        if outbound.copy != duty.copy || outbound.base.is_none() {
            return None;
        }
        let name = snapshot_name(self.keyspace, self.shard, duty.id, duty.copy);
        let manifest = self.config.snapshots.manifest(&name).ok().flatten()?;
        Some(self.snapshot_taken(&manifest))
    }

    fn snapshot_taken(&self, manifest: &Manifest) -> ControlEvent {
        ControlEvent::SnapshotTaken {
            move_id: manifest.move_id,
            copy: manifest.copy,
            node: self.config.node,
            position: manifest.position,
            digest: manifest.digest,
            bytes: manifest.bytes(),
        }
    }

    fn ingest_duty(&mut self, duty: &Duty, pending: &mut Pending, after: &mut AfterWrite) {
        let Some(snapshot) = duty.snapshot.as_ref().filter(|snapshot| snapshot.copy == duty.copy) else { return };
        let node = self.config.node;
        let ingested = ControlEvent::CopyIngested { move_id: duty.id, copy: duty.copy, node, digest: snapshot.digest };
        match self.running.remove(&duty.id) {
            Some(Running::Done(JobDone::Ingested(Ok(manifest)))) if manifest.copy == duty.copy => {
                if manifest.digest == snapshot.digest {
                    self.core.start_replay(&manifest, manifest.digest, pending);
                    self.running.insert(duty.id, Running::Working);
                    after.jobs.push((duty.id, Work::Flush(ingested)));
                } else {
                    self.copy_failed(duty, "the snapshot is not the one that the source told of".into());
                }
            }
            Some(Running::Done(JobDone::Ingested(Err(error)))) => self.copy_failed(duty, error.message),
            Some(Running::Done(JobDone::Flushed(event, _))) if event == ingested => {
                self.running.insert(duty.id, Running::Told(event));
            }
            Some(Running::Told(event)) if event == ingested => {
                after.proposals.push((
                    Topic::CopyIngested(duty.id, duty.copy),
                    Step::ProposeCopyIngested,
                    event.clone(),
                ));
                self.running.insert(duty.id, Running::Told(event));
            }
            Some(Running::Told(event)) if is_copy_failed(&event, duty.copy) => {
                after.proposals.push((Topic::CopyFailed(duty.id, duty.copy), Step::ProposeCopyFailed, event.clone()));
                self.running.insert(duty.id, Running::Told(event));
            }
            Some(running @ (Running::Working | Running::Again { .. })) => {
                self.running.insert(duty.id, running);
            }
            Some(Running::Done(_) | Running::Told(_)) | None => self.start_ingest(duty, ingested, pending, after),
        }
    }

    fn start_ingest(&mut self, duty: &Duty, ingested: ControlEvent, pending: &mut Pending, after: &mut AfterWrite) {
        let inbound = self.core.inbound(duty.id).filter(|inbound| inbound.copy == duty.copy);
        if inbound.is_some_and(|inbound| inbound.replay.is_some()) {
            // The copy was taken in before, by an earlier life, or in this one with a flush that failed.
            self.running.insert(duty.id, Running::Working);
            after.jobs.push((duty.id, Work::Flush(ingested)));
        } else if !duty.paused && self.core.all_closed(&duty.selector) && !self.is_to_be_dropped_again(&duty.selector) {
            self.core.start_inbound(duty.id, duty.copy, duty.source, (*duty.selector).clone(), pending);
            let name = snapshot_name(self.keyspace, duty.source, duty.id, duty.copy);
            self.running.insert(duty.id, Running::Working);
            after.jobs.push((duty.id, Work::Ingest { name, selector: Arc::clone(&duty.selector) }));
        }
    }

    /// A replica that told of a copy, and does not have it any more, lost its store: another copy is taken.
    fn hold_copy_duty(&self, duty: &Duty, after: &mut AfterWrite) {
        let inbound = self.core.inbound(duty.id).filter(|inbound| inbound.copy == duty.copy);
        if duty.told && inbound.is_none_or(|inbound| inbound.replay.is_none()) {
            let reason = "the store that held the copy is gone".to_owned();
            let event = ControlEvent::CopyFailed { move_id: duty.id, copy: duty.copy, node: self.config.node, reason };
            after.proposals.push((Topic::CopyFailed(duty.id, duty.copy), Step::ProposeCopyFailed, event));
        }
    }

    fn copy_failed(&mut self, duty: &Duty, reason: String) {
        // Ordinary after a kill: what was under way then is not whole. Nothing is lost, the source has everything.
        tracing::info!(move_id = %duty.id, copy = duty.copy, %reason, "the copy cannot be used; the source makes another one");
        let event = ControlEvent::CopyFailed { move_id: duty.id, copy: duty.copy, node: self.config.node, reason };
        self.running.insert(duty.id, Running::Told(event));
    }

    fn ready_duty(&mut self, duty: &Duty, after: &mut AfterWrite) {
        let Some(facts) = duty.attempt.as_ref().filter(|facts| facts.outcome.is_none() && !duty.told) else { return };
        let Some(ready) = self.core.ready(facts) else { return };
        let event = ControlEvent::Ready {
            attempt: facts.attempt,
            node: self.config.node,
            side: ready.side,
            fence: ready.fence,
            open: ready.open,
            digest: ready.digest,
        };
        after.proposals.push((Topic::Ready(facts.attempt), Step::ProposeReady, event));
    }

    /// Drops the rows that a completed move left at its source, or one that ended early at its destination.
    ///
    /// The bookkeeping goes first, in the turn's batch, and is durable with the wipe: a replay that came back to life in
    /// a later life of this replica would write rows into the range that was just emptied.
    fn wipe_duty(&mut self, duty: &Duty, pending: &mut Pending, after: &mut AfterWrite) {
        if duty.told {
            return;
        }
        let done = ControlEvent::CleanupDone { move_id: duty.id, node: self.config.node };
        match self.running.remove(&duty.id) {
            Some(Running::Done(JobDone::Wiped(_))) => {
                self.running.insert(duty.id, Running::Told(done));
            }
            Some(Running::Told(event)) if event == done => {
                after.proposals.push((Topic::CleanupDone(duty.id), Step::ProposeCleanupDone, event.clone()));
                self.running.insert(duty.id, Running::Told(event));
            }
            Some(running @ (Running::Working | Running::Again { .. })) => {
                self.running.insert(duty.id, running);
            }
            Some(Running::Done(_) | Running::Told(_)) | None => {
                if self.may_wipe(duty) {
                    self.core.forget_move(duty.id, pending);
                    self.replays.remove(&duty.id);
                    self.running.insert(duty.id, Running::Working);
                    let work =
                        Work::Wipe { selector: Arc::clone(&duty.selector), source: duty.source, copy: duty.copy };
                    after.jobs.push((duty.id, work));
                }
            }
        }
    }

    /// A wipe waits until this replica has itself applied the fence that ended its shard's ownership.
    fn may_wipe(&self, duty: &Duty) -> bool {
        let epoch = duty.attempt.as_ref().filter(|_| duty.side == Side::Source).map(|facts| facts.epoch);
        let closed_since = |state: SlotState| match state {
            SlotState::Closed { highest } => epoch.is_none_or(|epoch| highest >= epoch),
            SlotState::Owned { .. } | SlotState::Contested { .. } => false,
        };
        self.core.regions_of(&duty.selector).iter().all(|region| closed_since(region.state))
    }

    /// An export that is under way ends first, so that what it leaves can be removed.
    fn forget_outbound(&mut self, duty: &Duty, pending: &mut Pending, after: &mut AfterWrite) {
        if matches!(self.running.get(&duty.id), Some(Running::Working)) {
            return;
        }
        if self.running.remove(&duty.id).is_some() || self.core.outbound(duty.id).is_some() {
            after.left_over.push((duty.id, duty.source, duty.copy));
            self.core.forget_move(duty.id, pending);
        }
    }

    /// Forgets the bookkeeping of moves that ended, and of replays that have done their work.
    fn forget_what_ended(&mut self, open: &[Duty], pending: &mut Pending, after: &mut AfterWrite) {
        let is_open = |id: MoveId| open.iter().any(|duty| duty.id == id);
        let known: Vec<MoveId> = {
            let state = self.follower.state();
            let outbound = self.core.outbounds().map(|outbound| outbound.move_id);
            // What was completed is kept until it is dropped again, see `rebuild`.
            let ended = |id| state.move_(id).is_some_and(|one| one.phase != Phase::Completed) && !is_open(id);
            let ended_out = outbound.filter(|id| ended(*id));
            let inbound = self.core.inbounds().map(|inbound| inbound.move_id);
            let ended_in = inbound.filter(|id| match state.move_(*id).map(|m| (&m.phase, m.attempts.last())) {
                Some((Phase::Cancelled | Phase::Failed { .. }, _)) => true,
                Some((Phase::Switched { .. } | Phase::Completing { .. } | Phase::Completed, Some(attempt))) => {
                    // The replay goes on until this replica's own tail has resolved the mark that made it owner.
                    state.attempt(*attempt).is_some_and(|facts| self.core.passed(&facts))
                }
                _ => false,
            });
            ended_out.chain(ended_in).collect()
        };
        self.troubles.retain(|id, _| is_open(*id));
        for id in known {
            self.core.forget_move(id, pending);
            self.replays.remove(&id);
        }
        let done: Vec<MoveId> =
            self.running.iter().filter(|(_, r)| !matches!(r, Running::Working)).map(|(id, _)| *id).collect();
        for id in done.into_iter().filter(|id| !is_open(*id) && self.core.outbound(*id).is_none()).collect::<Vec<_>>() {
            if let Some(Running::Done(JobDone::Exported(Ok(exported)))) = self.running.remove(&id) {
                after.left_over.push((id, self.shard, exported.manifest.copy));
            }
        }
    }

    /// Does what was gathered, now that the turn's batch is written.
    pub(crate) fn act(&mut self, after: AfterWrite, now_ms: u64) -> Result<bool, PortError> {
        let mut acted = false;
        for (topic, step, event) in after.proposals {
            acted |= self.propose(topic, step, event, now_ms);
        }
        for (move_id, work) in after.jobs {
            acted = true;
            self.spawn(move_id, work);
        }
        for (move_id, source, copy) in after.left_over {
            let copier = self.copier.clone();
            let job = move || {
                if let Err(error) = copier.remove_snapshot(source, move_id, copy) {
                    tracing::warn!(%move_id, copy, %error, "a snapshot that nobody takes is left on disk");
                }
            };
            self.config.jobs.spawn(format!("move-{move_id}-left-over"), Box::new(job));
        }
        Ok(acted)
    }

    fn spawn(&self, move_id: MoveId, work: Work) {
        let (copier, inbox) = (self.copier.clone(), self.inbox.clone());
        let job = move || {
            let done = match work {
                Work::Export { copy } => JobDone::Exported(copier.export(move_id, copy)),
                Work::Count { copy } => JobDone::Counted(copy, copier.count(move_id)),
                Work::Ingest { name, selector } => JobDone::Ingested(copier.ingest(&name, &selector)),
                Work::Flush(event) => {
                    JobDone::Flushed(event, around(&copier.hook, Step::Flush, || copier.store.flush()))
                }
                Work::Wipe { selector, source, copy } => {
                    let wiped = copier.wipe(&selector).and_then(|()| copier.store.flush());
                    let wiped = wiped.and_then(|()| copier.remove_snapshot(source, move_id, copy));
                    JobDone::Wiped(wiped)
                }
            };
            inbox.push(Message::Job(move_id, done));
        };
        self.config.jobs.spawn(format!("move-{move_id}-shard-{}", self.shard), Box::new(job));
    }

    /// Returns when work that failed is to be tried again.
    pub(crate) fn retry_at_ms(&self, now_ms: u64) -> Option<u64> {
        let at = self.running.values().filter_map(|running| match running {
            Running::Again { at_ms } if *at_ms > now_ms => Some(*at_ms),
            _ => None,
        });
        at.min()
    }
}

fn is_copy_failed(event: &ControlEvent, wanted: u32) -> bool {
    matches!(event, ControlEvent::CopyFailed { copy, .. } if *copy == wanted)
}
