//! Jobs: submit, look, wait, pause, resume, cancel, complete.

use super::errors::Refusal;
use super::plan::plan;
use super::{Api, Shared, Stage, shapes};
use crate::wire::{JobShape, JobsShape, PlannedShape, ReshardBody, ReshardShape, WaitQuery};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query};
use rehome_control_core::{Accepted, ControlState, Decision, Keyspace, SHARDS_MAX};
use rehome_keyspace::JobId;
use rehome_records::control::{JobOptions, JobSubmitted};
use rehome_records::{ControlEvent, ControlRecord, Logged};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait of one request, in milliseconds. Reason: below what clients and proxies give up at.
const WAIT_MS_MAX: u64 = 30_000;

/// Refusals of a reshard that another number of shards helps against.
const COUNT_REFUSED: &[&str] =
    &["plan_no_shards", "plan_more_shards_than_slots", "plan_nothing_to_move", "shard_count_invalid"];

/// `POST /v1/jobs/{job}/cancel` and `/pause`.
#[derive(Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonBody {
    #[serde(default)]
    reason: String,
}

impl ReasonBody {
    fn told(self) -> String {
        if self.reason.is_empty() { "asked for through the API".to_owned() } else { self.reason }
    }
}

pub async fn reshard(
    state: Shared,
    Path(name): Path<String>,
    body: Result<Json<ReshardBody>, JsonRejection>,
) -> Result<Json<ReshardShape>, Refusal> {
    let Json(body) = body?;
    let keyspace = state.keyspace(&name)?;
    let possible = |refusal: Refusal| refusal.instead(COUNT_REFUSED, || vec![reshard_line(&keyspace, &body)]);
    let wanted = rehome_planner::even(&keyspace.owners(), body.shards);
    let wanted = wanted.map_err(|refused| possible(Refusal::plan(&refused)))?;
    let options = JobOptions { complete: !body.keep_source, ..JobOptions::STANDARD };
    let moves = wanted.iter().map(PlannedShape::of).collect();
    let who = if body.requested_by.is_empty() { "the API" } else { &body.requested_by };
    let submitted = JobSubmitted {
        keyspace: keyspace.id,
        shards: body.shards,
        moves: wanted.clone(),
        options,
        requested_by: who.to_owned(),
    };
    if body.dry_run {
        rehearse(&state, ControlEvent::JobSubmitted(submitted)).map_err(possible)?;
        let next_steps = vec![format!("rehome reshard {name} --shards {}", body.shards)];
        // It reads stores: not on a thread that answers others.
        let estimated = tokio::task::spawn_blocking(move || {
            plan(&state, &state.cluster.desk().state(), &keyspace, &wanted, options)
        });
        let (moves, estimate) = estimated.await.map_err(|_| Refusal::stopped())??;
        return Ok(Json(ReshardShape { job: None, moves, estimate: Some(estimate), next_steps }));
    }
    let accepted = state.propose(ControlEvent::JobSubmitted(submitted)).await.map_err(possible)?;
    let Accepted::JobSubmitted(job, _) = accepted else {
        return Err(Refusal::stopped());
    };
    let next_steps = vec![format!("rehome wait {job}"), format!("rehome explain {job}")];
    Ok(Json(ReshardShape { job: Some(job.0), moves, estimate: None, next_steps }))
}

/// Asks the fold what it would say, on a copy of its state: a dry run is refused exactly as the real one.
pub(super) fn rehearse(api: &Api, event: ControlEvent) -> Result<(), Refusal> {
    let mut control = ControlState::clone(&api.cluster.desk().state());
    let record = ControlRecord { command: rand::random(), event }.into_record();
    match control.fold(&Logged { offset: control.folded_next(), append_time_ms: 0, record }) {
        Decision::Refused(refusal) => Err(Refusal::fold(&refusal)),
        Decision::Accepted(_) | Decision::AlreadyDone(_) => Ok(()),
    }
}

/// Returns the same command with a number of shards that can be.
fn reshard_line(keyspace: &Keyspace, body: &ReshardBody) -> String {
    let shards = possible_shards(body.shards, keyspace.shards_active, keyspace.placement.slot_count().min(SHARDS_MAX));
    let Some(shards) = shards else { return "rehome status".into() };
    let flags = [(body.keep_source, " --keep-source"), (body.dry_run, " --dry-run")];
    let flags: String = flags.iter().filter(|(given, _)| *given).map(|(_, flag)| *flag).collect();
    format!("rehome reshard {} --shards {shards}{flags}", keyspace.name)
}

