//! One role's own fold of the control log, as far as that role has read.
//!
//! Each role follows by itself, so none waits for another, and none sees more than it has folded.

use crate::control_partition;
use rehome_control_core::{ControlState, Decision};
use rehome_keyspace::Offset;
use rehome_ports::{Log, PortError, ReadLimits, Tail, Waker};
use std::collections::BTreeMap;

/// Decisions that are kept for those who appended the record. Reason: a proposer looks within milliseconds.
const DECISIONS_MAX: usize = 1024;
const LIMITS: ReadLimits = ReadLimits { records_max: 256, bytes_max: 4 << 20 };

/// A fold of the control log that goes on whenever its owner takes a turn.
pub struct ControlFollower {
    tail: Box<dyn Tail>,
    state: ControlState,
    decisions: BTreeMap<Offset, Decision>,
}

impl ControlFollower {
    /// Follows from the beginning. `wake` is called whenever there may be more to fold.
    ///
    /// Errors: the control topic does not exist, or cannot be read.
    pub fn new(log: &dyn Log, wake: Waker) -> Result<ControlFollower, PortError> {
        Ok(ControlFollower::on(log.tail(&control_partition(), Offset(0), wake)?))
    }

    /// Follows a tail that starts at the beginning of the control log.
    pub fn on(tail: Box<dyn Tail>) -> ControlFollower {
        ControlFollower { tail, state: ControlState::new(), decisions: BTreeMap::new() }
    }

    /// Folds what has come; returns how many records that was.
    pub fn turn(&mut self) -> Result<usize, PortError> {
        let batch = self.tail.poll(LIMITS)?;
        for logged in &batch.records {
            let decision = self.state.fold(logged);
            self.decisions.insert(logged.offset, decision);
            if self.decisions.len() > DECISIONS_MAX {
                self.decisions.pop_first();
            }
        }
        if batch.next > self.state.folded_next() {
            self.state.pass(batch.next);
        }
        Ok(batch.records.len())
    }

    pub fn state(&self) -> &ControlState {
        &self.state
    }

    /// Returns what the fold decided about the record at that offset; nothing when it is not folded yet, or long ago.
    pub fn decision(&self, offset: Offset) -> Option<&Decision> {
        self.decisions.get(&offset)
    }
}
