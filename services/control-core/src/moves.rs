//! Moves: one selector on its way from one source shard to one destination shard.
//!
//! ```text
//! planned -> copying <-> catching-up <-> cutting-over(attempt) -> switched -> completing -> completed
//!    |          |            |                  | (once aborted)
//!    |          +------------+------------------+--> cancelling -> cancelled
//!    +--> cancelled, failed                     +--> failing    -> failed
//! ```

use rehome_keyspace::{AttemptId, JobId, KeyspaceId, MoveId, NodeId, Offset, Selector, ShardId, SlotId};
use rehome_records::Digest;
use rehome_records::control::{JobOptions, SlotSpan};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Most copies that a move takes before it fails. Reason: a copy that never verifies must not be taken for ever (R11).
pub const COPIES_MAX: u32 = 8;
/// Most lines of a move's story; the first ones and the newest ones are kept.
const STORY_LINES_MAX: usize = 256;
const STORY_LINES_FIRST: usize = 32;

/// One selector on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub id: MoveId,
    pub job: JobId,
    pub keyspace: KeyspaceId,
    pub source: ShardId,
    pub destination: ShardId,
    /// Ascending, not touching.
    pub slots: Vec<SlotSpan>,
    /// Exactly the keys that move, fixed when the job was submitted.
    pub selector: Arc<Selector>,
    pub options: JobOptions,
    pub phase: Phase,
    /// Which copy is being made or was made last; the first is 1.
    pub copy: u32,
    pub attempts: Vec<AttemptId>,
    /// The snapshot of the current copy.
    pub snapshot: Option<SnapshotFacts>,
    /// How long the last verified copy took, by the log's time.
    pub copy_took_ms: Option<u64>,
    /// Destination replicas that hold the current copy, verified.
    pub ingested: BTreeSet<NodeId>,
    /// Destination replicas that counted at the switch and did not hold the copy then. Until each does, or has left, some
    /// of the destination's replicas cannot serve what moved.
    pub copy_awaited: BTreeSet<NodeId>,
    /// How the move ends once its cutover is aborted; a switch overrules it.
    pub ending: Option<Ending>,
    /// Replicas whose clean-up is not recorded yet.
    pub cleanup_awaited: BTreeSet<NodeId>,
    /// Control position at which it was created.
    pub created: Offset,
    /// Control position and append time of the last change of phase.
    pub changed: Offset,
    pub changed_ms: u64,
    pub story: Vec<StoryLine>,
}

/// How far a move is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    Planned,
    Copying,
    CatchingUp,
    CuttingOver {
        attempt: AttemptId,
    },
    /// The destination owns the keys; the source still has the rows.
    Switched {
        attempt: AttemptId,
    },
    /// The source's replicas drop the rows.
    Completing {
        attempt: AttemptId,
    },
    Completed,
    /// The destination's replicas drop what they have of the move.
    Cancelling,
    Cancelled,
    /// The destination's replicas drop what they have of the move.
    Failing {
        reason: String,
    },
    Failed {
        reason: String,
    },
}

/// How a move ends that does not switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Cancel { reason: String },
    Fail { reason: String },
}

/// A snapshot that a source replica took for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotFacts {
    pub copy: u32,
    pub node: NodeId,
    /// Position X in the source's partition; nothing when it had no record yet.
    pub position: Option<Offset>,
    pub digest: Digest,
    pub bytes: u64,
}

/// One line of a move's story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryLine {
    /// Control position that it tells of.
    pub offset: Offset,
    pub time_ms: u64,
    pub what: String,
}

impl Move {
    /// Returns every slot that moves, ascending.
    pub fn slot_ids(&self) -> impl Iterator<Item = SlotId> + '_ {
        self.slots.iter().flat_map(|span| span.slots())
    }

    /// Tells whether something of the move is still to be done or cleaned up.
    pub fn is_open(&self) -> bool {
        !self.phase.is_final()
    }

    /// Returns the attempt that is under way.
    pub fn attempt_open(&self) -> Option<AttemptId> {
        match self.phase {
            Phase::CuttingOver { attempt } => Some(attempt),
            _ => None,
        }
    }

    pub(crate) fn enter(&mut self, phase: Phase, offset: Offset, time_ms: u64) {
        self.phase = phase;
        self.changed = offset;
        self.changed_ms = time_ms;
    }

    pub(crate) fn tell(&mut self, offset: Offset, time_ms: u64, what: impl Into<String>) {
        if self.story.len() >= STORY_LINES_MAX {
            self.story.remove(STORY_LINES_FIRST);
        }
        self.story.push(StoryLine { offset, time_ms, what: what.into() });
    }
}

impl Phase {
    /// Tells whether nothing of the move is left to do.
    pub fn is_final(&self) -> bool {
        matches!(self, Phase::Completed | Phase::Cancelled | Phase::Failed { .. })
    }

    /// Tells whether the source still owns the keys, and the move may still switch.
    pub fn is_before_switch(&self) -> bool {
        matches!(self, Phase::Planned | Phase::Copying | Phase::CatchingUp | Phase::CuttingOver { .. })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Phase::Planned => "planned",
            Phase::Copying => "copying",
            Phase::CatchingUp => "catching-up",
            Phase::CuttingOver { .. } => "cutting-over",
            Phase::Switched { .. } => "switched",
            Phase::Completing { .. } => "completing",
            Phase::Completed => "completed",
            Phase::Cancelling => "cancelling",
            Phase::Cancelled => "cancelled",
            Phase::Failing { .. } => "failing",
            Phase::Failed { .. } => "failed",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Phase::CuttingOver { attempt } => write!(f, " (attempt {attempt})"),
            Phase::Failing { reason } | Phase::Failed { reason } => write!(f, " ({reason})"),
            _ => Ok(()),
        }
    }
}
