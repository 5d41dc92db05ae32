//! The HTTP API: JSON, on 127.0.0.1 unless told otherwise. Shapes are in [`crate::wire`].
//!
//! - [`table`]: every route, one line each; [`openapi`]: their description.
//! - [`admission`]: how much of requests and answers is held at once; [`ending`]: how the API ends.
//! - [`codes`]: every code that can be told, one line each; [`errors`]: refusals.
//! - [`rows`], [`list`], [`scan`], [`import`], [`keyspaces`], [`jobs`], [`explain`], [`health`], [`metrics`]: what
//!   routes do, [`rejects`] and [`verdicts`] for foreign producers; [`parse`] and [`shapes`]: from texts to what the cores know, and back.

mod admission;
mod codes;
mod ending;
mod errors;
mod explain;
mod health;
mod import;
mod jobs;
mod keyspaces;
mod list;
mod metrics;
mod openapi;
mod parse;
mod plan;
mod rejects;
mod rows;
mod scan;
mod shapes;
mod table;
mod verdicts;

pub use ending::Stage;

use crate::cluster::Cluster;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use errors::Refusal;
use rehome_control_core::{Decision, Keyspace};
use rehome_records::ControlEvent;
use rehome_router::RouterHandle;
use rehome_router::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX_RANGE};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// Largest body of a request, in bytes. Reason: an import batch of large rows, far below what hurts.
const BODY_BYTES_MAX: usize = 32 << 20;
const _: () = assert!(
    (*VALUE_BYTES_MAX_RANGE.end() + 2 * KEY_BYTES_MAX) / 3 * 4 + 1_024 <= BODY_BYTES_MAX,
    "the largest row fits in a body as base64"
);
/// How long the server works on one read or write before it says that the time is over, in milliseconds.
const DEADLINE_MS: u64 = 20_000;

/// What every handler has at hand.
pub struct Api {
    cluster: Arc<Cluster>,
    /// The folder's name, for the status.
    data: String,
    /// How often each kind of refusal was told.
    told: codes::Told,
    /// Changes whenever the control log was folded further.
    folded: watch::Receiver<()>,
    stage: watch::Receiver<Stage>,
}

type Shared = axum::extract::State<Arc<Api>>;

/// Returns the routes of the API, which serve until the stage says otherwise.
pub fn routes(cluster: Arc<Cluster>, data: String, stage: watch::Receiver<Stage>) -> Router {
    let (changed, folded) = watch::channel(());
    cluster.desk().watch(Arc::new(move || changed.send_replace(())));
    let admission = admission::Admission::default();
    let api = Arc::new(Api { cluster, data, told: codes::Told::default(), folded, stage: stage.clone() });
    let entries = table::entries().into_iter();
    entries
        .fold(Router::new(), |router, entry| router.route(entry.path, entry.handler))
        .fallback(errors::no_such_route)
        .method_not_allowed_fallback(errors::no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(move |request, next| admission.clone().admit(request, next)))
        .layer(from_fn_with_state(stage, ending::answer_or_refuse))
        .layer(from_fn_with_state(Arc::clone(&api), errors::shape_and_count))
        .with_state(api)
}

impl Api {
    fn keyspace(&self, name: &str) -> Result<Keyspace, Refusal> {
        self.cluster.desk().state().keyspace_named(name).cloned().ok_or_else(|| Refusal::no_keyspace(name))
    }

    /// Returns the keyspace of that name, if it is the one with that id, where the client knows which it means.
    fn keyspace_with(&self, name: &str, id: Option<u64>) -> Result<Keyspace, Refusal> {
        let found = self.keyspace(name)?;
        match id.filter(|id| *id != found.id.0) {
            Some(id) => Err(Refusal::other_keyspace(name, id, found.id.0)),
            None => Ok(found),
        }
    }

    fn router(&self) -> Result<&RouterHandle, Refusal> {
        self.cluster.try_router().ok_or_else(|| {
            let message = "this process has no router: rows are read and written at one that has";
            Refusal::new("not_a_router", message).next("rehome serve --roles router --help")
        })
    }

    fn deadline_ms(&self) -> u64 {
        self.cluster.clock().now_ms() + DEADLINE_MS
    }

    /// Appends a request to the control log, and returns what it did; a refusal of the fold is a refusal here.
    async fn propose(&self, event: ControlEvent) -> Result<rehome_control_core::Accepted, Refusal> {
        let (tell, told) = oneshot::channel();
        let done = Box::new(move |result| drop(tell.send(result)));
        self.cluster.desk().propose(rand::random(), event, done);
        match told.await.map_err(|_| Refusal::stopped())?? {
            Decision::Accepted(accepted) | Decision::AlreadyDone(accepted) => Ok(accepted),
            Decision::Refused(refusal) => Err(Refusal::fold(&refusal)),
        }
    }
}
