//! Which replicas this process hosts, and how routers reach them.

use crate::proposals::{Proposals, Topic};
use crate::replica::{Message, Replica, ReplicaConfig};
use crate::step::{Jobs, Step, StepHook};
use rehome_control_core::Keyspace;
use rehome_control_log::{ControlFollower, Opening, append_control, control_partition};
use rehome_keyspace::{Attempts, KeyspaceId, NodeId, Offset, ShardId, Side};
use rehome_ports::{
    Inbox, Log, PortError, ReadDone, ReadRefused, ReadRequest, Remedy, ReplicaProgress, Replicas, Role, SnapshotStore,
    Store, Turn, VerdictSink, Waker, around,
};
use rehome_records::control::data_topic;
use rehome_records::{ControlEvent, ControlRecord, store_key};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Pause before a replica that could not be opened is tried again, in milliseconds.
const AGAIN_AFTER_MS: u64 = 100;

/// Gives a role what wakes it, and runs it: a thread in production, the scheduler's list in a simulation.
pub trait Host: Send + Sync {
    fn host(&self, name: String, make: MakeRole) -> Result<(), PortError>;
}

/// Makes a role, given what wakes it.
pub type MakeRole = Box<dyn FnOnce(Waker) -> Result<Box<dyn Role + Send>, PortError> + Send>;

/// Opens the store of one shard's replica.
pub type OpenStore = Arc<dyn Fn(KeyspaceId, ShardId) -> Result<Arc<dyn Store>, PortError> + Send + Sync>;

/// What a node needs of its surroundings.
#[derive(Clone)]
pub struct NodeConfig {
    pub node: NodeId,
    /// Where other roles reach it.
    pub address: String,
    pub log: Arc<dyn Log>,
    pub open_store: OpenStore,
    pub snapshots: Arc<dyn SnapshotStore>,
    pub jobs: Arc<dyn Jobs>,
    pub host: Arc<dyn Host>,
    pub verdicts: VerdictSink,
    pub progress: Arc<dyn Fn(ReplicaProgress) + Send + Sync>,
    pub hook: Option<StepHook>,
    pub commands: Arc<dyn Fn() -> u128 + Send + Sync>,
}

type Hosted = Arc<Mutex<BTreeMap<(KeyspaceId, ShardId), Inbox<Message>>>>;

/// Reaches the replicas of one node from inside its process.
#[derive(Clone, Default)]
pub struct NodeReads {
    hosted: Hosted,
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
            Some(inbox) => inbox.push(Message::Read(request, done)),
            None => {
                drop(hosted);
                done(Err(ReadRefused::Unavailable { reason: format!("shard {shard} has no replica here yet") }));
            }
        }
    }
}

/// A process that hosts replicas: registers itself, and opens what the control log assigns to it.
pub struct Node {
    config: NodeConfig,
    follower: ControlFollower,
    reads: NodeReads,
    proposed: Inbox<(Topic, Result<Offset, PortError>)>,
    proposals: Proposals,
    opening: Opening,
    ends: Inbox<Result<Offset, PortError>>,
    retry_at_ms: Option<u64>,
    /// What could not be opened for good, so that it is said once.
    broken: BTreeMap<(KeyspaceId, ShardId), String>,
}

