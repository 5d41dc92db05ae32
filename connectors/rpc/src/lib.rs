//! Roles in several processes: a node's reads, verdicts, progress and snapshots over gRPC.
//!
//! - [`hub`]: what a node tells everybody who listens.
//! - [`server`]: the node's side of the wire.
//! - [`peers`]: the caller's side: one stream per node, made again whenever it breaks.
//! - [`routed`]: the Replicas port over nodes, this process's own first.
//! - [`fetched`]: the SnapshotStore port over this node's snapshots and those of others.
//! - `convert`: from what the ports know to what is sent, and back.
//!
//! Nothing here is relied on for safety: verdicts may be lost, progress is advice, and a snapshot is compared with its
//! manifest's checksums and digest. The messages are described in `schemas/proto`.

mod convert;
pub mod fetched;
pub mod hub;
pub mod peers;
pub mod routed;
pub mod server;

#[allow(clippy::unwrap_used)]
mod pb {
    tonic::include_proto!("rehome.v1");
}

pub use fetched::{FetchedSnapshots, SnapshotPlace};
pub use hub::Hub;
pub use peers::{Peers, Sinks};
pub use routed::{Hosts, RoutedReplicas};
pub use server::NodeService;

/// Version of the protocol that this process speaks.
const PROTOCOL: u32 = 1;
/// Largest message that is taken, in bytes. Reason: one answer with the largest page of a read.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
