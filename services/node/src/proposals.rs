//! Control records that the replica has appended and waits to see folded.
//!
//! What is to be proposed follows from the fold alone; this only keeps a replica from appending the same thing again
//! while the first is on its way. A lost or refused proposal is made again after a pause.

use rehome_keyspace::{AttemptId, KeyspaceId, MoveId, NodeId, Offset};
use rehome_ports::PortError;
use std::collections::BTreeMap;

/// Pause before the same thing is proposed again, in milliseconds. Reason: above any usual round trip to the log.
const AGAIN_AFTER_MS: u64 = 250;

/// What a proposal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    Registered(NodeId),
    SnapshotTaken(MoveId, u32),
    CopyIngested(MoveId, u32),
    CopyFailed(MoveId, u32),
    Ready(AttemptId),
    CleanupDone(MoveId),
    KeyspaceRemoved(KeyspaceId),
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Appending,
    /// Appended; the fold says what became of it once it is past this.
    Folding(Offset),
    /// May be proposed again from then on.
    Again {
        at_ms: u64,
    },
}

/// The proposals on their way.
#[derive(Default)]
pub struct Proposals {
    stages: BTreeMap<Topic, Stage>,
}

impl Proposals {
    /// Tells whether this may be proposed now, and if so takes it as being appended.
    pub fn begin(&mut self, topic: Topic, now_ms: u64) -> bool {
        match self.stages.get(&topic) {
            Some(Stage::Appending | Stage::Folding(_)) => false,
            Some(Stage::Again { at_ms }) if *at_ms > now_ms => false,
            Some(Stage::Again { .. }) | None => {
                self.stages.insert(topic, Stage::Appending);
                true
            }
        }
    }

    /// Takes the outcome of the append.
    pub fn appended(&mut self, topic: Topic, result: Result<Offset, PortError>, now_ms: u64) {
        let stage = match result {
            Ok(offset) => Stage::Folding(offset),
            Err(_) => Stage::Again { at_ms: now_ms + AGAIN_AFTER_MS },
        };
        self.stages.insert(topic, stage);
    }

    /// Forgets what the fold has passed: if it is still wanted, it was refused, and is proposed again after a pause.
    pub fn folded(&mut self, next: Offset, now_ms: u64) {
        for stage in self.stages.values_mut() {
            if matches!(stage, Stage::Folding(offset) if *offset < next) {
                *stage = Stage::Again { at_ms: now_ms + AGAIN_AFTER_MS };
            }
        }
        self.stages
            .retain(|_, stage| !matches!(stage, Stage::Again { at_ms } if *at_ms + 100 * AGAIN_AFTER_MS < now_ms));
    }

    /// Returns when the earliest pause ends.
    pub fn wake_at_ms(&self, now_ms: u64) -> Option<u64> {
        let ends = self.stages.values().filter_map(|stage| match stage {
            Stage::Again { at_ms } if *at_ms > now_ms => Some(*at_ms),
            _ => None,
        });
        ends.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_on_its_way_is_not_made_again_and_a_refused_one_is() {
        let mut proposals = Proposals::default();
        let topic = Topic::Ready(AttemptId(1));
        assert!(proposals.begin(topic, 0));
        assert!(!proposals.begin(topic, 1_000_000), "however long the append takes");
        proposals.appended(topic, Ok(Offset(7)), 10);
        proposals.folded(Offset(7), 10);
        assert!(!proposals.begin(topic, 1_000_000), "the fold has not reached it");
        proposals.folded(Offset(8), 20);
        assert!(!proposals.begin(topic, 20 + AGAIN_AFTER_MS - 1));
        assert_eq!(proposals.wake_at_ms(20), Some(20 + AGAIN_AFTER_MS));
        assert!(proposals.begin(topic, 20 + AGAIN_AFTER_MS));
        proposals.appended(topic, Err(PortError::unknown("lost")), 300);
        assert!(!proposals.begin(topic, 301));
        assert!(proposals.begin(topic, 300 + AGAIN_AFTER_MS));
    }
}
