//! One replica as a role: gather changes, write them together, then act.
//!
//! Contract of a turn, in this order:
//! 1. fold control records, take messages;
//! 2. gather changes in memory: live tail, replays, resolved states, bookkeeping of moves;
//! 3. write them as one batch;
//! 4. act on what is written: verdicts, flushes, proposals, jobs, reads.
//!
//! So nothing is told to anyone that a batch does not hold, and a crash between two steps repeats only idempotent ones.

use crate::citation::Citation;
use crate::copy::Copier;
use crate::live::Live;
use crate::moves::{AfterWrite, Running};
use crate::proposals::{Proposals, Topic};
use crate::reads::Reads;
use crate::rebuild::Rebuild;
use crate::rejects::{Rejects, RejectsMessage};
use crate::replay::Replay;
use crate::step::{Jobs, Step, StepHook};
use rehome_control_core::Keyspace;
use rehome_control_log::{ControlFollower, Opening, append_control, control_partition};
use rehome_keyspace::{KeyRange, KeyspaceId, MoveId, NodeId, Offset, ShardId};
use rehome_ports::{
    Change, Inbox, Log, PortError, ReadDone, ReadRequest, Reader, Remedy, ReplicaProgress, Role, SnapshotStore, Store,
    Turn, VerdictBatch, VerdictSink, Waker, WriteBatch, around,
};
use rehome_records::control::data_topic;
use rehome_records::store_value::StoredIdentity;
use rehome_records::{ControlEvent, ControlRecord, TopicPartition};
use rehome_shard_core::{Ground, Pending, ShardCore, Stop, View, ViewError};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Pause between two progress reports while a move touches the replica, in milliseconds.
const REPORT_EVERY_BUSY_MS: u64 = 5;
/// The same while none does.
const REPORT_EVERY_IDLE_MS: u64 = 500;

/// What a replica needs of its surroundings.
#[derive(Clone)]
pub struct ReplicaConfig {
    pub node: NodeId,
    pub log: Arc<dyn Log>,
    pub store: Arc<dyn Store>,
    pub snapshots: Arc<dyn SnapshotStore>,
    pub jobs: Arc<dyn Jobs>,
    pub verdicts: VerdictSink,
    pub progress: Arc<dyn Fn(ReplicaProgress) + Send + Sync>,
    pub hook: Option<StepHook>,
    /// Gives each proposal its command number.
    pub commands: Arc<dyn Fn() -> u128 + Send + Sync>,
}

/// Messages into a replica.
pub(crate) enum Message {
    Read(ReadRequest, ReadDone),
    Proposed(Topic, Result<Offset, PortError>),
    /// End of this replica's partition, asked for by the reads numbered below.
    DataEnd(u64, Result<Offset, PortError>),
    ControlEnd(u64, Result<Offset, PortError>),
    CitedEnd(Citation, Result<Offset, PortError>),
    /// End of the control log when the replica opened.
    StartEnd(Result<Offset, PortError>),
    /// End of some partition, for the lag in progress reports.
    KnownEnd(ShardId, Result<Offset, PortError>),
    Job(MoveId, crate::moves::JobDone),
    Rejects(RejectsMessage),
    /// Make everything applied so far durable, then tell.
    Flush(Box<dyn FnOnce(Result<(), PortError>) + Send>),
}

/// A node's copy of one shard.
pub struct Replica {
    pub(crate) config: ReplicaConfig,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) shard: ShardId,
    pub(crate) topic: String,
    pub(crate) placement: rehome_keyspace::Placement,
    pub(crate) follower: ControlFollower,
    pub(crate) opening: Opening,
    pub(crate) inbox: Inbox<Message>,
    pub(crate) wake: Waker,
    pub(crate) core: ShardCore,
    pub(crate) live: Live,
    pub(crate) replays: BTreeMap<MoveId, Replay>,
    pub(crate) running: BTreeMap<MoveId, Running>,
    /// Why work of a move failed last, until it does not.
    pub(crate) troubles: BTreeMap<MoveId, String>,
    pub(crate) proposals: Proposals,
    pub(crate) reads: Reads,
    pub(crate) copier: Copier,
    /// Marks that wait for the control record they cite, by the replay that met them.
    pub(crate) citations: BTreeMap<Option<MoveId>, Citation>,
    pub(crate) known_ends: BTreeMap<ShardId, Offset>,
    pub(crate) rejects: Rejects,
    pub(crate) reported_ms: u64,
    /// Jobs of this node rest for this replica.
    pub(crate) holds_jobs: bool,
    /// Its store was made just now, and is not durable: nothing else happens before it is.
    is_made: bool,
    /// Set once, by a broken invariant or a port that cannot go on: the replica then only answers that it cannot.
    pub(crate) broken: Option<String>,
}

