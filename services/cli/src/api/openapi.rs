//! The OpenAPI description, from the table of routes and the types that are sent.

use super::codes::KINDS;
use super::table::{Answer, Entry, entries};
use crate::wire::ErrorBody;
use axum::Json;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Where schemas of named types lie in the document.
const SCHEMAS: &str = "/components/schemas";

pub async fn serve() -> Json<Value> {
    Json(document())
}

/// What describes types: as they are sent, and as they are read.
struct Schemas {
    sent: SchemaGenerator,
    read: SchemaGenerator,
}

/// Returns the description.
pub fn document() -> Value {
    let settings = || SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = SCHEMAS.into());
    let mut schemas = Schemas {
        sent: settings().for_serialize().into_generator(),
        read: settings().for_deserialize().into_generator(),
    };
    let refused = Value::from(schemas.sent.subschema_for::<ErrorBody>());
    let mut paths: Map<String, Value> = Map::new();
    for entry in entries() {
        let path = paths.entry(entry.path).or_insert_with(|| json!({}));
        path[entry.method] = operation(&entry, &mut schemas, &refused);
    }
    let mut named = schemas.read.take_definitions(true);
    named.extend(schemas.sent.take_definitions(true));
    let codes: Vec<Value> = KINDS
        .iter()
        .map(|kind| {
            let (code, status, meaning) = (kind.code, kind.status, kind.meaning);
            json!({ "code": code, "status": status, "retry_after_ms": kind.retry_after_ms, "meaning": meaning })
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rehome",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A sharded, log-backed key-value store. See docs/http.md.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": named },
        "x-codes": codes,
    })
}

fn operation(entry: &Entry, schemas: &mut Schemas, refused: &Value) -> Value {
    let content = match entry.answer {
        Answer::Json(schema) => json!({ "application/json": { "schema": schema(&mut schemas.sent) } }),
        Answer::Text(content_type) => json!({ content_type: { "schema": { "type": "string" } } }),
    };
    let mut operation = json!({
        "summary": entry.summary,
        "parameters": parameters(entry, &mut schemas.read),
        "responses": {
            "200": { "description": "Done", "content": content },
            "default": {
                "description": "Not done: docs/http.md lists the codes",
                "headers": {
                    "Retry-After": { "description": "Seconds, where asking again may help", "schema": { "type": "integer" } },
                },
                "content": { "application/json": { "schema": refused } },
            },
        },
    });
    if let Some(body) = entry.body {
        let schema = body(&mut schemas.read);
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    operation
}

fn parameters(entry: &Entry, generator: &mut SchemaGenerator) -> Vec<Value> {
    let in_path = entry.path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).map(|name| {
        let kind = if name == "name" { "string" } else { "integer" };
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": kind } })
    });
    let mut all: Vec<Value> = in_path.collect();
    if let Some(query) = entry.query {
        let schema = Value::from(query(generator));
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let required = required.iter().any(|one| one == name);
            all.push(json!({ "name": name, "in": "query", "required": required, "schema": schema }));
        }
    }
    if entry.is_idempotent {
        all.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": "The same key and body are done once and get the same answer",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn the_openapi_file_is_what_the_server_serves() {
        let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo tells every test where it belongs");
        let path = PathBuf::from(here).join("../../docs/openapi.json");
        let text = serde_json::to_string_pretty(&document()).expect("it is JSON") + "\n";
        if std::env::var_os("REHOME_BLESS").is_some() {
            std::fs::write(&path, &text).expect("it can be written");
            return;
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "docs/openapi.json tells of other routes or shapes; REHOME_BLESS=1 writes it anew");
    }

    #[test]
    fn every_reference_leads_to_a_schema_and_every_operation_says_what_it_does() {
        let document = document();
        let text = document.to_string();
        let references: Vec<&str> =
            text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(references.len() > 20);
        for reference in references {
            assert!(document.pointer(reference).is_some(), "{reference} leads nowhere");
        }
        for entry in entries() {
            assert!(!entry.summary.is_empty(), "{} {}", entry.method, entry.path);
            assert!(entry.body.is_none() || entry.method == "post", "{} {}", entry.method, entry.path);
        }
    }
}
