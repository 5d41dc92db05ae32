//! The one table of routes: from it come the router and the OpenAPI description.
//!
//! A new route is one line here. Its shapes derive `JsonSchema`; `docs/openapi.json` is written anew by
//! `REHOME_BLESS=1 cargo test -p rehome-cli openapi`; and `tests/integration/tests/http_api.rs` asks it once.

use super::{Api, explain, health, import, jobs, keyspaces, metrics, openapi, rejects, rows, scan, verdicts};
use crate::wire::*;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::sync::Arc;

/// Returns the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a success is answered with.
#[derive(Clone, Copy)]
pub enum Answer {
    Json(SchemaOf),
    /// Of that content type.
    Text(&'static str),
}

/// One method of one path.
pub struct Entry {
    /// Lowercase.
    pub method: &'static str,
    pub path: &'static str,
    pub summary: &'static str,
    pub query: Option<SchemaOf>,
    pub body: Option<SchemaOf>,
    /// The header `Idempotency-Key` is read.
    pub is_idempotent: bool,
    pub answer: Answer,
    pub handler: MethodRouter<Arc<Api>>,
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Returns a line: `A` is what a success is answered with.
fn line<A: JsonSchema>(
    method: &'static str,
    path: &'static str,
    handler: MethodRouter<Arc<Api>>,
    summary: &'static str,
) -> Entry {
    let answer = Answer::Json(schema::<A>);
    Entry { method, path, summary, query: None, body: None, is_idempotent: false, answer, handler }
}

fn gets<A: JsonSchema, H: Handler<T, Arc<Api>>, T: 'static>(
    path: &'static str,
    handler: H,
    what: &'static str,
) -> Entry {
    line::<A>("get", path, get(handler), what)
}

fn posts<A: JsonSchema, H: Handler<T, Arc<Api>>, T: 'static>(
    path: &'static str,
    handler: H,
    what: &'static str,
) -> Entry {
    line::<A>("post", path, post(handler), what)
}

fn deletes<A: JsonSchema, H: Handler<T, Arc<Api>>, T: 'static>(
    path: &'static str,
    handler: H,
    what: &'static str,
) -> Entry {
    line::<A>("delete", path, delete(handler), what)
}

impl Entry {
    fn query<Q: JsonSchema>(self) -> Entry {
        // Not a reference to a schema: its fields become parameters.
        Entry { query: Some(Q::json_schema), ..self }
    }

    fn body<B: JsonSchema>(self) -> Entry {
        Entry { body: Some(schema::<B>), ..self }
    }

    fn idempotent(self) -> Entry {
        Entry { is_idempotent: true, ..self }
    }

    fn text(self, content_type: &'static str) -> Entry {
        Entry { answer: Answer::Text(content_type), ..self }
    }
}

/// Returns every route.
#[rustfmt::skip]
pub fn entries() -> Vec<Entry> {
    vec![
        gets::<HealthShape, _, _>("/v1/health", health::live, "The process lives"),
        gets::<ReadyShape, _, _>("/v1/ready", health::ready, "Every replica is caught up and can serve; 503 otherwise"),
        gets::<String, _, _>("/metrics", metrics::metrics, "Metrics in Prometheus' text format").text(metrics::CONTENT_TYPE),
        gets::<serde_json::Value, _, _>("/v1/openapi.json", openapi::serve, "This description"),
        gets::<StatusShape, _, _>("/v1/status", keyspaces::status, "How the whole system is"),
        gets::<KeyspacesShape, _, _>("/v1/keyspaces", keyspaces::list, "All keyspaces"),
        posts::<KeyspaceShape, _, _>("/v1/keyspaces", keyspaces::create, "Creates a keyspace").body::<KeyspaceBody>(),
        gets::<KeyspaceShape, _, _>("/v1/keyspaces/{name}", keyspaces::show, "One keyspace with its shards"),
        deletes::<DroppedShape, _, _>("/v1/keyspaces/{name}", keyspaces::drop, "Drops a keyspace with everything in it").query::<DropQuery>(),
        gets::<KeyShape, _, _>("/v1/keyspaces/{name}/key", keyspaces::key, "Where a partition key belongs").query::<KeyQuery>(),
        gets::<RoutesShape, _, _>("/v1/keyspaces/{name}/routes", keyspaces::routes, "Who owns which slot, with epochs"),
        gets::<RowsShape, _, _>("/v1/keyspaces/{name}/rows", rows::read, "One row, or a page of the rows of one partition key").query::<RowsQuery>(),
        posts::<WriteShape, _, _>("/v1/keyspaces/{name}/rows", rows::put, "Writes a row").body::<PutBody>().idempotent(),
        deletes::<WriteShape, _, _>("/v1/keyspaces/{name}/rows", rows::delete, "Deletes a row").query::<DeleteQuery>().idempotent(),
        posts::<BatchShape, _, _>("/v1/keyspaces/{name}/batch", rows::batch, "Writes and deletes several rows, with a verdict each").body::<BatchBody>().idempotent(),
        gets::<RowsShape, _, _>("/v1/keyspaces/{name}/scan", scan::scan, "A page of all rows").query::<ScanQuery>(),
        posts::<ImportShape, _, _>("/v1/keyspaces/{name}/import", import::import, "Writes rows of an ordered source").body::<ImportBody>(),
        gets::<RejectsShape, _, _>("/v1/keyspaces/{name}/rejects", rejects::list, "What could not be applied and was not sent again").query::<RejectsQuery>(),
        posts::<RetriedShape, _, _>("/v1/keyspaces/{name}/rejects/retry", rejects::retry, "Sends rejects again, each under a request id of its own").body::<RetryBody>(),
        gets::<VerdictShape, _, _>("/v1/keyspaces/{name}/verdicts", verdicts::verdict, "The verdict on a record of the data topic").query::<VerdictQuery>(),
        posts::<ReshardShape, _, _>("/v1/keyspaces/{name}/reshard", jobs::reshard, "Changes the number of shards").body::<ReshardBody>(),
        gets::<JobsShape, _, _>("/v1/jobs", jobs::list, "All jobs"),
        gets::<JobShape, _, _>("/v1/jobs/{job}", jobs::show, "One job with its moves"),
        gets::<JobShape, _, _>("/v1/jobs/{job}/wait", jobs::wait, "The job, once it no longer runs or the time is over").query::<WaitQuery>(),
        gets::<ExplainShape, _, _>("/v1/jobs/{job}/explain", explain::job, "The stories of a job's moves"),
        posts::<JobShape, _, _>("/v1/jobs/{job}/pause", jobs::pause, "Lets the job take no further step before its cutovers").body::<jobs::ReasonBody>(),
        posts::<JobShape, _, _>("/v1/jobs/{job}/resume", jobs::resume, "Lets a paused job go on"),
        posts::<JobShape, _, _>("/v1/jobs/{job}/cancel", jobs::cancel, "Cancels what has not switched").body::<jobs::ReasonBody>(),
        posts::<JobShape, _, _>("/v1/jobs/{job}/complete", jobs::complete, "Drops the rows that were kept at the sources"),
        gets::<ExplainShape, _, _>("/v1/moves/{move}/explain", explain::one_move, "The story of one move"),
    ]
}
