//! The unanswered writes of one slot, in order, and what keeps the next ones from going out.
//!
//! Rules:
//! 1. A lane has at most one append without an ack, so an append that fails never lets a later write overtake.
//! 2. A lane that was told `stale route` is held until the control log tells a higher epoch.
//! 3. Under a new epoch everything unanswered goes out again first, in order.

use crate::core::{AppendId, AskId};
use rehome_control_core::Route;
use rehome_keyspace::Epoch;
use std::collections::BTreeSet;

#[derive(Debug)]
pub(crate) struct Lane {
    /// Where writes go out to, unless the lane is held.
    pub(crate) route: Route,
    /// Unanswered, oldest first.
    pub(crate) all: BTreeSet<AskId>,
    /// Those that have to go out (again) under the current route. A part of `all`.
    pub(crate) unsent: BTreeSet<AskId>,
    /// The append under the current route that waits for its ack.
    pub(crate) appending: Option<AppendId>,
    held_since_ms: Option<u64>,
}

impl Lane {
    pub(crate) fn new(route: Route) -> Lane {
        Lane { route, all: BTreeSet::new(), unsent: BTreeSet::new(), appending: None, held_since_ms: None }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held_since_ms.is_some()
    }

    /// Tells whether an append could go out now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_held() && self.appending.is_none() && !self.unsent.is_empty()
    }

    /// The partition refused that epoch; tells whether the lane is newly held.
    pub(crate) fn refused(&mut self, now_ms: u64, epoch: Epoch) -> bool {
        let newly = epoch == self.route.epoch && !self.is_held();
        if newly {
            self.held_since_ms = Some(now_ms);
        }
        newly
    }

    /// Takes a newer route: everything unanswered has to go out again. Returns for how long the lane was held.
    pub(crate) fn reroute(&mut self, now_ms: u64, route: Route) -> Option<u64> {
        self.route = route;
        self.appending = None;
        self.unsent = self.all.clone();
        self.end_hold(now_ms)
    }

    pub(crate) fn end_hold(&mut self, now_ms: u64) -> Option<u64> {
        self.held_since_ms.take().map(|since_ms| now_ms.saturating_sub(since_ms))
    }
}
