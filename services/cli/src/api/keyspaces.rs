//! Keyspaces, where a key belongs, and how the whole system is.

use super::errors::Refusal;
use super::jobs::{possible_shards, rehearse};
use super::{Shared, shapes};
use crate::cluster::{REQUEST_RETENTION_MS, Size};
use crate::commands::span;
use crate::wire::{
    DEFAULT_BUCKETS, DropQuery, DroppedShape, KeyQuery, KeyShape, KeyspaceBody, KeyspaceShape, KeyspacesShape,
    RouteShape, RoutesShape, StatusShape,
};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query};
use rehome_control_core::{Accepted, INBOX_PARTITIONS_MAX, JobState, SHARDS_MAX};
use rehome_keyspace::Placement;
use rehome_records::ControlEvent;
use rehome_router::limits::KEY_BYTES_MAX;
use rehome_router::{RouterHandle, RouterLimits};
use std::ops::RangeInclusive;

/// How long a keyspace may keep request ids, in milliseconds: a minute to 30 days.
const RETENTION_MS: RangeInclusive<u64> = 60_000..=30 * 86_400_000;

pub async fn create(
    state: Shared,
    body: Result<Json<KeyspaceBody>, JsonRejection>,
) -> Result<Json<KeyspaceShape>, Refusal> {
    let Json(body) = body?;
    let placement = Placement::buckets(body.buckets).map_err(|error| {
        Refusal::bad_request(error.to_string())
            .next(create_line(&KeyspaceBody { buckets: DEFAULT_BUCKETS, ..body.clone() }))
    })?;
    let request_retention_ms = retention_ms(&body)?;
    let inbox = inbox_partitions(&body)?;
    let made = state
        .propose(ControlEvent::KeyspaceCreated {
            name: body.name.clone(),
            placement,
            shards: body.shards,
            request_retention_ms,
        })
        .await
        .map_err(|refusal| {
            let refusal = refusal.instead(&["shard_count_invalid"], || vec![create_line(&body)]);
            refusal.instead(&["name_invalid"], || {
                vec![create_line(&KeyspaceBody { name: "flights".into(), ..body.clone() })]
            })
        })?;
    if let (Some(partitions), Accepted::KeyspaceCreated(keyspace)) = (inbox, made) {
        state.propose(ControlEvent::InboxOpened { keyspace, partitions }).await?;
    }
    Ok(Json(shapes::keyspace(&state.keyspace(&body.name)?, &state.cluster.progress())))
}

/// Returns how many partitions the inbox is to have, if there is to be one.
fn inbox_partitions(body: &KeyspaceBody) -> Result<Option<u32>, Refusal> {
    let possible = |partitions: u32| (1..=INBOX_PARTITIONS_MAX).contains(&partitions);
    match body.inbox_partitions {
        Some(partitions) if !possible(partitions) => {
            let message = format!("an inbox has 1 to {INBOX_PARTITIONS_MAX} partitions, not {partitions}");
            let inbox_partitions = Some(partitions.clamp(1, INBOX_PARTITIONS_MAX));
            let next = create_line(&KeyspaceBody { inbox_partitions, ..body.clone() });
            Err(Refusal::new("inbox_partitions_invalid", message).next(next))
        }
        partitions => Ok(partitions),
    }
}

/// Returns how long request ids are to be kept. Errors: shorter than a client takes to ask again, or so long that ids
/// would fill the stores.
fn retention_ms(body: &KeyspaceBody) -> Result<u64, Refusal> {
    let wished = body.request_retention_ms.unwrap_or(REQUEST_RETENTION_MS);
    let (least, most) = (*RETENTION_MS.start(), *RETENTION_MS.end());
    if RETENTION_MS.contains(&wished) {
        return Ok(wished);
    }
    let message = format!(
        "request ids are kept for {} to {} ({least} to {most} ms), not {}",
        span::text(least),
        span::text(most),
        span::text(wished)
    );
    let possible = KeyspaceBody { request_retention_ms: Some(wished.clamp(least, most)), ..body.clone() };
    Err(Refusal::bad_request(message).next(create_line(&possible)))
}

/// Returns a command that creates a keyspace like the wished one, with a number of shards that can be.
fn create_line(wished: &KeyspaceBody) -> String {
    let KeyspaceBody { name, shards, buckets, request_retention_ms, inbox_partitions } = wished;
    let shards = (*shards).clamp(1, (*buckets).clamp(1, SHARDS_MAX));
    let buckets = if *buckets == DEFAULT_BUCKETS { String::new() } else { format!(" --buckets {buckets}") };
    let retention =
        request_retention_ms.map(|ms| format!(" --request-retention {}", span::text(ms))).unwrap_or_default();
    let inbox = inbox_partitions.map(|partitions| format!(" --inbox {partitions}")).unwrap_or_default();
    format!("rehome keyspace create {name} --shards {shards}{buckets}{retention}{inbox}")
}

pub async fn list(state: Shared) -> Json<KeyspacesShape> {
    let (control, progress) = (state.cluster.desk().state(), state.cluster.progress());
    let keyspaces = control.keyspaces().map(|keyspace| shapes::keyspace(keyspace, &progress)).collect();
    Json(KeyspacesShape { keyspaces })
}

pub async fn show(state: Shared, Path(name): Path<String>) -> Result<Json<KeyspaceShape>, Refusal> {
    Ok(Json(shapes::keyspace(&state.keyspace(&name)?, &state.cluster.progress())))
}

