//! The accept rule on whole logs: named scenarios, and random ones against an independent oracle.
//!
//! - [`control`]: the control log, as far as attempts go.
//! - [`world`]: partitions, keys and moves.
//! - [`replica`]: one replica that can crash, over a store in memory.
//! - [`oracle`]: the rule once more, key by key, in the plainest way.
//! - [`random`], [`sim`]: random logs, replicas and crashes.
//! - [`traces`], [`vectors`]: logs with their verdicts as they are published for other languages.
//! - the others: scenarios, one per rule that was found to matter.

// What helpers of a test do not expect ends the test.
#![allow(clippy::unwrap_used)]

mod attempts;
mod control;
mod oracle;
mod random;
mod replica;
mod selectors;
mod sim;
mod stores;
mod times;
mod traces;
mod vectors;
mod verdicts;
mod world;