impl Replica {
    /// Opens the replica, from its own files if it has any, else as the keyspace's creation left the shard.
    ///
    /// Errors: `Broken` when the store is another's, or cannot be read.
    /// `rebuild` says what a store takes that is made anew.
    pub(crate) fn open(
        config: ReplicaConfig,
        keyspace: &Keyspace,
        shard: ShardId,
        rebuild: &Rebuild,
        wake: Waker,
    ) -> Result<Replica, PortError> {
        let identity = StoredIdentity { keyspace: keyspace.id, shard };
        let view = StoreView(&*config.store);
        let mut is_made = false;
        let core = match ShardCore::recover(identity, keyspace.placement, keyspace.request_retention_ms, &view)
            .map_err(|stop| unusable(keyspace, shard, stop))?
        {
            Some(core) => core,
            None => {
                is_made = true;
                create(&*config.store, identity, keyspace, rebuild)?
            }
        };
        let topic = data_topic(&keyspace.name, keyspace.id);
        let partition = TopicPartition::new(topic.clone(), shard.0);
        let inbox = Inbox::new(Arc::clone(&wake));
        let live = Live::open(&*config.log, &partition, core.applied(), &wake)?;
        if core.applied().is_some() {
            // Nothing is served before the log is known to go as far as the store.
            let inbox = inbox.clone();
            config.log.end(&partition, Box::new(move |end| inbox.push(Message::KnownEnd(shard, end))));
        }
        let follower = ControlFollower::new(&*config.log, Arc::clone(&wake))?;
        let copier = Copier {
            keyspace: keyspace.id,
            shard,
            store: Arc::clone(&config.store),
            snapshots: Arc::clone(&config.snapshots),
            jobs: Arc::clone(&config.jobs),
            hook: config.hook.clone(),
        };
        Ok(Replica {
            keyspace: keyspace.id,
            shard,
            topic,
            placement: keyspace.placement,
            follower,
            opening: Opening::START,
            inbox,
            wake,
            core,
            live,
            replays: BTreeMap::new(),
            running: BTreeMap::new(),
            troubles: BTreeMap::new(),
            proposals: Proposals::default(),
            reads: Reads::default(),
            copier,
            citations: BTreeMap::new(),
            known_ends: BTreeMap::new(),
            rejects: Rejects::open(&*config.store)?,
            reported_ms: 0,
            holds_jobs: false,
            is_made,
            broken: None,
            config,
        })
    }

    /// Returns a way to send it messages.
    pub(crate) fn inbox(&self) -> Inbox<Message> {
        self.inbox.clone()
    }

    /// Returns why the replica has stopped for good, if it has.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Returns the shard core, for those who judge it.
    pub fn core(&self) -> &ShardCore {
        &self.core
    }

    pub(crate) fn partition_of(&self, shard: ShardId) -> TopicPartition {
        TopicPartition::new(self.topic.clone(), shard.0)
    }

    fn fold_control(&mut self, now_ms: u64) -> Result<bool, PortError> {
        let folded = match self.follower.turn() {
            Ok(folded) => folded > 0,
            Err(error) if error.remedy == Remedy::NotApplied => false,
            Err(error) => return Err(error),
        };
        self.proposals.folded(self.follower.state().folded_next(), now_ms);
        Ok(folded)
    }

    fn take_messages(&mut self, now_ms: u64) -> Result<bool, PortError> {
        let mut any = false;
        loop {
            let messages = self.inbox.drain();
            if messages.is_empty() {
                self.ask_for_ends();
                if self.inbox.is_empty() {
                    return Ok(any);
                }
                continue;
            }
            any = true;
            for message in messages {
                self.take(message, now_ms)?;
            }
        }
    }

    fn take(&mut self, message: Message, now_ms: u64) -> Result<(), PortError> {
        match message {
            Message::Read(request, done) => self.reads.push(request, done, now_ms),
            Message::Proposed(topic, result) => self.proposals.appended(topic, result, now_ms),
            Message::DataEnd(up_to, end) => self.reads.data_end(up_to, end),
            Message::ControlEnd(up_to, end) => self.reads.control_end(up_to, end),
            Message::StartEnd(end) => self.opening.told(end, now_ms),
            Message::KnownEnd(shard, Ok(end)) => {
                if shard == self.shard {
                    self.live.check_end(&self.partition_of(shard), end)?;
                }
                self.known_ends.insert(shard, end);
            }
            Message::KnownEnd(_, Err(_)) => {}
            Message::CitedEnd(citation, end) => self.cited_end(citation, end),
            Message::Job(move_id, done) => self.job_done(move_id, done, now_ms),
            Message::Rejects(told) => self.rejects.told(told, now_ms),
            Message::Flush(done) => done(self.config.store.flush()),
        }
        Ok(())
    }

