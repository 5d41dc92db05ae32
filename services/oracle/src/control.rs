//! Folds the control log just far enough to know which keyspaces there are, which attempts were begun, how each ended,
//! and so to whom every epoch was granted. A second, smaller telling of the rules in DESIGN sections 4 and 5.

mod hosts;
mod jobs;
mod moves;

pub use hosts::Hosts;
use hosts::NodeStory;
use rehome_keyspace::{AttemptId, Epoch, JobId, KeyspaceId, MoveId, NodeId, Nonce, Offset, Outcome, Placement};
use rehome_keyspace::{ShardId, SlotId};
use rehome_records::control::Hosting;
use rehome_records::{ControlEvent, ControlRecord, Digest, Logged};
use std::collections::{BTreeMap, BTreeSet};

/// What the control log tells.
#[derive(Clone, Debug, Default)]
pub struct ControlStory {
    pub keyspaces: BTreeMap<KeyspaceId, KeyspaceStory>,
    pub moves: BTreeMap<MoveId, MoveStory>,
    pub attempts: BTreeMap<AttemptId, AttemptStory>,
    pub dropped: BTreeMap<KeyspaceId, DroppedStory>,
    nodes: BTreeMap<NodeId, NodeStory>,
    jobs: BTreeMap<JobId, Vec<MoveId>>,
    /// Jobs of which nothing new may begin.
    paused: BTreeSet<JobId>,
    /// Requests that were judged; the same one again changes nothing.
    commands: BTreeSet<u128>,
}

/// A keyspace: who owns its slots, and every grant of an epoch.
#[derive(Clone, Debug)]
pub struct KeyspaceStory {
    pub id: KeyspaceId,
    pub name: String,
    pub placement: Placement,
    /// Owner of each slot now.
    pub routes: Vec<(ShardId, Epoch)>,
    pub grants: BTreeMap<Epoch, Grant>,
    /// Partitions that the data topic needs.
    pub shards: u32,
    pub hosts: Hosts,
    /// The shard that each slot was granted to at creation.
    creators: Vec<ShardId>,
    epoch_next: Epoch,
}

/// A keyspace that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedStory {
    pub name: String,
    /// Its data topic is told to be gone.
    pub topic_removed: bool,
}

/// Where an epoch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Granted to this shard, for its slots, when the keyspace was created.
    Created(ShardId),
    /// Reserved by this attempt; its outcome says whose it is.
    Attempt(AttemptId),
}

/// One selector on its way.
#[derive(Clone, Debug)]
pub struct MoveStory {
    pub id: MoveId,
    pub job: JobId,
    pub keyspace: KeyspaceId,
    pub source: ShardId,
    pub destination: ShardId,
    pub slots: BTreeSet<SlotId>,
    pub phase: MovePhase,
    copy: u32,
    /// Who took the snapshot of the current copy, and its digest.
    snapshot: Option<(NodeId, Digest)>,
    /// Destination replicas that hold the current copy.
    ingested: BTreeSet<NodeId>,
    /// Destination replicas that counted at the switch without it.
    copy_awaited: BTreeSet<NodeId>,
    /// Nodes whose clean-up is awaited, and at which shard.
    cleaning: BTreeSet<NodeId>,
    cleans_at: Option<ShardId>,
    complete: bool,
    end_wanted: bool,
    /// Copies whose digest, read back at the destination, was another than the source's.
    pub unequal_copies: u32,
}

/// Where a move stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovePhase {
    Planned,
    Copying,
    CatchingUp,
    CuttingOver(AttemptId),
    /// The destination owns the slots; the source still has its rows.
    Switched,
    /// Rows are being dropped at one side.
    CleaningUp,
    Ended,
}

/// One try to cut a move over.
#[derive(Clone, Debug)]
pub struct AttemptStory {
    pub attempt: AttemptId,
    pub move_id: MoveId,
    pub keyspace: KeyspaceId,
    pub source: ShardId,
    pub destination: ShardId,
    pub epoch: Epoch,
    pub control_offset: Offset,
    pub nonce: Nonce,
    pub outcome: Option<Outcome>,
    /// The two sides reported different digests.
    pub unequal_digests: bool,
    readies: Vec<moves::Report>,
}

impl AttemptStory {
    /// Returns whose the attempt's epoch is; nothing while that is open.
    pub fn winner(&self) -> Option<ShardId> {
        self.outcome.map(|outcome| match outcome {
            Outcome::Switched { .. } => self.destination,
            Outcome::Aborted { .. } => self.source,
        })
    }
}

