//! The accept rule: one record of a partition in, a verdict and the writes out. Pure: no clock, no I/O, no port.
//!
//! - [`view`]: what the core reads of its store.
//! - [`pending`]: changes that are not written yet, laid over the view.
//! - [`stop`]: why a record cannot be judged now, or never.
//! - [`regions`]: slot states by region of keys.
//! - [`judge`]: the accept rule itself: state and record in, state out.
//! - [`marks`]: whether a mark matches the control record it cites, and what it does to the regions it covers.
//! - [`rows`]: what an accepted write changes: rows, request ids, source positions, and the digest of them.
//! - [`rejects`]: records that are kept because they could not be applied.
//! - [`horizon`]: what a `Horizon` forgets.
//! - [`times`]: which records are older than request ids are kept.
//! - [`core`]: one replica's core: the live tail.
//! - [`replay`]: the source's partition, replayed at a destination.
//! - [`moves`]: what a replica keeps for moves, and what it may claim about them.
//! - [`digest`]: the digest of a selector, computed by reading it.
//!
//! How a shell drives it, in this order:
//! 1. [`ShardCore::apply`] and [`ShardCore::replay`] for as many records as fit a batch;
//! 2. [`ShardCore::seal`], once;
//! 3. the changes of [`Pending`] written to the store in one atomic batch;
//! 4. only then verdicts, `Ready`s and everything else that others may act upon.
//!
//! A core whose batch was not written is thrown away and recovered from the store.

mod core;
mod digest;
mod horizon;
mod judge;
mod marks;
mod moves;
mod pending;
mod regions;
mod rejects;
mod replay;
mod rows;
mod stop;
mod times;
mod view;

pub use core::{Applied, Ground, ShardCore};
pub use digest::{digest_entry, digest_of};
pub use marks::{MarkApplied, MarkEffect};
pub use moves::ReadyFacts;
pub use pending::Pending;
pub use stop::{Stop, WaitFor};
pub use view::{View, ViewError, Visit};
