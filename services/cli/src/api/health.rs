//! Whether the process lives, and whether every replica here can serve.

use super::Shared;
use super::errors::Refusal;
use crate::wire::{HealthShape, ReadyShape, ReplicaShape};
use axum::Json;
use rehome_ports::ReplicaProgress;

/// How far a replica may be behind and still serve, in records. Reason: less than a tenth of a second of applying.
const LAG_RECORDS_MAX: u64 = 10_000;

pub async fn live(state: Shared) -> Json<HealthShape> {
    Json(HealthShape {
        status: "live".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        uptime_ms: state.cluster.clock().uptime().as_millis() as u64,
    })
}

/// Errors: a replica is behind, or has stopped; a read or write of its keys would wait or fail.
pub async fn ready(state: Shared) -> Result<Json<ReadyShape>, Refusal> {
    let (control, progress) = (state.cluster.desk().state(), state.cluster.progress());
    let mut replicas = Vec::new();
    for keyspace in control.keyspaces() {
        for shard in (0..keyspace.shards).map(rehome_keyspace::ShardId) {
            let report = progress.get(&(keyspace.id, shard));
            if let Some(why) = lacks(report) {
                let message = format!("shard {shard} of keyspace {}: its replica {why}", keyspace.name);
                return Err(Refusal::new("not_ready", message).next("rehome status"));
            }
            replicas.extend(report.map(|report| ReplicaShape {
                keyspace: keyspace.name.clone(),
                shard: shard.0,
                applied_next: report.applied_next.0,
                lag_records: report.lag_records,
            }));
        }
    }
    Ok(Json(ReadyShape { status: "ready".into(), replicas }))
}

/// Returns what a replica lacks to serve.
fn lacks(report: Option<&ReplicaProgress>) -> Option<String> {
    let Some(report) = report else { return Some("has not started yet".into()) };
    match (&report.broken, report.lag_records) {
        (Some(why), _) => Some(format!("has stopped: {why}")),
        (None, u64::MAX) => Some("does not know yet how far it is behind".into()),
        (None, lag_records) if lag_records > LAG_RECORDS_MAX => Some(format!("is {lag_records} records behind")),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehome_keyspace::{KeyspaceId, NodeId, Offset, ShardId};

    #[test]
    fn only_a_replica_that_is_caught_up_is_ready() {
        let report = |lag_records, broken: Option<&str>| ReplicaProgress {
            keyspace: KeyspaceId(1),
            shard: ShardId(0),
            node: NodeId(1),
            applied_next: Offset(7),
            lag_records,
            horizon: None,
            inbound: Vec::new(),
            troubles: Vec::new(),
            broken: broken.map(str::to_owned),
        };
        assert!(lacks(None).is_some());
        assert_eq!(lacks(Some(&report(0, None))), None);
        assert_eq!(lacks(Some(&report(LAG_RECORDS_MAX, None))), None);
        assert!(lacks(Some(&report(LAG_RECORDS_MAX + 1, None))).is_some_and(|why| why.contains("10001 records")));
        assert!(lacks(Some(&report(u64::MAX, None))).is_some());
        assert!(lacks(Some(&report(0, Some("no disk")))).is_some_and(|why| why.contains("no disk")));
    }
}
