//! One row, or the rows of one partition key.

use super::codes::Kind;
use super::errors::Refusal;
use super::list::List;
use super::{Api, Shared, parse, shapes};
use crate::wire::{
    BatchBody, BatchOp, BatchResult, BatchRow, BatchShape, DeleteQuery, Encoding, PutBody, RowsQuery, RowsShape,
    WriteShape,
};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use rehome_keyspace::{KeyspaceId, RequestId, Version};
use rehome_ports::ReadKind;
use rehome_records::{Condition, FirstAnswer, Operation, RowChange, Verdict};
use rehome_router::{ReadAsk, WriteAnswer, WriteAsk, WriteRefused};
use std::collections::BTreeMap;
use tokio::sync::{mpsc, oneshot};

/// Rows of a list that asks for no number of them.
const LIST_LIMIT: usize = 100;
/// Most rows of a list. Reason: an answer of some megabytes.
const LIST_LIMIT_MAX: usize = 10_000;
/// Most rows of one batch. Reason: a few hundredths of a second of work.
const BATCH_ROWS_MAX: usize = 10_000;

/// A write as every handler has it.
struct Asked {
    partition_key: Vec<u8>,
    change: RowChange,
    condition: Option<Condition>,
    request: Option<RequestId>,
}

/// The same as a client writes it; a delete has no value.
struct Words<'a> {
    encoding: Encoding,
    key: &'a str,
    sort: &'a str,
    value: Option<&'a str>,
    condition: Option<&'a str>,
}

impl Words<'_> {
    fn asked(&self, request: Option<RequestId>) -> Result<Asked, Refusal> {
        let read = |text: &str| self.encoding.read(text).map_err(Refusal::bad_request);
        let condition = parse::condition(self.condition)?;
        if self.value.is_none() && condition == Some(Condition::Absent) {
            let message = "a delete of what is absent is nothing: `if` of a delete is present, or a version";
            return Err(Refusal::bad_request(message).next("rehome delete --help"));
        }
        Ok(Asked {
            partition_key: read(self.key)?,
            change: RowChange { sort_key: read(self.sort)?, value: self.value.map(read).transpose()? },
            condition,
            request,
        })
    }
}

pub async fn put(
    state: Shared,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Result<Json<PutBody>, JsonRejection>,
) -> Result<Json<WriteShape>, Refusal> {
    let Json(PutBody { key, sort, value, encoding, request, condition }) = body?;
    let words = Words { encoding, key: &key, sort: &sort, value: Some(&value), condition: condition.as_deref() };
    let request = parse::one_request(request.as_deref(), parse::idempotency_key(&headers)?)?;
    write(&state, &name, words.asked(request)?).await
}

pub async fn delete(
    state: Shared,
    Path(name): Path<String>,
    headers: HeaderMap,
    query: Result<Query<DeleteQuery>, QueryRejection>,
) -> Result<Json<WriteShape>, Refusal> {
    let Query(DeleteQuery { key, sort, encoding, request, condition }) = query?;
    let words = Words { encoding, key: &key, sort: &sort, value: None, condition: condition.as_deref() };
    let request = parse::one_request(request.as_deref(), parse::idempotency_key(&headers)?)?;
    write(&state, &name, words.asked(request)?).await
}

async fn write(api: &Api, name: &str, asked: Asked) -> Result<Json<WriteShape>, Refusal> {
    let keyspace = api.keyspace(name)?.id;
    let request = asked.request.unwrap_or_else(|| RequestId(rand::random()));
    let ask = ask(keyspace, asked, request, api.deadline_ms());
    let (tell, told) = oneshot::channel();
    api.router()?.write(ask, Box::new(move |result| drop(tell.send(result))));
    answered(told.await.map_err(|_| Refusal::stopped())?, request).map(Json)
}

fn ask(keyspace: KeyspaceId, asked: Asked, request: RequestId, deadline_ms: u64) -> WriteAsk {
    let Asked { partition_key, change, condition, request: _ } = asked;
    let operation = match condition {
        None => Operation::Change(change),
        Some(condition) => Operation::ChangeIf { change, condition },
    };
    WriteAsk { keyspace, partition_key, operation, request: Some(request), source: None, deadline_ms }
}

fn answered(result: Result<WriteAnswer, WriteRefused>, request: RequestId) -> Result<WriteShape, Refusal> {
    let answer = result.map_err(|refused| Refusal::router(refused).with_request(&request.to_string()))?;
    written(&answer, request)
}

/// Writes several rows; each is answered as it would be alone.
pub async fn batch(
    state: Shared,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Result<Json<BatchBody>, JsonRejection>,
) -> Result<Json<BatchShape>, Refusal> {
    let Json(body) = body?;
    let keyspace = state.keyspace(&name)?.id;
    let rows = body.rows.len();
    if rows == 0 {
        return Err(Refusal::new("empty_batch", format!("the batch names no row: `rows` has 1 to {BATCH_ROWS_MAX}")));
    }
    if rows > BATCH_ROWS_MAX {
        return Err(Refusal::new("bad_limit", format!("a batch has 1 to {BATCH_ROWS_MAX} rows, not {rows}")));
    }
    let of_all = parse::idempotency_key(&headers)?.unwrap_or_else(|| RequestId(rand::random()));
    let deadline_ms = state.deadline_ms();
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut asks = Vec::with_capacity(rows);
    for (place, row) in body.rows.iter().enumerate() {
        let asked = asked(row, body.encoding).map_err(|refusal| refusal.about_row(place))?;
        let request = asked.request.unwrap_or_else(|| parse::request_of_place(of_all, place));
        let tell = tell.clone();
        let done: rehome_router::WriteDone = Box::new(move |result| drop(tell.send((place, request, result))));
        asks.push((ask(keyspace, asked, request, deadline_ms), done));
    }
    drop(tell);
    state.router()?.write_many(asks);
    let mut results = BTreeMap::new();
    while let Some((place, request, result)) = told.recv().await {
        results.insert(place, batch_result(&state, answered(result, request)));
    }
    if results.len() != rows {
        return Err(Refusal::stopped());
    }
    Ok(Json(BatchShape { results: results.into_values().collect() }))
}

