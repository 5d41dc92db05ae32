//! Rows of all partition keys, a page at a time.

use super::errors::Refusal;
use super::{Shared, parse, shapes};
use crate::wire::{RowsShape, ScanQuery};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use rehome_router::{ScanAsk, ScanCursor};
use tokio::sync::oneshot;

/// Rows of a page that asks for no number of them.
const PAGE: usize = 1_000;

pub async fn scan(
    state: Shared,
    Path(name): Path<String>,
    query: Result<Query<ScanQuery>, QueryRejection>,
) -> Result<Json<RowsShape>, Refusal> {
    let Query(query) = query?;
    let keyspace = state.keyspace(&name)?.id;
    let unhex =
        |text: &str| parse::unhex(text).ok_or_else(|| Refusal::new("bad_cursor", format!("{text:?} is no cursor")));
    let after = query.after.as_deref().map(unhex).transpose()?.map(ScanCursor);
    let level = parse::level(query.level.as_deref())?;
    let limit = query.limit.unwrap_or(PAGE);
    let ask = ScanAsk { keyspace, level, limit, after, deadline_ms: state.deadline_ms() };
    let (tell, told) = oneshot::channel();
    state.cluster.router().scan(ask, Box::new(move |result| drop(tell.send(result))));
    let answer = told.await.map_err(|_| Refusal::stopped())?.map_err(Refusal::router)?;
    Ok(Json(RowsShape {
        rows: answer.rows.iter().map(shapes::row).collect(),
        next: answer.next.map(|ScanCursor(cursor)| parse::hex(&cursor)),
        missing: answer.missing.iter().map(|range| format!("{range:?}")).collect(),
    }))
}
