//! The records of the control log. Every request and every step is appended first, and accepted or refused by the fold.

use crate::codec::{DecodeError, Kind, decode, encode};
use crate::digest::Digest;
use crate::record::Record;
use bincode::{Decode, Encode};
use rehome_keyspace::{AttemptId, JobId, KeyspaceId, MoveId, NodeId, Nonce, Offset, Placement, ShardId, Side, SlotId};

/// Topic of the control log; it has one partition.
pub const CONTROL_TOPIC: &str = "rehome.control";

/// Returns the name of a keyspace's data topic.
pub fn data_topic(name: &str, keyspace: KeyspaceId) -> String {
    format!("rehome.{name}-{keyspace}.data")
}

/// Returns the name of the topic into which producers that know no routes write, if the keyspace has one.
pub fn inbox_topic(name: &str, keyspace: KeyspaceId) -> String {
    format!("rehome.{name}-{keyspace}.inbox")
}

/// Returns the name of the topic in which forwarders say how far they have come.
pub fn inbox_progress_topic(name: &str, keyspace: KeyspaceId) -> String {
    format!("rehome.{name}-{keyspace}.inbox-progress")
}

/// Returns the name of the topic that holds what could not be applied.
pub fn rejects_topic(name: &str, keyspace: KeyspaceId) -> String {
    format!("rehome.{name}-{keyspace}.rejects")
}

/// One record of the control log.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ControlRecord {
    /// Random; names this request, so that one appended twice after an unknown outcome is done once.
    pub command: u128,
    pub event: ControlEvent,
}

/// What somebody asked for, or what a replica or controller did. Accepted only if the fold says so.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ControlEvent {
    NodeRegistered {
        node: NodeId,
        address: String,
    },
    /// The slots of shard i get epoch i + 1: slots `i * n / shards` up to, not including, `(i + 1) * n / shards` of
    /// the placement's n slots, rounded down. Keyspace id = offset of this record.
    KeyspaceCreated {
        name: String,
        placement: Placement,
        shards: u32,
        request_retention_ms: u64,
    },
    /// Creates every move of the job: from here on their selectors are fixed. Job id = offset of this record.
    JobSubmitted(JobSubmitted),
    /// planned -> copying.
    MoveStarted {
        move_id: MoveId,
    },
    /// A source replica exported the selector at position X; no position: its partition had no record yet.
    SnapshotTaken {
        move_id: MoveId,
        copy: u32,
        node: NodeId,
        position: Option<Offset>,
        digest: Digest,
        bytes: u64,
    },
    /// A destination replica ingested that copy, read it back and flushed it. Equal digest: copying -> catching-up.
    CopyIngested {
        move_id: MoveId,
        copy: u32,
        node: NodeId,
        digest: Digest,
    },
    /// The copy cannot be used (missing, altered): the next one is taken at a newer position.
    CopyFailed {
        move_id: MoveId,
        copy: u32,
        node: NodeId,
        reason: String,
    },
    /// catching-up -> cutting-over; the fold gives the attempt its number and its epoch.
    CutoverStarted {
        move_id: MoveId,
        nonce: Nonce,
        predicted_pause_us: u64,
    },
    /// A replica has applied the fence F of the attempt (and `open`, at the destination), and is durable up to there.
    Ready {
        attempt: AttemptId,
        node: NodeId,
        side: Side,
        fence: Offset,
        open: Option<Offset>,
        digest: Digest,
    },
    /// The attempt is given up; its fence is in the source's partition, at `fence`.
    CutoverAborted {
        attempt: AttemptId,
        fence: Offset,
        reason: String,
    },
    /// switched -> completing: the source may drop the rows.
    CompleteRequested {
        job: JobId,
    },
    /// Every move of the job that is not switched ends without a trace.
    CancelRequested {
        job: JobId,
        reason: String,
    },
    /// A replica has dropped what a completed move left at its source, or a cancelled one at its destination.
    CleanupDone {
        move_id: MoveId,
        node: NodeId,
    },
    /// The move cannot go on.
    MoveFailed {
        move_id: MoveId,
        reason: String,
    },
    /// The job's moves before their switch take no further step: none starts, none cuts over.
    PauseRequested {
        job: JobId,
        reason: String,
    },
    /// A paused job goes on.
    ResumeRequested {
        job: JobId,
    },
    /// The keyspace is gone from here on, with everything in it. Its name is free; its id is never given again.
    KeyspaceDropped {
        keyspace: KeyspaceId,
    },
    /// A node keeps no store and no snapshot of a dropped keyspace any more.
    KeyspaceRemoved {
        keyspace: KeyspaceId,
        node: NodeId,
    },
    /// The log has forgotten the partitions of a dropped keyspace: nothing of it is left anywhere.
    TopicRemoved {
        keyspace: KeyspaceId,
    },
    /// The keyspace has an inbox topic with so many partitions, for good.
    InboxOpened {
        keyspace: KeyspaceId,
        partitions: u32,
    },
    /// As `KeyspaceCreated`, and says how each shard is hosted.
    KeyspaceCreatedWith {
        name: String,
        placement: Placement,
        shards: u32,
        request_retention_ms: u64,
        hosting: Hosting,
    },
    /// As `NodeRegistered`, and says where the node stands. Labels replace those that it had.
    NodeRegisteredWith {
        node: NodeId,
        address: String,
        labels: Vec<Label>,
    },
    /// From here on the node is to host nothing.
    NodeDrained {
        node: NodeId,
    },
    /// The node may host again, and takes its share of the replicas.
    NodeFilled {
        node: NodeId,
    },
    /// The node is to make itself a replica of the shard, from a snapshot of `from`, or else from the logs. It counts for
    /// nothing until it is ready. Number of the hosting = offset of this record.
    ReplicaAdded {
        keyspace: KeyspaceId,
        shard: ShardId,
        node: NodeId,
        from: Option<NodeId>,
    },
    /// The replica has applied what its partition held, and counts from here on.
    ReplicaReady {
        keyspace: KeyspaceId,
        shard: ShardId,
        node: NodeId,
        hosting: Offset,
    },
    /// The node hosts the shard no more, and removes what it has of it.
    ReplicaRemoved {
        keyspace: KeyspaceId,
        shard: ShardId,
        node: NodeId,
        reason: String,
    },
    /// The node has nothing left of a shard that it hosted.
    ReplicaWiped {
        keyspace: KeyspaceId,
        shard: ShardId,
        node: NodeId,
    },
}

