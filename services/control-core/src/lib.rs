//! The fold of the control log: keyspaces, routes, jobs, moves, attempts.
//!
//! Pure and deterministic: two folds of the same records are equal, whoever makes them and whenever. Every request and
//! every step was appended first; the fold accepts or refuses it, by position, and nothing else decides.
//!
//! - [`ControlState`]: everything that the log has said so far; [`ControlState::fold`] adds one record.
//! - [`Decision`], [`Accepted`], [`Refusal`]: what became of a record.
//! - [`Keyspace`], [`Route`], [`Node`]: who should own what, and who hosts it.
//! - [`hosting_steps`]: who should come to host what, and who should leave.
//! - [`Job`], [`Move`], [`Attempt`]: what was asked for, and how far it is.

mod attempt;
mod decision;
mod fold;
mod hosting;
mod job;
mod keyspace;
mod moves;
mod refusal;
mod state;

#[cfg(test)]
mod tests;

pub use attempt::{Attempt, ReadyFacts};
pub use decision::{Accepted, Decision};
pub use hosting::{Away, HostingStep, hosting_steps};
pub use job::{Job, JobState};
pub use keyspace::{
    Coming, Dropped, INBOX_PARTITIONS_MAX, Keyspace, Node, REPLICAS_MAX, Route, SHARDS_MAX, first_slot,
};
pub use moves::{COPIES_MAX, Ending, Move, Phase, SnapshotFacts, StoryLine};
pub use refusal::Refusal;
pub use state::ControlState;