impl ControlStory {
    /// Folds a whole control log.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Logged>) -> ControlStory {
        let mut story = ControlStory::default();
        records.into_iter().for_each(|logged| story.fold(logged));
        story
    }

    /// Folds the next record. One that is refused, or cannot be read, changes nothing.
    pub fn fold(&mut self, logged: &Logged) {
        let Ok(ControlRecord { command, event }) = ControlRecord::read(&logged.record) else { return };
        if !self.commands.insert(command) {
            return;
        }
        let offset = logged.offset;
        match event {
            ControlEvent::KeyspaceCreated { name, placement, shards, .. } => {
                self.keyspace_created(offset, name, placement, shards, Hosting::STANDARD);
            }
            ControlEvent::KeyspaceCreatedWith { name, placement, shards, hosting, .. } => {
                self.keyspace_created(offset, name, placement, shards, hosting);
            }
            ControlEvent::NodeRegistered { node, address } => self.node_registered(node, address, Vec::new()),
            ControlEvent::NodeRegisteredWith { node, address, labels } => self.node_registered(node, address, labels),
            ControlEvent::NodeDrained { node } => self.node_drained(node, true),
            ControlEvent::NodeFilled { node } => self.node_drained(node, false),
            ControlEvent::ReplicaAdded { keyspace, shard, node, from } => {
                self.replica_added(offset, keyspace, shard, node, from);
            }
            ControlEvent::ReplicaReady { keyspace, shard, node, hosting } => {
                self.replica_ready(keyspace, shard, node, hosting);
            }
            ControlEvent::ReplicaRemoved { keyspace, shard, node, .. } => self.replica_removed(keyspace, shard, node),
            ControlEvent::ReplicaWiped { keyspace, shard, node } => self.replica_wiped(keyspace, shard, node),
            ControlEvent::JobSubmitted(job) => self.job_submitted(JobId(offset.0), job),
            ControlEvent::CompleteRequested { job } => self.complete_requested(job),
            ControlEvent::CancelRequested { job, .. } => self.cancel_requested(job),
            ControlEvent::PauseRequested { job, .. } => self.pause_requested(job),
            ControlEvent::ResumeRequested { job } => {
                self.paused.remove(&job);
            }
            ControlEvent::KeyspaceDropped { keyspace } => self.keyspace_dropped(keyspace),
            ControlEvent::TopicRemoved { keyspace } => {
                if let Some(dropped) = self.dropped.get_mut(&keyspace) {
                    dropped.topic_removed = true;
                }
            }
            event => self.step(offset, event),
        }
    }

    pub fn keyspace_named(&self, name: &str) -> Option<&KeyspaceStory> {
        self.keyspaces.values().find(|keyspace| keyspace.name == name)
    }

    /// Returns the shard that was granted the epoch for the slot; nothing when nobody was, or that is not decided.
    pub fn granted(&self, keyspace: &KeyspaceStory, slot: SlotId, epoch: Epoch) -> Option<ShardId> {
        match *keyspace.grants.get(&epoch)? {
            Grant::Created(shard) => (keyspace.creators[slot.0 as usize] == shard).then_some(shard),
            Grant::Attempt(attempt) => {
                let attempt = &self.attempts[&attempt];
                let moved = self.moves[&attempt.move_id].slots.contains(&slot);
                attempt.winner().filter(|_| moved)
            }
        }
    }

    /// Tells whether the shard may hold entries of the slot: as its owner, or as a side of a move that has not ended.
    pub fn may_hold(&self, keyspace: &KeyspaceStory, slot: SlotId, shard: ShardId) -> bool {
        keyspace.routes[slot.0 as usize].0 == shard
            || self.moves.values().any(|moved| {
                moved.keyspace == keyspace.id
                    && moved.phase != MovePhase::Ended
                    && (moved.source == shard || moved.destination == shard)
                    && moved.slots.contains(&slot)
            })
    }

    /// Forgets the keyspace but for its name, unless one of its moves has not ended.
    fn keyspace_dropped(&mut self, keyspace: KeyspaceId) {
        let ended = |moved: &MoveStory| moved.keyspace != keyspace || moved.phase == MovePhase::Ended;
        if self.moves.values().all(ended)
            && let Some(KeyspaceStory { id, name, .. }) = self.keyspaces.remove(&keyspace)
        {
            self.dropped.insert(id, DroppedStory { name, topic_removed: false });
        }
    }

    fn keyspace_created(&mut self, offset: Offset, name: String, placement: Placement, shards: u32, hosting: Hosting) {
        let slots = placement.slot_count();
        let hosting_fits =
            (1..=7).contains(&hosting.replicas) && (1..=hosting.replicas).contains(&hosting.ready_replicas);
        if !hosting_fits || name.is_empty() || shards == 0 || shards > slots || self.keyspace_named(&name).is_some() {
            return;
        }
        let creators = creators(slots, shards);
        let keyspace = KeyspaceStory {
            id: KeyspaceId(offset.0),
            name,
            placement,
            routes: creators.iter().map(|shard| (*shard, Epoch(u64::from(shard.0) + 1))).collect(),
            grants: (0..shards).map(|shard| (Epoch(u64::from(shard) + 1), Grant::Created(ShardId(shard)))).collect(),
            shards,
            hosts: Hosts::new(hosting),
            creators,
            epoch_next: Epoch(u64::from(shards) + 1),
        };
        self.keyspaces.insert(keyspace.id, keyspace);
        self.assign_hosts();
    }
}

/// Returns the shard that each slot was granted to at creation: slot s goes to the last shard i of n with
/// `i * slots / n <= s`, rounded down; contiguous and even.
fn creators(slots: u32, shards: u32) -> Vec<ShardId> {
    let first = |shard: u32| (u64::from(shard) * u64::from(slots) / u64::from(shards)) as u32;
    (0..shards).flat_map(|shard| (first(shard)..first(shard + 1)).map(move |_| ShardId(shard))).collect()
}
