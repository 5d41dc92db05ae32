//! Rows, writes and their answers.

use super::Encoding;
use serde::{Deserialize, Serialize};

/// `POST /v1/keyspaces/{name}/rows`: writes one row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutBody {
    pub key: String,
    #[serde(default)]
    pub sort: String,
    pub value: String,
    #[serde(default)]
    pub encoding: Encoding,
    /// Request id, 32 hex digits: the same id again does nothing again and gets the first answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// `absent`, `present`, or the version the row must have, such as `4@811`.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// `DELETE /v1/keyspaces/{name}/rows`, as query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(default)]
    pub reverse: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    #[serde(default)]
    pub encoding: Encoding,
    /// `linearizable` (default), `eventual`, or a token from a write's answer, such as `3:811`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

/// `GET /v1/keyspaces/{name}/scan`, as query: a page of all rows, in the order in which they are placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowShape {
    pub key: String,
    pub sort: String,
    pub value: String,
    /// Epoch and offset of the write that made it.
    pub version: String,
    pub encoding: Encoding,
}

/// Some rows, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsShape {
    pub rows: Vec<RowShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Ranges of placed keys (hex) that could not be read in time; they lie from `next` on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// The answer to a write that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteShape {
    /// `accepted`, `accepted-before`, `condition-failed` or `done-before`.
    pub verdict: String,
    /// The version it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where it was judged: a read at this token sees it.
    pub token: String,
    pub epoch: u64,
    pub request: Option<String>,
}

/// `POST /v1/keyspaces/{name}/import`: rows of an ordered source, in order of their positions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportBody {
    pub source: String,
    #[serde(default)]
    pub encoding: Encoding,
    pub rows: Vec<ImportRow>,
}

/// One row of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportRow {
    pub position: u64,
    pub key: String,
    pub sort: String,
    pub value: String,
}

/// What became of each row of an import, in the order of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportShape {
    pub accepted: u64,
    pub done_before: u64,
    /// Rows that were not taken; send them again, from the first one on.
    pub refused: Vec<ImportRefusal>,
}

/// Why one row was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRefusal {
    pub position: u64,
    pub code: String,
    pub message: String,
    /// Sending it again may help.
    pub retry: bool,
}
