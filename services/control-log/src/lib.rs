//! Follows the control log, and appends to it.
//!
//! - [`follower`]: one role's own fold of the control log, as far as that role has read.
//! - [`opening`]: a role that has just started folds what was there before it acts.
//! - [`desk`]: where requests of people are appended, and answered with what the fold decided.

mod desk;
mod follower;
mod opening;

pub use desk::{ControlDesk, DeskHandle, Proposed};
pub use follower::ControlFollower;
pub use opening::Opening;

use rehome_records::TopicPartition;
use rehome_records::control::CONTROL_TOPIC;

/// Returns the one partition of the control log.
pub fn control_partition() -> TopicPartition {
    TopicPartition::new(CONTROL_TOPIC, 0)
}
