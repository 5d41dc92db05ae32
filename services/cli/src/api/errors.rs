//! Everything that is not a success, as a status and a body with a stable code and the next command to run.

use super::Api;
use super::codes::{self, Kind};
use crate::wire::{ErrorBody, ErrorShape, WriteShape};
use axum::Json;
use axum::body::to_bytes;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rehome_ports::{PortError, Remedy};
use rehome_router::limits::KEY_BYTES_MAX;
use std::sync::Arc;

/// Longest text of a refusal that is not ours yet, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A refusal on its way to a client.
#[derive(Debug)]
pub struct Refusal {
    kind: &'static Kind,
    message: String,
    retry_after_ms: Option<u64>,
    next_steps: Vec<String>,
    /// Boxed: most refusals have none.
    write: Option<Box<WriteShape>>,
}

impl Refusal {
    /// Returns a refusal of one of the kinds in [`codes`].
    pub fn new(code: &str, message: impl Into<String>) -> Refusal {
        Refusal::of(Kind::of(code), message)
    }

    fn of(kind: &'static Kind, message: impl Into<String>) -> Refusal {
        let retry_after_ms = kind.retry_after_ms;
        Refusal { kind, message: message.into(), retry_after_ms, next_steps: Vec::new(), write: None }
    }

    pub fn next(mut self, step: impl Into<String>) -> Refusal {
        self.next_steps.push(step.into());
        self
    }

    /// Makes these the next steps, if it is one of those codes.
    pub fn instead(mut self, codes: &[&str], next_steps: impl FnOnce() -> Vec<String>) -> Refusal {
        if codes.iter().any(|code| Kind::of(code) == self.kind) {
            self.next_steps = next_steps();
        }
        self
    }

    /// Makes the commands that the text names the next steps.
    fn next_of_text(mut self) -> Refusal {
        self.next_steps = commands_in(&self.message);
        if self.next_steps.is_empty() { self.next("rehome status") } else { self }
    }

    pub fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal::new("bad_request", message)
    }

    pub fn no_keyspace(name: &str) -> Refusal {
        Refusal::new("keyspace_unknown", format!("there is no keyspace {name:?}")).next("rehome keyspace list")
    }

    pub fn other_keyspace(name: &str, id: u64, found: u64) -> Refusal {
        let message = format!("the keyspace {name:?} with id {id} was dropped; the one of that name has id {found}");
        Refusal::new("keyspace_unknown", message).next(format!("rehome keyspace show {name}"))
    }

    pub fn no_job(job: u64) -> Refusal {
        Refusal::new("job_unknown", format!("there is no job {job}")).next("rehome list")
    }

    pub fn no_move(move_id: u64) -> Refusal {
        Refusal::new("move_unknown", format!("there is no move {move_id}")).next("rehome list")
    }

    /// A plan that cannot be.
    pub fn plan(refused: &rehome_planner::PlanRefused) -> Refusal {
        Refusal::new(refused.code(), refused.to_string()).next_of_text()
    }

    /// The fold of the control log said no; its text names the next command.
    pub fn fold(refusal: &rehome_control_core::Refusal) -> Refusal {
        Refusal::new(refusal.code(), refusal.to_string()).next_of_text()
    }

    /// The router said no.
    pub fn router(refused: rehome_router::Refused) -> Refusal {
        let kind = codes::of_router(&refused);
        let (message, next) = match kind.code {
            "empty_key" => (format!("{}: it has 1 to {KEY_BYTES_MAX} bytes", refused.message), "rehome put --help"),
            "key_too_large" | "value_too_large" => (refused.message, "rehome put --help"),
            _ => (refused.message, "rehome status"),
        };
        let retry_after_ms = refused.retry_after_ms.or(kind.retry_after_ms);
        Refusal { retry_after_ms, ..Refusal::of(kind, message).next(next) }
    }

    /// The verdict on a write was a no; nothing is changed.
    pub fn verdict(code: &str, message: impl Into<String>, write: Option<WriteShape>) -> Refusal {
        Refusal { write: write.map(Box::new), ..Refusal::new(code, message) }.next("rehome get --help")
    }

    /// Names the request id with which the same may be asked again, where that is what helps.
    pub fn with_request(mut self, request: &str) -> Refusal {
        if self.kind.code == "outcome_unknown" {
            self.message += &format!("; ask again with Idempotency-Key: {request}");
        }
        self
    }

    /// Says which row of several it is about.
    pub fn about_row(mut self, place: usize) -> Refusal {
        self.message = format!("row {place}: {}", self.message);
        self
    }

    /// There is no room for the request now.
    pub fn overloaded(retry_after_ms: u64) -> Refusal {
        let message = "the server works on as many requests as it has room for; ask again a little later";
        Refusal { retry_after_ms: Some(retry_after_ms), ..Refusal::new("overloaded", message) }.next("rehome status")
    }

    /// The server stops; nothing was done.
    pub fn stopped() -> Refusal {
        Refusal::new("stopping", "the server is stopping").next("rehome up")
    }

    /// The server stops before it knows what became of a change.
    pub fn cut_off() -> Refusal {
        let message =
            "the server is stopping, and whether the change was made is unknown; ask again under the same request id";
        Refusal::new("outcome_unknown", message).next("rehome up")
    }

    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Returns what is wrong, and the write that it is about.
    pub fn into_parts(self) -> (ErrorShape, Option<WriteShape>) {
        let code = self.kind.code.to_owned();
        (
            ErrorShape { code, message: self.message, retry_after_ms: self.retry_after_ms },
            self.write.map(|write| *write),
        )
    }
}

