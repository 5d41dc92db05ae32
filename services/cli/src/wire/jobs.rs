//! Jobs, moves, and their stories.

use rehome_records::control::MoveWanted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /v1/keyspaces/{name}/reshard`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReshardBody {
    pub shards: u32,
    /// Keep the rows at their sources until `complete`.
    #[serde(default)]
    pub keep_source: bool,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Who asks, for the story.
    #[serde(default)]
    pub requested_by: String,
}

/// What a reshard does: a job, or with `dry_run` just its moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReshardShape {
    /// Nothing for a dry run.
    pub job: Option<u64>,
    pub moves: Vec<PlannedShape>,
    /// What it would take; of a dry run only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateShape>,
    pub next_steps: Vec<String>,
}

/// What a reshard would take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimateShape {
    pub rows: u64,
    /// Keys and values of all entries that would be copied, before compression.
    pub bytes: u64,
    /// Rows and bytes were counted; otherwise they follow from a sample.
    pub counted: bool,
    /// Until the last move has switched, by the load of the last seconds; null when a move would never catch up.
    pub seconds: Option<f64>,
    /// The longest pause of a move, in milliseconds.
    pub pause_ms: f64,
    pub disk_free_bytes: u64,
    /// What was assumed, since nothing of the kind was measured here yet.
    pub assumed: Vec<String>,
    /// What stands in the way.
    pub warnings: Vec<WarningShape>,
}

impl Default for EstimateShape {
    fn default() -> EstimateShape {
        EstimateShape {
            rows: 0,
            bytes: 0,
            counted: true,
            seconds: None,
            pause_ms: 0.0,
            disk_free_bytes: 0,
            assumed: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// Something that stands in the way of a reshard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarningShape {
    /// `replay_cannot_catch_up` or `disk_short`.
    pub code: String,
    pub message: String,
}

/// A move that is planned; what it would take is told by a dry run only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedShape {
    pub source: u32,
    pub destination: u32,
    /// How many slots.
    pub slots: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Copy and replay; nothing when the replay would never catch up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// What writers of these keys would wait at most, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<f64>,
}

impl PlannedShape {
    pub fn of(wanted: &MoveWanted) -> PlannedShape {
        PlannedShape {
            source: wanted.source.0,
            destination: wanted.destination.0,
            slots: wanted.slots.iter().map(|span| span.count()).sum(),
            ..PlannedShape::default()
        }
    }
}

/// A job with its moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobShape {
    pub job: u64,
    pub keyspace: String,
    /// The keyspace was dropped; there may be a new one of the same name.
    #[serde(default)]
    pub keyspace_dropped: bool,
    /// `running`, `paused`, `switched`, `completed`, `cancelled` or `failed`.
    pub state: String,
    /// Nothing more will happen to it.
    pub ended: bool,
    /// Why it is paused, or has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub shards: u32,
    pub requested_by: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    pub moves: Vec<MoveShape>,
    pub next_steps: Vec<String>,
}

/// A move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveShape {
    #[serde(rename = "move")]
    pub move_id: u64,
    pub source: u32,
    pub destination: u32,
    pub slots: u32,
    pub phase: String,
    /// Why it has failed, or does not go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Rows in the snapshot; unknown before it is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    pub attempts_made: u32,
    /// Records of the source's partition that the destination has not replayed; null while that is unknown, and after
    /// the switch.
    pub lag_records: Option<u64>,
    /// Milliseconds since 1970 of the last change of phase.
    pub changed_ms: u64,
}

/// `GET /v1/jobs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobsShape {
    pub jobs: Vec<JobShape>,
}

/// `GET /v1/jobs/{job}/wait`, as query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    #[serde(default)]
    pub timeout_ms: u64,
}

/// The stories of a job's moves, or of one move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainShape {
    pub job: u64,
    pub keyspace: String,
    pub requested_by: String,
    pub created_ms: u64,
    pub state: String,
    pub moves: Vec<MoveStoryShape>,
    pub next_steps: Vec<String>,
}

/// A move, told from the logs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MoveStoryShape {
    #[serde(flatten)]
    pub summary: MoveShape,
    /// Position X: the copy shows the source's partition up to here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_digest: Option<String>,
    pub attempts: Vec<AttemptShape>,
    pub story: Vec<StoryLineShape>,
}

/// One try to cut a move over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptShape {
    pub attempt: u64,
    pub epoch: u64,
    /// `open`, `switched` or `aborted`.
    pub outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Position F in the source's partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    pub predicted_pause_ms: f64,
    /// From the fence's append to the outcome's, by the log's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_pause_ms: Option<u64>,
    pub reports: Vec<ReportShape>,
}

/// What one replica reported of its state at F.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportShape {
    pub node: String,
    /// `source` or `destination`.
    pub side: String,
    pub rows: u64,
    pub tombstones: u64,
    /// Digest of rows, and of request ids with source positions.
    pub digest: String,
}

/// One line of a story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoryLineShape {
    /// Control position.
    pub position: u64,
    pub time_ms: u64,
    pub what: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_story_of_a_move_holds_its_summary_beside_its_attempts() {
        let text = r#"{"move":1,"source":0,"destination":3,"slots":5,"phase":"completed","attempts_made":1,
            "changed_ms":9,"attempts":[],"story":[]}"#;
        let story: MoveStoryShape = serde_json::from_str(text).unwrap();
        assert_eq!((story.summary.move_id, story.summary.attempts_made, story.attempts.len()), (1, 1, 0));
        let again = serde_json::from_str(&serde_json::to_string(&story).unwrap()).unwrap();
        assert_eq!(story, again);
    }
}
