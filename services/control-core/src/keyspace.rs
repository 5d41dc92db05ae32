//! Keyspaces with their routes, and the nodes that host replicas.

use crate::fold::At;
use crate::hosting;
use rehome_keyspace::{Epoch, KeyRange, KeyspaceId, NodeId, Offset, Placement, Selector, ShardId, SlotId};
use rehome_records::control::{Hosting, data_topic, inbox_progress_topic, inbox_topic, rejects_topic};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most shards that a keyspace may ever have. Reason: each is a partition and a store on some node.
pub const SHARDS_MAX: u32 = 4096;

/// Most replicas of a shard. Reason: each applies every record, and clean-up waits for all.
pub const REPLICAS_MAX: u32 = 7;

/// Most partitions of an inbox. Reason: each is read by one process, which keeps a window of its records.
pub const INBOX_PARTITIONS_MAX: u32 = 256;

/// A process that hosts replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: NodeId,
    pub address: String,
    /// Where it stands, as it said when it registered last.
    pub labels: BTreeMap<String, String>,
    /// Control position of its first registration.
    pub registered: Offset,
    /// It is to host nothing.
    pub drained: bool,
    /// It is to take its share of the replicas, since somebody asked for that.
    pub filling: bool,
}

/// A node that makes itself a replica, and does not count yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coming {
    /// Control position at which it was told to: the number of the hosting.
    pub hosting: Offset,
    /// The replica whose snapshot it takes; nothing: the logs alone.
    pub from: Option<NodeId>,
}

/// Who owns a slot, and under which epoch its writes are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub shard: ShardId,
    pub epoch: Epoch,
}

/// A named collection with one placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    pub id: KeyspaceId,
    pub name: String,
    pub placement: Placement,
    /// Partitions that the data topic needs. Grows, never shrinks: a retired shard keeps its partition.
    pub shards: u32,
    /// Shards that own at least one slot.
    pub shards_active: u32,
    /// Shards at creation; they were granted all slots.
    pub shards_created: u32,
    /// Owner and epoch of each slot, by slot number. Always total.
    pub routes: Arc<Vec<Route>>,
    /// The next epoch to be granted; every one below was granted or reserved, once (R1).
    pub epoch_next: Epoch,
    /// How each shard is to be hosted.
    pub hosting: Hosting,
    /// Nodes that host each shard, and count. A shard without any gets the first nodes that fit.
    pub replicas: BTreeMap<ShardId, Vec<NodeId>>,
    /// Nodes on their way to host a shard; they count for nothing yet.
    pub coming: BTreeMap<ShardId, BTreeMap<NodeId, Coming>>,
    /// Nodes that hosted a shard, and have not said yet that they have nothing of it left.
    pub leaving: BTreeMap<ShardId, BTreeSet<NodeId>>,
    /// How long request ids are kept, in milliseconds of the log's time.
    pub request_retention_ms: u64,
    /// Control position of its creation.
    pub created: Offset,
    /// Control position of the last change of its routes.
    pub routes_changed: Offset,
    /// The log's time of that change, in milliseconds since 1970; it never falls.
    pub routes_changed_ms: u64,
    /// Partitions of its inbox topic; 0: it has none.
    pub inbox_partitions: u32,
}

/// A keyspace that was dropped, as it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    pub keyspace: Keyspace,
    /// Nodes that may keep stores or snapshots of it. Once there are none, the log forgets its partitions.
    pub awaited: BTreeSet<NodeId>,
    /// The log has forgotten its partitions: nobody owes it anything any more.
    pub topic_removed: bool,
    /// Control position of the drop.
    pub dropped: Offset,
}

/// Returns the first slot of a shard at creation: the slots are split evenly, in order, into
/// `first_slot(i) .. first_slot(i + 1)` with `first_slot(i) = i * slots / shards`, rounded down.
pub fn first_slot(slots: u32, shards: u32, shard: u32) -> SlotId {
    SlotId((u64::from(shard) * u64::from(slots) / u64::from(shards)) as u32)
}

impl Keyspace {
    /// Returns the name of the topic that holds its writes and marks.
    pub fn data_topic(&self) -> String {
        data_topic(&self.name, self.id)
    }

    /// Returns the name of the topic that producers without routes write to; it is there if the keyspace has an inbox.
    pub fn inbox_topic(&self) -> String {
        inbox_topic(&self.name, self.id)
    }

    pub fn inbox_progress_topic(&self) -> String {
        inbox_progress_topic(&self.name, self.id)
    }

