//! What replicas held at positions of their partitions (R9).
//!
//! A shard has one replica at a time, but that lives several times: after a crash it has lost what was not flushed, and
//! passes the same positions again. What it owns must then be the same at each.

use crate::process::{Site, lock};
use rehome_invariants::ReplicaState;
use rehome_keyspace::{KeyRange, KeyspaceId, NodeId, Offset, ShardId};
use rehome_ports::{PortError, Reader};
use rehome_records::store_value::StoredApplied;
use rehome_records::{SlotState, StateRegion, store_key};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use xxhash_rust::xxh3::Xxh3;

/// Every so many offsets a state is noted. Reason: a look reads everything that a shard owns.
const OFFSETS_BETWEEN_LOOKS: u64 = 2;

/// Looks at replicas.
#[derive(Default)]
pub struct Witness {
    lives: BTreeMap<NodeId, u64>,
    noted: BTreeSet<(KeyspaceId, ShardId, u64, Offset)>,
    states: BTreeMap<KeyspaceId, Vec<ReplicaState>>,
}

impl Witness {
    /// A node has crashed: its replicas live anew.
    pub fn crashed(&mut self, node: NodeId) {
        *self.lives.entry(node).or_default() += 1;
    }

    /// Power is lost: every replica lives anew. Where records were lost, others may come to lie at their positions, and
    /// what moved in with them may be other rows: nothing that was seen before says anything about what is seen later.
    pub fn power_lost(&mut self, nodes: impl Iterator<Item = NodeId>, records_lost: bool) {
        nodes.for_each(|node| self.crashed(node));
        if records_lost {
            self.noted.clear();
            self.states.clear();
        }
    }

    /// Notes the states of the node's replicas that stand at positions to look at.
    pub fn look(&mut self, node: NodeId, site: &Site) {
        let replica = (node.0 << 32) | self.lives.get(&node).copied().unwrap_or_default();
        for ((_, keyspace, shard), store) in lock(&site.stores).iter().filter(|((owner, _, _), _)| *owner == node) {
            let applied = store.get(&store_key::applied()).expect("memory is readable");
            let Some(applied) = applied.and_then(|applied| StoredApplied::decode(&applied).ok()) else { continue };
            let position = applied.offset;
            let due = position.0.is_multiple_of(OFFSETS_BETWEEN_LOOKS);
            if due && self.noted.insert((*keyspace, *shard, replica, position)) {
                let (ranges, hash) = owned(&**store).expect("memory is readable");
                let state = ReplicaState { shard: *shard, replica, position, ranges, hash };
                self.states.entry(*keyspace).or_default().push(state);
            }
        }
    }

    /// Returns what was noted of a keyspace, and how many states of it were at positions at which another life had been
    /// seen.
    pub fn take(&mut self, keyspace: KeyspaceId) -> (Vec<ReplicaState>, u64) {
        let states = self.states.remove(&keyspace).unwrap_or_default();
        let places: BTreeSet<_> = states.iter().map(|state| (state.shard, state.position, &state.ranges)).collect();
        let compared = states.len() - places.len();
        (states, compared as u64)
    }
}

/// Returns what the store owns by its own states, and a hash of what it holds of it.
fn owned(store: &dyn Reader) -> Result<(Vec<KeyRange>, u128), PortError> {
    let mut ranges = Vec::new();
    store.scan(&store_key::kind_range(store_key::KIND_STATE), false, &mut |_, value| {
        if let Ok(StateRegion { range, state: SlotState::Owned { .. } }) = StateRegion::decode(value) {
            ranges.push(range);
        }
        ControlFlow::Continue(())
    })?;
    let mut hasher = Xxh3::new();
    for kind in store_key::KINDS_OF_KEYS {
        for range in &ranges {
            store.scan(&store_key::kind_of_range(kind, range), false, &mut |key, value| {
                for part in [key, value] {
                    hasher.update(&(part.len() as u64).to_be_bytes());
                    hasher.update(part);
                }
                ControlFlow::Continue(())
            })?;
        }
    }
    Ok((ranges, hasher.digest128()))
}
