//! What the router knows of one shard's partition: appends in flight, copies that wait for a verdict.
//!
//! ```text
//! append sent          ack: offsets           verdicts up to `applied`
//! ----|-------------------|----------------------|----------------->
//!      a verdict that comes here is kept in `early`
//!                          a copy waits in `landed`
//!                                                 a copy that is still there was missed: its write goes out again
//! ```

use crate::core::AskId;
use rehome_keyspace::{Epoch, Offset, SlotId};
use rehome_records::Verdict;
use std::collections::{BTreeMap, BTreeSet};

/// Verdicts kept per partition that came before the ack of what they judge. More are dropped: then the copy counts as
/// missed, and its write goes out again under the same request id.
const EARLY_MAX: usize = 1 << 16;
/// Waits after failed appends, in milliseconds: doubled from the first to the last.
const BACKOFF_MS_MIN: u64 = 5;
const BACKOFF_MS_MAX: u64 = 500;
/// When no verdict has come for so long, in milliseconds, the oldest copy that waits is sent once more: what the
/// replica says about that one tells which others were missed. Reason: well above any pause, well below a deadline.
pub(crate) const PROBE_MS: u64 = 1_500;

/// A copy of a write that lies in the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LandedCopy {
    pub(crate) ask: AskId,
    pub(crate) epoch: Epoch,
}

#[derive(Debug, Default)]
pub(crate) struct Partition {
    /// Slots routed here that have something to send.
    pub(crate) ready: BTreeSet<SlotId>,
    /// Where the next append starts to look for slots, so that none is passed over for ever.
    pub(crate) turn: SlotId,
    pub(crate) appends: usize,
    landed: BTreeMap<Offset, LandedCopy>,
    early: BTreeMap<Offset, Verdict>,
    applied: Option<Offset>,
    heard_ms: u64,
    backoff_ms: u64,
    pub(crate) paused_until_ms: u64,
    /// Why the last append failed, for whoever waits in vain.
    pub(crate) last_error: Option<String>,
}

/// What became of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Judged(Offset, Verdict),
    /// The replica has passed it, and its verdict never came.
    Missed(Offset),
    Waits,
}

impl Partition {
    /// An append was acknowledged: its copy is at that offset.
    pub(crate) fn landed(&mut self, now_ms: u64, offset: Offset, copy: LandedCopy) -> Fate {
        if let Some(verdict) = self.early.remove(&offset) {
            return Fate::Judged(offset, verdict);
        }
        if self.applied.is_some_and(|applied| offset <= applied) {
            return Fate::Missed(offset);
        }
        if self.landed.is_empty() {
            self.heard_ms = now_ms;
        }
        self.landed.insert(offset, copy);
        Fate::Waits
    }

    /// Takes one verdict in; returns the copy that it judges.
    pub(crate) fn judged(&mut self, offset: Offset, verdict: Verdict) -> Option<(LandedCopy, Verdict)> {
        if let Some(copy) = self.landed.remove(&offset) {
            return Some((copy, verdict));
        }
        if self.appends > 0 && self.early.len() < EARLY_MAX {
            self.early.insert(offset, verdict);
        }
        None
    }

    /// Everything up to `applied` was judged; returns the copies whose verdict never came.
    pub(crate) fn passed(&mut self, now_ms: u64, applied: Offset) -> Vec<(Offset, LandedCopy)> {
        self.heard_ms = now_ms;
        self.applied = self.applied.max(Some(applied));
        let mut missed = Vec::new();
        while let Some(entry) = self.landed.first_entry()
            && *entry.key() <= applied
        {
            missed.push(entry.remove_entry());
        }
        missed
    }

    /// Nobody waits for that copy any more.
    pub(crate) fn forget(&mut self, offset: Offset) {
        self.landed.remove(&offset);
    }

    /// An append ended: its last record lies at that offset, or it failed.
    ///
    /// Appends are acknowledged in the order of their offsets, so no verdict up to that one is waited for any more. It
    /// was another router's, or of a write that was answered already; without this a router that is never idle would
    /// keep them all. An ack that comes out of order after all finds its verdicts missed, and its writes go out again.
    pub(crate) fn append_ended(&mut self, now_ms: u64, result: Result<Offset, String>) {
        self.appends -= 1;
        if self.appends == 0 {
            self.early.clear();
        }
        match result {
            Ok(last) => {
                self.early = self.early.split_off(&last.next());
                self.backoff_ms = 0;
                self.last_error = None;
            }
            Err(error) => {
                self.backoff_ms = (self.backoff_ms * 2).clamp(BACKOFF_MS_MIN, BACKOFF_MS_MAX);
                self.paused_until_ms = now_ms + self.backoff_ms;
                self.last_error = Some(error);
            }
        }
    }

    /// When a probe is due; nothing while no copy waits.
    pub(crate) fn probe_at_ms(&self) -> Option<u64> {
        (!self.landed.is_empty()).then_some(self.heard_ms + PROBE_MS)
    }

    /// Returns the oldest copy that waits, if nothing was heard for too long.
    pub(crate) fn probe(&mut self, now_ms: u64) -> Option<LandedCopy> {
        if self.probe_at_ms().is_none_or(|due| due > now_ms) {
            return None;
        }
        self.heard_ms = now_ms;
        self.landed.first_key_value().map(|(_, copy)| *copy)
    }

    /// When the next append may go out, if something is ready and nothing but time is in the way.
    pub(crate) fn send_at_ms(&self, appends_max: usize) -> Option<u64> {
        (!self.ready.is_empty() && self.appends < appends_max).then_some(self.paused_until_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_verdicts_are_kept_only_while_an_append_is_in_flight() {
        let mut partition = Partition::default();
        partition.judged(Offset(1), Verdict::StaleRoute);
        assert!(partition.early.is_empty());
        partition.appends = 2;
        partition.judged(Offset(2), Verdict::StaleRoute);
        partition.append_ended(0, Ok(Offset(1)));
        assert_eq!(partition.early.len(), 1);
        partition.append_ended(0, Ok(Offset(1)));
        assert!(partition.early.is_empty());
    }

    #[test]
    fn a_router_that_is_never_idle_forgets_the_verdicts_on_others_writes() {
        let mut partition = Partition { appends: 1, ..Partition::default() };
        // One offset in ten is this router's; an append is always on its way.
        for own in (9..10 * EARLY_MAX as u64).step_by(10).map(Offset) {
            partition.appends += 1;
            for offset in own.0 - 9..=own.0 {
                partition.judged(Offset(offset), Verdict::StaleRoute);
            }
            partition.passed(0, own);
            let copy = LandedCopy { ask: AskId(own.0), epoch: Epoch(1) };
            assert_eq!(partition.landed(0, own, copy), Fate::Judged(own, Verdict::StaleRoute));
            partition.append_ended(0, Ok(own));
            assert!(partition.early.len() < 20);
        }
    }

    #[test]
    fn early_verdicts_are_bounded_and_one_that_was_dropped_counts_as_missed() {
        let mut partition = Partition { appends: 1, ..Partition::default() };
        let last = Offset(EARLY_MAX as u64);
        for offset in 0..=last.0 {
            partition.judged(Offset(offset), Verdict::StaleRoute);
        }
        assert_eq!(partition.early.len(), EARLY_MAX);
        assert_eq!(partition.passed(0, last), []);
        let copy = LandedCopy { ask: AskId(1), epoch: Epoch(1) };
        assert_eq!(partition.landed(0, last, copy), Fate::Missed(last));
        assert_eq!(partition.landed(0, Offset(0), copy), Fate::Judged(Offset(0), Verdict::StaleRoute));
    }
}
