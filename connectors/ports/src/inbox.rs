//! Messages into a role, and the signal that wakes it.
//!
//! A role (a replica, a router, a controller) is one object that is driven by calling [`Role::turn`] until nothing is
//! left to do. In production a thread does that and sleeps on the role's [`Signal`] in between; in a simulation the
//! scheduler does. So both run the same code.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Wakes the role that waits. Cheap, callable from any thread, any number of times.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// What a turn did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Something was done, so there may be more: call again.
    pub progressed: bool,
    /// Call again at this time (milliseconds of the clock given to `turn`) even if nothing wakes the role.
    pub wake_at_ms: Option<u64>,
}

/// An object that is driven by turns.
pub trait Role {
    /// Does what can be done now, in bounded time, without waiting for anything.
    fn turn(&mut self, now_ms: u64) -> Turn;

    /// Tells whether the role has nothing left to do, ever: whoever runs it drops it.
    fn has_ended(&self) -> bool {
        false
    }

    /// Returns why its process cannot go on without it. A role that only stops itself returns nothing.
    fn fatal(&self) -> Option<&str> {
        None
    }
}

/// A signal that one thread waits for and any thread gives. Given before the wait, it is not lost.
#[derive(Default)]
pub struct Signal {
    given: Mutex<bool>,
    wake: Condvar,
}

impl Signal {
    pub fn new() -> Arc<Signal> {
        Arc::new(Signal::default())
    }

    pub fn give(&self) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if !*given {
            *given = true;
            self.wake.notify_one();
        }
    }

    /// Waits until the signal was given, or the deadline has passed; takes the signal back.
    pub fn wait(&self, deadline: Option<Instant>) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        while !*given {
            match deadline {
                None => given = self.wake.wait(given).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    given = self.wake.wait_timeout(given, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        *given = false;
    }

    pub fn waker(self: &Arc<Signal>) -> Waker {
        let signal = Arc::clone(self);
        Arc::new(move || signal.give())
    }
}

/// A queue of messages into one role. Clones are the same queue.
///
/// Whoever pushes bounds it: an answer that was asked for is pushed always, since questions are bounded; what comes by
/// itself (reads, reports) is pushed below a limit.
pub struct Inbox<T> {
    queue: Arc<Mutex<VecDeque<T>>>,
    wake: Waker,
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Inbox { queue: Arc::clone(&self.queue), wake: Arc::clone(&self.wake) }
    }
}

impl<T> Inbox<T> {
    pub fn new(wake: Waker) -> Inbox<T> {
        Inbox { queue: Arc::default(), wake }
    }

    pub fn push(&self, message: T) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        (self.wake)();
    }

    /// Queues the message if fewer than so many wait, else gives it back.
    pub fn push_below(&self, count_max: usize, message: T) -> Result<(), T> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() >= count_max {
            return Err(message);
        }
        queue.push_back(message);
        drop(queue);
        (self.wake)();
        Ok(())
    }

    pub fn push_all(&self, messages: impl IntoIterator<Item = T>) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
        (self.wake)();
    }

    /// Takes everything out, oldest first.
    pub fn drain(&self) -> VecDeque<T> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn len(&self) -> usize {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn wake(&self) {
        (self.wake)();
    }
}
