//! Milliseconds since 1970 that never go back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that starts at the time of day and goes on with the machine's steady one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    started_since_1970: Duration,
}

impl Clock {
    pub fn start() -> Clock {
        // A machine whose clock stands before 1970 gets 0; only differences matter then.
        let started_since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { started: Instant::now(), started_since_1970 }
    }

    pub fn now_ms(&self) -> u64 {
        (self.started_since_1970 + self.started.elapsed()).as_millis() as u64
    }

    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns when the clock shows that time, rounded up.
    pub fn instant(&self, at_ms: u64) -> Instant {
        self.started + Duration::from_millis(at_ms).saturating_sub(self.started_since_1970)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_was_told_is_found_again() {
        let clock = Clock::start();
        let at_ms = clock.now_ms() + 1_000;
        let left = clock.instant(at_ms) - Instant::now();
        assert!(left > Duration::from_millis(900) && left <= Duration::from_millis(1_001), "{left:?}");
        assert!(clock.instant(0) <= Instant::now());
    }
}
