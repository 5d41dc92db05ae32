//! Follows the control log, and appends to it.
//!
//! - [`follower`]: one role's own fold of the control log, as far as that role has read.
//! - [`desk`]: where requests of people are appended, and answered with what the fold decided.

mod desk;
mod follower;

pub use desk::{ControlDesk, DeskHandle, Proposed};
pub use follower::ControlFollower;

use rehome_records::TopicPartition;
use rehome_records::control::CONTROL_TOPIC;

/// Returns the one partition of the control log.
pub fn control_partition() -> TopicPartition {
    TopicPartition::new(CONTROL_TOPIC, 0)
}
