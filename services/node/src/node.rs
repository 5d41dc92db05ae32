//! Which replicas this process hosts, and how routers reach them.

use crate::dropped::HostedReplica;
use crate::leftovers;
use crate::proposals::{Proposals, Topic};
use crate::rebuild::Rebuild;
use crate::replica::{Message, Replica, ReplicaConfig};
use crate::step::{Jobs, Step, StepHook};
use rehome_control_core::Keyspace;
use rehome_control_log::{ControlFollower, Opening, append_control, control_partition};
use rehome_keyspace::{KeyspaceId, NodeId, Offset, ShardId};
use rehome_ports::{
    Inbox, Log, PortError, ReadDone, ReadRefused, ReadRequest, Remedy, ReplicaProgress, Replicas, Role, SnapshotStore,
    Store, Turn, VerdictSink, Waker, around,
};
use rehome_records::control::data_topic;
use rehome_records::{ControlEvent, ControlRecord, store_key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Most messages in front of one replica when another read comes. Reason: a replica that stands still must not gather
/// reads without end; each takes a few keys.
const READS_QUEUED_MAX: usize = 4_096;
/// Pause before a replica that could not be opened is tried again, in milliseconds.
pub(crate) const AGAIN_AFTER_MS: u64 = 100;
/// Replicas opened in one turn, at the same time: each takes a dozen syncs. With sixteen, the writes of others waited for
/// 100 to 300 ms.
const OPENED_MAX: usize = 4;

/// Gives a role what wakes it, and runs it: a thread in production, the scheduler's list in a simulation.
pub trait Host: Send + Sync {
    fn host(&self, name: String, make: MakeRole) -> Result<(), PortError>;
}

/// Makes a role, given what wakes it.
pub type MakeRole = Box<dyn FnOnce(Waker) -> Result<Box<dyn Role + Send>, PortError> + Send>;

/// Opens the stores of some shards' replicas, and answers for each.
pub type OpenStores = Arc<dyn Fn(KeyspaceId, &[ShardId]) -> Vec<Result<Arc<dyn Store>, PortError>> + Send + Sync>;

/// Removes every store of a keyspace that this node has; none is no error. `NotApplied` while one is open.
pub type RemoveStores = Arc<dyn Fn(KeyspaceId) -> Result<(), PortError> + Send + Sync>;

/// What a node needs of its surroundings.
#[derive(Clone)]
pub struct NodeConfig {
    pub node: NodeId,
    /// Where other roles reach it.
    pub address: String,
    pub log: Arc<dyn Log>,
    pub open_stores: OpenStores,
    pub remove_stores: RemoveStores,
    pub snapshots: Arc<dyn SnapshotStore>,
    pub jobs: Arc<dyn Jobs>,
    pub host: Arc<dyn Host>,
    pub verdicts: VerdictSink,
    pub progress: Arc<dyn Fn(ReplicaProgress) + Send + Sync>,
    pub hook: Option<StepHook>,
    pub commands: Arc<dyn Fn() -> u128 + Send + Sync>,
}

pub(crate) type Hosted = Arc<Mutex<BTreeMap<(KeyspaceId, ShardId), Inbox<Message>>>>;

/// Reaches the replicas of one node from inside its process.
#[derive(Clone, Default)]
pub struct NodeReads {
    pub(crate) hosted: Hosted,
    /// Why a replica could not be opened, for those who want to read there.
    refused: Arc<Mutex<BTreeMap<(KeyspaceId, ShardId), String>>>,
}

impl NodeReads {
    /// Tells whether the node hosts a replica of the shard.
    pub fn hosts(&self, keyspace: KeyspaceId, shard: ShardId) -> bool {
        self.hosted.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&(keyspace, shard))
    }

    /// Makes everything applied so far durable in every replica; `done` is called once for each.
    pub fn flush_all(&self, done: impl Fn(Result<(), PortError>) + Clone + Send + 'static) -> usize {
        let hosted = self.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        for inbox in hosted.values() {
            inbox.push(Message::Flush(Box::new(done.clone())));
        }
        hosted.len()
    }
}

impl Replicas for NodeReads {
    fn read(&self, keyspace: KeyspaceId, shard: ShardId, request: ReadRequest, done: ReadDone) {
        let hosted = self.hosted.lock().unwrap_or_else(PoisonError::into_inner);
        match hosted.get(&(keyspace, shard)) {
            Some(inbox) => {
                let refused = inbox.push_below(READS_QUEUED_MAX, Message::Read(request, done));
                drop(hosted);
                if let Err(Message::Read(_, done)) = refused {
                    done(Err(ReadRefused::Overloaded));
                }
            }
            None => {
                drop(hosted);
                let refused =
                    self.refused.lock().unwrap_or_else(PoisonError::into_inner).get(&(keyspace, shard)).cloned();
                let reason = refused.unwrap_or_else(|| format!("shard {shard} has no replica here yet"));
                done(Err(ReadRefused::Unavailable { reason }));
            }
        }
    }
}