fn asked(row: &BatchRow, encoding: Encoding) -> Result<Asked, Refusal> {
    let value = match (row.op, row.value.as_deref()) {
        (BatchOp::Put, Some(value)) => Some(value),
        (BatchOp::Delete, None) => None,
        (BatchOp::Put, None) => return Err(Refusal::bad_request("a put has a value")),
        (BatchOp::Delete, Some(_)) => return Err(Refusal::bad_request("a delete has no value")),
    };
    let condition = row.condition.as_deref();
    let words = Words { encoding, key: &row.key, sort: &row.sort, value, condition };
    words.asked(parse::request(row.request.as_deref())?)
}

fn batch_result(api: &Api, result: Result<WriteShape, Refusal>) -> BatchResult {
    match result {
        Ok(write) => BatchResult { status: 200, write: Some(write), error: None },
        Err(refusal) => {
            let kind = refusal.kind();
            api.told.count(kind);
            let (error, write) = refusal.into_parts();
            BatchResult { status: kind.status, write, error: Some(error) }
        }
    }
}

/// Returns the code of a verdict, whether it is an earlier one that is told again, and the version that it names.
pub(super) fn code_of(verdict: &Verdict) -> (&'static str, bool, Option<Version>) {
    match *verdict {
        Verdict::Accepted { version } => ("accepted", false, Some(version)),
        Verdict::Repeated { first: FirstAnswer::Accepted { version } } => ("accepted", true, Some(version)),
        Verdict::ConditionFailed { current } => ("condition_failed", false, current),
        Verdict::Repeated { first: FirstAnswer::ConditionFailed { current } } => ("condition_failed", true, current),
        Verdict::SourceDone => ("source_done", false, None),
        Verdict::RequestConflict => ("request_conflict", false, None),
        Verdict::StaleRoute => ("stale_route", false, None),
        Verdict::Invalid { .. } => ("write_invalid", false, None),
    }
}

/// Returns the answer to a write that was judged.
///
/// Errors: the verdict is a no.
fn written(answer: &WriteAnswer, request: RequestId) -> Result<WriteShape, Refusal> {
    let (code, repeated, version) = code_of(&answer.verdict);
    let shape = WriteShape {
        verdict: code.into(),
        repeated,
        version: version.map(|version| version.to_string()),
        token: format!("{}:{}", answer.shard, answer.offset),
        epoch: answer.epoch.0,
        request: Some(request.to_string()),
    };
    let message = match answer.verdict {
        Verdict::ConditionFailed { .. } | Verdict::Repeated { first: FirstAnswer::ConditionFailed { .. } } => {
            format!("the condition does not hold: found {}", shape.version.as_deref().unwrap_or("no row"))
        }
        ref verdict => verdict.to_string(),
    };
    if Kind::of(code).status == 200 { Ok(shape) } else { Err(Refusal::verdict(code, message, Some(shape))) }
}

pub async fn read(
    state: Shared,
    Path(name): Path<String>,
    query: Result<Query<RowsQuery>, QueryRejection>,
) -> Result<Json<RowsShape>, Refusal> {
    let Query(query) = query?;
    let keyspace = state.keyspace(&name)?;
    let list = List::of(&keyspace, &query).map_err(Refusal::bad_request)?;
    let kind = kind(&query, &list)?;
    let level = parse::level(query.level.as_deref())?;
    let ask = ReadAsk { keyspace: keyspace.id, kind, level, deadline_ms: state.deadline_ms() };
    let (tell, told) = oneshot::channel();
    state.router()?.read(ask, Box::new(move |result| drop(tell.send(result))));
    let answer = told.await.map_err(|_| Refusal::stopped())?.map_err(Refusal::router)?;
    // Where the replica stopped, not at the last row: a page may hold deleted rows only.
    let stopped = answer.more_after.as_ref().and_then(|key| keyspace.placement.unplace(key.get(1..)?));
    let next = stopped.map(|(_, sort_key)| list.cursor(sort_key));
    Ok(Json(RowsShape { rows: answer.rows.iter().map(shapes::row).collect(), next, missing: Vec::new() }))
}

fn kind(query: &RowsQuery, list: &List) -> Result<ReadKind, Refusal> {
    if let Some(sort) = &query.sort {
        if query.from.is_some() || query.to.is_some() || query.after.is_some() || query.limit.is_some() {
            return Err(Refusal::bad_request("`sort` names one row: `from`, `to`, `after` and `limit` are for lists"));
        }
        let sort_key = query.encoding.read(sort).map_err(Refusal::bad_request)?;
        return Ok(ReadKind::Get { partition_key: list.partition_key.clone(), sort_key });
    }
    let limit = query.limit.unwrap_or(LIST_LIMIT);
    if limit == 0 || limit > LIST_LIMIT_MAX {
        let message = format!("a list returns 1 to {LIST_LIMIT_MAX} rows, not {limit}");
        return Err(Refusal::new("bad_limit", message));
    }
    list.kind(query.after.as_deref(), limit)
        .ok_or_else(|| Refusal::new("bad_cursor", "the cursor is not one that this list gave: `after` is its `next`"))
}
