//! A replica that has just opened follows before it acts.
//!
//! Its fold starts at the beginning of the control log, turn by turn. Acting on a fold that is older than this process
//! would copy again, over rows of later moves, what has ended long ago. So it owes nothing to any move until it has folded
//! what the control log held when it opened; everything that its earlier lives told lies below that.

use crate::replica::{Message, Replica};
use rehome_control_log::control_partition;
use rehome_keyspace::Offset;
use rehome_ports::PortError;

/// Pause before the end of the control log is asked for again after an error, in milliseconds.
const AGAIN_AFTER_MS: u64 = 50;

/// How far a replica has come since it opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Ask { at_ms: u64 },
    Asked,
    FoldTo(Offset),
    Reached,
}

impl Replica {
    /// Tells whether everything is folded that was there when the replica opened.
    pub(crate) fn has_started(&mut self, now_ms: u64) -> bool {
        match self.start {
            Start::Ask { at_ms } if at_ms <= now_ms => {
                self.start = Start::Asked;
                let inbox = self.inbox.clone();
                let told = Box::new(move |end| inbox.push(Message::StartEnd(end)));
                self.config.log.end(&control_partition(), told);
            }
            Start::FoldTo(end) if self.follower.state().folded_next() >= end => self.start = Start::Reached,
            Start::Ask { .. } | Start::Asked | Start::FoldTo(_) | Start::Reached => {}
        }
        self.start == Start::Reached
    }

    pub(crate) fn start_end(&mut self, end: Result<Offset, PortError>, now_ms: u64) {
        self.start = match end {
            Ok(end) => Start::FoldTo(end),
            Err(error) => {
                tracing::warn!(shard = %self.shard, %error, "the end of the control log is asked for again");
                Start::Ask { at_ms: now_ms + AGAIN_AFTER_MS }
            }
        };
    }

    /// Returns when the end is to be asked for again.
    pub(crate) fn start_at_ms(&self) -> Option<u64> {
        match self.start {
            Start::Ask { at_ms } => Some(at_ms),
            Start::Asked | Start::FoldTo(_) | Start::Reached => None,
        }
    }
}
