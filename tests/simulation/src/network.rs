//! Reads and verdicts between processes: each message waits until the scheduler draws it, or is lost.

use crate::observed::Verdicts;
use rehome_keyspace::{KeyspaceId, Offset, ShardId};
use rehome_node::NodeReads;
use rehome_ports::{ReadDone, ReadRefused, ReadRequest, Replicas, VerdictBatch, VerdictSink};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Messages on their way. Clones are the same network.
#[derive(Clone, Default)]
pub struct Network {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Reads and answers, in no order: each a call to make.
    calls: Vec<Call>,
    /// Verdicts keep their order from one node to one router.
    verdicts: BTreeMap<(String, String), VecDeque<VerdictBatch>>,
    sinks: BTreeMap<String, VerdictSink>,
    nodes: BTreeMap<String, NodeReads>,
    told: Verdicts,
}

struct Call {
    /// What is told when the message is lost.
    refuse: Box<dyn FnOnce(&str) + Send>,
    deliver: Box<dyn FnOnce() + Send>,
}

impl Network {
    /// Names where a router takes verdicts, from now on.
    pub fn connect_router(&self, router: &str, sink: VerdictSink) {
        self.lock().sinks.insert(router.to_owned(), sink);
    }

    pub fn connect_node(&self, node: &str, reads: NodeReads) {
        self.lock().nodes.insert(node.to_owned(), reads);
    }

    /// Forgets a process that crashed, with every verdict to or from it.
    pub fn disconnect(&self, process: &str) {
        let mut state = self.lock();
        state.sinks.remove(process);
        state.nodes.remove(process);
        state.verdicts.retain(|(from, to), _| from != process && to != process);
    }

    /// Loses every message that is on its way.
    pub fn lose_everything(&self) {
        let mut state = self.lock();
        state.calls.clear();
        state.verdicts.clear();
    }

    /// Returns where a node tells verdicts: every router hears them, later.
    pub fn verdict_sink(&self, node: &str) -> VerdictSink {
        let (network, node) = (self.clone(), node.to_owned());
        Arc::new(move |batch| {
            let mut state = network.lock();
            state.told.note(&batch);
            let routers: Vec<String> = state.sinks.keys().cloned().collect();
            for router in routers {
                state.verdicts.entry((node.clone(), router)).or_default().push_back(batch.clone());
            }
        })
    }

    /// Returns every verdict that a node told, heard or not.
    pub fn verdicts(&self) -> Verdicts {
        self.lock().told.clone()
    }

    /// A power loss took records: what was told of them is void.
    pub fn forget_verdicts(&self, is_lost: impl Fn(KeyspaceId, ShardId, Offset) -> bool) {
        self.lock().told.forget(is_lost);
    }

    /// Returns how many messages can be drawn now.
    pub fn pending(&self) -> usize {
        let state = self.lock();
        state.calls.len() + state.verdicts.len()
    }

    /// Delivers the message of that index, or loses it. Verdicts are never lost while both ends live: their stream is
    /// one connection. Requires: `index < pending()`.
    pub fn deliver(&self, index: usize, lose: bool) {
        let mut state = self.lock();
        if index < state.calls.len() {
            let call = state.calls.swap_remove(index);
            drop(state);
            if lose {
                (call.refuse)("the message was lost")
            } else {
                (call.deliver)()
            }
            return;
        }
        let key =
            state.verdicts.keys().nth(index - state.calls.len()).cloned().expect("the scheduler draws below pending()");
        let queue = state.verdicts.get_mut(&key).expect("the key was just found");
        let batch = queue.pop_front();
        if queue.is_empty() {
            state.verdicts.remove(&key);
        }
        let sink = state.sinks.get(&key.1).cloned();
        drop(state);
        if let (Some(sink), Some(batch)) = (sink, batch) {
            sink(batch);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer's way back is a message of its own. Whoever is told first wins: a lost message refuses.
fn once(done: ReadDone) -> impl Fn(Result<rehome_ports::ReadAnswer, ReadRefused>) + Send + Sync + Clone {
    let done = Arc::new(Mutex::new(Some(done)));
    move |result| {
        if let Some(done) = done.lock().unwrap_or_else(PoisonError::into_inner).take() {
            done(result);
        }
    }
}

fn unavailable(reason: &str) -> ReadRefused {
    ReadRefused::Unavailable { reason: reason.to_owned() }
}

impl Replicas for Network {
    fn read(&self, keyspace: KeyspaceId, shard: ShardId, request: ReadRequest, done: ReadDone) {
        let done = once(done);
        let (network, lost) = (self.clone(), done.clone());
        let deliver = move || {
            let node = network.lock().nodes.values().find(|node| node.hosts(keyspace, shard)).cloned();
            let Some(node) = node else { return done(Err(unavailable("no node hosts the shard now"))) };
            let answers = network.clone();
            let back: ReadDone = Box::new(move |result| {
                let (told, lost) = (done.clone(), done);
                let call = Call {
                    refuse: Box::new(move |why| lost(Err(unavailable(why)))),
                    deliver: Box::new(move || told(result)),
                };
                answers.lock().calls.push(call);
            });
            node.read(keyspace, shard, request, back);
        };
        let call = Call { refuse: Box::new(move |why| lost(Err(unavailable(why)))), deliver: Box::new(deliver) };
        self.lock().calls.push(call);
    }
}