/// A process that hosts replicas: registers itself, and opens what the control log assigns to it.
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) follower: ControlFollower,
    pub(crate) reads: NodeReads,
    pub(crate) proposed: Inbox<(Topic, Result<Offset, PortError>)>,
    pub(crate) proposals: Proposals,
    wake: Waker,
    /// Dropped keyspaces of which nothing is left here, until the fold says so.
    pub(crate) removed: BTreeSet<KeyspaceId>,
    opening: Opening,
    ends: Inbox<Result<Offset, PortError>>,
    pub(crate) retry_at_ms: Option<u64>,
    /// What could not be opened for good, so that it is said once.
    broken: BTreeMap<(KeyspaceId, ShardId), String>,
    /// Snapshots that an earlier life left are looked for once.
    swept: bool,
}

impl Node {
    /// `reads` is where routers of this process find the node's replicas, of this and of later lives.
    pub fn new(config: NodeConfig, reads: NodeReads, wake: Waker) -> Result<Node, PortError> {
        let follower = ControlFollower::new(&*config.log, Arc::clone(&wake))?;
        let proposed = Inbox::new(Arc::clone(&wake));
        let ends = Inbox::new(Arc::clone(&wake));
        Ok(Node {
            config,
            follower,
            reads,
            proposed,
            proposals: Proposals::default(),
            wake,
            removed: BTreeSet::new(),
            opening: Opening::START,
            ends,
            retry_at_ms: None,
            broken: BTreeMap::new(),
            swept: false,
        })
    }

    fn register(&mut self, now_ms: u64) -> bool {
        let node = self.config.node;
        if self.follower.state().node(node).is_some_and(|known| known.address == self.config.address) {
            return false;
        }
        let topic = Topic::Registered(node);
        if !self.proposals.begin(topic, now_ms) {
            return false;
        }
        let event = ControlEvent::NodeRegistered { node, address: self.config.address.clone() };
        let record = ControlRecord { command: (self.config.commands)(), event };
        let inbox = self.proposed.clone();
        let told = move |result| inbox.push((topic, result));
        around(&self.config.hook, Step::ProposeRegistered, || append_control(&*self.config.log, record, told));
        true
    }

    fn open_assigned(&mut self, now_ms: u64) -> bool {
        let node = self.config.node;
        let wanted: Vec<(Keyspace, Vec<ShardId>)> = {
            let hosted = self.reads.hosted.lock().unwrap_or_else(PoisonError::into_inner);
            let is_known = |key: &(KeyspaceId, ShardId)| hosted.contains_key(key) || self.broken.contains_key(key);
            let of = |keyspace: &Keyspace| {
                let mine = keyspace.replicas.iter().filter(|(_, nodes)| nodes.contains(&node)).map(|(shard, _)| *shard);
                mine.filter(|shard| !is_known(&(keyspace.id, *shard))).collect::<Vec<_>>()
            };
            let lacking = self.follower.state().keyspaces().map(|keyspace| (keyspace, of(keyspace)));
            let lacking = lacking.filter(|(_, shards)| !shards.is_empty());
            lacking.map(|(keyspace, shards)| (keyspace.clone(), shards)).collect()
        };
        self.retry_at_ms = None;
        let (mut tried, mut opened) = (0, false);
        for (keyspace, mut shards) in wanted {
            let partitions = self.config.log.partitions(&data_topic(&keyspace.name, keyspace.id));
            let partitions = partitions.ok().flatten().unwrap_or(0);
            if shards.iter().any(|shard| shard.0 >= partitions) {
                tracing::debug!(keyspace = %keyspace.name, partitions, "replicas are opened once their partitions exist");
                self.retry_at_ms = Some(now_ms + AGAIN_AFTER_MS);
                shards.retain(|shard| shard.0 < partitions);
            }
            let more = shards.len() > OPENED_MAX - tried;
            shards.truncate(OPENED_MAX - tried);
            tried += shards.len();
            let stores = (self.config.open_stores)(keyspace.id, &shards);
            for (shard, store) in shards.into_iter().zip(stores) {
                opened |= self.open_one(&keyspace, shard, store, now_ms);
            }
            if more {
                self.retry_at_ms = Some(now_ms + AGAIN_AFTER_MS);
                return opened;
            }
        }
        opened
    }

