//! Which replicas should come and leave, by what is known of the nodes. Re-hosting changes no routes, and nobody waits for it.

use crate::{ControllerEffect, Observed};
use rehome_control_core::{ControlState, HostingStep, hosting_steps};

/// How long a node may be silent before its replicas are made anew elsewhere, in milliseconds, where nobody says. Reason: a
/// restart takes seconds, and making replicas anew copies whole shards. Reads and writes do not wait for it: the other
/// replicas go on.
pub const LOST_AFTER_MS: u64 = 30_000;

/// Appends the steps of hosting that are due now.
pub(crate) fn host(state: &ControlState, observed: &Observed, now_ms: u64, effects: &mut Vec<ControllerEffect>) {
    let steps = hosting_steps(state, &observed.away(state, now_ms));
    effects.extend(steps.into_iter().map(|step| match step {
        HostingStep::Add { keyspace, shard, node, from } => {
            ControllerEffect::ProposeReplicaAdded { keyspace, shard, node, from }
        }
        HostingStep::Remove { keyspace, shard, node, reason } => {
            ControllerEffect::ProposeReplicaRemoved { keyspace, shard, node, reason }
        }
    }));
}
