//! Key to slot to shard: appends writes, waits for verdicts, answers.
//!
//! - [`ask`]: what clients ask and what they are told; limits on keys and values.
//! - [`limits`]: how much one router holds at once.
//! - [`routes`]: who owns which slot, as the router believes now.
//! - [`core`]: the pure state machine: inputs in, effects out. No clock, no randomness, no I/O.
//! - [`writes`]: writes without an answer, from a key to its slot's lane.
//! - [`answers`]: from a verdict, or a deadline, to the one answer of a write.
//! - [`lane`]: the unanswered writes of one slot, and what holds them.
//! - [`sending`]: what goes out at the end of a turn.
//! - [`partition`]: what the router knows of one shard's partition: appends in flight, copies that wait for a verdict.
//! - [`source_order`]: keeps ordered sources in order when one of their writes is refused.
//! - [`reads`], [`scans`]: reads of one key, and scatter reads, retried where ownership moves.
//! - [`scan_position`]: where a scan stands, and the part that it reads next.
//! - [`timers`]: deadlines of reads, and when they are tried again.
//! - [`counters`]: what the router has done so far; [`pauses`]: how long it held clients up.
//! - [`handle`]: how everybody else reaches a router.
//! - [`router`]: the shell: the core over the ports.
//! - [`verdicts`]: the newest verdicts of each shard, for producers that ask by position.
//! - [`forwarder`]: plain records from inboxes, written by a router.

mod answers;
pub mod ask;
pub mod core;
pub mod counters;
pub mod forwarder;
pub mod handle;
mod lane;
pub mod limits;
mod partition;
pub mod pauses;
mod reads;
pub mod router;
pub mod routes;
mod scan_position;
mod scans;
mod sending;
mod source_order;
mod timers;
pub mod verdicts;
mod writes;

pub use ask::{
    Covered, ReadAsk, ReadAskDone, Refused, ScanAnswer, ScanAsk, ScanCursor, ScanDone, WriteAnswer, WriteAsk,
    WriteDone, WriteRefused,
};
pub use core::{AppendId, AskId, Effect, EffectKind, Input, ReadTry, RouterCore};
pub use counters::Counters;
pub use forwarder::Forwarder;
pub use handle::{RouterHandle, RouterMessage};
pub use limits::RouterLimits;
pub use pauses::Pauses;
pub use rehome_control_core::Route;
pub use router::{EffectHook, RequestIds, Router};
pub use routes::Routes;
pub use verdicts::{Told, Verdicts};
