//! The control log, as far as attempts go: whatever is appended here is accepted.

use rehome_keyspace::{
    AttemptFacts, AttemptId, Attempts, Epoch, KeyspaceId, MoveId, Nonce, Offset, Outcome, Selector, ShardId,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const KEYSPACE: KeyspaceId = KeyspaceId(7);

pub struct Control {
    pub next: Offset,
    epoch_next: Epoch,
    attempts: BTreeMap<AttemptId, (AttemptFacts, Option<Offset>)>,
}

impl Control {
    /// A control log that has granted epochs 1 to `shards`.
    pub fn new(shards: u32) -> Control {
        Control { next: Offset(1), epoch_next: Epoch(u64::from(shards) + 1), attempts: BTreeMap::new() }
    }

    /// Appends something that concerns no attempt.
    pub fn append(&mut self) -> Offset {
        let offset = self.next;
        self.next = Offset(offset.0 + 1 + offset.0 % 3);
        offset
    }

    pub fn start(&mut self, move_id: MoveId, source: ShardId, destination: ShardId, selector: &Selector) -> AttemptId {
        let attempt = AttemptId(self.attempts.len() as u64 + 1);
        let facts = AttemptFacts {
            attempt,
            move_id,
            keyspace: KEYSPACE,
            source,
            destination,
            selector: Arc::new(selector.clone()),
            epoch: self.epoch_next,
            control_offset: self.append(),
            nonce: Nonce(attempt.0 * 7919 + 13),
            outcome: None,
        };
        self.epoch_next.0 += 1;
        self.attempts.insert(attempt, (facts, None));
        attempt
    }

    /// Fixes the outcome; the first one wins.
    pub fn decide(&mut self, attempt: AttemptId, outcome: Outcome) {
        let offset = self.append();
        let (facts, decided) = self.attempts.get_mut(&attempt).expect("started");
        if facts.outcome.is_none() {
            facts.outcome = Some(outcome);
            *decided = Some(offset);
        }
    }

    pub fn facts(&self, attempt: AttemptId) -> AttemptFacts {
        self.attempts[&attempt].0.clone()
    }

    pub fn all(&self) -> impl Iterator<Item = &AttemptFacts> {
        self.attempts.values().map(|(facts, _)| facts)
    }

    pub fn epoch_max(&self) -> Epoch {
        Epoch(self.epoch_next.0 - 1)
    }

    /// The log as one sees it who has folded everything below that offset.
    pub fn seen(&self, folded: Offset) -> Seen<'_> {
        Seen { control: self, folded }
    }
}

pub struct Seen<'a> {
    control: &'a Control,
    folded: Offset,
}

impl Attempts for Seen<'_> {
    fn folded_next(&self) -> Offset {
        self.folded
    }

    fn attempt(&self, attempt: AttemptId) -> Option<AttemptFacts> {
        let (facts, decided) = self.control.attempts.get(&attempt)?;
        if facts.control_offset >= self.folded {
            return None;
        }
        let outcome = facts.outcome.filter(|_| decided.is_some_and(|offset| offset < self.folded));
        Some(AttemptFacts { outcome, ..facts.clone() })
    }
}
