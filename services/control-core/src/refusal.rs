//! Why the fold refused a record. Texts are for operators: what is wrong, and the next command to run.

use crate::keyspace::{INBOX_PARTITIONS_MAX, REPLICAS_MAX, SHARDS_MAX};
use rehome_keyspace::{AttemptId, JobId, KeyspaceId, MoveId, NodeId, Offset, ShardId, SlotId};
use thiserror::Error;

/// Why a record changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("the record cannot be read: {reason}; run `rehome status` and see which process wrote it")]
    Unreadable { reason: String },
    #[error("everything below offset {folded_next} is folded, offset {offset} is not looked at again")]
    AlreadyFolded { offset: Offset, folded_next: Offset },
    #[error("the command id was used before with other content; send the request again with a new id")]
    CommandReused,
    #[error(
        "`{name}` is no name for a keyspace: use 1 to 100 of a-z, A-Z, 0-9, `-`, `_`, `.`, and \
         begin with a letter or a digit; run `rehome keyspace create NAME`"
    )]
    NameInvalid { name: String },
    #[error("keyspace `{name}` exists, with id {keyspace}; run `rehome keyspace show {name}`")]
    NameTaken { name: String, keyspace: KeyspaceId },
    #[error("the placement cannot be: {reason}; run `rehome keyspace create --help`")]
    PlacementInvalid { reason: String },
    #[error("{shards} shards cannot be: 1 to {} are possible here; choose another `--shards`", .slots.min(&SHARDS_MAX))]
    ShardCountInvalid { shards: u32, slots: u32 },
    #[error(
        "an inbox with {partitions} partitions cannot be: 1 to {INBOX_PARTITIONS_MAX} are possible; run `rehome keyspace create --help`"
    )]
    InboxPartitionsInvalid { partitions: u32 },
    #[error("keyspace `{name}` has an inbox with {partitions} partitions, for good; run `rehome keyspace show {name}`")]
    InboxFixed { name: String, partitions: u32 },
    #[error("there is no keyspace {keyspace}; run `rehome keyspace list`")]
    KeyspaceUnknown { keyspace: KeyspaceId },
    #[error("keyspace {keyspace} was not dropped; run `rehome keyspace list`")]
    KeyspaceNotDropped { keyspace: KeyspaceId },
    #[error("node {node} may still keep stores of keyspace {keyspace}, which was dropped; run `rehome status`")]
    KeyspaceKept { keyspace: KeyspaceId, node: NodeId },
    #[error(
        "some of its keys are in move {move_id}, which is {phase}; run `rehome {way_out} {job}`, then drop it again"
    )]
    KeyspaceMoving { move_id: MoveId, job: JobId, phase: &'static str, way_out: &'static str },
    #[error("there is no job {job}; run `rehome list`")]
    JobUnknown { job: JobId },
    #[error("there is no move {move_id}; run `rehome list`")]
    MoveUnknown { move_id: MoveId },
    #[error("there is no attempt {attempt}; run `rehome list`")]
    AttemptUnknown { attempt: AttemptId },
    #[error("the job has no moves: nothing is to be done; run `rehome status`")]
    JobEmpty,
    #[error(
        "the slots from shard {source_shard} to shard {destination} are wrong: {reason}; run `rehome status` and plan again"
    )]
    SlotsInvalid { source_shard: ShardId, destination: ShardId, reason: String },
    #[error("source and destination are both shard {shard}; plan again with `rehome reshard --dry-run`")]
    SameShard { shard: ShardId },
    #[error(
        "destination {destination} is not one of the job's {shards} shards; plan again with `rehome reshard --dry-run`"
    )]
    DestinationRetired { destination: ShardId, shards: u32 },
    #[error(
        "slot {slot} is owned by shard {owner}, not by {source_shard}: the routes changed; run `rehome status` and plan again"
    )]
    SlotNotOwned { slot: SlotId, source_shard: ShardId, owner: ShardId },
    #[error("two moves of the job name the same keys, from slot {slot} on; plan again with `rehome reshard --dry-run`")]
    KeysNamedTwice { slot: SlotId },
    #[error(
        "some of the keys are in move {move_id}, which is {phase}; run `rehome wait {job}` or `rehome cancel {job}`"
    )]
    KeysInOpenMove { move_id: MoveId, job: JobId, phase: &'static str },
    #[error("some of the keys are in move {move_id}, whose source still keeps its rows; run `rehome complete {job}`")]
    KeysKeptAtSource { move_id: MoveId, job: JobId },
    #[error("some of the keys are still being cleaned up after move {move_id}; run `rehome wait {job}`")]
    KeysInCleanup { move_id: MoveId, job: JobId },
    #[error(
        "some of the keys are in move {move_id} of a paused job; run `rehome resume {job}` or `rehome cancel {job}`"
    )]
    KeysInPausedJob { move_id: MoveId, job: JobId },
    #[error(
        "job {job} is still on its way to {shards} shards; run `rehome {way_out} {job}`, then reshard to another number"
    )]
    ReshardUnderWay { job: JobId, shards: u32, way_out: &'static str },
    #[error("move {move_id} is {phase}; this needs it to be {wanted}; run `rehome show {job}`")]
    PhaseOther { move_id: MoveId, job: JobId, phase: &'static str, wanted: &'static str },
    #[error("copy {copy} of move {move_id} is not the current one, {current}; run `rehome explain {job}`")]
    CopyOther { move_id: MoveId, job: JobId, copy: u32, current: u32 },
    #[error("copy {copy} of move {move_id} has no snapshot yet; run `rehome explain {job}`")]
    SnapshotMissing { move_id: MoveId, job: JobId, copy: u32 },
    #[error("node {node} hosts no replica of shard {shard} of keyspace {keyspace}; run `rehome status`")]
    NotReplica { node: NodeId, shard: ShardId, keyspace: KeyspaceId },
    #[error("there is no node {node}; run `rehome status`")]
    NodeUnknown { node: NodeId },
    #[error(
        "{replicas} replicas, {ready_replicas} of them ready before a switch, cannot be: 1 to {REPLICAS_MAX} replicas are \
         possible, and at most all of them ready; run `rehome keyspace create --help`"
    )]
    ReplicasInvalid { replicas: u32, ready_replicas: u32 },
    #[error(
        "`{key}={value}` is no label: use 1 to 63 letters, digits, `-`, `_`, `.` and `/` on both sides, each key once, such \
         as `--label rack=7`; run `rehome serve --help`"
    )]
    LabelInvalid { key: String, value: String },
    #[error(
        "node {node} still has something of shard {shard} of keyspace {keyspace}, which it left; run `rehome status`"
    )]
    ReplicaLeaving { keyspace: KeyspaceId, shard: ShardId, node: NodeId },
    #[error("node {node} is the last one to host shard {shard} of keyspace {keyspace}; run `rehome status`")]
    ReplicaLast { keyspace: KeyspaceId, shard: ShardId, node: NodeId },
    #[error("shard {shard} of keyspace {keyspace} is in a cutover of move {move_id}; run `rehome show {job}`")]
    ReplicaInCutover { keyspace: KeyspaceId, shard: ShardId, move_id: MoveId, job: JobId },
    #[error(
        "no other replica of shard {shard} of keyspace {keyspace} holds what move {move_id} brought; run `rehome show {job}`"
    )]
    ReplicaHoldsCopy { keyspace: KeyspaceId, shard: ShardId, move_id: MoveId, job: JobId },
    #[error(
        "node {node} is not on its way to host shard {shard} of keyspace {keyspace} since {hosting}; run `rehome status`"
    )]
    HostingOther { keyspace: KeyspaceId, shard: ShardId, node: NodeId, hosting: Offset },
    #[error("attempt {attempt} was {outcome} before; the first outcome stays; run `rehome explain {job}`")]
    AttemptDecided { attempt: AttemptId, job: JobId, outcome: &'static str },
    #[error("node {node} is ready for attempt {attempt} without having seen its `Open`; run `rehome explain {job}`")]
    OpenMissing { attempt: AttemptId, job: JobId, node: NodeId },
    #[error(
        "node {node} said something else about attempt {attempt} before; its first word counts; run `rehome explain {job}`"
    )]
    ReadyChanged { attempt: AttemptId, job: JobId, node: NodeId },
    #[error("every move of job {job} has switched or ended, nothing is left to cancel; run `rehome show {job}`")]
    CancelTooLate { job: JobId },
    #[error(
        "move {move_id} of job {job} is {phase}, not switched yet; run `rehome wait {job}` or `rehome cancel {job}` first"
    )]
    CompleteTooEarly { job: JobId, move_id: MoveId, phase: &'static str },
    #[error("no move of job {job} is switched, nothing is left to complete; run `rehome show {job}`")]
    CompleteTooLate { job: JobId },
    #[error("every move of job {job} has switched or is ending, nothing is left to pause; run `rehome show {job}`")]
    PauseTooLate { job: JobId },
    #[error("job {job} is not paused; run `rehome show {job}`")]
    NotPaused { job: JobId },
    #[error("move {move_id} takes no further step while job {job} is paused; run `rehome resume {job}`")]
    JobPaused { job: JobId, move_id: MoveId },
}

