//! Foreign producers: what could not be applied, and verdicts by position.

use super::Encoding;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `GET /v1/keyspaces/{name}/rejects`, as query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectsQuery {
    /// Most rejects to return, 1 to 1000; 100 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Where an earlier page ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A record that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectShape {
    /// Where it lay: topic of the keyspace, partition and offset, as in `inbox/0@17`. Names it.
    pub at: String,
    pub reason: String,
    /// Missing where the record has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub sort: String,
    /// Missing where the record would delete, or where its value was too large to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    pub encoding: Encoding,
    /// The value was too large to be kept; it lies at `at` still.
    pub cut: bool,
}

/// Some of what could not be applied and was not sent again, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectsShape {
    pub rejects: Vec<RejectShape>,
    /// Where to go on; missing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `POST /v1/keyspaces/{name}/rejects/retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryBody {
    /// Which rejects, by their `at`; without any, the oldest 1000.
    #[serde(default)]
    pub at: Vec<String>,
    /// Send nothing, only say what would be sent.
    #[serde(default)]
    pub dry_run: bool,
}

/// What became of one reject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryResult {
    pub at: String,
    /// `sent`, `would_send` in a dry run, or `refused`.
    pub outcome: String,
    /// Why it was refused, as a code of the table in docs/http.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What became of the rejects that were sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetriedShape {
    pub sent: usize,
    pub refused: usize,
    pub dry_run: bool,
    pub results: Vec<RetryResult>,
    pub next_steps: Vec<String>,
}

/// `GET /v1/keyspaces/{name}/verdicts`, as query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerdictQuery {
    /// The partition of the data topic that the record lies in.
    pub shard: u32,
    /// The offset that the broker acknowledged it with.
    pub offset: u64,
}

/// The verdict on a record of the data topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictShape {
    pub shard: u32,
    pub offset: u64,
    /// `accepted`, `condition_failed`, `source_done`, `request_conflict`, `stale_route` or `write_invalid`.
    pub verdict: String,
    /// The same request was judged before, and this was its answer.
    pub repeated: bool,
    /// The version that the write made; of a failed condition, the one that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub message: String,
}
