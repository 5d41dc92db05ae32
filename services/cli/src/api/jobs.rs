//! Jobs: submit, look, wait, cancel, complete.

use super::errors::Refusal;
use super::{Api, Shared, shapes};
use crate::wire::{JobShape, JobsShape, PlannedShape, ReshardBody, ReshardShape, WaitQuery};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query};
use rehome_control_core::{Accepted, ControlState, Decision, JobState, Keyspace, SHARDS_MAX};
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
    &["plan-no-shards", "plan-more-shards-than-slots", "plan-nothing-to-move", "shard-count-invalid"];

/// `POST /v1/jobs/{job}/cancel`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelBody {
    #[serde(default)]
    reason: String,
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
    let moves = wanted
        .iter()
        .map(|one| PlannedShape {
            source: one.source.0,
            destination: one.destination.0,
            slots: one.slots.iter().map(|span| span.count()).sum(),
        })
        .collect();
    let who = if body.requested_by.is_empty() { "the API" } else { &body.requested_by };
    let submitted = JobSubmitted {
        keyspace: keyspace.id,
        shards: body.shards,
        moves: wanted,
        options: JobOptions { complete: !body.keep_source, ..JobOptions::STANDARD },
        requested_by: who.to_owned(),
    };
    if body.dry_run {
        rehearse(&state, ControlEvent::JobSubmitted(submitted)).map_err(possible)?;
        let next_steps = vec![format!("rehome reshard {name} --shards {}", body.shards)];
        return Ok(Json(ReshardShape { job: None, moves, next_steps }));
    }
    let accepted = state.propose(ControlEvent::JobSubmitted(submitted)).await.map_err(possible)?;
    let Accepted::JobSubmitted(job, _) = accepted else {
        return Err(Refusal::stopped());
    };
    let next_steps = vec![format!("rehome wait {job}"), format!("rehome explain {job}")];
    Ok(Json(ReshardShape { job: Some(job.0), moves, next_steps }))
}

/// Asks the fold what it would say, on a copy of its state: a dry run is refused exactly as the real one.
fn rehearse(api: &Api, event: ControlEvent) -> Result<(), Refusal> {
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
fn possible_shards(wished: u32, active: u32, shards_max: u32) -> Option<u32> {
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
            if how != Some(JobState::Running) || folded.changed().await.is_err() {
                return;
            }
        }
    };
    // When the time is over, the answer says what still runs.
    let _ = timeout(Duration::from_millis(query.timeout_ms.min(WAIT_MS_MAX)), ended).await;
    shape(&state, job).map(Json)
}

pub async fn cancel(
    state: Shared,
    Path(job): Path<u64>,
    body: Result<Json<CancelBody>, JsonRejection>,
) -> Result<Json<JobShape>, Refusal> {
    let Json(body) = body?;
    let reason = if body.reason.is_empty() { "asked for through the API".to_owned() } else { body.reason };
    state.propose(ControlEvent::CancelRequested { job: JobId(job), reason }).await?;
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
