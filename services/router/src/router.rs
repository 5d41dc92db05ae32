//! The shell: the core over the ports.

use crate::ask::{ReadAsk, ReadAskDone, Refused, ScanAsk, ScanDone, WriteAsk, WriteDone};
use crate::core::{AskId, Effect, EffectKind, Input, RouterCore};
use crate::handle::{RouterHandle, RouterMessage};
use crate::routes::Routes;
use rehome_control_log::ControlFollower;
use rehome_keyspace::{KeyspaceId, Offset, RequestId};
use rehome_ports::{Hook, Lane, Log, Replicas, Role, Turn, around};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Called around each effect: where tests stop the process.
pub type EffectHook = Hook<EffectKind>;

/// Gives request ids that nobody else gives.
pub type RequestIds = Box<dyn FnMut() -> RequestId + Send>;

/// How long after the control log could not be read it is tried again, in milliseconds.
const FOLLOW_AGAIN_MS: u64 = 50;

enum Done {
    Write(WriteDone),
    Read(ReadAskDone),
    Scan(ScanDone),
}

/// A router over a log and replicas.
pub struct Router {
    handle: RouterHandle,
    core: RouterCore,
    follower: ControlFollower,
    log: Arc<dyn Log>,
    replicas: Arc<dyn Replicas>,
    request_ids: RequestIds,
    hook: Option<EffectHook>,
    asks: AskId,
    done: BTreeMap<AskId, Done>,
    /// Which routes the core was given, by the position of their last change.
    routed: BTreeMap<KeyspaceId, Offset>,
    follow_again_ms: Option<u64>,
}

impl Router {
    /// Returns the router that the handle reaches. The follower wakes the same role as the handle.
    pub fn new(
        handle: RouterHandle,
        follower: ControlFollower,
        log: Arc<dyn Log>,
        replicas: Arc<dyn Replicas>,
        request_ids: RequestIds,
    ) -> Router {
        Router {
            core: RouterCore::new(handle.limits()),
            handle,
            follower,
            log,
            replicas,
            request_ids,
            hook: None,
            asks: AskId(0),
            done: BTreeMap::new(),
            routed: BTreeMap::new(),
            follow_again_ms: None,
        }
    }

    /// Returns the router with a hook around each effect.
    pub fn with_hook(mut self, hook: EffectHook) -> Router {
        self.hook = Some(hook);
        self
    }

    /// Folds the control log on, and gives the core the routes that changed.
    fn follow(&mut self, now_ms: u64) -> bool {
        let folded = match self.follower.turn() {
            Ok(folded) => {
                self.follow_again_ms = None;
                folded
            }
            Err(error) => {
                if self.follow_again_ms.is_none() {
                    tracing::warn!(%error, "the control log cannot be followed");
                }
                self.follow_again_ms = Some(now_ms + FOLLOW_AGAIN_MS);
                0
            }
        };
        let changed: Vec<Routes> = self
            .follower
            .state()
            .keyspaces()
            .filter(|keyspace| self.routed.get(&keyspace.id) != Some(&keyspace.routes_changed))
            .map(Routes::of)
            .collect();
        let state = self.follower.state();
        let gone: Vec<KeyspaceId> =
            self.routed.keys().copied().filter(|keyspace| state.keyspace(*keyspace).is_none()).collect();
        let any = folded > 0 || !changed.is_empty();
        for keyspace in gone {
            self.routed.remove(&keyspace);
            self.step(now_ms, Input::Dropped(keyspace));
        }
        for routes in changed {
            self.routed.insert(routes.keyspace, routes.position);
            self.step(now_ms, Input::Routes(routes));
        }
        any
    }

