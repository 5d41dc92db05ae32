//! Which steps are on their way, and since when things are known. Lost at a restart, and not missed.

use crate::Step;
use rehome_control_core::{ControlState, Phase};
use rehome_keyspace::{AttemptId, KeyspaceId, Offset, Outcome, ShardId};
use rehome_ports::PortError;
use std::collections::{BTreeMap, BTreeSet};

/// Pause after the first failure of a step, in milliseconds; doubled by each that follows, up to the longest.
const PAUSE_MS_FIRST: u64 = 50;
const PAUSE_MS_MAX: u64 = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    InFlight {
        since_ms: u64,
    },
    /// Appended to the control log; the fold says what became of it once it is past this.
    Folding(Offset),
    /// Failed or refused; may be taken again from then on.
    Again {
        at_ms: u64,
    },
    /// A mark that is in its partition, at this offset.
    Done(Offset),
}

/// What a controller remembers of its own doing.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    stages: BTreeMap<Step, Stage>,
    /// Failures of a step in a row.
    failures: BTreeMap<Step, u32>,
    /// Since when, by this controller's clock, an open attempt is known to be under way.
    started_ms: BTreeMap<AttemptId, u64>,
    /// Since when a move's last attempt is known to be aborted.
    aborted_ms: BTreeMap<AttemptId, u64>,
    has_looked: bool,
}

impl Memory {
    /// Tells whether the step may be taken now.
    pub fn may_take(&self, step: Step, now_ms: u64) -> bool {
        match self.stages.get(&step) {
            None => true,
            Some(Stage::Again { at_ms }) => *at_ms <= now_ms,
            Some(Stage::InFlight { .. } | Stage::Folding(_) | Stage::Done(_)) => false,
        }
    }

    /// Tells whether the step was sent and nobody knows yet what became of it.
    pub fn is_under_way(&self, step: Step) -> bool {
        matches!(self.stages.get(&step), Some(Stage::InFlight { .. } | Stage::Folding(_)))
    }

    /// Returns where a mark was appended.
    pub fn mark_offset(&self, step: Step) -> Option<Offset> {
        match self.stages.get(&step) {
            Some(Stage::Done(offset)) => Some(*offset),
            _ => None,
        }
    }

    /// Returns up to where the newest `Horizon` of the shard forgets that was sent, as far as is remembered.
    pub fn horizon_sent(&self, keyspace: KeyspaceId, shard: ShardId) -> Option<Offset> {
        let step = |up_to| Step::Horizon { keyspace, shard, up_to };
        let of_shard = self.stages.range(step(Offset(0))..=step(Offset(u64::MAX)));
        let mut sent =
            of_shard.filter(|(_, stage)| !matches!(stage, Stage::Again { .. })).filter_map(|(step, _)| match step {
                Step::Horizon { up_to, .. } => Some(*up_to),
                _ => None,
            });
        sent.next_back()
    }

    /// Returns since when the attempt is under way, by this controller's clock.
    pub fn attempt_started_ms(&self, attempt: AttemptId) -> Option<u64> {
        self.started_ms.get(&attempt).copied()
    }

    /// Returns since when the attempt is aborted, by this controller's clock.
    pub fn attempt_aborted_ms(&self, attempt: AttemptId) -> Option<u64> {
        self.aborted_ms.get(&attempt).copied()
    }

    /// Returns when the earliest pause of a failed step ends.
    pub fn retry_at_ms(&self, now_ms: u64) -> Option<u64> {
        let ends = self.stages.values().filter_map(|stage| match stage {
            Stage::Again { at_ms } if *at_ms > now_ms => Some(*at_ms),
            _ => None,
        });
        ends.min()
    }

    pub fn begin(&mut self, step: Step, now_ms: u64) {
        let before = self.stages.insert(step, Stage::InFlight { since_ms: now_ms });
        debug_assert!(
            !matches!(before, Some(Stage::InFlight { .. } | Stage::Folding(_))),
            "{step:?} is in flight twice"
        );
    }

    /// Takes the answer of the log, and returns how long it took, in milliseconds.
    pub fn ended(&mut self, step: Step, result: &Result<Offset, PortError>, now_ms: u64) -> Option<u64> {
        let took_ms = match self.stages.get(&step) {
            Some(Stage::InFlight { since_ms }) => Some(now_ms.saturating_sub(*since_ms)),
            _ => None,
        };
        match (result, step) {
            (Ok(offset), Step::Open(_) | Step::Fence(_) | Step::Horizon { .. }) => {
                self.stages.insert(step, Stage::Done(*offset));
                self.failures.remove(&step);
            }
            (Ok(offset), _) => {
                self.stages.insert(step, Stage::Folding(*offset));
            }
            (Err(_), _) => self.pause(step, now_ms),
        }
        took_ms.filter(|_| result.is_ok())
    }

