//! What became of a control record.

use crate::Refusal;
use rehome_keyspace::{AttemptFacts, AttemptId, JobId, KeyspaceId, MoveId, NodeId, Offset, ShardId};

/// What the fold decided about one record. The appender folds up to its own record and looks here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Accepted(Accepted),
    /// It had happened before; nothing was changed now.
    AlreadyDone(Accepted),
    /// Nothing was changed.
    Refused(Refusal),
}

/// What an accepted record did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    NodeRegistered(NodeId),
    KeyspaceCreated(KeyspaceId),
    KeyspaceDropped(KeyspaceId),
    /// A node removed what it had of a dropped keyspace.
    RemovalRecorded(KeyspaceId),
    /// The log has forgotten the partitions of a dropped keyspace.
    TopicRemovalRecorded(KeyspaceId),
    InboxOpened(KeyspaceId),
    NodeDrained(NodeId),
    NodeFilled(NodeId),
    /// The node is on its way to host the shard; the position is the number of that hosting.
    ReplicaComing(KeyspaceId, ShardId, NodeId, Offset),
    ReplicaCounts(KeyspaceId, ShardId, NodeId),
    ReplicaRemoved(KeyspaceId, ShardId, NodeId),
    ReplicaWiped(KeyspaceId, ShardId, NodeId),
    /// With the moves in the order in which they were asked for.
    JobSubmitted(JobId, Vec<MoveId>),
    MoveStarted(MoveId),
    SnapshotTaken(MoveId),
    /// One more destination replica holds the copy; with the last one required the move catches up.
    CopyIngested(MoveId),
    /// The copy was given up; the move takes the next one, or fails when there were too many.
    CopyGivenUp(MoveId),
    CutoverStarted(AttemptFacts),
    /// A `Ready` counts, and does not decide the attempt yet.
    ReadyCounted(AttemptId),
    Switched(AttemptId),
    Aborted(AttemptId),
    CompletionStarted(JobId),
    CancellationStarted(JobId),
    Paused(JobId),
    Resumed(JobId),
    CleanupRecorded(MoveId),
    /// The move fails at once, or as soon as its cutover is aborted.
    FailureRecorded(MoveId),
}

impl Decision {
    /// Returns what the record did, now or before; nothing when it was refused.
    pub fn done(&self) -> Option<&Accepted> {
        match self {
            Decision::Accepted(accepted) | Decision::AlreadyDone(accepted) => Some(accepted),
            Decision::Refused(_) => None,
        }
    }

    /// Returns what a repeated command is told.
    pub(crate) fn repeated(&self) -> Decision {
        match self {
            Decision::Accepted(accepted) => Decision::AlreadyDone(accepted.clone()),
            other => other.clone(),
        }
    }
}

impl From<Result<Decision, Refusal>> for Decision {
    fn from(result: Result<Decision, Refusal>) -> Decision {
        result.unwrap_or_else(Decision::Refused)
    }
}
