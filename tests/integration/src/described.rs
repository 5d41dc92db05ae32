//! The API held against its own OpenAPI description: every question and every answer.

use crate::http::{Http, Raw, escaped};
use anyhow::{Context, bail, ensure};
use jsonschema::Validator;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// One method of one path, as the description spells it: `get /v1/jobs/{job}`.
type Operation = String;

/// A server that is asked only what its description allows, and whose answers must be what it promises.
pub struct Described {
    http: Http,
    server: String,
    document: Value,
    /// Operations that have succeeded.
    seen: RefCell<BTreeSet<Operation>>,
}

/// A question: the path as the description spells it, and what goes into it.
#[derive(Clone, Debug, Default)]
pub struct Ask<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub in_path: &'a [(&'a str, &'a str)],
    pub query: &'a [(&'a str, &'a str)],
    pub idempotency_key: Option<&'a str>,
    pub body: Option<Value>,
}

impl Described {
    /// Fetches the description.
    pub fn of(server: String) -> anyhow::Result<Described> {
        let http = Http::default();
        let document = http.get(&server, "/v1/openapi.json", &[])?.good()?;
        Ok(Described { http, server, document, seen: RefCell::default() })
    }

    /// Asks, holds question and answer against the description, and returns the answer.
    ///
    /// Errors: one of them is not as described.
    pub fn ask(&self, ask: &Ask<'_>) -> anyhow::Result<Raw> {
        let operation = format!("{} {}", ask.method, ask.path);
        let described = &self.document["paths"][ask.path][ask.method];
        ensure!(described.is_object(), "{operation} is not described");
        self.check_question(described, ask).with_context(|| operation.clone())?;
        let raw = self.send(ask)?;
        self.check_answer(described, &raw).with_context(|| format!("{operation}: {raw:?}"))?;
        if raw.status < 300 {
            self.seen.borrow_mut().insert(operation);
        }
        Ok(raw)
    }

    /// Asks what must succeed with JSON.
    pub fn good(&self, ask: &Ask<'_>) -> anyhow::Result<Value> {
        let raw = self.ask(ask)?;
        ensure!(raw.status < 300, "{} {}: {raw:?}", ask.method, ask.path);
        raw.json()
    }

    /// Returns the operations that are described and have not succeeded yet.
    pub fn unseen(&self) -> Vec<Operation> {
        let paths = self.document["paths"].as_object().into_iter().flatten();
        let all = paths.flat_map(|(path, methods)| {
            methods.as_object().into_iter().flatten().map(move |(method, _)| format!("{method} {path}"))
        });
        all.filter(|operation| !self.seen.borrow().contains(operation)).collect()
    }

    fn send(&self, ask: &Ask<'_>) -> anyhow::Result<Raw> {
        let mut path = ask.path.to_owned();
        for (name, value) in ask.in_path {
            path = path.replace(&format!("{{{name}}}"), &escaped(value));
        }
        ensure!(!path.contains('{'), "{path} lacks a part");
        let query: Vec<String> = ask.query.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        let url = format!("{}{path}?{}", self.server, query.join("&"));
        let mut headers = Vec::new();
        headers.extend(ask.body.as_ref().map(|_| ("content-type", "application/json")));
        headers.extend(ask.idempotency_key.map(|key| ("idempotency-key", key)));
        let body = ask.body.as_ref().map(Value::to_string);
        // A POST without a body still says so.
        let body = body.as_deref().or((ask.method == "post").then_some("")).map(str::as_bytes);
        self.http.raw(&ask.method.to_uppercase(), &url, &headers, body)
    }

    fn check_question(&self, described: &Value, ask: &Ask<'_>) -> anyhow::Result<()> {
        let parameters = described["parameters"].as_array().context("no parameters")?;
        for (name, _) in ask.query {
            let known = parameters.iter().any(|one| one["in"] == "query" && one["name"] == *name);
            ensure!(known, "parameter {name} is not described");
        }
        let key_known = parameters.iter().any(|one| one["name"] == "Idempotency-Key");
        ensure!(ask.idempotency_key.is_none() || key_known, "the header Idempotency-Key is not described");
        match (&ask.body, &described["requestBody"]) {
            (None, Value::Null) => Ok(()),
            (None, _) => bail!("the description wants a body"),
            (Some(_), Value::Null) => bail!("the description wants no body"),
            (Some(body), wanted) => {
                self.fits(&wanted["content"]["application/json"]["schema"], body, &self.document).context("the body")
            }
        }
    }

    fn check_answer(&self, described: &Value, raw: &Raw) -> anyhow::Result<()> {
        let kind = if raw.status < 300 { raw.status.to_string() } else { "default".to_owned() };
        if raw.status >= 300 {
            self.check_code(raw)?;
        }
        let content = &described["responses"][&kind]["content"];
        let promised = content.as_object().and_then(|kinds| kinds.iter().next());
        let (content_type, promised) = promised.with_context(|| format!("answer {kind} is not described"))?;
        ensure!(raw.content_type == *content_type, "the answer's type is {:?}, not {content_type:?}", raw.content_type);
        if content_type == "application/json" {
            self.fits(&promised["schema"], &raw.json()?, &closed(&self.document)).context("the answer")?;
        }
        Ok(())
    }

    /// A refusal's code is listed, with that status; where asking again may help, it says when, in both places.
    fn check_code(&self, raw: &Raw) -> anyhow::Result<()> {
        let error = &raw.json()?["error"];
        let codes = self.document["x-codes"].as_array().context("no codes are described")?;
        let listed = codes.iter().find(|one| one["code"] == error["code"]);
        let listed = listed.with_context(|| format!("code {} is not described", error["code"]))?;
        ensure!(listed["status"] == raw.status, "{} is described with status {}", error["code"], listed["status"]);
        let retry_after_ms = error["retry_after_ms"].as_u64();
        ensure!(retry_after_ms.is_some() == listed["retry_after_ms"].is_u64(), "described is {listed}");
        let seconds = retry_after_ms.map(|ms| ms.div_ceil(1_000).max(1).to_string()).unwrap_or_default();
        ensure!(raw.retry_after == seconds, "Retry-After is {:?}, not {seconds:?}", raw.retry_after);
        Ok(())
    }

    fn fits(&self, schema: &Value, value: &Value, document: &Value) -> anyhow::Result<()> {
        let mut whole: Map<String, Value> = schema.as_object().cloned().unwrap_or_default();
        whole.insert("components".into(), document["components"].clone());
        let validator: Validator = jsonschema::validator_for(&Value::Object(whole))
            .map_err(|error| anyhow::anyhow!("the schema is none: {error}"))?;
        let wrong: Vec<String> =
            validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        ensure!(wrong.is_empty(), "not as described: {}", wrong.join("; "));
        Ok(())
    }
}

/// Returns the description with every object closed: a field that it does not name is a mistake.
fn closed(document: &Value) -> Value {
    let mut document = document.clone();
    let schemas = document["components"]["schemas"].as_object_mut();
    for schema in schemas.into_iter().flat_map(|schemas| schemas.values_mut()) {
        if schema["properties"].is_object() {
            schema["additionalProperties"] = json!(false);
        }
    }
    document
}
