//! Who creates the keyspace and asks for reshards, and sometimes pauses or cancels.

use crate::options::Options;
use crate::process::Site;
use crate::trace::Counts;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rehome_control_core::ControlState;
use rehome_control_log::DeskHandle;
use rehome_keyspace::{JobId, Placement};
use rehome_records::ControlEvent;
use rehome_records::control::{JobOptions, JobSubmitted};
use std::collections::VecDeque;

pub const KEYSPACE: &str = "rows";
/// A keyspace that is made, dropped, and made again.
const SPARE: &str = "spare";

/// Asks for one thing after the other: what comes next follows from the control log.
pub struct Operator {
    placement: Placement,
    shards_at_creation: u32,
    plan: VecDeque<u32>,
    nodes: u64,
    retention_ms: u64,
    rest_ms_max: u64,
    rng: StdRng,
    /// Set from the end of a job until the next one runs.
    rests_until_ms: Option<u64>,
    asked_at_ms: Option<u64>,
    /// When the spare keyspace is dropped.
    drops_at_ms: Option<u64>,
    /// When a paused job is resumed.
    resumes_at_ms: u64,
    has_inbox: bool,
}

/// Pause before the same thing is asked for again, in milliseconds.
const AGAIN_AFTER_MS: u64 = 500;

impl Operator {
    pub fn new(options: &Options) -> Operator {
        let mut plan: VecDeque<u32> = options.plan.iter().copied().collect();
        Operator {
            placement: Placement::buckets(options.buckets).expect("options draw few buckets"),
            shards_at_creation: plan.pop_front().expect("a plan starts with the shards at creation"),
            plan,
            nodes: options.nodes,
            retention_ms: options.retention_ms,
            rest_ms_max: options.operator_rest_ms_max,
            rng: StdRng::seed_from_u64(options.seed),
            rests_until_ms: None,
            asked_at_ms: None,
            drops_at_ms: None,
            resumes_at_ms: 0,
            has_inbox: options.inbox_records > 0,
        }
    }

    /// Tells whether everything that was planned has ended.
    pub fn is_done(&self, desk: &DeskHandle) -> bool {
        let state = desk.state();
        let replaced = state.keyspace_named(SPARE).is_some() && state.dropped_keyspaces().next().is_some();
        self.plan.is_empty() && state.keyspace_named(KEYSPACE).is_some() && replaced && running(desk).is_none()
    }

    /// Asks for the next thing, when the last one has ended.
    pub fn act(&mut self, now_ms: u64, desk: &DeskHandle, site: &Site, counts: &mut Counts) {
        if self.asked_at_ms.is_some_and(|at| now_ms < at + AGAIN_AFTER_MS) {
            return;
        }
        let state = desk.state();
        if let Some(event) = self.spare(now_ms, &state) {
            self.asked_at_ms = Some(now_ms);
            return desk.propose(u128::from(site.number()), event, Box::new(|_| {}));
        }
        let event = match state.keyspace_named(KEYSPACE) {
            None if (state.nodes().count() as u64) < self.nodes => return,
            None => ControlEvent::KeyspaceCreated {
                name: KEYSPACE.into(),
                placement: self.placement,
                shards: self.shards_at_creation,
                request_retention_ms: self.retention_ms,
            },
            Some(keyspace) if self.has_inbox && keyspace.inbox_partitions == 0 => {
                ControlEvent::InboxOpened { keyspace: keyspace.id, partitions: crate::inbox::PARTITIONS }
            }
            Some(_) if running(desk).is_some() => {
                self.rests_until_ms = None;
                let paused = running(desk).filter(|job| state.is_paused(*job) && now_ms >= self.resumes_at_ms);
                let Some(job) = paused else { return };
                counts.resumes += 1;
                ControlEvent::ResumeRequested { job }
            }
            Some(keyspace) => {
                let Some(shards) = self.plan.front().copied() else { return };
                let rest_ms = self.rng.random_range(0..=self.rest_ms_max);
                if now_ms < *self.rests_until_ms.get_or_insert(now_ms + rest_ms) {
                    return;
                }
                let Ok(moves) = rehome_planner::even(&keyspace.owners(), shards) else {
                    // An earlier job had been cancelled in part, or done all of it.
                    self.plan.pop_front();
                    return;
                };
                if state.jobs().any(|job| job.shards == shards && job.requested_by == self.name()) {
                    self.plan.pop_front();
                    return;
                }
                counts.jobs += 1;
                ControlEvent::JobSubmitted(JobSubmitted {
                    keyspace: keyspace.id,
                    shards,
                    moves,
                    options: JobOptions { abort_after_ms: 400, ..JobOptions::STANDARD },
                    requested_by: self.name(),
                })
            }
        };
        self.asked_at_ms = Some(now_ms);
        desk.propose(u128::from(site.number()), event, Box::new(|_| {}));
    }

    /// Returns what is to be done with the spare keyspace now.
    fn spare(&mut self, now_ms: u64, state: &ControlState) -> Option<ControlEvent> {
        state.keyspace_named(KEYSPACE)?;
        let was_dropped = state.dropped_keyspaces().next().is_some();
        let Some(spare) = state.keyspace_named(SPARE) else {
            let (shards, retention_ms) = (if was_dropped { 1 } else { 3 }, self.retention_ms);
            let (name, placement) = (SPARE.into(), self.placement);
            return Some(ControlEvent::KeyspaceCreated { name, placement, shards, request_retention_ms: retention_ms });
        };
        let rest_ms = self.rng.random_range(0..3_000);
        let is_due = now_ms >= *self.drops_at_ms.get_or_insert(now_ms + rest_ms);
        (is_due && !was_dropped).then_some(ControlEvent::KeyspaceDropped { keyspace: spare.id })
    }

    /// Names the step of the plan, so that each is asked for once.
    fn name(&self) -> String {
        format!("{} steps to go", self.plan.len())
    }

    /// Pauses the job that runs; it is resumed after a while.
    pub fn pause(&mut self, now_ms: u64, desk: &DeskHandle, site: &Site, counts: &mut Counts) {
        if let Some(job) = running(desk).filter(|job| !desk.state().is_paused(*job)) {
            counts.pauses += 1;
            self.resumes_at_ms = now_ms + self.rng.random_range(0..3_000);
            let event = ControlEvent::PauseRequested { job, reason: "drawn".into() };
            desk.propose(u128::from(site.number()), event, Box::new(|_| {}));
        }
    }

    /// Cancels the job that runs.
    pub fn cancel(&self, desk: &DeskHandle, site: &Site, counts: &mut Counts) {
        if let Some(job) = running(desk) {
            counts.cancels += 1;
            let event = ControlEvent::CancelRequested { job, reason: "drawn".into() };
            desk.propose(u128::from(site.number()), event, Box::new(|_| {}));
        }
    }
}

/// Returns a job that has not ended.
fn running(desk: &DeskHandle) -> Option<JobId> {
    let state = desk.state();
    state.jobs().map(|job| job.id).find(|job| state.job_state(*job).is_some_and(|job| !job.is_final()))
}