impl From<PortError> for Refusal {
    fn from(error: PortError) -> Refusal {
        let code = match error.remedy {
            Remedy::NotApplied => "log_failed",
            Remedy::Unknown => "outcome_unknown",
            Remedy::Fenced | Remedy::Broken => "broken",
        };
        Refusal::new(code, error.message).next("rehome status")
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Refusal {
        let code = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => "body_too_large",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "media_type_unsupported",
            _ => "bad_request",
        };
        Refusal::new(code, rejection.body_text())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Refusal {
        Refusal::bad_request(rejection.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (kind, retry_after_ms, next_steps) = (self.kind, self.retry_after_ms, self.next_steps.clone());
        let (error, write) = self.into_parts();
        let body = ErrorBody { error, next_steps, write };
        let status = StatusCode::from_u16(kind.status).expect("the table holds statuses");
        let mut response = (status, Json(body)).into_response();
        if let Some(after_ms) = retry_after_ms {
            // The header knows whole seconds only; the body says it exactly.
            response.headers_mut().insert(RETRY_AFTER, after_ms.div_ceil(1_000).into());
        }
        response.extensions_mut().insert(kind);
        response
    }
}

/// Returns the commands in a text: those between backticks.
fn commands_in(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).filter(|part| part.starts_with("rehome ")).map(str::to_owned).collect()
}

/// Nothing is at that path.
pub async fn no_such_route(uri: Uri) -> Refusal {
    Refusal::new("route_unknown", format!("there is nothing at {}", uri.path())).next("rehome help")
}

/// Something is at that path, for another method.
pub async fn no_such_method(method: Method, uri: Uri) -> Refusal {
    Refusal::new("method_not_allowed", format!("{} does not take {method}", uri.path())).next("rehome help")
}

/// Gives refusals that the framework made the shape of ours, and counts all of them.
pub async fn shape_and_count(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let response = match request.uri().query().is_none_or(is_text) {
        true => next.run(request).await,
        // Else the bytes would be replaced, and another key be meant.
        false => Refusal::bad_request("the query holds bytes that are no UTF-8; `encoding=base64` takes any")
            .next("rehome get --help")
            .into_response(),
    };
    if response.status().as_u16() < 400 {
        return response;
    }
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == b"application/json");
    let response = if is_json { response } else { shaped(response).await };
    if let Some(kind) = response.extensions().get::<&'static Kind>() {
        api.told.count(kind);
    }
    response
}

/// Tells whether a query is UTF-8 once its escapes are read.
fn is_text(query: &str) -> bool {
    let mut bytes = Vec::with_capacity(query.len());
    let mut rest = query.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}

async fn shaped(response: Response) -> Response {
    let code = match response.status() {
        StatusCode::NOT_FOUND => "route_unknown",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::PAYLOAD_TOO_LARGE => "body_too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "media_type_unsupported",
        status if status.is_client_error() => "bad_request",
        _ => "internal",
    };
    // A text that cannot be had is replaced by what its code means.
    let text = to_bytes(response.into_body(), TEXT_BYTES_MAX).await.unwrap_or_default();
    let text =
        if text.is_empty() { Kind::of(code).meaning.into() } else { String::from_utf8_lossy(&text).into_owned() };
    Refusal::new(code, text).next("rehome help").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_text_or_not_by_what_its_escapes_say() {
        for good in ["", "key=a&sort=%2F", "key=%EF%BF%BD", "key=%C3%BC", "key=100%", "key=%zz"] {
            assert!(is_text(good), "{good}");
        }
        for bad in ["key=%ff", "key=%C3&sort=", "key=%c3%28"] {
            assert!(!is_text(bad), "{bad}");
        }
    }

    #[test]
    fn a_refusal_names_the_commands_of_its_text_as_next_steps() {
        let text = "keys are moving; choose another `--shards`, or run `rehome wait 12`";
        assert_eq!(commands_in(text), ["rehome wait 12"]);
        let refusal = |text: &str| Refusal::new("job-empty", text).next_of_text();
        assert_eq!(refusal(text).next_steps, ["rehome wait 12"]);
        assert_eq!(refusal("0 shards cannot be").next_steps, ["rehome status"]);
    }

    #[test]
    fn a_passing_refusal_says_when_to_ask_again_in_the_header_and_in_the_body() {
        let refused = |retry_after_ms| rehome_router::Refused {
            remedy: Remedy::NotApplied,
            code: "overloaded",
            message: "full".into(),
            retry_after_ms,
        };
        for (given, told) in [(None, 20), (Some(1_500), 1_500)] {
            let refusal = Refusal::router(refused(given));
            assert_eq!(refusal.retry_after_ms, Some(told));
            let response = refusal.into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()[RETRY_AFTER], if told > 1_000 { "2" } else { "1" });
        }
        let unknown = rehome_router::Refused { remedy: Remedy::Unknown, ..refused(None) };
        let unknown = Refusal::router(unknown).with_request("0f");
        assert!(unknown.kind.code == "outcome_unknown" && unknown.message.ends_with("Idempotency-Key: 0f"));
        assert!(!Refusal::stopped().with_request("0f").message.contains("0f"));
    }
}
