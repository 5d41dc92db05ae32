//! How the API ends: nothing new is begun, what is under way is answered, what takes too long is let go.

use super::errors::Refusal;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Serving,
    /// Requests that come now are refused; those under way are answered.
    Refusing,
    /// Nothing is answered any more but that the server stops.
    Cut,
}

/// Answers the request, unless the end has come too far.
pub async fn answer_or_refuse(
    State(mut stage): State<watch::Receiver<Stage>>,
    request: Request,
    next: Next,
) -> Response {
    if *stage.borrow() != Stage::Serving {
        return Refusal::stopped().into_response();
    }
    let changes_nothing = request.method().is_safe();
    tokio::select! {
        response = next.run(request) => response,
        _ = stage.wait_for(|stage| *stage == Stage::Cut) => {
            let refusal = if changes_nothing { Refusal::stopped() } else { Refusal::cut_off() };
            refusal.into_response()
        }
    }
}