    /// Forgets the step: what it was for is seen to be so.
    pub fn forget(&mut self, step: Step) {
        self.stages.remove(&step);
        self.failures.remove(&step);
    }

    /// Returns the steps whose records the fold has passed. If such a step is still wanted it was refused, and is
    /// taken again after a pause.
    pub fn folded(&mut self, next: Offset, now_ms: u64) -> Vec<(Step, Offset)> {
        let passed: Vec<(Step, Offset)> = self
            .stages
            .iter()
            .filter_map(|(step, stage)| match stage {
                Stage::Folding(offset) if *offset < next => Some((*step, *offset)),
                _ => None,
            })
            .collect();
        for (step, _) in &passed {
            self.pause(*step, now_ms);
        }
        passed
    }

    /// Notes what is new in the state, and forgets what is over.
    ///
    /// What the first look finds was there before this controller: its age counts from the log's own time, so that a
    /// restart does not prolong a cutover. Later the controller's clock alone counts.
    pub fn look(&mut self, state: &ControlState, now_ms: u64) {
        let first = !std::mem::replace(&mut self.has_looked, true);
        let since = |log_ms: u64| if first { log_ms.min(now_ms) } else { now_ms };
        let (mut under_way, mut aborted) = (BTreeSet::new(), BTreeSet::new());
        for one in state.open_moves() {
            let Some(attempt) = one.attempts.last().and_then(|id| state.attempt_record(*id)) else {
                continue;
            };
            let id = attempt.facts.attempt;
            match attempt.outcome() {
                None => {
                    self.started_ms.entry(id).or_insert_with(|| since(attempt.started_ms));
                    under_way.insert(id);
                }
                Some(Outcome::Aborted { .. }) if one.phase.is_before_switch() => {
                    let aborted_ms = attempt.decided_ms.unwrap_or(now_ms);
                    self.aborted_ms.entry(id).or_insert_with(|| since(aborted_ms));
                    aborted.insert(id);
                }
                Some(_) => {}
            }
        }
        self.started_ms.retain(|id, _| under_way.contains(id));
        self.aborted_ms.retain(|id, _| aborted.contains(id));
        let superseded = self.superseded_horizons();
        let is_over = |step: &Step| match step {
            Step::Partitions(_) => false,
            Step::RemoveTopics(id) | Step::TopicRemoved(id) => {
                state.dropped_keyspace(*id).is_some_and(|dropped| dropped.topic_removed)
            }
            Step::Open(id) | Step::Fence(id) | Step::Abort(id) => !under_way.contains(id),
            Step::Start(id) => state.move_(*id).is_some_and(|one| one.phase != Phase::Planned),
            Step::Cutover(id) => state.move_(*id).is_some_and(|one| one.phase != Phase::CatchingUp),
            Step::Fail(id) => state.move_(*id).is_some_and(|one| !one.phase.is_before_switch()),
            Step::Horizon { keyspace, shard, up_to } => superseded.contains(&(*keyspace, *shard, *up_to)),
        };
        let in_flight = |stage: &Stage| matches!(stage, Stage::InFlight { .. });
        self.stages.retain(|step, stage| in_flight(stage) || !is_over(step));
        let stages = &self.stages;
        self.failures.retain(|step, _| stages.contains_key(step));
    }

    /// Returns the steps after which a later one of the same shard was sent.
    fn superseded_horizons(&self) -> BTreeSet<(KeyspaceId, ShardId, Offset)> {
        let steps = self.stages.keys().filter_map(|step| match step {
            Step::Horizon { keyspace, shard, up_to } => Some((*keyspace, *shard, *up_to)),
            _ => None,
        });
        steps.filter(|(keyspace, shard, up_to)| self.horizon_sent(*keyspace, *shard) > Some(*up_to)).collect()
    }

    fn pause(&mut self, step: Step, now_ms: u64) {
        let failures = self.failures.entry(step).or_insert(0);
        let pause_ms = growing(PAUSE_MS_FIRST, PAUSE_MS_MAX, *failures);
        *failures = failures.saturating_add(1);
        self.stages.insert(step, Stage::Again { at_ms: now_ms.saturating_add(pause_ms) });
    }
}

/// Returns `first`, doubled `times` times, at most `max`.
pub(crate) fn growing(first: u64, max: u64, times: u32) -> u64 {
    first.checked_shl(times.min(32)).map_or(max, |grown| grown.min(max))
}
