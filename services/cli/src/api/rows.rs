//! One row, or the rows of one partition key.

use super::errors::Refusal;
use super::{Api, Shared, parse, shapes};
use crate::wire::{DeleteQuery, Encoding, PutBody, RowsQuery, RowsShape, WriteShape};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query};
use rehome_keyspace::RequestId;
use rehome_ports::ReadKind;
use rehome_records::{Condition, FirstAnswer, Operation, RowChange, Verdict};
use rehome_router::{ReadAsk, WriteAnswer, WriteAsk};
use tokio::sync::oneshot;

/// Rows of a list that asks for no number of them.
const LIST_LIMIT: usize = 100;
/// Most rows of a list. Reason: an answer of some megabytes.
const LIST_LIMIT_MAX: usize = 10_000;

/// A write as both handlers have it.
struct Asked {
    partition_key: Vec<u8>,
    change: RowChange,
    condition: Option<Condition>,
    request: Option<RequestId>,
}

pub async fn put(
    state: Shared,
    Path(name): Path<String>,
    body: Result<Json<PutBody>, JsonRejection>,
) -> Result<Json<WriteShape>, Refusal> {
    let Json(body) = body?;
    let read = |text: &str| body.encoding.read(text).map_err(Refusal::bad_request);
    let asked = Asked {
        partition_key: read(&body.key)?,
        change: RowChange { sort_key: read(&body.sort)?, value: Some(read(&body.value)?) },
        condition: parse::condition(body.condition.as_deref())?,
        request: parse::request(body.request.as_deref())?,
    };
    write(&state, &name, asked).await
}

pub async fn delete(
    state: Shared,
    Path(name): Path<String>,
    query: Result<Query<DeleteQuery>, QueryRejection>,
) -> Result<Json<WriteShape>, Refusal> {
    let Query(query) = query?;
    let read = |text: &str| query.encoding.read(text).map_err(Refusal::bad_request);
    let asked = Asked {
        partition_key: read(&query.key)?,
        change: RowChange { sort_key: read(&query.sort)?, value: None },
        condition: parse::condition(query.condition.as_deref())?,
        request: parse::request(query.request.as_deref())?,
    };
    write(&state, &name, asked).await
}

async fn write(api: &Api, name: &str, asked: Asked) -> Result<Json<WriteShape>, Refusal> {
    let keyspace = api.keyspace(name)?.id;
    let Asked { partition_key, change, condition, request } = asked;
    let operation = match condition {
        None => Operation::Change(change),
        Some(condition) => Operation::ChangeIf { change, condition },
    };
    let request = request.unwrap_or_else(|| RequestId(rand::random()));
    let ask = WriteAsk {
        keyspace,
        partition_key,
        operation,
        request: Some(request),
        source: None,
        deadline_ms: api.deadline_ms(),
    };
    let (tell, told) = oneshot::channel();
    api.cluster.router().write(ask, Box::new(move |result| drop(tell.send(result))));
    let answer = told.await.map_err(|_| Refusal::stopped())?.map_err(Refusal::router)?;
    written(&answer, request).map(Json)
}

fn written(answer: &WriteAnswer, request: RequestId) -> Result<WriteShape, Refusal> {
    let (verdict, version) = match &answer.verdict {
        Verdict::Accepted { version } => ("accepted", Some(*version)),
        Verdict::Repeated { first: FirstAnswer::Accepted { version } } => ("accepted-before", Some(*version)),
        Verdict::ConditionFailed { current }
        | Verdict::Repeated { first: FirstAnswer::ConditionFailed { current } } => ("condition-failed", *current),
        Verdict::SourceDone => ("done-before", None),
        Verdict::RequestConflict => return Err(Refusal::verdict("request-conflict", answer.verdict.to_string())),
        Verdict::StaleRoute | Verdict::Invalid { .. } => {
            return Err(Refusal::verdict("write-invalid", answer.verdict.to_string()));
        }
    };
    Ok(WriteShape {
        verdict: verdict.into(),
        version: version.map(|version| version.to_string()),
        token: format!("{}:{}", answer.shard, answer.offset),
        epoch: answer.epoch.0,
        request: Some(request.to_string()),
    })
}

pub async fn read(
    state: Shared,
    Path(name): Path<String>,
    query: Result<Query<RowsQuery>, QueryRejection>,
) -> Result<Json<RowsShape>, Refusal> {
    let Query(query) = query?;
    let keyspace = state.keyspace(&name)?.id;
    let kind = kind(&query).map_err(Refusal::bad_request)?;
    let level = parse::level(query.level.as_deref())?;
    let ask = ReadAsk { keyspace, kind, level, deadline_ms: state.deadline_ms() };
    let (tell, told) = oneshot::channel();
    state.cluster.router().read(ask, Box::new(move |result| drop(tell.send(result))));
    let answer = told.await.map_err(|_| Refusal::stopped())?.map_err(Refusal::router)?;
    // Where a list goes on: the sort key of its last row, which the next list leaves out.
    let last = answer.rows.last().filter(|_| answer.more_after.is_some());
    let next = last.map(|row| Encoding::that_fits(&[&row.sort_key]).write(&row.sort_key));
    Ok(Json(RowsShape { rows: answer.rows.iter().map(shapes::row).collect(), next, missing: Vec::new() }))
}

fn kind(query: &RowsQuery) -> Result<ReadKind, String> {
    let read = |text: &str| query.encoding.read(text);
    let partition_key = read(&query.key)?;
    if let Some(sort) = &query.sort {
        return Ok(ReadKind::Get { partition_key, sort_key: read(sort)? });
    }
    let limit = query.limit.unwrap_or(LIST_LIMIT);
    if limit == 0 || limit > LIST_LIMIT_MAX {
        return Err(format!("a list returns 1 to {LIST_LIMIT_MAX} rows, not {limit}"));
    }
    Ok(ReadKind::List {
        partition_key,
        from: query.from.as_deref().map(read).transpose()?.unwrap_or_default(),
        to: query.to.as_deref().map(read).transpose()?,
        reverse: query.reverse,
        limit,
    })
}
