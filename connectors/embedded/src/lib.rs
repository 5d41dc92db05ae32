//! The Log port on local disk.
//!
//! One RocksDB with its own log on, synced once per group of appends; a record is readable only once it is durable.
//!
//! ```text
//! append -> queue (two lanes) -> committer: group -> one synced write -> publish (ring, wake) -> acknowledge
//!                                                                           |
//! tail  <- ring of the newest records <-------------------------------------+      older ones <- RocksDB
//! ```
//! - [`log`]: the Log port itself: open, append, close.
//! - [`queue`]: what waits for the committer, bounded, marks before data.
//! - [`committer`]: the one thread that writes.
//! - [`partition`]: where a partition stands, and its newest records.
//! - [`frames`]: encoded records.
//! - [`tail`]: follows a partition.
//! - [`disk`]: the only user of RocksDB here; [`options`] says how it is set up.
//! - [`holder`]: one process per folder.

mod committer;
mod disk;
mod errors;
mod frames;
mod holder;
mod log;
mod options;
mod partition;
mod queue;
mod tail;

pub use errors::OpenError;
pub use holder::{holder, wait_until_free};
pub use log::EmbeddedLog;
pub use options::Limits;
