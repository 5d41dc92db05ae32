//! Where clients find the process, whichever life it is in.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The address of the newest life; nothing between two lives.
#[derive(Clone, Default)]
pub struct Endpoint {
    shared: Arc<(Mutex<Option<String>>, Condvar)>,
}

impl Endpoint {
    pub fn set(&self, address: Option<String>) {
        *self.lock() = address;
        self.shared.1.notify_all();
    }

    /// Returns the address, once there is one other than `last`; `last` itself again when that has not changed for a
    /// moment; nothing when there is none until the deadline.
    pub fn next(&self, last: Option<&str>, deadline: Instant) -> Option<String> {
        /// How long a client waits before it asks the same process again.
        const AGAIN_AFTER: Duration = Duration::from_millis(10);
        let now = Instant::now();
        let again_at = now + AGAIN_AFTER;
        let mut address = self.lock();
        loop {
            let now = Instant::now();
            if address.is_some() && (address.as_deref() != last || now >= again_at) {
                return address.clone();
            }
            let until = if address.is_some() { again_at.min(deadline) } else { deadline };
            if now >= deadline {
                return None;
            }
            let wait = until.saturating_duration_since(now);
            address = self.shared.1.wait_timeout(address, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_waits_for_the_next_life_or_asks_the_same_again_after_a_moment() {
        let endpoint = Endpoint::default();
        let deadline = Instant::now() + Duration::from_millis(20);
        assert_eq!(endpoint.next(None, deadline), None);
        endpoint.set(Some("a".into()));
        let deadline = Instant::now() + Duration::from_secs(60);
        assert_eq!(endpoint.next(None, deadline).as_deref(), Some("a"));
        assert_eq!(endpoint.next(Some("a"), deadline).as_deref(), Some("a"));
        endpoint.set(Some("b".into()));
        assert_eq!(endpoint.next(Some("a"), deadline).as_deref(), Some("b"));
    }
}
