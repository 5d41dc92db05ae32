//! Tells a move as a story from the logs alone: who asked, X, F, rows, bytes, digests, predicted and measured pause.

use super::errors::Refusal;
use super::{Api, Shared, shapes};
use crate::pause::measured_pause_ms;
use crate::wire::{AttemptShape, ExplainShape, MoveStoryShape, ReportShape, StoryLineShape};
use axum::Json;
use axum::extract::Path;
use rehome_control_core::{Attempt, ControlState, Job, Move, ReadyFacts};
use rehome_keyspace::{JobId, MoveId, Outcome, Side};
use rehome_ports::Log;
use rehome_records::TopicPartition;
use std::sync::Arc;

pub async fn job(state: Shared, Path(job): Path<u64>) -> Result<Json<ExplainShape>, Refusal> {
    told(state, move |api, control| {
        let found = control.job(JobId(job)).ok_or_else(|| Refusal::no_job(job))?;
        let moves: Vec<&Move> = found.moves.iter().filter_map(|id| control.move_(*id)).collect();
        Ok(story(api, control, found, &moves))
    })
    .await
}

pub async fn one_move(state: Shared, Path(move_id): Path<u64>) -> Result<Json<ExplainShape>, Refusal> {
    told(state, move |api, control| {
        let found = control.move_(MoveId(move_id)).ok_or_else(|| Refusal::no_move(move_id))?;
        let job = control.job(found.job).ok_or_else(|| Refusal::no_job(found.job.0))?;
        Ok(story(api, control, job, &[found]))
    })
    .await
}

/// Tells a story. It asks the log for fences, and waits: not on a thread that answers others.
async fn told(
    state: Shared,
    tell: impl FnOnce(&Api, &ControlState) -> Result<ExplainShape, Refusal> + Send + 'static,
) -> Result<Json<ExplainShape>, Refusal> {
    let api = Arc::clone(&state);
    let telling = tokio::task::spawn_blocking(move || tell(&api, &api.cluster.desk().state()));
    telling.await.map_err(|_| Refusal::stopped())?.map(Json)
}

fn story(api: &Api, control: &ControlState, job: &Job, moves: &[&Move]) -> ExplainShape {
    let shape = shapes::job(control, job, &api.cluster.progress());
    ExplainShape {
        job: shape.job,
        keyspace: shape.keyspace,
        requested_by: shape.requested_by,
        created_ms: shape.created_ms,
        state: shape.state,
        moves: moves.iter().map(|one| move_story(api, control, one)).collect(),
        next_steps: next_steps(shape.next_steps),
    }
}

/// Returns what to do after the story: not to read it again.
fn next_steps(of_job: Vec<String>) -> Vec<String> {
    let others: Vec<String> = of_job.into_iter().filter(|step| !step.starts_with("rehome explain")).collect();
    if others.is_empty() { vec!["rehome status".into()] } else { others }
}

fn move_story(api: &Api, control: &ControlState, one: &Move) -> MoveStoryShape {
    let topic = control.keyspace(one.keyspace).map(|keyspace| keyspace.data_topic()).unwrap_or_default();
    let source = TopicPartition::new(topic, one.source.0);
    let attempts = one.attempts.iter().filter_map(|id| control.attempt_record(*id));
    MoveStoryShape {
        summary: shapes::one_move(one, &api.cluster.progress()),
        snapshot_position: one.snapshot.and_then(|snapshot| snapshot.position).map(|position| position.0),
        snapshot_digest: one.snapshot.map(|snapshot| digest(&snapshot.digest)),
        attempts: attempts.map(|attempt| attempt_shape(api.cluster.log(), &source, attempt)).collect(),
        story: one
            .story
            .iter()
            .map(|line| StoryLineShape { position: line.offset.0, time_ms: line.time_ms, what: line.what.clone() })
            .collect(),
    }
}

fn attempt_shape(log: &dyn Log, source: &TopicPartition, attempt: &Attempt) -> AttemptShape {
    let outcome = match attempt.outcome() {
        None => "open",
        Some(Outcome::Switched { .. }) => "switched",
        Some(Outcome::Aborted { .. }) => "aborted",
    };
    AttemptShape {
        attempt: attempt.facts.attempt.0,
        epoch: attempt.facts.epoch.0,
        outcome: outcome.into(),
        reason: attempt.abort_reason.clone(),
        fence: attempt.outcome().map(|outcome| outcome.fence().0),
        predicted_pause_ms: attempt.predicted_pause_us as f64 / 1000.0,
        measured_pause_ms: measured_pause_ms(log, source, attempt),
        reports: attempt.readies.iter().map(report).collect(),
    }
}

fn report(ready: &ReadyFacts) -> ReportShape {
    ReportShape {
        node: ready.node.to_string(),
        side: if ready.side == Side::Source { "source".into() } else { "destination".into() },
        rows: ready.digest.row_count,
        tombstones: ready.digest.tombstone_count,
        digest: digest(&ready.digest),
    }
}

fn digest(digest: &rehome_records::Digest) -> String {
    format!("{:032x}.{:032x}", digest.rows, digest.requests)
}
