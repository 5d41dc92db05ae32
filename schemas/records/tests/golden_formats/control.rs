//! Control records: one sample per event.

use crate::Sample;
use rehome_keyspace::{AttemptId, JobId, KeyspaceId, MoveId, NodeId, Nonce, Offset, Placement, ShardId, Side, SlotId};
use rehome_records::control::{Hosting, JobOptions, JobSubmitted, Label, MoveWanted, SlotSpan};
use rehome_records::{ControlEvent, ControlRecord, Digest, Record};

pub fn digest() -> Digest {
    Digest { rows: u128::MAX - 5, requests: 1 << 100, row_count: 300, tombstone_count: 2 }
}

/// The name of an event's sample. Without a wildcard, so that a new event cannot be forgotten.
fn name(event: &ControlEvent) -> &'static str {
    match event {
        ControlEvent::NodeRegistered { .. } => "control_node_registered",
        ControlEvent::KeyspaceCreated { .. } => "control_keyspace_created",
        ControlEvent::JobSubmitted(_) => "control_job_submitted",
        ControlEvent::MoveStarted { .. } => "control_move_started",
        ControlEvent::SnapshotTaken { .. } => "control_snapshot_taken",
        ControlEvent::CopyIngested { .. } => "control_copy_ingested",
        ControlEvent::CopyFailed { .. } => "control_copy_failed",
        ControlEvent::CutoverStarted { .. } => "control_cutover_started",
        ControlEvent::Ready { .. } => "control_ready",
        ControlEvent::CutoverAborted { .. } => "control_cutover_aborted",
        ControlEvent::CompleteRequested { .. } => "control_complete_requested",
        ControlEvent::CancelRequested { .. } => "control_cancel_requested",
        ControlEvent::CleanupDone { .. } => "control_cleanup_done",
        ControlEvent::MoveFailed { .. } => "control_move_failed",
        ControlEvent::PauseRequested { .. } => "control_pause_requested",
        ControlEvent::ResumeRequested { .. } => "control_resume_requested",
        ControlEvent::KeyspaceDropped { .. } => "control_keyspace_dropped",
        ControlEvent::KeyspaceRemoved { .. } => "control_keyspace_removed",
        ControlEvent::TopicRemoved { .. } => "control_topic_removed",
        ControlEvent::InboxOpened { .. } => "control_inbox_opened",
        ControlEvent::KeyspaceCreatedWith { .. } => "control_keyspace_created_with",
        ControlEvent::NodeRegisteredWith { .. } => "control_node_registered_with",
        ControlEvent::NodeDrained { .. } => "control_node_drained",
        ControlEvent::NodeFilled { .. } => "control_node_filled",
        ControlEvent::ReplicaAdded { .. } => "control_replica_added",
        ControlEvent::ReplicaReady { .. } => "control_replica_ready",
        ControlEvent::ReplicaRemoved { .. } => "control_replica_removed",
        ControlEvent::ReplicaWiped { .. } => "control_replica_wiped",
    }
}

pub fn samples() -> Vec<Sample> {
    let command = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;
    let samples = events().into_iter().chain(events_of_hosting()).map(|event| {
        let (name, record) = (name(&event), ControlRecord { command, event });
        let bytes = record.clone().into_record().value.expect("a control record has a value");
        Sample::framed(name, record, bytes, |bytes| {
            ControlRecord::read(&Record { value: Some(bytes.to_vec()), ..Record::default() })
        })
    });
    samples.collect()
}

fn events() -> Vec<ControlEvent> {
    let (move_id, node, attempt, job) = (MoveId(300), NodeId(70_000), AttemptId(5), JobId(1 << 33));
    let reason = || "because ä".to_owned();
    vec![
        ControlEvent::NodeRegistered { node, address: "127.0.0.1:8090".into() },
        ControlEvent::KeyspaceCreated {
            name: "flights".into(),
            placement: Placement::buckets(4096).expect("in range"),
            shards: 3,
            request_retention_ms: 86_400_000,
        },
        ControlEvent::JobSubmitted(JobSubmitted {
            keyspace: KeyspaceId(2),
            shards: 5,
            moves: vec![MoveWanted {
                source: ShardId(0),
                destination: ShardId(3),
                slots: vec![SlotSpan { first: SlotId(7), last: SlotId(900) }],
            }],
            options: JobOptions::STANDARD,
            requested_by: "somebody".into(),
        }),
        ControlEvent::MoveStarted { move_id },
        ControlEvent::SnapshotTaken {
            move_id,
            copy: 1,
            node,
            position: Some(Offset(99)),
            digest: digest(),
            bytes: 1 << 40,
        },
        ControlEvent::CopyIngested { move_id, copy: 1, node, digest: digest() },
        ControlEvent::CopyFailed { move_id, copy: 1, node, reason: reason() },
        ControlEvent::CutoverStarted { move_id, nonce: Nonce(u64::MAX), predicted_pause_us: 4_500 },
        ControlEvent::Ready {
            attempt,
            node,
            side: Side::Destination,
            fence: Offset(123),
            open: Some(Offset(4)),
            digest: digest(),
        },
        ControlEvent::CutoverAborted { attempt, fence: Offset(123), reason: reason() },
        ControlEvent::CompleteRequested { job },
        ControlEvent::CancelRequested { job, reason: reason() },
        ControlEvent::CleanupDone { move_id, node },
        ControlEvent::MoveFailed { move_id, reason: reason() },
        ControlEvent::PauseRequested { job, reason: reason() },
        ControlEvent::ResumeRequested { job },
        ControlEvent::KeyspaceDropped { keyspace: KeyspaceId(2) },
        ControlEvent::KeyspaceRemoved { keyspace: KeyspaceId(2), node },
        ControlEvent::TopicRemoved { keyspace: KeyspaceId(2) },
        ControlEvent::InboxOpened { keyspace: KeyspaceId(2), partitions: 300 },
    ]
}

/// Who hosts what.
fn events_of_hosting() -> Vec<ControlEvent> {
    let (keyspace, shard, node) = (KeyspaceId(2), ShardId(3), NodeId(70_000));
    vec![
        ControlEvent::KeyspaceCreatedWith {
            name: "flights".into(),
            placement: Placement::buckets(4096).expect("in range"),
            shards: 3,
            request_retention_ms: 86_400_000,
            hosting: Hosting { replicas: 3, ready_replicas: 2, required: vec![label("region", "ä")] },
        },
        ControlEvent::NodeRegisteredWith {
            node,
            address: "127.0.0.1:8090".into(),
            labels: vec![label("rack", "7"), label("region", "ä")],
        },
        ControlEvent::NodeDrained { node },
        ControlEvent::NodeFilled { node },
        ControlEvent::ReplicaAdded { keyspace, shard, node, from: Some(NodeId(4)) },
        ControlEvent::ReplicaReady { keyspace, shard, node, hosting: Offset(1 << 20) },
        ControlEvent::ReplicaRemoved { keyspace, shard, node, reason: "because ä".to_owned() },
        ControlEvent::ReplicaWiped { keyspace, shard, node },
    ]
}

fn label(key: &str, value: &str) -> Label {
    Label { key: key.into(), value: value.into() }
}
