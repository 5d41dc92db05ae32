//! The HTTP client of the commands.

use crate::args::Remote;
use crate::exit::{Exit, Failure};
use crate::wire::ErrorBody;
use rehome_router::limits::VALUE_BYTES_MAX_RANGE;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How long one request may take. Reason: longer than any deadline of the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest answer, in bytes. Reason: the largest page, two times 4 MiB and the largest value, each byte escaped as six.
const ANSWER_BYTES_MAX: u64 = 6 * ((8 << 20) + *VALUE_BYTES_MAX_RANGE.end() as u64) + (4 << 20);

/// A server's API.
pub struct Client {
    agent: ureq::Agent,
    server: String,
}

impl Client {
    pub fn new(remote: &Remote) -> Client {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(REQUEST_TIMEOUT));
        Client { agent: config.build().into(), server: remote.server.clone() }
    }

    /// Asks; `path` starts with a slash, and its parts are escaped by [`segment`].
    pub fn get<T: DeserializeOwned>(&self, path: &str, query: &impl Serialize) -> Result<T, Failure> {
        let request = self.agent.get(self.url(path)).query_pairs(pairs(query));
        self.answer(request.call())
    }

    pub fn delete<T: DeserializeOwned>(&self, path: &str, query: &impl Serialize) -> Result<T, Failure> {
        let request = self.agent.delete(self.url(path)).query_pairs(pairs(query));
        self.answer(request.call())
    }

    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.answer(self.agent.post(self.url(path)).send_json(body))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server)
    }

    fn answer<T: DeserializeOwned>(
        &self,
        result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, Failure> {
        let mut response = result.map_err(|error| self.unreachable(&error))?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.unreachable(&error))?;
        if status < 300 {
            return serde_json::from_slice(&body).map_err(|error| {
                let message = format!("the answer of {} cannot be read: {error}", self.server);
                Failure::new(Exit::Failed, "answer_unreadable", message).next("rehome --version")
            });
        }
        Err(refusal(status, &body))
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        let message = format!("no answer from {}: {error}", self.server);
        Failure::new(Exit::Unreachable, "unreachable", message).next("rehome up")
    }
}

/// Returns one part of a path, escaped.
pub fn segment(part: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    part.bytes().fold(String::new(), |mut out, byte| {
        if keep(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

/// Returns the fields of a flat object as a query.
fn pairs(query: &impl Serialize) -> Vec<(String, String)> {
    let value = serde_json::to_value(query).expect("queries are flat objects");
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => Some(text),
        serde_json::Value::Null => None,
        other => Some(other.to_string()),
    };
    let fields = match value {
        serde_json::Value::Object(fields) => fields,
        _ => Default::default(),
    };
    fields.into_iter().filter_map(|(name, value)| text(value).map(|value| (name, value))).collect()
}

fn refusal(status: u16, body: &[u8]) -> Failure {
    let exit = match status {
        400 => Exit::Usage,
        404 => Exit::NotFound,
        408 | 504 => Exit::TimedOut,
        409 | 412 | 413 | 422 => Exit::Refused,
        _ => Exit::Failed,
    };
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(ErrorBody { error, next_steps, write }) => {
            Failure { next_steps, write: write.map(Box::new), ..Failure::new(exit, error.code, error.message) }
        }
        Err(_) => {
            let text = String::from_utf8_lossy(body);
            Failure::new(exit, "http", format!("status {status}: {}", text.trim()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RowsQuery;

    #[test]
    fn parts_of_a_path_are_escaped() {
        assert_eq!(segment("a b/ü"), "a%20b%2F%C3%BC");
    }

    #[test]
    fn a_query_leaves_out_what_is_not_given() {
        let query = RowsQuery { key: "k&1".into(), limit: Some(5), ..RowsQuery::default() };
        let pairs = pairs(&query);
        assert!(pairs.contains(&("key".into(), "k&1".into())) && pairs.contains(&("limit".into(), "5".into())));
        assert!(pairs.iter().all(|(name, _)| name != "sort"));
    }

    #[test]
    fn a_refusal_keeps_its_code_and_its_next_steps() {
        let body =
            br#"{"error":{"code":"name_taken","message":"keyspace exists"},"next_steps":["rehome keyspace list"]}"#;
        let failure = refusal(409, body);
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Refused, "name_taken"));
        assert_eq!(failure.to_string(), "error: keyspace exists\n  next: rehome keyspace list");
        assert_eq!(refusal(500, b"oops").message, "status 500: oops");
    }

    #[test]
    fn nobody_listening_is_said_with_the_command_that_helps() {
        let client = Client::new(&Remote { server: "http://127.0.0.1:9".into(), json: false });
        let failure = client.get::<serde_json::Value>("/v1/status", &serde_json::json!({})).expect_err("port 9");
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(failure.to_string().contains("next: rehome up"));
    }
}
