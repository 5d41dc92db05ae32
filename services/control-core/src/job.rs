//! Jobs: what operators asked for.

use rehome_keyspace::{JobId, KeyspaceId, MoveId, Offset};
use rehome_records::control::JobOptions;

/// An ordered set of moves that an operator asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub keyspace: KeyspaceId,
    /// Number of shards that own slots when the job is done.
    pub shards: u32,
    pub moves: Vec<MoveId>,
    pub options: JobOptions,
    pub requested_by: String,
    /// Why an operator paused it; counts while a move of it is left that may still switch.
    pub paused: Option<String>,
    /// Control position and append time of its submission.
    pub created: Offset,
    pub created_ms: u64,
}

/// How far a job is; derived from its moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    Running,
    /// As running, and no move takes a further step before `ResumeRequested`.
    Paused {
        reason: String,
    },
    /// Every move has switched or ended, and at least one keeps its source's rows until `CompleteRequested`.
    Switched,
    Completed,
    /// At least one move was cancelled, none failed.
    Cancelled,
    /// At least one move failed; the reason of the first.
    Failed {
        reason: String,
    },
}

impl JobState {
    /// Tells whether nothing more will happen.
    pub fn is_final(&self) -> bool {
        matches!(self, JobState::Completed | JobState::Cancelled | JobState::Failed { .. })
    }

    /// Tells whether moves of it are still on their way, a pause or not.
    pub fn is_under_way(&self) -> bool {
        matches!(self, JobState::Running | JobState::Paused { .. })
    }

    pub fn name(&self) -> &'static str {
        match self {
            JobState::Running => "running",
            JobState::Paused { .. } => "paused",
            JobState::Switched => "switched",
            JobState::Completed => "completed",
            JobState::Cancelled => "cancelled",
            JobState::Failed { .. } => "failed",
        }
    }
}
