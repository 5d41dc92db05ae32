//! Whether the process lives, and whether it can serve.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `GET /v1/health`: the process lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthShape {
    /// `live`.
    pub status: String,
    pub version: String,
    pub uptime_ms: u64,
}

/// `GET /v1/ready`: every replica here can serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadyShape {
    /// `ready`.
    pub status: String,
    pub replicas: Vec<ReplicaShape>,
}

/// A replica that can serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaShape {
    pub keyspace: String,
    pub shard: u32,
    /// Offset below which it has applied everything.
    pub applied_next: u64,
    pub lag_records: u64,
}
