//! From what the cores know to what clients are shown.

use crate::cluster::Progress;
use crate::wire::{Encoding, InboxShape, JobShape, KeyspaceShape, MoveShape, RowShape, ShardShape};
use rehome_control_core::{ControlState, Job, JobState, Keyspace, Move, Phase};
use rehome_keyspace::ShardId;
use rehome_ports::{ReplicaProgress, Row};
use std::collections::BTreeMap;

pub fn row(row: &Row) -> RowShape {
    let encoding = Encoding::that_fits(&[&row.partition_key, &row.sort_key, &row.value]);
    RowShape {
        key: encoding.write(&row.partition_key),
        sort: encoding.write(&row.sort_key),
        value: encoding.write(&row.value),
        version: row.version.to_string(),
        encoding,
    }
}

pub fn keyspace(keyspace: &Keyspace, progress: &Progress) -> KeyspaceShape {
    let mut slots: BTreeMap<ShardId, u32> = (0..keyspace.shards).map(|shard| (ShardId(shard), 0)).collect();
    for route in keyspace.routes.iter() {
        *slots.entry(route.shard).or_default() += 1;
    }
    let shard = |(shard, slots): (ShardId, u32)| {
        let report = progress.get(&(keyspace.id, shard));
        ShardShape {
            shard: shard.0,
            slots,
            nodes: nodes(keyspace, shard),
            applied_next: report.map(|report| report.applied_next.0),
            lag_records: report.and_then(|report| known(report.lag_records)),
            broken: report.and_then(|report| report.broken.clone()),
        }
    };
    KeyspaceShape {
        name: keyspace.name.clone(),
        id: keyspace.id.0,
        buckets: keyspace.placement.slot_count(),
        request_retention_ms: keyspace.request_retention_ms,
        inbox: (keyspace.inbox_partitions > 0)
            .then(|| InboxShape { topic: keyspace.inbox_topic(), partitions: keyspace.inbox_partitions }),
        shards_active: keyspace.shards_active,
        routes_position: keyspace.routes_changed.0,
        shards: slots.into_iter().map(shard).collect(),
    }
}

/// Returns a lag; nothing when the replica reports that it does not know it yet.
fn known(lag_records: u64) -> Option<u64> {
    (lag_records != u64::MAX).then_some(lag_records)
}

pub fn nodes(keyspace: &Keyspace, shard: ShardId) -> Vec<String> {
    keyspace.replicas_of(shard).iter().map(ToString::to_string).collect()
}

pub fn job(state: &ControlState, job: &Job, progress: &Progress) -> JobShape {
    let how = state.job_state(job.id).unwrap_or(JobState::Running);
    let moves: Vec<&Move> = job.moves.iter().filter_map(|id| state.move_(*id)).collect();
    JobShape {
        job: job.id.0,
        keyspace: state.keyspace_name(job.keyspace).unwrap_or_default().to_owned(),
        keyspace_dropped: state.keyspace(job.keyspace).is_none(),
        state: how.name().into(),
        ended: how.is_final(),
        next_steps: next_steps(state, job, &how, &moves),
        reason: match how {
            JobState::Paused { reason } | JobState::Failed { reason } => Some(reason),
            _ => None,
        },
        shards: job.shards,
        requested_by: job.requested_by.clone(),
        created_ms: job.created_ms,
        moves: moves.iter().map(|one| one_move(one, progress)).collect(),
    }
}

fn next_steps(state: &ControlState, job: &Job, how: &JobState, moves: &[&Move]) -> Vec<String> {
    let (id, shards) = (job.id.0, job.shards);
    let keyspace = state.keyspace(job.keyspace).map(|keyspace| keyspace.name.as_str()).unwrap_or_default();
    match how {
        // Once it was cancelled, or all has switched, there is nothing left to cancel.
        JobState::Running => {
            let can_cancel = moves.iter().any(|one| one.phase.is_before_switch() && one.ending.is_none());
            let cancel = can_cancel.then(|| format!("rehome cancel {id}"));
            [format!("rehome wait {id}")].into_iter().chain(cancel).collect()
        }
        JobState::Paused { .. } => vec![format!("rehome resume {id}"), format!("rehome cancel {id}")],
        JobState::Switched => vec![format!("rehome complete {id}")],
        JobState::Completed | JobState::Failed { .. } => vec![format!("rehome explain {id}")],
        // There is nothing left to go on with.
        JobState::Cancelled if state.keyspace(job.keyspace).is_none() => vec![format!("rehome explain {id}")],
        JobState::Cancelled => {
            // On, or back where some moves had switched before the rest was cancelled.
            let back = moves.iter().any(|one| one.phase == Phase::Completed).then(|| shards_before(shards, moves));
            let counts = [Some(shards), back.flatten()].into_iter().flatten();
            let reshards = counts.map(|shards| format!("rehome reshard {keyspace} --shards {shards}"));
            reshards.chain([format!("rehome explain {id}")]).collect()
        }
    }
}

/// Returns how many shards owned slots before the job, where its moves tell.
fn shards_before(shards: u32, moves: &[&Move]) -> Option<u32> {
    let source_max = moves.iter().map(|one| one.source.0).max()?;
    let destination_min = moves.iter().map(|one| one.destination.0).min()?;
    if source_max >= shards {
        return Some(source_max + 1);
    }
    (destination_min > source_max).then_some(destination_min)
}

/// Returns why the move does not go on, as far as a replica or the controller knows.
fn stands_still(one: &Move, progress: &Progress) -> Option<String> {
    let sides = [("source", one.source), ("destination", one.destination)];
    let reports = sides.iter().filter_map(|(side, shard)| Some((side, shard, progress.get(&(one.keyspace, *shard))?)));
    let stopped = reports.clone().find_map(|(side, shard, report)| {
        let reason = report.broken.as_ref()?;
        Some(format!("the replica of shard {shard}, its {side}, has stopped: {reason}"))
    });
    let fails = |(side, shard, report): (&&str, &ShardId, &ReplicaProgress)| {
        let (_, trouble) = report.troubles.iter().find(|(id, _)| *id == one.id)?;
        Some(format!("work of shard {shard}, its {side}, fails and is tried again: {trouble}"))
    };
    stopped.or_else(|| reports.clone().find_map(fails)).or_else(|| progress.waits.get(&one.id).cloned())
}

pub fn one_move(one: &Move, progress: &Progress) -> MoveShape {
    let inbound = progress.get(&(one.keyspace, one.destination)).map(|report| report.inbound.as_slice());
    let replay = inbound.unwrap_or_default().iter().find(|inbound| inbound.move_id == one.id);
    MoveShape {
        move_id: one.id.0,
        source: one.source.0,
        destination: one.destination.0,
        slots: one.slots.iter().map(|span| span.count()).sum(),
        phase: one.phase.name().into(),
        reason: match &one.phase {
            Phase::Failing { reason } | Phase::Failed { reason } => Some(reason.clone()),
            Phase::Switched { .. } | Phase::Completed | Phase::Cancelled => None,
            _ => stands_still(one, progress),
        },
        rows: one.snapshot.map(|snapshot| snapshot.digest.row_count),
        bytes: one.snapshot.map(|snapshot| snapshot.bytes),
        attempts_made: one.attempts.len() as u32,
        lag_records: replay.filter(|_| one.phase.is_before_switch()).and_then(|replay| known(replay.lag_records)),
        changed_ms: one.changed_ms,
    }
}
