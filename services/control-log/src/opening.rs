//! A role that has just started folds what was there before it acts.
//!
//! Its fold starts at the beginning of the control log, turn by turn. Acting on a fold that is older than this process
//! would do again what has ended long ago: copy over rows of later moves, or create anew a store that was lost. So a role
//! acts only once it has folded up to an end that was fetched after it started.

use rehome_keyspace::Offset;
use rehome_ports::PortError;

/// Pause before the end of the control log is asked for again after an error, in milliseconds.
const AGAIN_AFTER_MS: u64 = 50;

/// How far a role has come since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Ask { at_ms: u64 },
    Asked,
    FoldTo(Offset),
    Over,
}

impl Opening {
    pub const START: Opening = Opening::Ask { at_ms: 0 };

    /// Tells whether the role is to ask the log for the control log's end now; it then counts as asked.
    pub fn asks(&mut self, now_ms: u64) -> bool {
        let asks = matches!(self, Opening::Ask { at_ms } if *at_ms <= now_ms);
        if asks {
            *self = Opening::Asked;
        }
        asks
    }

    /// Takes the log's answer.
    pub fn told(&mut self, end: Result<Offset, PortError>, now_ms: u64) {
        *self = match end {
            Ok(end) => Opening::FoldTo(end),
            Err(_) => Opening::Ask { at_ms: now_ms + AGAIN_AFTER_MS },
        };
    }

    /// Tells whether everything that was there at the start is folded.
    pub fn is_over(&mut self, folded_next: Offset) -> bool {
        if matches!(self, Opening::FoldTo(end) if folded_next >= *end) {
            *self = Opening::Over;
        }
        *self == Opening::Over
    }

    /// Returns when the end is to be asked for again.
    pub fn wake_at_ms(&self) -> Option<u64> {
        match self {
            Opening::Ask { at_ms } => Some(*at_ms),
            Opening::Asked | Opening::FoldTo(_) | Opening::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_over_before_the_end_that_was_fetched_later_is_folded() {
        let mut opening = Opening::START;
        assert!(!opening.is_over(Offset(100)));
        assert!(opening.asks(5) && !opening.asks(5), "asked once");
        opening.told(Err(PortError::not_applied("away")), 5);
        assert!(!opening.asks(6), "and not again at once");
        assert_eq!(opening.wake_at_ms(), Some(5 + AGAIN_AFTER_MS));
        assert!(opening.asks(5 + AGAIN_AFTER_MS));
        opening.told(Ok(Offset(7)), 60);
        assert!(!opening.is_over(Offset(6)));
        assert!(opening.is_over(Offset(7)));
        assert!(opening.is_over(Offset(0)), "for good");
    }
}
