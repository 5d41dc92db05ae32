//! The pure state machine: inputs in, effects out. No clock, no randomness, no I/O.
//!
//! Contract with the shell:
//! 1. Inputs are given in the order in which they came; asks have growing ids.
//! 2. Effects are carried out in the order in which they are returned.
//! 3. Every ask is answered by exactly one effect.
//! 4. `TurnEnded` comes after the inputs of a turn, and whenever `wake_at_ms` has passed: appends go out only there,
//!    so that everything that came in one turn goes out in one append per shard.

use crate::ask::{ReadAsk, Refused, ScanAnswer, ScanAsk, WriteAnswer, WriteAsk, WriteRefused};
use crate::counters::Counters;
use crate::limits::RouterLimits;
use crate::reads::Reads;
use crate::routes::{RouteTable, Routes};
use crate::scans::Scans;
use crate::writes::Writes;
use rehome_keyspace::{KeyspaceId, Offset, ShardId};
use rehome_ports::{PortError, ReadAnswer, ReadRefused, ReadRequest, VerdictBatch};
use rehome_records::{Record, TopicPartition};

/// Names an ask of this router. Grows: the order of ids is the order in which asks came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskId(pub u64);

/// Names an append of this router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppendId(pub u64);

/// Names one try of a read or of a part of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadTry {
    pub ask: AskId,
    pub number: u32,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The control log told new routes of a keyspace.
    Routes(Routes),
    /// The control log told that the keyspace is gone.
    Dropped(KeyspaceId),
    /// A write was asked for; it has a request id or a source position.
    Write {
        ask: AskId,
        write: WriteAsk,
    },
    Read {
        ask: AskId,
        read: ReadAsk,
    },
    Scan {
        ask: AskId,
        scan: ScanAsk,
    },
    /// An append ended. Requires: of one that failed, the records that landed or ever will are the first of it.
    Appended {
        append: AppendId,
        result: Result<Vec<Offset>, PortError>,
    },
    /// A replica told verdicts.
    Verdicts(VerdictBatch),
    /// A replica answered a read.
    ReadEnded {
        read: ReadTry,
        result: Result<ReadAnswer, ReadRefused>,
    },
    TurnEnded,
}

/// What the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Append { append: AppendId, partition: TopicPartition, records: Vec<Record> },
    Read { read: ReadTry, keyspace: KeyspaceId, shard: ShardId, request: ReadRequest },
    AnswerWrite { ask: AskId, answer: Result<WriteAnswer, WriteRefused> },
    AnswerRead { ask: AskId, answer: Result<ReadAnswer, Refused> },
    AnswerScan { ask: AskId, answer: Result<ScanAnswer, Refused> },
}

/// The kinds of effects, for fail points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectKind {
    Append,
    Read,
    AnswerWrite,
    AnswerRead,
    AnswerScan,
}

impl EffectKind {
    pub const ALL: [EffectKind; 5] =
        [EffectKind::Append, EffectKind::Read, EffectKind::AnswerWrite, EffectKind::AnswerRead, EffectKind::AnswerScan];

    /// Returns the stable name, as fail points spell it.
    pub fn name(self) -> &'static str {
        match self {
            EffectKind::Append => "append",
            EffectKind::Read => "read",
            EffectKind::AnswerWrite => "answer-write",
            EffectKind::AnswerRead => "answer-read",
            EffectKind::AnswerScan => "answer-scan",
        }
    }
}

impl Effect {
    pub fn kind(&self) -> EffectKind {
        match self {
            Effect::Append { .. } => EffectKind::Append,
            Effect::Read { .. } => EffectKind::Read,
            Effect::AnswerWrite { .. } => EffectKind::AnswerWrite,
            Effect::AnswerRead { .. } => EffectKind::AnswerRead,
            Effect::AnswerScan { .. } => EffectKind::AnswerScan,
        }
    }
}

/// What each part of the core works with: the routes, the counters, and the effects so far.
pub(crate) struct Turn<'a> {
    pub(crate) now_ms: u64,
    pub(crate) table: &'a RouteTable,
    pub(crate) counters: &'a mut Counters,
    pub(crate) effects: &'a mut Vec<Effect>,
}

