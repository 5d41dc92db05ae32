//! What has to move for a wished shard count, and how long it takes. Pure: facts in, plans and estimates out.
//!
//! - [`even`]: the moves that spread the slots evenly over the first n shards, with the least movement.
//! - [`estimate`]: rows, bytes, seconds and pause of one move.
//! - [`predicted_pause`]: the pause that a cutover would have now.

mod estimate;
mod even;

pub use estimate::{MoveEstimate, MoveFacts, PauseFacts, ReplayCannotCatchUp, estimate, predicted_pause};
pub use even::{PlanRefused, even, spans};
