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

use rehome_keyspace::Offset;
use rehome_ports::{Lane, Log, PortError};
use rehome_records::control::CONTROL_TOPIC;
use rehome_records::{ControlRecord, TopicPartition};

/// Returns the one partition of the control log.
pub fn control_partition() -> TopicPartition {
    TopicPartition::new(CONTROL_TOPIC, 0)
}

/// Appends one control record; `told` hears its offset, or what is known of a failure. An append is not a success: the
/// fold decides.
pub fn append_control(
    log: &dyn Log,
    record: ControlRecord,
    told: impl FnOnce(Result<Offset, PortError>) + Send + 'static,
) {
    let done = move |result: Result<Vec<Offset>, PortError>| {
        told(result.and_then(|offsets| {
            let none = || PortError::broken("the log acknowledged one record with no offset");
            offsets.first().copied().ok_or_else(none)
        }));
    };
    log.append(&control_partition(), Lane::Protocol, vec![record.into_record()], Box::new(done));
}
