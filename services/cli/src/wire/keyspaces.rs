//! Keyspaces, keys, and how the whole system is.

use super::JobShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Buckets of a keyspace for which no number is given.
pub const DEFAULT_BUCKETS: u32 = 4096;

/// `POST /v1/keyspaces`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyspaceBody {
    pub name: String,
    pub shards: u32,
    pub buckets: u32,
    /// How long a repeated request id is recognised, by the log's own time: 60000 (a minute) to 2592000000 (30 days);
    /// 86400000 (24 hours) without it. Ids travel with every move: a shorter time makes moves cheaper. Marks of deleted
    /// rows are kept as long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_retention_ms: Option<u64>,
    /// Partitions of an inbox topic for plain records of producers that know no routes, 1 to 256; fixed for ever. No
    /// inbox without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbox_partitions: Option<u32>,
}

/// A keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyspaceShape {
    pub name: String,
    pub id: u64,
    pub buckets: u32,
    /// How long a repeated request id is recognised.
    pub request_retention_ms: u64,
    /// The topic that producers without routes write to; missing where the keyspace has no inbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inbox: Option<InboxShape>,
    /// Shards that own slots.
    pub shards_active: u32,
    /// Control position at which a route last changed.
    pub routes_position: u64,
    pub shards: Vec<ShardShape>,
}

/// The inbox of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InboxShape {
    pub topic: String,
    pub partitions: u32,
}

/// A shard of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardShape {
    pub shard: u32,
    pub slots: u32,
    /// Node ids.
    pub nodes: Vec<String>,
    /// Offset below which its replica has applied everything; unknown at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_next: Option<u64>,
    /// How many records it is behind; null while that is unknown.
    pub lag_records: Option<u64>,
    /// Why its replica has stopped for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// `GET /v1/keyspaces/{name}/key`, as query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyQuery {
    pub key: String,
    #[serde(default)]
    pub encoding: super::Encoding,
}

/// Where a partition key belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyShape {
    pub key: String,
    /// 16 hex digits.
    pub hash: String,
    pub slot: u32,
    pub shard: u32,
    pub epoch: u64,
    /// Control position at which the route of some slot last changed.
    pub routes_position: u64,
    pub nodes: Vec<String>,
}

/// `DELETE /v1/keyspaces/{name}`, as query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropQuery {
    /// Say what would go, and drop nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Id of the keyspace that is meant: another one of the same name is not dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
}

/// A keyspace that was dropped, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedShape {
    pub name: String,
    pub id: u64,
    /// False for a dry run.
    pub dropped: bool,
    /// Rows that go, and bytes of their entries before compression.
    pub rows: u64,
    pub bytes: u64,
    /// They were counted; otherwise they follow from a sample.
    pub counted: bool,
    pub next_steps: Vec<String>,
}

/// All keyspaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyspacesShape {
    pub keyspaces: Vec<KeyspaceShape>,
}

/// What `rehome up --json` prints when its API answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpShape {
    /// URL of the API.
    pub server: String,
    /// Folder that holds everything.
    pub data: String,
    pub pid: u32,
    /// The folder is removed at the end.
    pub ephemeral: bool,
    pub next_steps: Vec<String>,
}

/// What `rehome serve --json` prints when its API answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeShape {
    /// URL of the API.
    pub server: String,
    pub pid: u32,
    pub roles: Vec<String>,
    /// Number of the node; nothing where the process is none.
    pub node: Option<u64>,
    /// Where other processes reach it.
    pub node_address: Option<String>,
    pub next_steps: Vec<String>,
}

/// What `rehome stop --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopShape {
    /// The process that has ended.
    pub pid: u32,
    /// The folder that it held.
    pub data: String,
    pub next_steps: Vec<String>,
}

/// `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusShape {
    pub version: String,
    pub pid: u32,
    pub data: String,
    pub uptime_ms: u64,
    /// Offset below which the control log is folded.
    pub control_position: u64,
    /// Bytes that a value may have.
    pub value_bytes_max: u64,
    pub keyspaces: Vec<KeyspaceShape>,
    /// Jobs that have not ended.
    pub jobs: Vec<JobShape>,
    pub next_steps: Vec<String>,
}

/// `GET /v1/keyspaces/{name}/routes`: who owns which slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoutesShape {
    pub keyspace: String,
    /// Control position at which a route last changed.
    pub routes_position: u64,
    /// Runs of slots with the same owner and epoch, in order; together they are all slots.
    pub routes: Vec<RouteShape>,
}

/// A run of slots with the same owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteShape {
    pub slot_first: u32,
    /// Is in it too.
    pub slot_last: u32,
    pub shard: u32,
    pub epoch: u64,
    /// Node ids.
    pub nodes: Vec<String>,
}
