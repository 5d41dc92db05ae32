//! The Log port on local disk.
//!
//! One RocksDB with its own log on, synced once per group of appends; a record is readable only once it is durable. Set
//! weaker, data is synced at most so many milliseconds later.
//!
//! ```text
//! append -> queue (two lanes) -> committer: group -> one synced write -> publish (ring, wake) -> acknowledge
//!                                                                           |
//! tail  <- ring of the newest records <-------------------------------------+      older ones <- RocksDB
//! ```
//! - [`log`]: the Log port itself: open, append, close.
//! - [`queue`]: what waits for the committer, bounded, marks before data.
//! - [`committer`]: the one thread that writes.
//! - [`fsync`]: when what was appended is made durable; [`syncs`]: what is, and the thread that sees to the rest.
//! - [`partition`]: where a partition stands, and its newest records.
//! - [`frames`]: encoded records.
//! - [`tail`]: follows a partition.
//! - [`disk`]: the only user of RocksDB here; [`families`] says where records lie there, [`options`] how it is set up.
//! - [`holder`]: one process per folder.
//! - [`tear`]: what a crash tore off the end, or why it was no crash; [`wal`] reads the files that tell, [`synced_end`] keeps up to
//!   where nothing can be torn.
//! - [`power_loss`]: a log as a power loss leaves it at worst, for tests.

mod committer;
mod disk;
mod errors;
mod families;
mod frames;
mod fsync;
mod holder;
mod log;
mod options;
mod partition;
mod power_loss;
mod queue;
mod synced_end;
mod syncs;
mod tail;
mod tear;
mod wal;

pub use errors::OpenError;
pub use fsync::Fsync;
pub use holder::{holder, wait_until_free};
pub use log::EmbeddedLog;
pub use options::Limits;