    /// Returns the name of the topic of what could not be applied; it is there once something could not.
    pub fn rejects_topic(&self) -> String {
        rejects_topic(&self.name, self.id)
    }

    /// Returns every topic that the keyspace may have.
    pub fn topics(&self) -> Vec<String> {
        vec![self.data_topic(), self.inbox_topic(), self.inbox_progress_topic(), self.rejects_topic()]
    }

    /// Returns owner and epoch of a slot; nothing when the placement has no such slot.
    pub fn route(&self, slot: SlotId) -> Option<Route> {
        self.routes.get(slot.0 as usize).copied()
    }

    /// Returns the owner of each slot, by slot number: what the planner plans from.
    pub fn owners(&self) -> Vec<ShardId> {
        self.routes.iter().map(|route| route.shard).collect()
    }

    /// Returns the nodes that host the shard, and count.
    pub fn replicas_of(&self, shard: ShardId) -> &[NodeId] {
        self.replicas.get(&shard).map_or(&[], Vec::as_slice)
    }

    /// Returns the nodes that are on their way to host the shard.
    pub fn coming_of(&self, shard: ShardId) -> impl Iterator<Item = (NodeId, Coming)> + '_ {
        self.coming.get(&shard).into_iter().flatten().map(|(node, coming)| (*node, *coming))
    }

    /// Tells whether the node hosts the shard, or is on its way to.
    pub fn hosts(&self, shard: ShardId, node: NodeId) -> bool {
        self.replicas_of(shard).contains(&node) || self.coming_of(shard).any(|(coming, _)| coming == node)
    }

    /// Tells whether the node has hosted the shard and may have something of it left.
    pub fn is_leaving(&self, shard: ShardId, node: NodeId) -> bool {
        self.leaving.get(&shard).is_some_and(|nodes| nodes.contains(&node))
    }

    /// Returns every node that may have anything of the keyspace.
    pub(crate) fn nodes_with_any(&self) -> BTreeSet<NodeId> {
        let counting = self.replicas.values().flatten();
        let coming = self.coming.values().flat_map(BTreeMap::keys);
        counting.chain(coming).chain(self.leaving.values().flatten()).copied().collect()
    }

    /// Returns what the shard owns now: the keys of each epoch, in the order of epochs.
    pub fn owned(&self, shard: ShardId) -> Vec<(Epoch, Selector)> {
        let mut slots: BTreeMap<Epoch, Vec<SlotId>> = BTreeMap::new();
        for (slot, route) in (0..).map(SlotId).zip(self.routes.iter()).filter(|(_, route)| route.shard == shard) {
            slots.entry(route.epoch).or_default().push(slot);
        }
        slots.into_iter().map(|(epoch, slots)| (epoch, self.placement.selector(slots))).collect()
    }

    /// Returns what the shard was granted when the keyspace was created: its slots, under epoch `shard + 1`.
    /// Nothing for a shard that was added later.
    pub fn granted(&self, shard: ShardId) -> Vec<(KeyRange, Epoch)> {
        if shard.0 >= self.shards_created {
            return Vec::new();
        }
        let first = first_slot(self.placement.slot_count(), self.shards_created, shard.0);
        let end = first_slot(self.placement.slot_count(), self.shards_created, shard.0 + 1);
        let selector = self.placement.selector((first.0..end.0).map(SlotId));
        let epoch = Epoch(u64::from(shard.0) + 1);
        selector.ranges().iter().map(|range| (range.clone(), epoch)).collect()
    }

    /// Gives every shard that has no replica as many as the keyspace wants, where nodes fit. Such a shard has no record
    /// yet, so they count at once.
    pub(crate) fn assign_replicas(&mut self, nodes: &BTreeMap<NodeId, Node>) {
        for shard in (0..self.shards).map(ShardId) {
            let replicas = self.replicas.entry(shard).or_default();
            if replicas.is_empty() {
                *replicas = hosting::assign(shard, &self.hosting, nodes);
            }
        }
    }

    /// Names the owner of the slots, from this control position on.
    pub(crate) fn set_routes(&mut self, slots: impl Iterator<Item = SlotId>, route: Route, at: At) {
        let routes = Arc::make_mut(&mut self.routes);
        for slot in slots {
            routes[slot.0 as usize] = route;
        }
        let mut owners: Vec<ShardId> = routes.iter().map(|route| route.shard).collect();
        owners.sort_unstable();
        owners.dedup();
        self.shards_active = owners.len() as u32;
        self.routes_changed = at.offset;
        self.routes_changed_ms = self.routes_changed_ms.max(at.time_ms);
    }
}
