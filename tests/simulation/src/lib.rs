//! Deterministic simulation: one scheduler, one seed, production cores over memory connectors.
//!
//! Everything that a process of production runs is run here, by turns that the scheduler draws: nodes with their
//! replicas, routers, controllers, the desk. Between them is a log whose appends wait until they are drawn, a network
//! whose messages do, and stores that lose what was not flushed when their process crashes.
//!
//! - [`options`]: what a run does, drawn from its seed.
//! - [`world`]: the scheduler: what can happen now, and what is drawn.
//! - [`process`]: processes: built, run by turns, crashed, started again.
//! - [`network`]: reads and verdicts between processes.
//! - [`client`]: closed-loop clients that remember every answer.
//! - [`inbox`]: a producer that knows no routes, and what must have become of its records.
//! - [`operator`]: who creates the keyspace and asks for reshards, and sometimes pauses or cancels.
//! - [`judge`]: the comparison and the invariants, once everything is quiet; [`pauses`]: that paused jobs begin nothing.
//! - [`observed`]: what the product granted and accepted, as the invariants take it.
//! - [`witness`]: what replicas held at positions of their partitions.
//! - [`trace`]: the hash of everything that happened, and what was counted.

mod client;
mod inbox;
mod judge;
mod network;
mod observed;
mod operator;
mod options;
mod pauses;
mod process;
mod trace;
mod witness;
mod world;

pub use options::Options;
pub use trace::Counts;
pub use world::{Failure, Report, run};
