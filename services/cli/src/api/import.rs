//! Many rows of an ordered source at once, each with a verdict of its own.

use super::errors::Refusal;
use super::{Shared, codes};
use crate::wire::{ImportBody, ImportRefusal, ImportShape};
use axum::Json;
use axum::extract::Path;
use axum::extract::rejection::JsonRejection;
use rehome_records::inbox::INBOX_SOURCE_PREFIX;
use rehome_records::{Operation, RowChange, SourcePosition, Verdict};
use rehome_router::{WriteAnswer, WriteAsk, WriteRefused};
use tokio::sync::mpsc;

pub async fn import(
    state: Shared,
    Path(name): Path<String>,
    body: Result<Json<ImportBody>, JsonRejection>,
) -> Result<Json<ImportShape>, Refusal> {
    let Json(body) = body?;
    let keyspace = state.keyspace_with(&name, body.keyspace_id)?.id;
    if body.source.starts_with(INBOX_SOURCE_PREFIX) {
        return Err(Refusal::new("bad_source", format!("names of sources do not begin with {INBOX_SOURCE_PREFIX:?}")));
    }
    let read = |text: &str| body.encoding.read(text).map_err(Refusal::bad_request);
    let deadline_ms = state.deadline_ms();
    let rows = body.rows.len();
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut asks = Vec::with_capacity(rows);
    for row in &body.rows {
        let position = row.position;
        let ask = WriteAsk {
            keyspace,
            partition_key: read(&row.key)?,
            operation: Operation::Change(RowChange { sort_key: read(&row.sort)?, value: Some(read(&row.value)?) }),
            request: None,
            source: Some(SourcePosition { source: body.source.clone(), position }),
            deadline_ms,
        };
        let tell = tell.clone();
        let done: rehome_router::WriteDone = Box::new(move |result| drop(tell.send((position, result))));
        asks.push((ask, done));
    }
    drop(tell);
    state.router()?.write_many(asks);
    let mut answer = ImportShape::default();
    let mut answered = 0;
    while let Some((position, result)) = told.recv().await {
        answered += 1;
        note(&mut answer, position, result);
    }
    if answered != rows {
        return Err(Refusal::stopped());
    }
    answer.refused.sort_by_key(|refusal| refusal.position);
    Ok(Json(answer))
}

fn note(answer: &mut ImportShape, position: u64, result: Result<WriteAnswer, WriteRefused>) {
    let refusal = |code: &str, message: String, retry| ImportRefusal { position, code: code.into(), message, retry };
    match result {
        Ok(WriteAnswer { verdict: Verdict::SourceDone, .. }) => answer.done_before += 1,
        Ok(WriteAnswer { verdict: Verdict::Invalid { reason }, .. }) => {
            answer.refused.push(refusal("write_invalid", reason, false));
        }
        Ok(_) => answer.accepted += 1,
        Err(refused) => {
            let kind = codes::of_router(&refused);
            answer.refused.push(refusal(kind.code, refused.message, kind.is_passing()));
        }
    }
}
