//! Deadlines of reads, and when they are tried again.

use crate::core::AskId;
use std::collections::BTreeSet;

/// Waits before another try, in milliseconds: doubled from the first to the last. Newer routes end a wait at once.
const RETRY_MS_MIN: u64 = 4;
const RETRY_MS_MAX: u64 = 128;

/// When something has to be done about an ask.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    deadlines: BTreeSet<(u64, AskId)>,
    retries: BTreeSet<(u64, AskId)>,
}

impl Timers {
    pub(crate) fn set_deadline(&mut self, at_ms: u64, ask: AskId) {
        self.deadlines.insert((at_ms, ask));
    }

    pub(crate) fn set_retry(&mut self, at_ms: u64, ask: AskId) {
        self.retries.insert((at_ms, ask));
    }

    pub(crate) fn unset_deadline(&mut self, at_ms: u64, ask: AskId) {
        self.deadlines.remove(&(at_ms, ask));
    }

    pub(crate) fn unset_retry(&mut self, at_ms: u64, ask: AskId) {
        self.retries.remove(&(at_ms, ask));
    }

    pub(crate) fn pop_deadline(&mut self, now_ms: u64) -> Option<AskId> {
        pop(&mut self.deadlines, now_ms)
    }

    pub(crate) fn pop_retry(&mut self, now_ms: u64) -> Option<AskId> {
        pop(&mut self.retries, now_ms)
    }

    pub(crate) fn next_ms(&self) -> Option<u64> {
        [self.deadlines.first(), self.retries.first()].into_iter().flatten().map(|(at_ms, _)| *at_ms).min()
    }
}

fn pop(timers: &mut BTreeSet<(u64, AskId)>, now_ms: u64) -> Option<AskId> {
    let due = timers.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms);
    if due { timers.pop_first().map(|(_, ask)| ask) } else { None }
}

/// What a try waits for, and how long the next wait is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Set while it waits.
    pub(crate) at_ms: Option<u64>,
    backoff_ms: u64,
}

impl Retry {
    /// Starts the next wait; returns when it ends.
    pub(crate) fn wait(&mut self, now_ms: u64) -> u64 {
        self.backoff_ms = (self.backoff_ms * 2).clamp(RETRY_MS_MIN, RETRY_MS_MAX);
        let at_ms = now_ms + self.backoff_ms;
        self.at_ms = Some(at_ms);
        at_ms
    }
}
