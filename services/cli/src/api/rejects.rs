//! What could not be applied: shown, and sent again.
//!
//! The topic of rejects is read from its start each time: it holds what a human has to look at. A reject that was sent
//! again is marked there, and is shown no more.

use super::Shared;
use super::codes;
use super::errors::Refusal;
use crate::wire::{Encoding, RejectShape, RejectsQuery, RejectsShape, RetriedShape, RetryBody, RetryResult};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query};
use rehome_control_core::Keyspace;
use rehome_keyspace::{Offset, RequestId};
use rehome_ports::{Lane, Log, PortError, Records};
use rehome_records::{Rejected, RejectedAt, TopicPartition};
use rehome_router::{WriteAnswer, WriteAsk, WriteRefused};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use xxhash_rust::xxh3::xxh3_128;

/// Rejects of a page that asks for no number of them.
const LIMIT: usize = 100;
/// Most rejects of a page, and of one retry.
const LIMIT_MAX: usize = 1_000;
/// Bytes of records of one page or retry, passed by at most one record.
const BYTES_MAX: usize = 8 << 20;
/// Longest time until everything in the topic can be read.
const READ_MAX: Duration = Duration::from_secs(15);

/// Some rejects, with the offset of each in their topic.
type Page = BTreeMap<Offset, Rejected>;

pub async fn list(
    state: Shared,
    Path(name): Path<String>,
    query: Result<Query<RejectsQuery>, QueryRejection>,
) -> Result<Json<RejectsShape>, Refusal> {
    let Query(query) = query?;
    let keyspace = state.keyspace(&name)?;
    let limit = query.limit.unwrap_or(LIMIT);
    if limit == 0 || limit > LIMIT_MAX {
        return Err(Refusal::new("bad_limit", format!("a page holds 1 to {LIMIT_MAX} rejects, not {limit}")));
    }
    let after = query.after.as_deref().map(|after| {
        let wrong = || Refusal::new("bad_cursor", "the cursor is not one that this list gave: `after` is its `next`");
        after.parse().map(Offset).map_err(|_| wrong())
    });
    let (page, more) = read(&state, &keyspace, limit, after.transpose()?, None).await?;
    let next = page.last_key_value().filter(|_| more).map(|(offset, _)| offset.0.to_string());
    Ok(Json(RejectsShape { rejects: page.values().map(shape).collect(), next }))
}

pub async fn retry(
    state: Shared,
    Path(name): Path<String>,
    body: Result<Json<RetryBody>, JsonRejection>,
) -> Result<Json<RetriedShape>, Refusal> {
    let Json(body) = body?;
    let keyspace = state.keyspace(&name)?;
    let places = body.at.iter().map(|at| {
        let wrong = || Refusal::bad_request(format!("{at:?} names no reject: `inbox/0@17` or `data/3@811` would"));
        RejectedAt::read(at).ok_or_else(wrong)
    });
    let places: BTreeSet<RejectedAt> = places.collect::<Result<_, _>>()?;
    let chosen = Some(&places).filter(|places| !places.is_empty()).cloned();
    let (page, _) = read(&state, &keyspace, LIMIT_MAX, None, chosen).await?;
    let found: BTreeSet<RejectedAt> = page.values().map(|rejected| rejected.at).collect();
    if let Some(lacking) = places.iter().find(|place| !found.contains(place)) {
        let message = format!("there is no reject {lacking} in keyspace {name} that was not sent again");
        return Err(Refusal::new("reject_unknown", message).next(format!("rehome rejects list {name}")));
    }
    let results = match body.dry_run {
        true => page.values().map(|rejected| (rejected.at, rehearsed(rejected))).collect(),
        false => send(&state, &keyspace, page.into_values()).await?,
    };
    let refused = results.values().filter(|result| result.outcome == "refused").count();
    let next_steps = match (body.dry_run, refused) {
        (true, _) if results.is_empty() => vec![format!("rehome rejects list {name}")],
        (true, _) => vec![format!("rehome rejects retry {name}")],
        (false, 0) => Vec::new(),
        (false, _) => vec![format!("rehome rejects list {name}")],
    };
    let sent = results.len() - refused;
    let results = results.into_values().collect();
    Ok(Json(RetriedShape { sent, refused, dry_run: body.dry_run, results, next_steps }))
}

fn result(at: RejectedAt, outcome: &str, why: Option<(&str, String)>) -> RetryResult {
    let (code, message) = why.map_or((None, None), |(code, message)| (Some(code.to_owned()), Some(message)));
    RetryResult { at: at.to_string(), outcome: outcome.into(), code, message }
}

fn rehearsed(rejected: &Rejected) -> RetryResult {
    match rejected.clone().into_write() {
        Ok(_) => result(rejected.at, "would_send", None),
        Err(invalid) => result(rejected.at, "refused", Some(("write_invalid", invalid.0))),
    }
}

