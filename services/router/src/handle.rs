//! How everybody else reaches a router.

use crate::ask::{ReadAsk, ReadAskDone, Refused, ScanAsk, ScanDone, WriteAsk, WriteDone};
use crate::core::{AppendId, ReadTry, overloaded};
use crate::counters::Counters;
use crate::limits::RouterLimits;
use crate::writes::bytes_of;
use rehome_keyspace::Offset;
use rehome_ports::{Inbox, PortError, ReadAnswer, ReadRefused, VerdictBatch, VerdictSink, Waker};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What comes into a router.
pub enum RouterMessage {
    Write(Box<WriteAsk>, WriteDone),
    WriteMany(Vec<(WriteAsk, WriteDone)>),
    Read(Box<ReadAsk>, ReadAskDone),
    Scan(Box<ScanAsk>, ScanDone),
    Appended(AppendId, Result<Vec<Offset>, PortError>),
    Verdicts(VerdictBatch),
    ReadEnded(ReadTry, Box<Result<ReadAnswer, ReadRefused>>),
}

impl RouterMessage {
    /// Returns how many asks of clients it brings.
    fn asks(&self) -> usize {
        match self {
            RouterMessage::Write(..) | RouterMessage::Read(..) | RouterMessage::Scan(..) => 1,
            RouterMessage::WriteMany(writes) => writes.len(),
            RouterMessage::Appended(..) | RouterMessage::Verdicts(_) | RouterMessage::ReadEnded(..) => 0,
        }
    }

    /// Returns the bytes of the writes that it brings.
    fn bytes(&self) -> usize {
        match self {
            RouterMessage::Write(write, _) => bytes_of(write),
            RouterMessage::WriteMany(writes) => writes.iter().map(|(write, _)| bytes_of(write)).sum(),
            // Keys and limits; their number is bounded.
            RouterMessage::Read(..) | RouterMessage::Scan(..) => 0,
            RouterMessage::Appended(..) | RouterMessage::Verdicts(_) | RouterMessage::ReadEnded(..) => 0,
        }
    }

    /// Answers the asks that it brings.
    pub(crate) fn refuse(self, refused: &Refused) {
        match self {
            RouterMessage::Write(_, done) => done(Err(refused.clone())),
            RouterMessage::WriteMany(writes) => writes.into_iter().for_each(|(_, done)| done(Err(refused.clone()))),
            RouterMessage::Read(_, done) => done(Err(refused.clone())),
            RouterMessage::Scan(_, done) => done(Err(refused.clone())),
            RouterMessage::Appended(..) | RouterMessage::Verdicts(_) | RouterMessage::ReadEnded(..) => {}
        }
    }
}

/// How everybody else reaches a router. Clones reach the same one.
///
/// Answers are given from the router's own thread: `done` must not block. Each is called exactly once.
#[derive(Clone)]
pub struct RouterHandle {
    inbox: Inbox<RouterMessage>,
    shared: Arc<Shared>,
}

struct Shared {
    limits: RouterLimits,
    /// Asks that wait in the inbox.
    queued: AtomicUsize,
    /// Bytes of the writes among them.
    queued_bytes: AtomicUsize,
    /// Verdicts that wait in the inbox.
    queued_verdicts: AtomicUsize,
    stopped: AtomicBool,
    counters: Mutex<Counters>,
}

impl RouterHandle {
    /// Returns a handle to a router that is made from it with [`crate::Router::new`]. `wake` wakes that router's role.
    pub fn new(limits: RouterLimits, wake: Waker) -> RouterHandle {
        let shared = Shared {
            limits,
            queued: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            queued_verdicts: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            counters: Mutex::new(Counters::default()),
        };
        RouterHandle { inbox: Inbox::new(wake), shared: Arc::new(shared) }
    }

