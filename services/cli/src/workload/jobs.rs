//! A keyspace, and jobs that move its slots.

use crate::cluster::{Cluster, REQUEST_RETENTION_MS};
use anyhow::{Context, bail};
use rehome_control_core::{Accepted, Decision};
use rehome_keyspace::{JobId, KeyspaceId, MoveId, Placement};
use rehome_records::ControlEvent;
use rehome_records::control::{JobOptions, JobSubmitted, MoveWanted};

/// Slots of a keyspace.
pub const BUCKETS: u32 = 4096;

/// Creates a keyspace.
pub fn create_keyspace(cluster: &Cluster, name: &str, shards: u32) -> anyhow::Result<(KeyspaceId, Placement)> {
    let placement = Placement::buckets(BUCKETS)?;
    let event = ControlEvent::KeyspaceCreated {
        name: name.to_owned(),
        placement,
        shards,
        request_retention_ms: REQUEST_RETENTION_MS,
    };
    match cluster.propose(event).context("the control log does not answer")? {
        Decision::Accepted(Accepted::KeyspaceCreated(id)) => Ok((id, placement)),
        Decision::Refused(refusal) => bail!("the keyspace was refused: {refusal}"),
        other => bail!("the keyspace was not made: {other:?}"),
    }
}

/// Submits the moves as one job, after which `shards` shards own slots.
pub fn submit(
    cluster: &Cluster,
    keyspace: KeyspaceId,
    moves: Vec<MoveWanted>,
    shards: u32,
    requested_by: &str,
) -> anyhow::Result<(JobId, Vec<MoveId>)> {
    let requested_by = requested_by.to_owned();
    let submitted = JobSubmitted { keyspace, shards, moves, options: JobOptions::STANDARD, requested_by };
    match cluster.propose(ControlEvent::JobSubmitted(submitted)).context("the control log does not answer")? {
        Decision::Accepted(Accepted::JobSubmitted(job, ids)) => Ok((job, ids)),
        Decision::Refused(refusal) => bail!("the job was refused: {refusal}"),
        other => bail!("the job was not submitted: {other:?}"),
    }
}
