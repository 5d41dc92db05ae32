//! The Store and SnapshotStore ports on RocksDB.
//!
//! RocksDB's own log is off: the topic is the log. A store therefore loses its newest batches in a crash and gets them
//! from the log again. It must never keep a batch that the log could lose. Where tails show durable records only,
//! whatever reaches a store is durable in the log already, and no flush needs to ask; where they show more, a store is
//! guarded.
//!
//! - [`node`]: the stores of one node, which share memory and threads.
//! - [`store`]: one replica's sorted entries.
//! - [`guard`]: lets nothing become durable before the log is.
//! - [`reader`]: point reads and scans, of the newest state or of a snapshot.
//! - [`folder`]: snapshots in a local folder; [`run_writer`] writes them.
//! - [`options`]: how RocksDB is set up.

mod errors;
mod folder;
mod guard;
mod node;
mod options;
mod reader;
mod run_writer;
mod store;

pub use folder::SnapshotFolder;
pub use node::{Memory, RocksNode};