    /// Writes, and tells what became of it.
    pub fn write(&self, ask: WriteAsk, done: WriteDone) {
        // A source's writes are never turned away here: the router keeps them in order when it refuses one. Whoever
        // sends them bounds them.
        let sheds = ask.source.is_none();
        self.send(RouterMessage::Write(Box::new(ask), done), sheds);
    }

    /// Writes several, each answered by itself; those of one partition key keep their order.
    pub fn write_many(&self, asks: Vec<(WriteAsk, WriteDone)>) {
        let sheds = asks.iter().all(|(ask, _)| ask.source.is_none());
        self.send(RouterMessage::WriteMany(asks), sheds);
    }

    /// Reads rows of one partition key.
    pub fn read(&self, ask: ReadAsk, done: ReadAskDone) {
        self.send(RouterMessage::Read(Box::new(ask), done), true);
    }

    /// Reads a page over all shards.
    pub fn scan(&self, ask: ScanAsk, done: ScanDone) {
        self.send(RouterMessage::Scan(Box::new(ask), done), true);
    }

    /// Returns where replicas tell their verdicts.
    ///
    /// Requires: in offset order; and one batch, empty if need be, when a replica starts, so that the router learns
    /// which verdicts it will not hear again.
    pub fn verdict_sink(&self) -> VerdictSink {
        let handle = self.clone();
        Arc::new(move |mut batch| {
            let (queued, count) = (&handle.shared.queued_verdicts, batch.verdicts.len());
            if queued.fetch_add(count, Ordering::Relaxed) + count > handle.shared.limits.queued_verdicts_max {
                queued.fetch_sub(count, Ordering::Relaxed);
                batch.verdicts = Vec::new();
            }
            handle.inbox.push(RouterMessage::Verdicts(batch));
        })
    }

    /// Returns what the router had done by the end of its last turn.
    pub fn counters(&self) -> Counters {
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many asks wait in the queue in front of the router.
    pub fn queued(&self) -> usize {
        self.shared.queued.load(Ordering::Relaxed)
    }

    fn send(&self, message: RouterMessage, sheds: bool) {
        let (asks, bytes, limits) = (message.asks(), message.bytes(), &self.shared.limits);
        let queued = self.shared.queued.fetch_add(asks, Ordering::Relaxed) + asks;
        let queued_bytes = self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if sheds && (queued > limits.queue_max || queued_bytes > limits.queue_bytes_max) {
            self.shared.queued.fetch_sub(asks, Ordering::Relaxed);
            self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return message.refuse(&overloaded("asks in its queue"));
        }
        self.inbox.push(message);
        // Seen after the push: either the router that stops finds the message, or this does.
        if self.shared.stopped.load(Ordering::SeqCst) {
            self.refuse_queued();
        }
    }

    /// Returns how much the router takes.
    pub fn limits(&self) -> RouterLimits {
        self.shared.limits
    }

    pub(crate) fn inbox(&self) -> Inbox<RouterMessage> {
        self.inbox.clone()
    }

    /// Takes everything out of the inbox.
    pub(crate) fn drain(&self) -> VecDeque<RouterMessage> {
        let messages = self.inbox.drain();
        let (mut asks, mut bytes, mut verdicts) = (0, 0, 0);
        for message in &messages {
            asks += message.asks();
            bytes += message.bytes();
            if let RouterMessage::Verdicts(batch) = message {
                verdicts += batch.verdicts.len();
            }
        }
        self.shared.queued.fetch_sub(asks, Ordering::Relaxed);
        self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.shared.queued_verdicts.fetch_sub(verdicts, Ordering::Relaxed);
        messages
    }

    pub(crate) fn publish(&self, counters: Counters) {
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    /// The router is gone: what is queued, and whatever comes, is refused.
    pub(crate) fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.refuse_queued();
    }

    fn refuse_queued(&self) {
        let refused = Refused::not_applied("router_stopped", "the router has stopped");
        self.drain().into_iter().for_each(|message| message.refuse(&refused));
    }
}
