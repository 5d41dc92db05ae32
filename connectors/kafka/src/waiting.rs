//! What is to be done with topics that this log has not met yet.
//!
//! An append must not block, and asking the cluster for a topic does. So the first calls for a topic wait here until a
//! thread has asked, and what follows them waits behind them, so that a caller's records keep their order.

use crate::identity::Identity;
use rehome_ports::PortError;
use rehome_records::TopicPartition;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Calls that may wait; more are refused.
const WAITING_MAX: usize = 16 << 10;

/// A call, told the topic that it waits for, or why it cannot be had.
pub type Call = Box<dyn FnOnce(Result<Arc<Identity>, PortError>) + Send>;

#[derive(Default)]
pub struct Waiting {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    calls: VecDeque<(TopicPartition, Call)>,
    /// How many wait of each topic, the one included that is being asked for.
    of_topic: BTreeMap<String, usize>,
    stopped: bool,
}

impl Waiting {
    /// Tells whether calls for the topic wait, so that later ones must.
    pub fn has(&self, topic: &str) -> bool {
        let state = self.lock();
        !state.of_topic.is_empty() && state.of_topic.contains_key(topic)
    }

    pub fn push(&self, partition: TopicPartition, call: Call) {
        let mut state = self.lock();
        if state.stopped || state.calls.len() >= WAITING_MAX {
            drop(state);
            return call(Err(PortError::not_applied("too many calls wait for their topics to be found")));
        }
        *state.of_topic.entry(partition.topic.clone()).or_default() += 1;
        state.calls.push_back((partition, call));
        self.filled.notify_one();
    }

    /// Waits for a call and takes it. Nothing once stopped.
    pub fn take(&self) -> Option<(TopicPartition, Call)> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(call) = state.calls.pop_front() {
                return Some(call);
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What was taken of that topic has gone on.
    pub fn settled(&self, topic: &str) {
        let mut state = self.lock();
        if let Some(count) = state.of_topic.get_mut(topic) {
            *count -= 1;
            if *count == 0 {
                state.of_topic.remove(topic);
            }
        }
    }

    /// Takes nothing more; tells what still waits that it was not done.
    pub fn stop(&self) {
        let waiting = {
            let mut state = self.lock();
            state.stopped = true;
            std::mem::take(&mut state.calls)
        };
        self.filled.notify_all();
        waiting.into_iter().for_each(|(_, call)| call(Err(PortError::not_applied("the log was closed"))));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
