//! Why a record cannot be judged now, or never.

use crate::view::ViewError;
use rehome_keyspace::{AttemptId, MoveId, Offset};
use rehome_records::DecodeError;
use thiserror::Error;

/// Why the core stopped before a record. When it waits, nothing was changed: the same record is given again later.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Stop {
    /// The verdict depends on something that this replica has not seen yet.
    #[error("waits for {0}")]
    Wait(WaitFor),
    /// An invariant does not hold, or the store is damaged. The replica stops; a human must look.
    #[error("{0}")]
    Broken(String),
}

/// What must be seen first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WaitFor {
    /// The control log, folded past this offset. When its end, fetched after the record was read, is not above it, no
    /// such control record exists: see [`crate::ShardCore::refuse_unfounded`].
    #[error("the control log past {0}")]
    Control(Offset),
    /// The outcome of the attempt.
    #[error("the outcome of attempt {0}")]
    Outcome(AttemptId),
    /// This replica's own replay of the move, up to the fence. A replica that has no copy takes one from a peer.
    #[error("the replay of move {move_id} up to {fence}")]
    Replay { move_id: MoveId, fence: Offset },
}

impl From<WaitFor> for Stop {
    fn from(wait: WaitFor) -> Stop {
        Stop::Wait(wait)
    }
}

impl From<ViewError> for Stop {
    fn from(error: ViewError) -> Stop {
        Stop::Broken(error.to_string())
    }
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Stop {
        Stop::Broken(format!("the store holds what cannot be read: {error}"))
    }
}