    /// Asks the log for the ends that reads wait for; one question serves all reads that came before it.
    fn ask_for_ends(&mut self) {
        if let Some(up_to) = self.reads.wants_data_end() {
            let inbox = self.inbox.clone();
            let told = Box::new(move |end| inbox.push(Message::DataEnd(up_to, end)));
            self.config.log.end(&self.partition_of(self.shard), told);
        }
        if let Some(up_to) = self.reads.wants_control_end() {
            let inbox = self.inbox.clone();
            let told = Box::new(move |end| inbox.push(Message::ControlEnd(up_to, end)));
            self.config.log.end(&control_partition(), told);
        }
    }

    /// One turn, as the contract at the top says.
    fn try_turn(&mut self, now_ms: u64) -> Result<bool, PortError> {
        let folded = self.fold_control(now_ms)?;
        if self.is_dropped() {
            self.hold_jobs(false);
            return Ok(true);
        }
        if self.is_made {
            match self.config.store.flush() {
                Ok(()) => self.is_made = false,
                Err(error) if error.remedy == Remedy::NotApplied => {
                    // A full disk: tried again when the next report would be due.
                    tracing::warn!(keyspace = %self.keyspace, shard = %self.shard, %error, "a new store is flushed later");
                    self.reported_ms = now_ms;
                    return Ok(folded);
                }
                Err(error) => return Err(error),
            }
        }
        let messaged = self.take_messages(now_ms)?;
        let mut pending = Pending::new();
        let live = self.apply_live(&mut pending)?;
        let replayed = self.replay_all(&mut pending, live.records > 0, now_ms)?;
        let settled = self.with_ground(&mut pending, |core, ground| core.settle(ground))?;
        let mut after = AfterWrite::default();
        if self.has_started(now_ms) {
            self.gather_duties(&mut pending, &mut after, now_ms);
        }
        let wrote = self.write(pending)?;
        if let Some(batch) = live.verdicts {
            let sink = &self.config.verdicts;
            around(&self.config.hook, Step::Verdicts, || sink(batch));
        }
        let acted = self.act(after, now_ms)?;
        let answered = self.answer_reads(now_ms)?;
        let exported = self.export_rejects(now_ms);
        self.report(now_ms);
        Ok(folded || messaged || live.progressed || replayed || settled || wrote || acted || answered || exported)
    }

    /// Lets the core judge on the store, the fold and what is gathered so far.
    pub(crate) fn with_ground<T>(
        &mut self,
        pending: &mut Pending,
        judge: impl FnOnce(&mut ShardCore, &mut Ground) -> Result<T, Stop>,
    ) -> Result<T, PortError> {
        let view = StoreView(&*self.config.store);
        let mut ground = Ground { view: &view, attempts: self.follower.state(), pending };
        judge(&mut self.core, &mut ground).map_err(stopped)
    }

    fn write(&mut self, mut pending: Pending) -> Result<bool, PortError> {
        self.core.seal(&mut pending);
        if pending.is_empty() {
            return Ok(false);
        }
        let batch: WriteBatch = pending
            .into_changes()
            .map(|(key, value)| match value {
                Some(value) => Change::Put { key, value },
                None => Change::Remove { key },
            })
            .collect();
        around(&self.config.hook, Step::Write, || self.config.store.write(batch))?;
        Ok(true)
    }

    /// Appends a control record, unless the same thing is already on its way.
    pub(crate) fn propose(&mut self, topic: Topic, step: Step, event: ControlEvent, now_ms: u64) -> bool {
        if !self.proposals.begin(topic, now_ms) {
            return false;
        }
        let record = ControlRecord { command: (self.config.commands)(), event };
        let inbox = self.inbox.clone();
        let told = move |result| inbox.push(Message::Proposed(topic, result));
        around(&self.config.hook, step, || append_control(&*self.config.log, record, told));
        true
    }

    fn report(&mut self, now_ms: u64) {
        let busy = self.core.inbounds().next().is_some() || self.core.outbounds().next().is_some();
        let every = if busy { REPORT_EVERY_BUSY_MS } else { REPORT_EVERY_IDLE_MS };
        if now_ms < self.reported_ms + every {
            return;
        }
        self.reported_ms = now_ms;
        let mut partitions: Vec<ShardId> = self.replays.values().map(|replay| replay.source).collect();
        partitions.push(self.shard);
        for shard in partitions {
            let inbox = self.inbox.clone();
            let told = Box::new(move |end| inbox.push(Message::KnownEnd(shard, end)));
            self.config.log.end(&self.partition_of(shard), told);
        }
        (self.config.progress)(self.progress());
    }