/// How each shard of a keyspace is hosted.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Hosting {
    /// Replicas of each shard.
    pub replicas: u32,
    /// Replicas of a destination that must hold a copy, and be ready, before a move switches.
    pub ready_replicas: u32,
    /// Only nodes with all of these labels host replicas.
    pub required: Vec<Label>,
}

impl Hosting {
    /// One replica, anywhere.
    pub const STANDARD: Hosting = Hosting { replicas: 1, ready_replicas: 1, required: Vec::new() };

    /// Returns how many replicas must be ready where nobody said: the smaller of two and all.
    pub fn ready_standard(replicas: u32) -> u32 {
        replicas.min(2)
    }
}

/// Says where a node stands: its region, its rack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Label {
    pub key: String,
    pub value: String,
}

/// A job as its operator asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JobSubmitted {
    pub keyspace: KeyspaceId,
    /// Number of shards that own slots when the job is done; shards above it are retired.
    pub shards: u32,
    pub moves: Vec<MoveWanted>,
    pub options: JobOptions,
    /// Who asked, for the story.
    pub requested_by: String,
}

/// One move of a job, before it has a number.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct MoveWanted {
    pub source: ShardId,
    pub destination: ShardId,
    /// Ascending, without gaps inside a span.
    pub slots: Vec<SlotSpan>,
}

/// Slots `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct SlotSpan {
    pub first: SlotId,
    pub last: SlotId,
}

impl SlotSpan {
    pub fn slots(self) -> impl Iterator<Item = SlotId> {
        (self.first.0..=self.last.0).map(SlotId)
    }

    pub fn count(self) -> u32 {
        self.last.0 - self.first.0 + 1
    }
}

/// Limits of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JobOptions {
    /// Moves that run at once.
    pub moves_at_once: u32,
    /// A cutover is aborted when it has no outcome after this time.
    pub abort_after_ms: u64,
    /// A cutover starts only when its pause is predicted to be at most this.
    pub pause_ms_max: u64,
    /// Complete each move by itself once it is switched.
    pub complete: bool,
}

impl JobOptions {
    /// Values that operators start from.
    pub const STANDARD: JobOptions =
        JobOptions { moves_at_once: 2, abort_after_ms: 2_000, pause_ms_max: 100, complete: true };
}

impl ControlRecord {
    pub fn into_record(self) -> Record {
        Record { key: None, value: Some(encode(Kind::Control, &self)), headers: Vec::new() }
    }

    pub fn read(record: &Record) -> Result<ControlRecord, DecodeError> {
        decode(Kind::Control, record.value.as_deref().unwrap_or_default())
    }
}