/// Routes writes and reads, and answers each exactly once.
pub struct RouterCore {
    table: RouteTable,
    counters: Counters,
    writes: Writes,
    reads: Reads,
    scans: Scans,
}

impl RouterCore {
    pub fn new(limits: RouterLimits) -> RouterCore {
        RouterCore {
            table: RouteTable::default(),
            counters: Counters::default(),
            writes: Writes::new(limits),
            reads: Reads::new(limits),
            scans: Scans::new(limits),
        }
    }

    /// Takes one input in; returns what the shell must do, in order.
    pub fn step(&mut self, now_ms: u64, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        let input = match input {
            Input::Routes(routes) => {
                self.routes_changed(now_ms, routes, &mut effects);
                return effects;
            }
            Input::Dropped(keyspace) => {
                self.dropped(now_ms, keyspace, &mut effects);
                return effects;
            }
            input => input,
        };
        let mut turn = Turn { now_ms, table: &self.table, counters: &mut self.counters, effects: &mut effects };
        match input {
            Input::Routes(_) | Input::Dropped(_) => unreachable!("handled above"),
            Input::Write { ask, write } => self.writes.ask(&mut turn, ask, write),
            Input::Read { ask, read } => self.reads.ask(&mut turn, ask, read),
            Input::Scan { ask, scan } => self.scans.ask(&mut turn, ask, scan),
            Input::Appended { append, result } => self.writes.appended(&mut turn, append, result),
            Input::Verdicts(batch) => self.writes.verdicts(&mut turn, batch),
            Input::ReadEnded { read, result } => {
                if self.reads.holds(read.ask) {
                    self.reads.ended(&mut turn, read, result);
                } else {
                    self.scans.ended(&mut turn, read, result);
                }
            }
            Input::TurnEnded => {
                self.writes.turn_ended(&mut turn);
                self.reads.turn_ended(&mut turn);
                self.scans.turn_ended(&mut turn);
            }
        }
        effects
    }

    fn routes_changed(&mut self, now_ms: u64, routes: Routes, effects: &mut Vec<Effect>) {
        let keyspace = routes.keyspace;
        if !self.table.take(routes) {
            return;
        }
        let mut turn = Turn { now_ms, table: &self.table, counters: &mut self.counters, effects };
        self.writes.routes_changed(&mut turn, keyspace);
        self.reads.routes_changed(&mut turn, keyspace);
        self.scans.routes_changed(&mut turn, keyspace);
    }

    /// Whatever waits for a keyspace that is gone is answered now: nothing else would.
    fn dropped(&mut self, now_ms: u64, keyspace: KeyspaceId, effects: &mut Vec<Effect>) {
        let mut turn = Turn { now_ms, table: &self.table, counters: &mut self.counters, effects };
        self.writes.dropped(&mut turn, keyspace);
        self.reads.dropped(&mut turn, keyspace);
        self.scans.dropped(&mut turn, keyspace);
        self.table.remove(keyspace);
    }

    /// Returns when `TurnEnded` is due even if nothing happens before.
    pub fn wake_at_ms(&self) -> Option<u64> {
        [self.writes.wake_at_ms(), self.reads.wake_at_ms(), self.scans.wake_at_ms()].into_iter().flatten().min()
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the routes of a keyspace, as far as the router has folded.
    pub fn routes(&self, keyspace: KeyspaceId) -> Option<&Routes> {
        self.table.get(keyspace)
    }
}

/// Refuses an ask about a keyspace that the router has not heard of.
pub(crate) fn not_ready(keyspace: KeyspaceId) -> Refused {
    let message = format!("keyspace {keyspace} is not known here (yet); see `rehome keyspace list`");
    Refused::not_applied("keyspace_not_ready", message).retry_after(50)
}

/// Refuses an ask that waited when its keyspace was dropped.
pub(crate) fn dropped(keyspace: KeyspaceId) -> Refused {
    let message = format!("keyspace {keyspace} was dropped; see `rehome keyspace list`");
    Refused::not_applied("keyspace_unknown", message)
}

pub(crate) fn overloaded(what: &str) -> Refused {
    Refused::not_applied("overloaded", format!("the router holds too many {what} already")).retry_after(20)
}
