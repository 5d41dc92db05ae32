//! Rows, writes and their answers.

use super::Encoding;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /v1/keyspaces/{name}/rows`: writes one row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutBody {
    pub key: String,
    #[serde(default)]
    pub sort: String,
    pub value: String,
    #[serde(default)]
    pub encoding: Encoding,
    /// Request id, 32 hex digits: the same id again does nothing again and gets the first answer. The header
    /// `Idempotency-Key` says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// `absent`, `present`, or the version the row must have, such as `4@811`.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// `DELETE /v1/keyspaces/{name}/rows`, as query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteQuery {
    pub key: String,
    #[serde(default)]
    pub sort: String,
    #[serde(default)]
    pub encoding: Encoding,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// `GET /v1/keyspaces/{name}/rows`, as query: one row if `sort` is there, else the rows of the partition key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowsQuery {
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
    /// First sort key, of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Sort key before which a list ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Highest sort key first.
    #[serde(default)]
    pub reverse: bool,
    /// Most rows of a list, 1 to 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// `next` of the page before; all else as it was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    #[serde(default)]
    pub encoding: Encoding,
    /// `linearizable` (default), `eventual`, or a token from a write's answer, such as `3:811`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

/// `GET /v1/keyspaces/{name}/scan`, as query: a page of all rows, in the order in which they are placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanQuery {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RowShape {
    pub key: String,
    pub sort: String,
    pub value: String,
    /// Epoch and offset of the write that made it.
    pub version: String,
    pub encoding: Encoding,
}

/// Some rows, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RowsShape {
    pub rows: Vec<RowShape>,
    /// Where to go on, as `after`; nothing when there is no more. A page may be empty and have a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Ranges of placed keys (hex) that could not be read in time; they lie from `next` on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// The answer to a write that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteShape {
    /// A code, such as `accepted` or `condition_failed`; docs/http.md lists them.
    pub verdict: String,
    /// The same request was judged before, and this was its answer; nothing is changed now.
    #[serde(default)]
    pub repeated: bool,
    /// The version it made; the one that was found, where a condition did not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where it was judged: a read at this token sees it.
    pub token: String,
    pub epoch: u64,
    pub request: Option<String>,
}

/// `POST /v1/keyspaces/{name}/batch`: several writes, each with a verdict of its own. Those of one partition key are
/// done in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchBody {
    #[serde(default)]
    pub encoding: Encoding,
    /// 1 to 10000.
    pub rows: Vec<BatchRow>,
}

/// One write of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRow {
    pub op: BatchOp,
    pub key: String,
    #[serde(default)]
    pub sort: String,
    /// Of a put; a delete has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// As in a single write. Without one it follows from the header `Idempotency-Key` and the row's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// As in a single write.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// What to do with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BatchOp {
    Put,
    Delete,
}

/// What became of each write, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BatchShape {
    pub results: Vec<BatchResult>,
}

/// What became of one write: as the same write alone would be answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BatchResult {
    /// HTTP status.
    pub status: u16,
    /// Its verdict, when it was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<WriteShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<super::ErrorShape>,
}

/// `POST /v1/keyspaces/{name}/import`: rows of an ordered source, in order of their positions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportBody {
    pub source: String,
    /// Id of the keyspace that the source began with: nothing is written to another one of the same name.
    #[serde(default)]
    pub keyspace_id: Option<u64>,
    #[serde(default)]
    pub encoding: Encoding,
    pub rows: Vec<ImportRow>,
}

/// One row of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRow {
    pub position: u64,
    pub key: String,
    pub sort: String,
    pub value: String,
}

/// What became of each row of an import, in the order of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportShape {
    pub accepted: u64,
    pub done_before: u64,
    /// Rows that were not taken; send them again, from the first one on.
    pub refused: Vec<ImportRefusal>,
}

/// Why one row was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportRefusal {
    pub position: u64,
    pub code: String,
    pub message: String,
    /// Sending it again may help.
    pub retry: bool,
}