    fn progress(&self) -> ReplicaProgress {
        let lag = |shard: ShardId, next: Offset| {
            self.known_ends.get(&shard).map_or(u64::MAX, |end| end.0.saturating_sub(next.0))
        };
        let applied_next = self.live.next();
        ReplicaProgress {
            keyspace: self.keyspace,
            shard: self.shard,
            node: self.config.node,
            applied_next,
            lag_records: lag(self.shard, applied_next),
            horizon: self.core.horizon(),
            inbound: self
                .replays
                .iter()
                .map(|(id, replay)| replay.progress(*id, lag(replay.source, replay.next())))
                .collect(),
            troubles: self.troubles.iter().map(|(id, trouble)| (*id, trouble.clone())).collect(),
            broken: self.broken.clone(),
        }
    }

    fn fail(&mut self, error: &PortError) {
        tracing::error!(keyspace = %self.keyspace, shard = %self.shard, node = %self.config.node, %error, "replica stopped");
        self.broken = Some(error.message.clone());
        self.hold_jobs(false);
        (self.config.progress)(self.progress());
    }

    fn is_dropped(&self) -> bool {
        self.follower.state().dropped_keyspace(self.keyspace).is_some()
    }

    pub(crate) fn refuse_everything(&mut self) -> bool {
        let dropped = || format!("keyspace {} was dropped", self.keyspace);
        let reason = self.broken.clone().unwrap_or_else(dropped);
        let messages = self.inbox.drain();
        let any = !messages.is_empty();
        for message in messages {
            match message {
                Message::Read(_, done) => done(Err(rehome_ports::ReadRefused::Unavailable { reason: reason.clone() })),
                Message::Flush(done) => done(Err(PortError::broken(reason.clone()))),
                _ => {}
            }
        }
        self.reads.refuse_all(&reason);
        any
    }
}

impl Role for Replica {
    fn has_ended(&self) -> bool {
        self.is_dropped()
    }

    fn turn(&mut self, now_ms: u64) -> Turn {
        if self.broken.is_some() {
            // It still has to see that its keyspace is dropped.
            let folded = self.follower.turn().is_ok_and(|folded| folded > 0);
            return Turn { progressed: self.refuse_everything() || folded, wake_at_ms: None };
        }
        match self.try_turn(now_ms) {
            Ok(progressed) => {
                let next_report = self.reported_ms + REPORT_EVERY_IDLE_MS;
                let wakes = [
                    self.proposals.wake_at_ms(now_ms),
                    self.reads.wake_at_ms(),
                    Some(next_report),
                    self.retry_at_ms(now_ms),
                    self.opening.wake_at_ms(),
                    self.rejects.wake_at_ms(),
                ];
                Turn { progressed, wake_at_ms: wakes.into_iter().flatten().min() }
            }
            Err(error) => {
                self.fail(&error);
                Turn { progressed: true, wake_at_ms: None }
            }
        }
    }
}

fn create(
    store: &dyn Store,
    identity: StoredIdentity,
    keyspace: &Keyspace,
    rebuild: &Rebuild,
) -> Result<ShardCore, PortError> {
    let mut pending = Pending::new();
    let granted = keyspace.granted(identity.shard);
    let retention_ms = keyspace.request_retention_ms;
    let mut core = ShardCore::create(identity, keyspace.placement, retention_ms, &granted, &mut pending);
    rebuild.begin(&mut core, &mut pending);
    core.seal(&mut pending);
    let changes = pending.into_changes().filter_map(|(key, value)| value.map(|value| Change::Put { key, value }));
    store.write(changes.collect())?;
    Ok(core)
}

/// Says why a store is not opened, and what to do.
fn unusable(keyspace: &Keyspace, shard: ShardId, stop: Stop) -> PortError {
    let PortError { remedy, message } = stopped(stop);
    let message = format!(
        "the store of shard {shard} of keyspace {} cannot be used: {message}; stop, bring back the store's own folder, or take \
         the version of rehome that wrote it, then `rehome up`",
        keyspace.name
    );
    PortError { remedy, message }
}

/// Turns what stops the core into what stops the replica. Waits never come here: their callers wait.
pub(crate) fn stopped(stop: Stop) -> PortError {
    match stop {
        Stop::Broken(reason) => PortError::broken(reason),
        Stop::Wait(wait) => PortError::broken(format!("waiting for {wait:?} where nothing can wait")),
    }
}

/// The store, as the core reads it.
pub(crate) struct StoreView<'a>(pub &'a dyn Store);

impl View for StoreView<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        Reader::get(self.0, key).map_err(|error| ViewError(error.message))
    }

    fn scan(&self, range: &KeyRange, visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<(), ViewError> {
        self.0.scan(range, false, visit).map_err(|error| ViewError(error.message))
    }
}

/// What a turn's live part did.
pub(crate) struct LiveTurn {
    pub records: usize,
    pub progressed: bool,
    pub verdicts: Option<VerdictBatch>,
}
