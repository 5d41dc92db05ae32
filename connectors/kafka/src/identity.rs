//! Which topic a name means, for as long as this log is open.
//!
//! A topic that was removed and made again behind our back has the old name and other records. Its id tells; so does
//! its absence. Brokers learn of changes one after the other, so a single answer that differs proves nothing yet.

use rehome_ports::Waker;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::native::Described;

/// So many answers in a row must differ before a topic counts as lost.
pub const DIFFERING_ANSWERS: u32 = 3;

/// A topic as this log has first seen it.
pub struct Identity {
    pub id: (i64, i64),
    lost: OnceLock<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    leaders: Vec<i32>,
    differing: u32,
    wakers: BTreeMap<u64, Waker>,
    next_waker: u64,
}

impl Identity {
    pub fn new(described: &Described) -> Identity {
        let state = State { leaders: described.leaders.clone(), ..State::default() };
        Identity { id: described.id, lost: OnceLock::new(), state: Mutex::new(state) }
    }

    pub fn partitions(&self) -> u32 {
        u32::try_from(self.state().leaders.len()).unwrap_or(u32::MAX)
    }

    /// The broker that leads the partition, as far as is known; -1 where it is not.
    pub fn leader(&self, partition: u32) -> i32 {
        self.state().leaders.get(partition as usize).copied().unwrap_or(-1)
    }

    /// Why nothing of it can be relied on any more.
    pub fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Takes in what the cluster says of the name now. Returns whether it is another topic, or none.
    pub fn observe(&self, described: Option<&Described>) -> bool {
        let mut state = self.state();
        let reason = match described {
            Some(described) if described.id == self.id => {
                state.differing = 0;
                // An answer of a broker that lags behind takes no partitions away.
                if described.leaders.len() >= state.leaders.len() {
                    state.leaders.clone_from(&described.leaders);
                }
                return false;
            }
            Some(_) => "was removed and made again by somebody else",
            None => "was removed by somebody else",
        };
        state.differing += 1;
        if state.differing >= DIFFERING_ANSWERS && self.lost.set(reason.to_string()).is_ok() {
            let wakers: Vec<Waker> = state.wakers.values().cloned().collect();
            drop(state);
            wakers.iter().for_each(|wake| wake());
        }
        true
    }

    /// Calls that waker when the topic is lost; returns the number by which to stop.
    pub fn watch(&self, wake: Waker) -> u64 {
        let mut state = self.state();
        let number = state.next_waker;
        state.next_waker += 1;
        state.wakers.insert(number, wake);
        number
    }

    pub fn unwatch(&self, number: u64) {
        self.state().wakers.remove(&number);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(id: i64, partitions: usize) -> Described {
        Described { id: (0, id), leaders: vec![1; partitions] }
    }

    #[test]
    fn a_topic_is_lost_only_when_several_answers_in_a_row_differ() {
        let identity = Identity::new(&described(7, 2));
        for answer in [None, Some(described(8, 2)), Some(described(7, 2)), None, None] {
            identity.observe(answer.as_ref());
            assert_eq!(identity.lost(), None);
        }
        identity.observe(None);
        assert!(identity.lost().is_some());
    }

    #[test]
    fn an_answer_of_a_broker_that_lags_behind_takes_no_partitions_away() {
        let identity = Identity::new(&described(7, 2));
        identity.observe(Some(&described(7, 5)));
        identity.observe(Some(&described(7, 2)));
        assert_eq!(identity.partitions(), 5);
    }
}
