//! Attempts: each try to cut a move over, kept for ever.

use rehome_keyspace::{AttemptFacts, NodeId, Offset, Outcome, Side};
use rehome_records::Digest;

/// One try to cut a move over, with all that was said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub facts: AttemptFacts,
    /// Append time of the record that started it.
    pub started_ms: u64,
    pub predicted_pause_us: u64,
    /// The `Ready`s that counted: at most one per node and side.
    pub readies: Vec<ReadyFacts>,
    /// Control position and append time of the record that decided it.
    pub decided: Option<Offset>,
    pub decided_ms: Option<u64>,
    /// Why it was aborted.
    pub abort_reason: Option<String>,
}

/// A `Ready` that counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyFacts {
    pub node: NodeId,
    pub side: Side,
    /// Position F in the source's partition.
    pub fence: Offset,
    /// Position of `Open` in the destination's partition.
    pub open: Option<Offset>,
    pub digest: Digest,
    /// Control position and append time.
    pub offset: Offset,
    pub time_ms: u64,
}

/// What the `Ready`s say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    Waiting,
    /// Enough of them, all equal.
    Agreed {
        fence: Offset,
    },
    /// Two of them differ; the source's is there, so its fence is in its partition, at `fence`.
    Differing {
        fence: Offset,
    },
}

impl Attempt {
    pub fn outcome(&self) -> Option<Outcome> {
        self.facts.outcome
    }

    /// Returns the fence that a source replica reported: proof that it lies in the source's partition.
    pub fn fence_seen(&self) -> Option<Offset> {
        self.readies.iter().find(|ready| ready.side == Side::Source).map(|ready| ready.fence)
    }

    pub(crate) fn ready_of(&self, node: NodeId, side: Side) -> Option<&ReadyFacts> {
        self.readies.iter().find(|ready| ready.node == node && ready.side == side)
    }

    /// Counts: one source replica and `destinations_required` destination replicas must say the same.
    pub(crate) fn tally(&self, destinations_required: usize) -> Tally {
        let Some(source) = self.readies.iter().find(|ready| ready.side == Side::Source) else {
            return Tally::Waiting;
        };
        let fence = source.fence;
        if self.readies.iter().any(|ready| ready.fence != fence || ready.digest != source.digest) {
            return Tally::Differing { fence };
        }
        let destinations = self.readies.iter().filter(|ready| ready.side == Side::Destination).count();
        if destinations >= destinations_required { Tally::Agreed { fence } } else { Tally::Waiting }
    }
}
