//! All ports in memory, with scripted faults, for simulation.
//!
//! Nothing here knows a clock, a thread or a random number that it was not given: one scheduler and one seed decide
//! everything, so that a run can be repeated.
//!
//! - [`broker`]: the log that all roles share, and what a scheduler can do to it.
//! - [`handle`]: one role's view of it, the Log port.
//! - [`partition`]: records with gaps between them.
//! - [`unsynced`]: what can be read and a power loss takes.
//! - [`store`]: the Store port; a crash loses what was not flushed.
//! - [`snapshots`]: the SnapshotStore port; runs can be damaged.

mod broker;
mod handle;
mod partition;
mod snapshots;
mod store;
mod unsynced;
mod waiting;

pub use broker::{Broker, Delivery, Faults};
pub use snapshots::MemorySnapshots;
pub use store::MemoryStore;
pub use unsynced::Lost;
pub use waiting::{Fate, Waiting, What};
