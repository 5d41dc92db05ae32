//! Hosts replicas: tails the log, applies, copies, replays, answers reads.
//!
//! - [`node`]: which replicas this process hosts, and how routers reach them.
//! - [`replica`]: one replica as a role: gather changes, write them together, then act.
//! - [`live`]: the live tail of the replica's own partition.
//! - [`moves`]: what the replica owes to each move, by its phase and side.
//! - [`replay`]: following the source's partition for a move on its way in.
//! - [`rejects`]: from what a shard keeps of records that it could not apply into the topic of rejects.
//! - [`proposals`]: control records that the replica has appended and waits to see folded.
//! - [`reads`]: reads at their levels of freshness.
//! - [`scan`]: the part of a scatter read that this shard owns.
//! - [`copy`]: the long work beside the turns: export, ingest, wipe.
//! - [`leftovers`]: snapshots that nobody needs, removed at the start.
//! - [`dropped`]: what a node removes of a keyspace that was dropped.
//! - [`citation`]: marks that cite what this replica has not folded.
//! - [`rebuild`]: a store that is gone is made anew from the logs, where they hold everything that it held.
//! - [`start`]: a replica that has just opened follows before it acts.
//! - [`step`]: every side effect by name, so that a test can stop the process at each.

mod citation;
mod copy;
mod dropped;
mod leftovers;
mod live;
mod moves;
mod node;
mod proposals;
mod reads;
mod rebuild;
mod rejects;
mod replay;
mod replica;
mod scan;
mod start;
mod step;

pub use copy::move_and_copy;
pub use node::{Host, MakeRole, Node, NodeConfig, NodeReads, OpenStores, RemoveStores};
pub use replica::{Replica, ReplicaConfig};
pub use step::{Jobs, Step, StepHook};
