//! Everything that is not a success, as a status and a body with a stable code and the next command to run.

use crate::wire::{ErrorBody, ErrorShape};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rehome_ports::{PortError, Remedy};
use rehome_router::limits::KEY_BYTES_MAX;

/// When to ask again a server that stops, in milliseconds. Reason: a restart takes about as long.
const STOPPED_RETRY_MS: u64 = 500;

/// A refusal on its way to a client.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    error: ErrorShape,
    next_steps: Vec<String>,
}

impl Refusal {
    fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Refusal {
        let error = ErrorShape { code: code.into(), message: message.into(), retry_after_ms: None };
        Refusal { status, error, next_steps: Vec::new() }
    }

    pub fn next(mut self, step: impl Into<String>) -> Refusal {
        self.next_steps.push(step.into());
        self
    }

    /// Makes these the next steps, if it is one of those codes.
    pub fn instead(mut self, codes: &[&str], next_steps: impl FnOnce() -> Vec<String>) -> Refusal {
        if codes.contains(&self.error.code.as_str()) {
            self.next_steps = next_steps();
        }
        self
    }

    /// Makes the commands that the text names the next steps.
    fn next_of_text(mut self) -> Refusal {
        self.next_steps = commands_in(&self.error.message);
        if self.next_steps.is_empty() { self.next("rehome status") } else { self }
    }

    pub fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "bad-request", message)
    }

    pub fn no_keyspace(name: &str) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "keyspace-unknown", format!("there is no keyspace {name:?}"))
            .next("rehome keyspace list")
    }

    pub fn no_job(job: u64) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "job-unknown", format!("there is no job {job}")).next("rehome list")
    }

    pub fn no_move(move_id: u64) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "move-unknown", format!("there is no move {move_id}")).next("rehome list")
    }

    /// A plan that cannot be.
    pub fn plan(refused: &rehome_planner::PlanRefused) -> Refusal {
        Refusal::new(StatusCode::CONFLICT, refused.code(), refused.to_string()).next_of_text()
    }

    /// The fold of the control log said no; its text names the next command.
    pub fn fold(refusal: &rehome_control_core::Refusal) -> Refusal {
        let status = if refusal.code().ends_with("-unknown") { StatusCode::NOT_FOUND } else { StatusCode::CONFLICT };
        Refusal::new(status, refusal.code(), refusal.to_string()).next_of_text()
    }

    /// The router said no.
    pub fn router(refused: rehome_router::Refused) -> Refusal {
        let status = match refused.remedy {
            Remedy::NotApplied if is_passing(&refused) => StatusCode::SERVICE_UNAVAILABLE,
            Remedy::NotApplied => StatusCode::UNPROCESSABLE_ENTITY,
            Remedy::Unknown => StatusCode::GATEWAY_TIMEOUT,
            Remedy::Fenced | Remedy::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let (message, next) = match refused.code {
            "empty_key" => (format!("{}: it has 1 to {KEY_BYTES_MAX} bytes", refused.message), "rehome put --help"),
            "key_too_large" | "value_too_large" => (refused.message, "rehome put --help"),
            _ => (refused.message, "rehome status"),
        };
        let code = refused.code.replace('_', "-");
        let error = ErrorShape { code, message, retry_after_ms: refused.retry_after_ms };
        Refusal { status, error, next_steps: vec![next.into()] }
    }

    /// The verdict on a write was neither a yes nor a failed condition.
    pub fn verdict(code: &str, message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    /// There is no room for the request now.
    pub fn overloaded(retry_after_ms: u64) -> Refusal {
        let message = "the server works on as many requests as it has room for; ask again a little later";
        let mut refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message).next("rehome status");
        refusal.error.retry_after_ms = Some(retry_after_ms);
        refusal
    }

    /// The server stops; nothing was done.
    pub fn stopped() -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is stopping").later().next("rehome up")
    }

    /// The server stops before it knows what became of a change.
    pub fn cut_off() -> Refusal {
        let message =
            "the server is stopping, and whether the change was made is unknown; ask again under the same request id";
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, "outcome-unknown", message).later().next("rehome up")
    }

    fn later(mut self) -> Refusal {
        self.error.retry_after_ms = Some(STOPPED_RETRY_MS);
        self
    }
}

impl From<PortError> for Refusal {
    fn from(error: PortError) -> Refusal {
        let status = match error.remedy {
            Remedy::NotApplied => StatusCode::SERVICE_UNAVAILABLE,
            Remedy::Unknown => StatusCode::GATEWAY_TIMEOUT,
            Remedy::Fenced | Remedy::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal::new(status, "log-failed", error.message).next("rehome status")
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Refusal {
        Refusal { status: rejection.status(), ..Refusal::bad_request(rejection.body_text()) }
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Refusal {
        Refusal::bad_request(rejection.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = ErrorBody { error: self.error, next_steps: self.next_steps };
        (self.status, Json(body)).into_response()
    }
}

/// Tells whether asking the same again may help: nothing is wrong with the ask itself.
pub fn is_passing(refused: &rehome_router::Refused) -> bool {
    let passing = ["deadline", "source_order", "overloaded", "router_stopped", "unknown_keyspace"];
    refused.remedy == Remedy::Unknown || passing.contains(&refused.code)
}

/// Returns the commands in a text: those between backticks.
fn commands_in(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).filter(|part| part.starts_with("rehome ")).map(str::to_owned).collect()
}

pub async fn no_such_route(uri: axum::http::Uri) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "route-unknown", format!("there is nothing at {}", uri.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_commands_of_its_text_as_next_steps() {
        let text = "keys are moving; choose another `--shards`, or run `rehome wait 12`";
        assert_eq!(commands_in(text), ["rehome wait 12"]);
        let refusal = |text: &str| Refusal::new(StatusCode::CONFLICT, "x", text).next_of_text();
        assert_eq!(refusal(text).next_steps, ["rehome wait 12"]);
        assert_eq!(refusal("0 shards cannot be").next_steps, ["rehome status"]);
    }
}
