//! Whether a mark matches the control record it cites, and what it does to the regions it covers.

use crate::judge::{Judge, Judged};
use crate::regions;
use crate::stop::{Stop, WaitFor};
use rehome_keyspace::{AttemptFacts, AttemptId, Attempts, KeyRange, KeyspaceId, Offset, ShardId, Side};
use rehome_records::data::AttemptMark;
use rehome_records::{SlotState, StateRegion};

/// What a mark did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkApplied {
    /// Nothing for a `Horizon`.
    pub attempt: Option<AttemptId>,
    pub effect: MarkEffect,
}

/// What a mark did to the partition's states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkEffect {
    /// The destination's keys are contested from here on.
    Opened,
    /// The source's keys are contested from here on; this is F.
    Fenced,
    /// So many tombstones and request ids were forgotten.
    Forgot { entries: u64 },
    /// It came late, or again: nothing is changed.
    Ignored,
    /// It does not match the control record that it cites: nothing is changed.
    Refused { reason: String },
}

/// `Open` and `Fence` differ in whose partition they belong to, and in what they are effective on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkKind {
    Open,
    Fence,
}

/// What a mark makes of the regions that it covers, before anything is changed.
pub(crate) struct MarkPlan {
    pub parts: Vec<(KeyRange, SlotState)>,
    pub effective: bool,
}

/// Returns the attempt that allowed the mark, or why there is none.
///
/// Errors: `Wait` until the control log is folded past the record that the mark cites.
pub(crate) fn allowed(
    kind: MarkKind,
    mark: &AttemptMark,
    attempts: &dyn Attempts,
    keyspace: KeyspaceId,
    partition: ShardId,
) -> Result<Result<AttemptFacts, String>, Stop> {
    let Some(facts) = attempts.attempt(mark.attempt) else {
        if attempts.folded_next() <= mark.control_offset {
            return Err(WaitFor::Control(mark.control_offset).into());
        }
        return Ok(Err(format!("attempt {} was never started", mark.attempt)));
    };
    let side = match kind {
        MarkKind::Open => Side::Destination,
        MarkKind::Fence => Side::Source,
    };
    let belongs = match side {
        Side::Source => facts.source,
        Side::Destination => facts.destination,
    };
    let checks = [
        (facts.control_offset == mark.control_offset, "control offset"),
        (facts.nonce == mark.nonce, "nonce"),
        (facts.move_id == mark.move_id, "move"),
        (facts.epoch == mark.epoch, "epoch"),
        (*facts.selector == mark.selector, "selector"),
        (facts.keyspace == keyspace, "keyspace"),
        (belongs == partition, "partition"),
    ];
    Ok(match checks.into_iter().find(|(same, _)| !same) {
        Some((_, what)) => Err(format!("{what} differs from what started attempt {}", mark.attempt)),
        None => Ok(facts),
    })
}

/// Returns what the mark makes of the regions it covers.
///
/// Errors: `Wait` while an earlier attempt has no outcome; `Broken` for a fence that is effective on a part only.
pub(crate) fn plan(
    kind: MarkKind,
    mark: &AttemptMark,
    states: &[StateRegion],
    judge: &Judge<'_>,
) -> Result<MarkPlan, Stop> {
    let mut parts = Vec::new();
    let (mut effective, mut ignored) = (0usize, 0usize);
    for part in regions::parts(states, &mark.selector) {
        let Judged { effective: here, state } = match kind {
            MarkKind::Open => judge.open(part.state, mark.attempt, mark.epoch)?,
            MarkKind::Fence => judge.fence(part.state, mark.attempt, mark.epoch)?,
        };
        *if here { &mut effective } else { &mut ignored } += 1;
        if state != part.state {
            parts.push((part.range, state));
        }
    }
    if kind == MarkKind::Fence && effective > 0 && ignored > 0 {
        return Err(Stop::Broken(format!(
            "the fence of attempt {} takes effect on {effective} regions of its selector and not on {ignored}",
            mark.attempt
        )));
    }
    Ok(MarkPlan { parts, effective: effective > 0 })
}

/// Returns where a mark of the attempt was effective. No mark is effective twice: the first one leaves no key in a state
/// on which another of the same attempt takes effect.
pub(crate) fn seen_at(seen: &[(AttemptId, Offset)], attempt: AttemptId) -> Option<Offset> {
    seen.iter().find(|(seen, _)| *seen == attempt).map(|(_, offset)| *offset)
}
