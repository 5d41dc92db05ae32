//! The HTTP API: JSON over 127.0.0.1. Shapes are in [`crate::wire`].
//!
//! ```text
//! GET    /v1/status
//! GET    /v1/keyspaces                      POST /v1/keyspaces
//! GET    /v1/keyspaces/{name}               GET  /v1/keyspaces/{name}/key?key=
//! GET    /v1/keyspaces/{name}/rows?key=     POST, DELETE the same
//! GET    /v1/keyspaces/{name}/scan          POST /v1/keyspaces/{name}/import
//! POST   /v1/keyspaces/{name}/reshard
//! GET    /v1/jobs                           GET  /v1/jobs/{job}
//! GET    /v1/jobs/{job}/wait?timeout_ms=    GET  /v1/jobs/{job}/explain
//! POST   /v1/jobs/{job}/pause               POST /v1/jobs/{job}/resume
//! POST   /v1/jobs/{job}/cancel              POST /v1/jobs/{job}/complete
//! GET    /v1/moves/{move}/explain
//! ```

mod admission;
mod ending;
mod errors;
mod explain;
mod import;
mod jobs;
mod keyspaces;
mod parse;
mod plan;
mod rows;
mod scan;
mod shapes;

pub use ending::Stage;

use crate::cluster::Cluster;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use errors::Refusal;
use rehome_control_core::{Decision, Keyspace};
use rehome_records::ControlEvent;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// Largest body of a request, in bytes. Reason: an import batch of large rows, far below what hurts.
const BODY_BYTES_MAX: usize = 32 << 20;
/// How long the server works on one read or write before it says that the time is over, in milliseconds.
const DEADLINE_MS: u64 = 20_000;

/// What every handler has at hand.
pub struct Api {
    cluster: Arc<Cluster>,
    /// The folder's name, for the status.
    data: String,
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
    let api = Arc::new(Api { cluster, data, folded, stage: stage.clone() });
    Router::new()
        .route("/v1/status", get(keyspaces::status))
        .route("/v1/keyspaces", get(keyspaces::list).post(keyspaces::create))
        .route("/v1/keyspaces/{name}", get(keyspaces::show))
        .route("/v1/keyspaces/{name}/key", get(keyspaces::key))
        .route("/v1/keyspaces/{name}/rows", get(rows::read).post(rows::put).delete(rows::delete))
        .route("/v1/keyspaces/{name}/scan", get(scan::scan))
        .route("/v1/keyspaces/{name}/import", post(import::import))
        .route("/v1/keyspaces/{name}/reshard", post(jobs::reshard))
        .route("/v1/jobs", get(jobs::list))
        .route("/v1/jobs/{job}", get(jobs::show))
        .route("/v1/jobs/{job}/wait", get(jobs::wait))
        .route("/v1/jobs/{job}/explain", get(explain::job))
        .route("/v1/jobs/{job}/pause", post(jobs::pause))
        .route("/v1/jobs/{job}/resume", post(jobs::resume))
        .route("/v1/jobs/{job}/cancel", post(jobs::cancel))
        .route("/v1/jobs/{job}/complete", post(jobs::complete))
        .route("/v1/moves/{move}/explain", get(explain::one_move))
        .fallback(errors::no_such_route)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(move |request, next| admission.clone().admit(request, next)))
        .layer(middleware::from_fn_with_state(stage, ending::answer_or_refuse))
        .with_state(api)
}

impl Api {
    fn keyspace(&self, name: &str) -> Result<Keyspace, Refusal> {
        self.cluster.desk().state().keyspace_named(name).cloned().ok_or_else(|| Refusal::no_keyspace(name))
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