impl Node {
    /// `reads` is where routers of this process find the node's replicas, of this and of later lives.
    pub fn new(config: NodeConfig, reads: NodeReads, wake: Waker) -> Result<Node, PortError> {
        let follower = ControlFollower::new(&*config.log, Arc::clone(&wake))?;
        let proposed = Inbox::new(Arc::clone(&wake));
        let ends = Inbox::new(wake);
        Ok(Node {
            config,
            follower,
            reads,
            proposed,
            proposals: Proposals::default(),
            opening: Opening::START,
            ends,
            retry_at_ms: None,
            broken: BTreeMap::new(),
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
        let wanted: Vec<(Keyspace, ShardId)> = {
            let hosted = self.reads.hosted.lock().unwrap_or_else(PoisonError::into_inner);
            let assigned = self.follower.state().keyspaces().flat_map(|keyspace| {
                let mine = keyspace.replicas.iter().filter(|(_, nodes)| nodes.contains(&node));
                mine.map(move |(shard, _)| (keyspace, *shard))
            });
            let open = |keyspace: &Keyspace, shard: ShardId| {
                hosted.contains_key(&(keyspace.id, shard)) || self.broken.contains_key(&(keyspace.id, shard))
            };
            assigned
                .filter(|(keyspace, shard)| !open(keyspace, *shard))
                .map(|(keyspace, shard)| (keyspace.clone(), shard))
                .collect()
        };
        self.retry_at_ms = None;
        let mut opened = false;
        for (keyspace, shard) in wanted {
            match self.open(&keyspace, shard) {
                Ok(()) => opened = true,
                Err(error) if error.remedy == Remedy::Broken => {
                    tracing::error!(keyspace = %keyspace.name, %shard, %error, "replica cannot be opened");
                    (self.config.progress)(self.broken_progress(keyspace.id, shard, &error));
                    self.broken.insert((keyspace.id, shard), error.message);
                }
                Err(error) => {
                    tracing::debug!(keyspace = %keyspace.name, %shard, %error, "replica is opened later");
                    self.retry_at_ms = Some(now_ms + AGAIN_AFTER_MS);
                }
            }
        }
        opened
    }

    /// A shard's own partition never held the rows that moved in. So a store that is gone is not started anew, once rows
    /// have moved in: it would wait for ever for a copy that nobody sends, or answer without them.
    fn refuse_lost_store(&self, store: &dyn Store, keyspace: &Keyspace, shard: ShardId) -> Result<(), PortError> {
        if store.get(&store_key::identity())?.is_some() {
            return Ok(());
        }
        let state = self.follower.state();
        let moved_in = state.moves().filter(|one| one.keyspace == keyspace.id && one.destination == shard);
        let switched = moved_in.filter_map(|one| Some((one, state.attempt(*one.attempts.last()?)?.outcome?)));
        let mut lacking = switched.filter(|(_, outcome)| outcome.winner() == Side::Destination);
        match lacking.next() {
            None => Ok(()),
            Some((one, outcome)) => Err(PortError::broken(format!(
                "the store of shard {shard} of keyspace {} is empty, and rows had moved into it: move {} brought what shard {} \
                 held up to offset {}, which this shard's log does not hold; bring the store's folder back, then `rehome up`",
                keyspace.name,
                one.id,
                one.source,
                outcome.fence()
            ))),
        }
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
            broken: Some(error.message.clone()),
        }
    }

    fn open(&self, keyspace: &Keyspace, shard: ShardId) -> Result<(), PortError> {
        let topic = data_topic(&keyspace.name, keyspace.id);
        if self.config.log.partitions(&topic)?.is_none_or(|count| count <= shard.0) {
            return Err(PortError::not_applied(format!("partition {shard} of {topic} does not exist yet")));
        }
        let store = (self.config.open_store)(keyspace.id, shard)?;
        self.refuse_lost_store(&*store, keyspace, shard)?;
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
        let (keyspace, hosted) = (keyspace.clone(), Arc::clone(&self.reads.hosted));
        let make: MakeRole = Box::new(move |wake| {
            let replica = Replica::open(config, &keyspace, shard, wake)?;
            let mut hosted = hosted.lock().unwrap_or_else(PoisonError::into_inner);
            hosted.insert((keyspace.id, shard), replica.inbox());
            Ok(Box::new(replica) as Box<dyn Role + Send>)
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
        let opened = over && self.open_assigned(now_ms);
        let wakes = [self.proposals.wake_at_ms(now_ms), self.opening.wake_at_ms(), self.retry_at_ms];
        Turn { progressed: folded || registered || opened, wake_at_ms: wakes.into_iter().flatten().min() }
    }
}