/// Returns the number nearest to the wished one that changes something: not the current one.
pub(super) fn possible_shards(wished: u32, active: u32, shards_max: u32) -> Option<u32> {
    let near = wished.clamp(1, shards_max);
    let others = [near, near + 1, near.saturating_sub(1)];
    others.into_iter().find(|shards| *shards != active && (1..=shards_max).contains(shards))
}

pub async fn list(state: Shared) -> Json<JobsShape> {
    let (control, progress) = (state.cluster.desk().state(), state.cluster.progress());
    Json(JobsShape { jobs: control.jobs().map(|job| shapes::job(&control, job, &progress)).collect() })
}

pub async fn show(state: Shared, Path(job): Path<u64>) -> Result<Json<JobShape>, Refusal> {
    shape(&state, job).map(Json)
}

/// Answers as soon as the job no longer runs, or when the time is over.
pub async fn wait(
    state: Shared,
    Path(job): Path<u64>,
    query: Result<Query<WaitQuery>, QueryRejection>,
) -> Result<Json<JobShape>, Refusal> {
    let Query(query) = query?;
    let mut folded = state.folded.clone();
    let ended = async {
        loop {
            folded.mark_unchanged();
            let how = state.cluster.desk().state().job_state(JobId(job));
            if !how.is_some_and(|how| how.is_under_way()) || folded.changed().await.is_err() {
                return;
            }
        }
    };
    let mut stage = state.stage.clone();
    tokio::select! {
        // When the time is over, the answer says what still runs.
        _ = timeout(Duration::from_millis(query.timeout_ms.min(WAIT_MS_MAX)), ended) => shape(&state, job).map(Json),
        // The end of the server is not held up by who only waits.
        _ = stage.wait_for(|stage| *stage != Stage::Serving) => Err(Refusal::stopped()),
    }
}

pub async fn cancel(
    state: Shared,
    Path(job): Path<u64>,
    body: Result<Json<ReasonBody>, JsonRejection>,
) -> Result<Json<JobShape>, Refusal> {
    let reason = body?.0.told();
    state.propose(ControlEvent::CancelRequested { job: JobId(job), reason }).await?;
    shape(&state, job).map(Json)
}

pub async fn pause(
    state: Shared,
    Path(job): Path<u64>,
    body: Result<Json<ReasonBody>, JsonRejection>,
) -> Result<Json<JobShape>, Refusal> {
    let reason = body?.0.told();
    state.propose(ControlEvent::PauseRequested { job: JobId(job), reason }).await?;
    shape(&state, job).map(Json)
}

pub async fn resume(state: Shared, Path(job): Path<u64>) -> Result<Json<JobShape>, Refusal> {
    state.propose(ControlEvent::ResumeRequested { job: JobId(job) }).await?;
    shape(&state, job).map(Json)
}

pub async fn complete(state: Shared, Path(job): Path<u64>) -> Result<Json<JobShape>, Refusal> {
    state.propose(ControlEvent::CompleteRequested { job: JobId(job) }).await?;
    shape(&state, job).map(Json)
}

fn shape(api: &Api, job: u64) -> Result<JobShape, Refusal> {
    let control = api.cluster.desk().state();
    let found = control.job(JobId(job)).ok_or_else(|| Refusal::no_job(job))?;
    Ok(shapes::job(&control, found, &api.cluster.progress()))
}

#[cfg(test)]
mod tests {
    use super::possible_shards;

    #[test]
    fn a_refused_number_of_shards_is_answered_with_the_nearest_that_changes_something() {
        assert_eq!(possible_shards(0, 3, 64), Some(1));
        assert_eq!(possible_shards(0, 1, 64), Some(2));
        assert_eq!(possible_shards(65, 3, 64), Some(64));
        assert_eq!(possible_shards(65, 64, 64), Some(63));
        assert_eq!(possible_shards(3, 3, 64), Some(4));
        assert_eq!(possible_shards(1, 1, 1), None);
    }
}