impl Refusal {
    /// Returns the stable code of the refusal, for scripts and for the docs.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Unreadable { .. } => "record-unreadable",
            Refusal::AlreadyFolded { .. } => "record-already-folded",
            Refusal::CommandReused => "command-reused",
            Refusal::NameInvalid { .. } => "name-invalid",
            Refusal::NameTaken { .. } => "name-taken",
            Refusal::PlacementInvalid { .. } => "placement-invalid",
            Refusal::ShardCountInvalid { .. } => "shard-count-invalid",
            Refusal::InboxPartitionsInvalid { .. } => "inbox-partitions-invalid",
            Refusal::InboxFixed { .. } => "inbox-fixed",
            Refusal::KeyspaceUnknown { .. } => "keyspace-unknown",
            Refusal::KeyspaceNotDropped { .. } => "keyspace-not-dropped",
            Refusal::KeyspaceKept { .. } => "keyspace-kept",
            Refusal::KeyspaceMoving { .. } => "keyspace-moving",
            Refusal::JobUnknown { .. } => "job-unknown",
            Refusal::MoveUnknown { .. } => "move-unknown",
            Refusal::AttemptUnknown { .. } => "attempt-unknown",
            Refusal::JobEmpty => "job-empty",
            Refusal::SlotsInvalid { .. } => "slots-invalid",
            Refusal::SameShard { .. } => "same-shard",
            Refusal::DestinationRetired { .. } => "destination-retired",
            Refusal::SlotNotOwned { .. } => "slot-not-owned",
            Refusal::KeysNamedTwice { .. } => "keys-named-twice",
            Refusal::KeysInOpenMove { .. } => "keys-in-open-move",
            Refusal::KeysKeptAtSource { .. } => "keys-kept-at-source",
            Refusal::KeysInCleanup { .. } => "keys-in-cleanup",
            Refusal::KeysInPausedJob { .. } => "keys-in-paused-job",
            Refusal::ReshardUnderWay { .. } => "reshard-under-way",
            Refusal::PhaseOther { .. } => "phase-other",
            Refusal::CopyOther { .. } => "copy-other",
            Refusal::SnapshotMissing { .. } => "snapshot-missing",
            Refusal::NotReplica { .. } => "not-replica",
            Refusal::NodeUnknown { .. } => "node-unknown",
            Refusal::ReplicasInvalid { .. } => "replicas-invalid",
            Refusal::LabelInvalid { .. } => "label-invalid",
            Refusal::ReplicaLeaving { .. } => "replica-leaving",
            Refusal::ReplicaLast { .. } => "replica-last",
            Refusal::ReplicaInCutover { .. } => "replica-in-cutover",
            Refusal::ReplicaHoldsCopy { .. } => "replica-holds-copy",
            Refusal::HostingOther { .. } => "hosting-other",
            Refusal::AttemptDecided { .. } => "attempt-decided",
            Refusal::OpenMissing { .. } => "open-missing",
            Refusal::ReadyChanged { .. } => "ready-changed",
            Refusal::CancelTooLate { .. } => "cancel-too-late",
            Refusal::CompleteTooEarly { .. } => "complete-too-early",
            Refusal::CompleteTooLate { .. } => "complete-too-late",
            Refusal::PauseTooLate { .. } => "pause-too-late",
            Refusal::NotPaused { .. } => "not-paused",
            Refusal::JobPaused { .. } => "job-paused",
        }
    }
}
