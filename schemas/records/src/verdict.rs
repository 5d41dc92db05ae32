//! The answer of a partition to a write. A function of the partition's prefix and of attempt outcomes, nothing else.

use bincode::{Decode, Encode};
use rehome_keyspace::Version;
use std::fmt;

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Verdict {
    /// It is applied, as this version.
    Accepted { version: Version },
    /// Its condition did not hold; nothing is changed. `current` is the version that was found, if any.
    ConditionFailed { current: Option<Version> },
    /// The same request was judged before; this was its answer. Nothing is changed now.
    Repeated { first: FirstAnswer },
    /// The request id was used before with other content; nothing is changed.
    RequestConflict,
    /// The ordered source had reached this position before; nothing is changed.
    SourceDone,
    /// The slot is not owned here under that epoch; nothing is changed, and the id is not remembered.
    StaleRoute,
    /// The record cannot be read as a write; nothing is changed.
    Invalid { reason: String },
}

/// The answers that are remembered with a request id. A stale verdict never is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FirstAnswer {
    Accepted { version: Version },
    ConditionFailed { current: Option<Version> },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Accepted { version } => write!(f, "accepted as {version}"),
            Verdict::ConditionFailed { .. } => write!(f, "condition failed"),
            Verdict::Repeated { first: FirstAnswer::Accepted { version } } => write!(f, "accepted before as {version}"),
            Verdict::Repeated { first: FirstAnswer::ConditionFailed { .. } } => write!(f, "condition failed before"),
            Verdict::RequestConflict => write!(f, "request id was used with other content"),
            Verdict::SourceDone => write!(f, "source position was done before"),
            Verdict::StaleRoute => write!(f, "stale route"),
            Verdict::Invalid { reason } => write!(f, "invalid: {reason}"),
        }
    }
}
