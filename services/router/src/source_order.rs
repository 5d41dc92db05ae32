//! Keeps ordered sources in order when one of their writes is refused.
//!
//! A partition key treats every position at or below the highest accepted one as done. So when position 7 is refused
//! and position 8, already on its way, were accepted, then the retry of 7 would be answered "done" and be lost. Hence
//! a refusal shuts that key for that source until a position at or below the refused one is offered again.

use rehome_keyspace::KeyspaceId;
use std::collections::{BTreeMap, VecDeque};

/// Keys that are remembered as shut. Senders together must have fewer writes of ordered sources on their way.
pub(crate) const SHUT_KEYS_MAX: usize = 1 << 16;
/// How long a key stays shut when nobody offers the refused position again, in milliseconds. Reason: what was on its
/// way when the refusal was told has long come in by then; another router may have taken the source over.
pub(crate) const SHUT_MS: u64 = 30_000;

/// Keyspace, partition key, name of the source.
pub(crate) type SourceKey = (KeyspaceId, Vec<u8>, String);

#[derive(Debug, Default)]
pub(crate) struct SourceOrder {
    shut: BTreeMap<SourceKey, Shut>,
    /// In the order in which they were shut. A key that was opened again leaves its number behind.
    ages: VecDeque<(u64, SourceKey)>,
    next_number: u64,
}

#[derive(Debug)]
struct Shut {
    /// Lowest refused position.
    position: u64,
    since_ms: u64,
    number: u64,
}

impl SourceOrder {
    /// Tells whether a write at that position may go on; if so the key is open again.
    pub(crate) fn admit(&mut self, now_ms: u64, key: &SourceKey, position: u64) -> bool {
        if self.shut.is_empty() {
            return true;
        }
        self.forget_old(now_ms);
        match self.shut.get(key) {
            Some(shut) if position > shut.position => false,
            Some(_) => {
                self.shut.remove(key);
                true
            }
            None => true,
        }
    }

    /// Shuts the key: that position was refused.
    pub(crate) fn refuse(&mut self, now_ms: u64, key: SourceKey, position: u64) {
        if let Some(shut) = self.shut.get_mut(&key) {
            shut.position = shut.position.min(position);
            return;
        }
        while self.ages.len() >= SHUT_KEYS_MAX {
            self.forget_oldest();
        }
        self.next_number += 1;
        self.ages.push_back((self.next_number, key.clone()));
        self.shut.insert(key, Shut { position, since_ms: now_ms, number: self.next_number });
    }

    fn forget_old(&mut self, now_ms: u64) {
        while let Some((number, oldest)) = self.ages.front() {
            let alive = self.shut.get(oldest).filter(|shut| shut.number == *number);
            if alive.is_some_and(|shut| shut.since_ms + SHUT_MS > now_ms) {
                break;
            }
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((number, oldest)) = self.ages.pop_front()
            && self.shut.get(&oldest).is_some_and(|shut| shut.number == number)
        {
            self.shut.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: u32) -> SourceKey {
        (KeyspaceId(1), name.to_be_bytes().to_vec(), "flights".into())
    }

    #[test]
    fn a_refused_position_shuts_what_follows_until_it_is_offered_again() {
        let mut order = SourceOrder::default();
        assert!(order.admit(0, &key(1), 7));
        order.refuse(0, key(1), 7);
        order.refuse(0, key(1), 9);
        assert!(!order.admit(1, &key(1), 8));
        assert!(order.admit(1, &key(2), 8), "another key goes on");
        assert!(order.admit(2, &key(1), 7));
        assert!(order.admit(2, &key(1), 8));
    }

    #[test]
    fn a_key_that_nobody_comes_back_for_opens_after_a_while() {
        let mut order = SourceOrder::default();
        order.refuse(0, key(1), 7);
        assert!(!order.admit(SHUT_MS - 1, &key(1), 8));
        assert!(order.admit(SHUT_MS, &key(1), 8));
        order.refuse(SHUT_MS, key(1), 9);
        assert!(!order.admit(2 * SHUT_MS - 1, &key(1), 10), "an old number does not open a newer refusal");
    }

    #[test]
    fn the_memory_is_bounded_and_forgets_the_oldest() {
        let mut order = SourceOrder::default();
        for name in 0..=SHUT_KEYS_MAX as u32 {
            order.refuse(0, key(name), 7);
        }
        assert_eq!(order.shut.len(), SHUT_KEYS_MAX);
        assert!(order.admit(0, &key(0), 8));
        assert!(!order.admit(0, &key(1), 8));
    }
}