/// Tells who owns which slot: one run after the other, each as long as owner and epoch are the same.
pub async fn routes(state: Shared, Path(name): Path<String>) -> Result<Json<RoutesShape>, Refusal> {
    let keyspace = state.keyspace(&name)?;
    let mut routes: Vec<RouteShape> = Vec::new();
    for (slot, route) in (0..).zip(keyspace.routes.iter()) {
        match routes.last_mut() {
            Some(last) if (last.shard, last.epoch) == (route.shard.0, route.epoch.0) => last.slot_last = slot,
            _ => routes.push(RouteShape {
                slot_first: slot,
                slot_last: slot,
                shard: route.shard.0,
                epoch: route.epoch.0,
                nodes: shapes::nodes(&keyspace, route.shard),
            }),
        }
    }
    Ok(Json(RoutesShape { keyspace: name, routes_position: keyspace.routes_changed.0, routes }))
}

pub async fn key(
    state: Shared,
    Path(name): Path<String>,
    query: Result<Query<KeyQuery>, QueryRejection>,
) -> Result<Json<KeyShape>, Refusal> {
    let Query(query) = query?;
    let key = query.encoding.read(&query.key).map_err(Refusal::bad_request)?;
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let code = if key.is_empty() { "empty_key" } else { "key_too_large" };
        let message = format!("a partition key has 1 to {KEY_BYTES_MAX} bytes, not {}", key.len());
        return Err(Refusal::new(code, message).next("rehome keyspace show --help"));
    }
    let keyspace = state.keyspace(&name)?;
    let slot = keyspace.placement.slot(&key);
    let route = keyspace.route(slot).expect("routes are total");
    Ok(Json(KeyShape {
        key: query.key,
        hash: format!("{:016x}", keyspace.placement.hash(&key)),
        slot: slot.0,
        shard: route.shard.0,
        epoch: route.epoch.0,
        routes_position: keyspace.routes_changed.0,
        nodes: shapes::nodes(&keyspace, route.shard),
    }))
}

/// Drops a keyspace, or with `dry_run` says what would go.
pub async fn drop(
    state: Shared,
    Path(name): Path<String>,
    query: Result<Query<DropQuery>, QueryRejection>,
) -> Result<Json<DroppedShape>, Refusal> {
    let Query(query) = query?;
    let keyspace = state.keyspace_with(&name, query.id)?;
    let event = ControlEvent::KeyspaceDropped { keyspace: keyspace.id };
    rehearse(&state, event.clone())?;
    let (counting, counted) = (std::sync::Arc::clone(&state), keyspace.clone());
    // It reads stores: not on a thread that answers others.
    let size = tokio::task::spawn_blocking(move || super::plan::size_of(&counting, &counted));
    let size = match size.await.map_err(|_| Refusal::stopped())? {
        Ok(size) => size,
        Err(error) if query.dry_run => {
            // Somebody else may have dropped it meanwhile; then its stores cannot be read.
            state.keyspace_with(&name, Some(keyspace.id.0))?;
            return Err(Refusal::from(error));
        }
        // What cannot be counted can be dropped all the same; whether it is there is for the control log to say.
        Err(_) => Size::default(),
    };
    let next_steps = if query.dry_run {
        vec![format!("rehome keyspace drop {name} --yes")]
    } else {
        state.propose(event).await?;
        vec!["rehome keyspace list".into()]
    };
    let (id, dropped) = (keyspace.id.0, !query.dry_run);
    Ok(Json(DroppedShape { name, id, dropped, rows: size.rows, bytes: size.bytes, counted: size.counted, next_steps }))
}

/// Returns the command that shows what one more shard would take, or one fewer where there can be no more.
fn plan_line(keyspace: &KeyspaceShape) -> String {
    let (name, active) = (&keyspace.name, keyspace.shards_active);
    match possible_shards(active + 1, active, keyspace.buckets.min(SHARDS_MAX)) {
        Some(shards) => format!("rehome plan {name} --shards {shards}"),
        None => format!("rehome keyspace show {name}"),
    }
}

pub async fn status(state: Shared) -> Json<StatusShape> {
    let (control, progress) = (state.cluster.desk().state(), state.cluster.progress());
    let is_open =
        |job: &&rehome_control_core::Job| !control.job_state(job.id).is_some_and(|how: JobState| how.is_final());
    let jobs: Vec<_> = control.jobs().filter(is_open).map(|job| shapes::job(&control, job, &progress)).collect();
    let keyspaces: Vec<_> = control.keyspaces().map(|keyspace| shapes::keyspace(keyspace, &progress)).collect();
    let next_steps = match (keyspaces.first(), jobs.first()) {
        (None, _) => vec!["rehome keyspace create flights --shards 3".into()],
        (_, Some(job)) => job.next_steps.clone(),
        (Some(keyspace), None) => vec![plan_line(keyspace)],
    };
    let limits = state.cluster.try_router().map_or(RouterLimits::STANDARD, RouterHandle::limits);
    Json(StatusShape {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        data: state.data.clone(),
        uptime_ms: state.cluster.clock().uptime().as_millis() as u64,
        control_position: control.folded_next().0,
        value_bytes_max: limits.value_bytes_max as u64,
        keyspaces,
        jobs,
        next_steps,
    })
}