    fn receive(&mut self, now_ms: u64, message: RouterMessage) {
        match message {
            RouterMessage::Write(write, done) => self.write(now_ms, *write, done),
            RouterMessage::WriteMany(writes) => {
                for (write, done) in writes {
                    self.write(now_ms, write, done);
                }
            }
            RouterMessage::Read(read, done) => self.read(now_ms, *read, done),
            RouterMessage::Scan(scan, done) => self.scan(now_ms, *scan, done),
            RouterMessage::Appended(append, result) => self.step(now_ms, Input::Appended { append, result }),
            RouterMessage::Verdicts(batch) => self.step(now_ms, Input::Verdicts(batch)),
            RouterMessage::ReadEnded(read, result) => self.step(now_ms, Input::ReadEnded { read, result: *result }),
        }
    }

    fn write(&mut self, now_ms: u64, mut write: WriteAsk, done: WriteDone) {
        if write.request.is_none() && write.source.is_none() {
            write.request = Some((self.request_ids)());
        }
        let ask = self.enter(Done::Write(done));
        self.step(now_ms, Input::Write { ask, write });
    }

    fn read(&mut self, now_ms: u64, read: ReadAsk, done: ReadAskDone) {
        let ask = self.enter(Done::Read(done));
        self.step(now_ms, Input::Read { ask, read });
    }

    fn scan(&mut self, now_ms: u64, scan: ScanAsk, done: ScanDone) {
        let ask = self.enter(Done::Scan(done));
        self.step(now_ms, Input::Scan { ask, scan });
    }

    fn enter(&mut self, done: Done) -> AskId {
        self.asks.0 += 1;
        self.done.insert(self.asks, done);
        self.asks
    }

    fn step(&mut self, now_ms: u64, input: Input) {
        for effect in self.core.step(now_ms, input) {
            let kind = effect.kind();
            let hook = self.hook.clone();
            around(&hook, kind, || self.carry_out(effect));
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Append { append, partition, records } => {
                let inbox = self.handle.inbox();
                let done = Box::new(move |result| inbox.push(RouterMessage::Appended(append, result)));
                self.log.append(&partition, Lane::Data, records, done);
            }
            Effect::Read { read, keyspace, shard, request } => {
                let inbox = self.handle.inbox();
                let done = Box::new(move |result| inbox.push(RouterMessage::ReadEnded(read, Box::new(result))));
                self.replicas.read(keyspace, shard, request, done);
            }
            Effect::AnswerWrite { ask, answer } => {
                if let Some(Done::Write(done)) = self.done.remove(&ask) {
                    done(answer);
                }
            }
            Effect::AnswerRead { ask, answer } => {
                if let Some(Done::Read(done)) = self.done.remove(&ask) {
                    done(answer);
                }
            }
            Effect::AnswerScan { ask, answer } => {
                if let Some(Done::Scan(done)) = self.done.remove(&ask) {
                    done(answer);
                }
            }
        }
    }
}

impl Role for Router {
    fn turn(&mut self, now_ms: u64) -> Turn {
        // Taken before the log is followed: whoever asks after a keyspace was made finds it.
        let messages = self.handle.drain();
        let followed = self.follow(now_ms);
        let progressed = followed || !messages.is_empty();
        for message in messages {
            self.receive(now_ms, message);
        }
        self.step(now_ms, Input::TurnEnded);
        self.handle.publish(self.core.counters());
        let wake_at_ms = [self.core.wake_at_ms(), self.follow_again_ms].into_iter().flatten().min();
        Turn { progressed, wake_at_ms }
    }
}

impl Drop for Router {
    /// Nobody waits for ever: what was not answered is unknown.
    fn drop(&mut self) {
        self.handle.stop();
        let unknown = Refused::unknown("router_stopped", "the router has stopped; it may be written");
        let not_read = Refused::not_applied("router_stopped", "the router has stopped");
        for done in std::mem::take(&mut self.done).into_values() {
            match done {
                Done::Write(done) => done(Err(unknown.clone())),
                Done::Read(done) => done(Err(not_read.clone())),
                Done::Scan(done) => done(Err(not_read.clone())),
            }
        }
    }
}
