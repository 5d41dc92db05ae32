//! Jobs: submit, look, wait, cancel, complete.

use super::errors::Refusal;
use super::{Api, Shared, shapes};
use crate::wire::{JobShape, JobsShape, PlannedShape, ReshardBody, ReshardShape, WaitQuery};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query};
use rehome_control_core::{Accepted, JobState};
use rehome_keyspace::JobId;
use rehome_records::ControlEvent;
use rehome_records::control::{JobOptions, JobSubmitted};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait of one request, in milliseconds. Reason: below what clients and proxies give up at.
const WAIT_MS_MAX: u64 = 30_000;

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
    let wanted = rehome_planner::even(&keyspace.owners(), body.shards).map_err(|refused| Refusal::plan(&refused))?;
    let moves = wanted
        .iter()
        .map(|one| PlannedShape {
            source: one.source.0,
            destination: one.destination.0,
            slots: one.slots.iter().map(|span| span.count()).sum(),
        })
        .collect();
    if body.dry_run {
        let next_steps = vec![format!("rehome reshard {name} --shards {}", body.shards)];
        return Ok(Json(ReshardShape { job: None, moves, next_steps }));
    }
    let who = if body.requested_by.is_empty() { "the API".to_owned() } else { body.requested_by };
    let submitted = JobSubmitted {
        keyspace: keyspace.id,
        shards: body.shards,
        moves: wanted,
        options: JobOptions { complete: !body.keep_source, ..JobOptions::STANDARD },
        requested_by: who,
    };
    let Accepted::JobSubmitted(job, _) = state.propose(ControlEvent::JobSubmitted(submitted)).await? else {
        return Err(Refusal::stopped());
    };
    let next_steps = vec![format!("rehome wait {job}"), format!("rehome explain {job}")];
    Ok(Json(ReshardShape { job: Some(job.0), moves, next_steps }))
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
