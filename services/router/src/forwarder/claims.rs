//! Who forwards an inbox, by the records of its progress topic. Pure.

use rehome_keyspace::Offset;
use rehome_records::inbox::InboxProgress;

/// How often the one that forwards says so, in milliseconds.
const SAY_EVERY_MS: u64 = 1_000;
/// How long nothing is heard before another takes over, in milliseconds.
pub(super) const TAKE_OVER_MS: u64 = 5_000;
/// How long an answer of the log to a claim is waited for before the next one, in milliseconds.
const CLAIM_AGAIN_MS: u64 = 2_000;

/// What one forwarder has read of the progress topic.
#[derive(Debug)]
pub(super) struct Claims {
    me: u128,
    /// Who has the say, with its term.
    owner: Option<(u128, u64)>,
    heard_ms: u64,
    /// For each partition: every record below was judged.
    pub next: Vec<Offset>,
    said_ms: Option<u64>,
    claimed_ms: Option<u64>,
}

impl Claims {
    pub fn new(me: u128, partitions: u32, now_ms: u64) -> Claims {
        let next = vec![Offset(0); partitions as usize];
        Claims { me, owner: None, heard_ms: now_ms, next, said_ms: None, claimed_ms: None }
    }

    /// Takes in the next record of the topic.
    pub fn fold(&mut self, progress: &InboxProgress, now_ms: u64) {
        for (known, told) in self.next.iter_mut().zip(&progress.next) {
            *known = (*known).max(*told);
        }
        let says = (progress.forwarder, progress.term);
        if self.owner.is_none_or(|(_, term)| progress.term > term) {
            self.owner = Some(says);
        }
        if self.owner == Some(says) {
            self.heard_ms = now_ms;
        }
    }

    /// Tells whether this forwarder has the say.
    pub fn is_mine(&self) -> bool {
        self.owner.is_some_and(|(owner, _)| owner == self.me)
    }

    /// Returns the term to say something under, if it is time: to claim the inbox, or to repeat that it is claimed.
    /// `urgent`: there is more to say than that. Requires: the topic is read up to an end that was fetched after the start.
    pub fn says(&mut self, urgent: bool, now_ms: u64) -> Option<u64> {
        if let Some((_, term)) = self.owner.filter(|_| self.is_mine()) {
            let due = urgent || self.said_ms.is_none_or(|said| now_ms >= said + SAY_EVERY_MS);
            self.said_ms = if due { Some(now_ms) } else { self.said_ms };
            return due.then_some(term);
        }
        self.said_ms = None;
        let waits_until_ms = self.claim_at_ms();
        if now_ms < waits_until_ms {
            return None;
        }
        self.claimed_ms = Some(now_ms);
        Some(self.owner.map_or(1, |(_, term)| term + 1))
    }

    fn claim_at_ms(&self) -> u64 {
        let silent_ms = self.owner.map_or(0, |_| self.heard_ms + TAKE_OVER_MS);
        silent_ms.max(self.claimed_ms.map_or(0, |claimed| claimed + CLAIM_AGAIN_MS))
    }

    pub fn wake_at_ms(&self) -> u64 {
        if self.is_mine() { self.said_ms.map_or(0, |said| said + SAY_EVERY_MS) } else { self.claim_at_ms() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(forwarder: u128, term: u64, next: u64) -> InboxProgress {
        InboxProgress { forwarder, term, next: vec![Offset(next)] }
    }

    #[test]
    fn a_new_inbox_is_claimed_at_once_and_the_first_claim_of_a_term_wins() {
        let mut claims = Claims::new(7, 1, 0);
        assert_eq!(claims.says(false, 0), Some(1));
        assert_eq!(claims.says(false, CLAIM_AGAIN_MS - 1), None, "a claim is on its way");
        assert!(!claims.is_mine(), "an append is no success");
        claims.fold(&said(8, 1, 3), 10);
        claims.fold(&said(7, 1, 0), 20);
        assert!(!claims.is_mine());
        assert_eq!(claims.next, [Offset(3)]);
    }

    #[test]
    fn one_that_is_silent_for_long_is_followed_under_the_next_term() {
        let mut claims = Claims::new(7, 1, 0);
        claims.fold(&said(8, 4, 3), 0);
        claims.fold(&said(8, 4, 9), 1_000);
        assert_eq!(claims.says(false, TAKE_OVER_MS + 999), None);
        assert_eq!(claims.says(false, TAKE_OVER_MS + 1_000), Some(5));
        claims.fold(&said(7, 5, 9), 6_100);
        assert!(claims.is_mine());
        assert_eq!(claims.says(false, 6_100), Some(5));
        assert_eq!(claims.says(false, 6_200), None);
        assert_eq!(claims.says(true, 6_200), Some(5));
        // The old one wakes up: what it tells is true, and it has no say.
        claims.fold(&said(8, 4, 11), 6_300);
        assert!(claims.is_mine());
        assert_eq!(claims.next, [Offset(11)]);
        claims.fold(&said(8, 6, 11), 6_400);
        assert!(!claims.is_mine());
    }
}
