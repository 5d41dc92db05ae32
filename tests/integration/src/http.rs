//! The API as JSON: one question, one answer.

use anyhow::Context;
use serde_json::Value;
use std::time::Duration;

/// Longest time for one answer. Reason: longer than the server's own deadline.
const ANSWER_MAX: Duration = Duration::from_secs(40);

/// A status and the JSON that came with it.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    /// Returns the write that was judged, whatever the verdict; the body of any other success.
    pub fn judged(self) -> anyhow::Result<Value> {
        match &self.body["write"] {
            Value::Object(write) => Ok(Value::Object(write.clone())),
            _ => self.good(),
        }
    }

    /// Returns the body of a success.
    pub fn good(self) -> anyhow::Result<Value> {
        anyhow::ensure!(self.status < 300, "status {}: {}", self.status, self.body);
        Ok(self.body)
    }

    /// Tells whether asking the same again is right: nothing was wrong with the question.
    pub fn is_passing(&self) -> bool {
        matches!(self.status, 503 | 504)
    }
}

/// Connections to whatever address each question names.
#[derive(Clone, Debug)]
pub struct Http {
    agent: ureq::Agent,
}

impl Default for Http {
    fn default() -> Http {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER_MAX));
        Http { agent: config.build().into() }
    }
}

impl Http {
    /// Errors: no whole answer came; whether the question was understood is unknown.
    pub fn get(&self, server: &str, path: &str, query: &[(&str, &str)]) -> anyhow::Result<Answer> {
        let request = self.agent.get(format!("{server}{path}")).query_pairs(query.iter().copied());
        read(request.call())
    }

    pub fn delete(&self, server: &str, path: &str, query: &[(&str, &str)]) -> anyhow::Result<Answer> {
        let request = self.agent.delete(format!("{server}{path}")).query_pairs(query.iter().copied());
        read(request.call())
    }

    pub fn post(&self, server: &str, path: &str, body: &Value) -> anyhow::Result<Answer> {
        read(self.agent.post(format!("{server}{path}")).send_json(body))
    }
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct Raw {
    pub status: u16,
    /// Empty where there is no such header.
    pub content_type: String,
    pub retry_after: String,
    pub text: String,
}

impl Raw {
    /// Errors: it is no JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.text)
            .with_context(|| format!("status {} with no JSON: {:?}", self.status, self.text))
    }
}

impl Http {
    /// Sends whatever is given, also what no client should.
    pub fn raw(&self, method: &str, url: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> anyhow::Result<Raw> {
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let result = match body {
            Some(body) => self.agent.run(request.body(body)?),
            None => self.agent.run(request.body(())?),
        };
        let mut response = result.context("no answer")?;
        let header = |name: &str| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (status, content_type, retry_after) =
            (response.status().as_u16(), header("content-type"), header("retry-after"));
        let text = response.body_mut().with_config().limit(64 << 20).read_to_string().context("half an answer")?;
        Ok(Raw { status, content_type, retry_after, text })
    }
}

/// Returns a value of a query, escaped.
pub fn escaped(value: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    value.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn read(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> anyhow::Result<Answer> {
    let mut response = result.context("no answer")?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(64 << 20).read_to_vec().context("half an answer")?;
    let body = serde_json::from_slice(&body).with_context(|| {
        let text = String::from_utf8_lossy(&body);
        format!("status {status} with no JSON: {text:?}")
    })?;
    Ok(Answer { status, body })
}