/// Writes each under a request id of its own, so that one that is sent twice is done once, and marks what was done.
async fn send(
    state: &Shared,
    keyspace: &Keyspace,
    rejects: impl Iterator<Item = Rejected>,
) -> Result<BTreeMap<RejectedAt, RetryResult>, Refusal> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let (mut asks, mut results) = (Vec::new(), BTreeMap::new());
    for rejected in rejects {
        let at = rejected.at;
        match rejected.into_write() {
            Err(invalid) => _ = results.insert(at, result(at, "refused", Some(("write_invalid", invalid.0)))),
            Ok((partition_key, operation)) => {
                let request = Some(request_of(at));
                let (source, deadline_ms) = (None, state.deadline_ms());
                let ask = WriteAsk { keyspace: keyspace.id, partition_key, operation, request, source, deadline_ms };
                let tell = tell.clone();
                let done: rehome_router::WriteDone = Box::new(move |answer| drop(tell.send((at, answer))));
                asks.push((ask, done));
            }
        }
    }
    drop(tell);
    let wanted = asks.len() + results.len();
    state.router()?.write_many(asks);
    let mut done = Vec::new();
    while let Some((at, answer)) = told.recv().await {
        let (result, is_done) = answered(at, answer);
        results.insert(at, result);
        done.extend(is_done.then_some(at));
    }
    if results.len() != wanted {
        return Err(Refusal::stopped());
    }
    if !done.is_empty() {
        mark(state, keyspace, done).await?;
    }
    Ok(results)
}

fn answered(at: RejectedAt, answer: Result<WriteAnswer, WriteRefused>) -> (RetryResult, bool) {
    match answer {
        Ok(answer) if answer.is_done() => (result(at, "sent", None), true),
        Ok(answer) => {
            let (code, _, _) = super::rows::code_of(&answer.verdict);
            (result(at, "refused", Some((code, answer.verdict.to_string()))), false)
        }
        Err(refused) => {
            let kind = codes::of_router(&refused);
            (result(at, "refused", Some((kind.code, refused.message))), false)
        }
    }
}

/// Returns the request id that a reject is sent again under, always the same.
fn request_of(at: RejectedAt) -> RequestId {
    RequestId(xxh3_128(format!("rehome reject {at}").as_bytes()).to_be_bytes())
}

/// Notes in the topic which rejects were sent again.
async fn mark(state: &Shared, keyspace: &Keyspace, done: Vec<RejectedAt>) -> Result<(), Refusal> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let records = done.into_iter().map(|at| Rejected::retried(at).into_record()).collect();
    let partition = TopicPartition::new(keyspace.rejects_topic(), 0);
    state.cluster.log().append(&partition, Lane::Protocol, records, Box::new(move |result| drop(tell.send(result))));
    told.await.map_err(|_| Refusal::stopped())?.map(drop).map_err(Refusal::from)
}

/// Reads some of the rejects that were not sent again; tells whether there are more.
async fn read(
    state: &Shared,
    keyspace: &Keyspace,
    limit: usize,
    after: Option<Offset>,
    chosen: Option<BTreeSet<RejectedAt>>,
) -> Result<(Page, bool), Refusal> {
    let (state, partition) = (Arc::clone(state), TopicPartition::new(keyspace.rejects_topic(), 0));
    let reading = move || -> Result<(Page, bool), PortError> {
        let log = state.cluster.log();
        let mut gone = BTreeSet::new();
        visit(log, &partition, |_, rejected| {
            if rejected.is_retried {
                gone.insert(rejected.at);
            }
        })?;
        let (mut page, mut seen, mut bytes, mut more) = (Page::new(), BTreeSet::new(), 0, false);
        visit(log, &partition, |offset, rejected| {
            let at = rejected.at;
            let wanted = chosen.as_ref().is_none_or(|chosen| chosen.contains(&at));
            // One that lies there twice is one; its first counts, on every page.
            if rejected.is_retried || gone.contains(&at) || !wanted || !seen.insert(at) || Some(offset) <= after {
                return;
            }
            if page.len() >= limit || bytes >= BYTES_MAX {
                more = true;
            } else {
                bytes += rejected.record.bytes();
                page.insert(offset, rejected);
            }
        })?;
        Ok((page, more))
    };
    // It reads a log: not on a thread that answers others.
    Ok(tokio::task::spawn_blocking(reading).await.map_err(|_| Refusal::stopped())??)
}

/// Shows every record that the topic holds now.
fn visit(log: &dyn Log, partition: &TopicPartition, mut look: impl FnMut(Offset, Rejected)) -> Result<(), PortError> {
    if log.partitions(&partition.topic)?.is_none() {
        // Nothing was ever rejected.
        return Ok(());
    }
    for logged in Records::up_to_now(log, partition, log.start(partition)?, READ_MAX)? {
        let logged = logged?;
        if let Ok(rejected) = Rejected::read(logged.record) {
            look(logged.offset, rejected);
        }
    }
    Ok(())
}

fn shape(rejected: &Rejected) -> RejectShape {
    let record = &rejected.record;
    let sort = record.header(rehome_records::data::HEADER_SORT).unwrap_or_default();
    let (key, value) = (record.key.as_deref(), record.value.as_deref());
    let encoding = Encoding::that_fits(&[key.unwrap_or_default(), sort, value.unwrap_or_default()]);
    RejectShape {
        at: rejected.at.to_string(),
        reason: rejected.reason.clone(),
        key: key.map(|key| encoding.write(key)),
        sort: encoding.write(sort),
        value: value.map(|value| encoding.write(value)),
        encoding,
        cut: rejected.is_cut,
    }
}
