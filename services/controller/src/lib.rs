//! The loop around control-core and planner that drives moves.
//!
//! Two controllers at once do no harm: each step is appended first and accepted or refused by the fold, marks are
//! idempotent at the replicas, and nothing is remembered that a restart could not do without.
//!
//! - [`Controller`]: the thin shell that reads, decides, and carries out.
//! - [`decide`]: what should be done now; pure.
//! - [`ControllerEffect`], [`EffectKind`]: everything that a controller can do, closed, each with its fail points.
//! - [`Observed`]: what replicas and the log were seen to do: advice, never authority.
//! - [`waits`]: why a move that could cut over does not, for people.
//! - [`Memory`]: which steps are on their way, so that none is in flight twice.

mod controller;
mod decide;
mod effect;
mod memory;
mod observed;
mod waits;

#[cfg(test)]
mod tests;

pub use controller::{Controller, ControllerMessage, ControllerParts};
pub use decide::{ATTEMPTS_MAX, decide, wake_at_ms};
pub use effect::{ControllerEffect, EffectHook, EffectKind, Step};
pub use memory::Memory;
pub use observed::Observed;
pub use waits::{Waits, waits};
