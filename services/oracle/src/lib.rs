//! An independent fold of the logs by the documented rule, and the three-way comparison. No I/O, and on purpose none of
//! the code that runs the system: only the formats are shared.
//!
//! - [`control`]: folds the control log just far enough to know who was granted which epoch.
//! - [`fold`]: folds the data partitions in the plainest way: which writes are accepted, which rows remain.
//! - [`history`]: what clients were answered.
//! - [`compare`]: history, raw stores and fold against each other.
//! - [`findings`]: what disagrees, counted, with examples.
//! - [`fingerprint`], [`positions`]: rows and accepted positions in little memory.

pub mod compare;
pub mod control;
pub mod findings;
pub mod fingerprint;
pub mod fold;
pub mod history;
pub mod positions;

pub use compare::Comparison;
pub use control::{AttemptStory, ControlStory, DroppedStory, Grant, KeyspaceStory, MovePhase, MoveStory};
pub use findings::{Finding, Findings};
pub use fingerprint::{Fingerprint, ValueHash};
pub use fold::{FoldError, Folded, RequestFact, RowFact, SourceFact, fold};
pub use history::{ClientHistory, ReadSeen, WriteAnswered};
pub use positions::Positions;

#[cfg(test)]
mod tests;
