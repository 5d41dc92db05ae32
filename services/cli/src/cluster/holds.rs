//! Jobs rest while a move of this process is about to switch.

use rehome_keyspace::{KeyspaceId, ShardId};
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest rest at a time: whoever holds, a job always goes on a little.
const REST_MAX: Duration = Duration::from_millis(200);
/// Jobs rest a little longer than they are held. Reason: writes that were held go out again first.
const AFTER: Duration = Duration::from_millis(20);

/// Who holds the jobs of this process.
#[derive(Default)]
pub struct Holds {
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    by: BTreeSet<(KeyspaceId, ShardId)>,
    /// When the last holder let go.
    until: Option<Instant>,
}

impl Held {
    /// Returns how long to rest from now on; nothing when nobody needs it.
    fn rest(&self, now: Instant) -> Option<Duration> {
        if !self.by.is_empty() {
            return Some(REST_MAX);
        }
        let rest = (self.until? + AFTER).saturating_duration_since(now);
        (!rest.is_zero()).then_some(rest)
    }
}

impl Holds {
    pub fn set(&self, holder: (KeyspaceId, ShardId), holds: bool) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if holds {
            held.by.insert(holder);
        } else if held.by.remove(&holder) && held.by.is_empty() {
            held.until = Some(Instant::now());
            self.changed.notify_all();
        }
    }

    /// Lets other threads go first, then rests while somebody holds, for a bounded time.
    pub fn rest(&self) {
        std::thread::yield_now();
        let end = Instant::now() + REST_MAX;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            let Some(rest) = held.rest(now).map(|rest| rest.min(end.saturating_duration_since(now))) else { return };
            if rest.is_zero() {
                return;
            }
            held = self.changed.wait_timeout(held, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};

    const HOLDER: (KeyspaceId, ShardId) = (KeyspaceId(1), ShardId(2));

    #[test]
    fn jobs_rest_while_held_and_a_little_longer_but_never_for_ever() {
        let holds = Arc::new(Holds::default());
        let started = Instant::now();
        holds.rest();
        assert!(started.elapsed() < REST_MAX, "nobody holds");
        holds.set(HOLDER, true);
        let started = Instant::now();
        holds.rest();
        assert!(started.elapsed() >= REST_MAX, "held for as long as a rest lasts at most");
        let (rested, rests) = mpsc::channel();
        let resting = Arc::clone(&holds);
        let job = std::thread::spawn(move || {
            resting.rest();
            rested.send(Instant::now()).expect("the test listens");
        });
        let released = Instant::now();
        holds.set(HOLDER, false);
        let ended = rests.recv().expect("the job goes on");
        assert!(ended >= released + AFTER, "{:?}", ended.duration_since(released));
        job.join().expect("no panic");
    }

    #[test]
    fn the_last_of_several_holders_decides() {
        let mut held = Held::default();
        held.by.insert(HOLDER);
        assert_eq!(held.rest(Instant::now()), Some(REST_MAX));
        let holds = Holds::default();
        holds.set(HOLDER, true);
        holds.set((KeyspaceId(1), ShardId(3)), true);
        holds.set(HOLDER, false);
        assert!(holds.held.lock().expect("no panic").until.is_none());
        holds.set((KeyspaceId(1), ShardId(3)), false);
        assert!(holds.held.lock().expect("no panic").until.is_some());
    }
}
