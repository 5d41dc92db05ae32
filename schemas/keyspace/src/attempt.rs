//! What the control log tells about an attempt: immutable facts, and an outcome that is fixed for ever once it is known.

use crate::{AttemptId, Epoch, KeyspaceId, MoveId, Nonce, Offset, Selector, ShardId, Side};
use std::sync::Arc;

/// How an attempt ended. It says whose the attempt's epoch is: the destination's if switched, the source's if aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `fence` is F: the last write of the old owner lies before it.
    Switched {
        fence: Offset,
    },
    Aborted {
        fence: Offset,
    },
}

impl Outcome {
    /// Returns the side that owns the selector under the attempt's epoch.
    pub fn winner(self) -> Side {
        match self {
            Outcome::Switched { .. } => Side::Destination,
            Outcome::Aborted { .. } => Side::Source,
        }
    }

    pub fn fence(self) -> Offset {
        match self {
            Outcome::Switched { fence } | Outcome::Aborted { fence } => fence,
        }
    }
}

/// One try to cut a move over, as the control log tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFacts {
    pub attempt: AttemptId,
    pub move_id: MoveId,
    pub keyspace: KeyspaceId,
    pub source: ShardId,
    pub destination: ShardId,
    pub selector: Arc<Selector>,
    /// The epoch that the attempt reserved.
    pub epoch: Epoch,
    /// Offset of the record that started it.
    pub control_offset: Offset,
    pub nonce: Nonce,
    pub outcome: Option<Outcome>,
}

/// The attempts that the control log has told of so far.
pub trait Attempts {
    /// Returns the offset below which everything of the control log was folded.
    fn folded_next(&self) -> Offset;

    fn attempt(&self, attempt: AttemptId) -> Option<AttemptFacts>;
}