    /// Returns whether it is open; if not, it is tried again or was told to be broken.
    fn open_one(
        &mut self,
        keyspace: &Keyspace,
        shard: ShardId,
        store: Result<Arc<dyn Store>, PortError>,
        now_ms: u64,
    ) -> bool {
        match store.and_then(|store| self.open(keyspace, shard, store)) {
            Ok(()) => return true,
            Err(error) if error.remedy == Remedy::Broken => {
                tracing::error!(keyspace = %keyspace.name, %shard, %error, "replica cannot be opened");
                (self.config.progress)(self.broken_progress(keyspace.id, shard, &error));
                let mut refused = self.reads.refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.insert((keyspace.id, shard), error.message.clone());
                drop(refused);
                self.broken.insert((keyspace.id, shard), error.message);
            }
            Err(error) => {
                tracing::debug!(keyspace = %keyspace.name, %shard, %error, "replica is opened later");
                self.retry_at_ms = Some(now_ms + AGAIN_AFTER_MS);
            }
        }
        false
    }

    /// Forgets why replicas of a keyspace could not be opened that is gone.
    pub(crate) fn forget_refused(&mut self, keyspace: KeyspaceId) {
        self.broken.retain(|(of, _), _| *of != keyspace);
        let mut refused = self.reads.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|(of, _), _| *of != keyspace);
    }

    /// Plans what a store takes that has nothing; nothing for one that goes on.
    fn plan_rebuild(&self, store: &dyn Store, keyspace: &Keyspace, shard: ShardId) -> Result<Rebuild, PortError> {
        if store.get(&store_key::identity())?.is_some() {
            return Ok(Rebuild::default());
        }
        let rebuild = Rebuild::plan(self.follower.state(), keyspace, shard)?;
        let (moved_in, moved_out) = rebuild.counts();
        if moved_in + moved_out > 0 {
            let keyspace = &keyspace.name;
            tracing::warn!(%keyspace, %shard, moved_in, moved_out, "the store is gone and is made anew from the logs");
        }
        Ok(rebuild)
    }

    fn broken_progress(&self, keyspace: KeyspaceId, shard: ShardId, error: &PortError) -> ReplicaProgress {
        ReplicaProgress {
            keyspace,
            shard,
            node: self.config.node,
            applied_next: Offset(0),
            lag_records: 0,
            horizon: None,
            inbound: Vec::new(),
            troubles: Vec::new(),
            broken: Some(error.message.clone()),
        }
    }

    fn open(&self, keyspace: &Keyspace, shard: ShardId, store: Arc<dyn Store>) -> Result<(), PortError> {
        let rebuild = self.plan_rebuild(&*store, keyspace, shard)?;
        let config = ReplicaConfig {
            node: self.config.node,
            log: Arc::clone(&self.config.log),
            store,
            snapshots: Arc::clone(&self.config.snapshots),
            jobs: Arc::clone(&self.config.jobs),
            verdicts: Arc::clone(&self.config.verdicts),
            progress: Arc::clone(&self.config.progress),
            hook: self.config.hook.clone(),
            commands: Arc::clone(&self.config.commands),
        };
        let (keyspace, hosted, told) = (keyspace.clone(), Arc::clone(&self.reads.hosted), Arc::clone(&self.wake));
        let make: MakeRole = Box::new(move |wake| {
            let replica = Replica::open(config, &keyspace, shard, &rebuild, wake)?;
            let role = HostedReplica::new(replica, hosted, told);
            Ok(Box::new(role) as Box<dyn Role + Send>)
        });
        self.config.host.host(format!("shard-{shard}"), make)
    }
}

impl Role for Node {
    fn turn(&mut self, now_ms: u64) -> Turn {
        let folded = match self.follower.turn() {
            Ok(folded) => folded > 0,
            Err(error) => {
                tracing::warn!(%error, "the control log cannot be read");
                return Turn { progressed: false, wake_at_ms: Some(now_ms + AGAIN_AFTER_MS) };
            }
        };
        self.proposals.folded(self.follower.state().folded_next(), now_ms);
        for (topic, result) in self.proposed.drain() {
            self.proposals.appended(topic, result, now_ms);
        }
        for end in self.ends.drain() {
            self.opening.told(end, now_ms);
        }
        if self.opening.asks(now_ms) {
            let ends = self.ends.clone();
            self.config.log.end(&control_partition(), Box::new(move |end| ends.push(end)));
        }
        let registered = self.register(now_ms);
        let over = self.opening.is_over(self.follower.state().folded_next());
        if over && !std::mem::replace(&mut self.swept, over) {
            leftovers::remove(&self.config, self.follower.state());
        }
        let opened = over && self.open_assigned(now_ms);
        let removed = over && self.remove_dropped(now_ms);
        let wakes = [self.proposals.wake_at_ms(now_ms), self.opening.wake_at_ms(), self.retry_at_ms];
        Turn { progressed: folded || registered || opened || removed, wake_at_ms: wakes.into_iter().flatten().min() }
    }
}
