//! Verdicts by position, for producers that write to the data topic themselves.

use super::Shared;
use super::errors::Refusal;
use super::rows::code_of;
use crate::wire::{VerdictQuery, VerdictShape};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use rehome_keyspace::{Offset, ShardId};
use rehome_router::Told;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a question waits for the record to be judged. Reason: a moving slot waits for its outcome that long at most.
const WAIT: Duration = Duration::from_secs(10);

/// Tells the verdict on a position, once the shard has passed it.
pub async fn verdict(
    state: Shared,
    Path(name): Path<String>,
    query: Result<Query<VerdictQuery>, QueryRejection>,
) -> Result<Json<VerdictShape>, Refusal> {
    let Query(VerdictQuery { shard, offset }) = query?;
    let keyspace = state.keyspace(&name)?;
    state.router()?;
    if shard >= keyspace.shards {
        let message = format!("keyspace {name} has shards 0 to {}, not {shard}", keyspace.shards - 1);
        return Err(Refusal::bad_request(message).next(format!("rehome keyspace show {name}")));
    }
    let (tell, told) = oneshot::channel();
    let done = Box::new(move |told| drop(tell.send(told)));
    let (shard, offset) = (ShardId(shard), Offset(offset));
    let question = state.cluster.verdicts().ask(keyspace.id, shard, offset, done);
    let told = match timeout(WAIT, told).await {
        Ok(told) => told.map_err(|_| Refusal::stopped())?,
        Err(_) => {
            state.cluster.verdicts().forget(question);
            let message = format!("shard {shard} has not judged {offset} yet");
            return Err(Refusal::new("verdict_pending", message));
        }
    };
    match told {
        Told::Verdict(verdict) => {
            let (code, repeated, version) = code_of(&verdict);
            let version = version.map(|version| version.to_string());
            let message = verdict.to_string();
            let (shard, offset, verdict) = (shard.0, offset.0, code.to_owned());
            Ok(Json(VerdictShape { shard, offset, verdict, repeated, version, message }))
        }
        Told::Unknown => {
            let message = format!(
                "the verdict on {offset} of shard {shard} is not known here (any more): send the write again under the same \
                 request id, which is done once"
            );
            Err(Refusal::new("verdict_unknown", message))
        }
        Told::Overloaded => Err(Refusal::new("overloaded", "too many questions for verdicts wait already")),
    }
}
