//! Slots, shards, epochs, selectors and placements: which slot a key belongs to.
//!
//! - [`ids`]: the numbers that name things, each its own type.
//! - [`range`]: ranges of placed keys, and selectors made of them.
//! - [`attempt`]: what the control log tells about an attempt.
//! - [`placement`]: the fixed function from a key to its slot.

mod attempt;
mod ids;
mod placement;
mod range;

pub use attempt::{AttemptFacts, Attempts, Outcome};
pub use ids::*;
pub use placement::{HashFunction, PARTITION_KEY_END, Placement, PlacementError, SLOTS_MAX};
pub use range::{KeyRange, PlacedKey, Selector};
