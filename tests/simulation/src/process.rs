//! Processes: built, run by turns, crashed, started again.

use crate::network::Network;
use rand::rngs::StdRng;
use rand::{Rng, RngCore};
use rehome_control_log::{ControlDesk, ControlFollower, DeskHandle};
use rehome_controller::{Controller, ControllerMessage, ControllerParts};
use rehome_keyspace::{KeyspaceId, NodeId, RequestId, ShardId};
use rehome_memory::{Broker, Lost, MemorySnapshots, MemoryStore};
use rehome_node::{Host, Jobs, MakeRole, Node, NodeConfig, NodeReads};
use rehome_ports::{Inbox, PortError, Role, Store, Turn, Waker};
use rehome_router::{Forwarder, Router, RouterHandle, RouterLimits};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub type StoreOf = (NodeId, KeyspaceId, ShardId);

/// What is left when every process is gone, and what lies between them.
#[derive(Clone)]
pub struct Site {
    pub broker: Broker,
    pub network: Network,
    pub snapshots: Arc<MemorySnapshots>,
    pub stores: Arc<Mutex<BTreeMap<StoreOf, Arc<MemoryStore>>>>,
    pub jobs: Arc<Mutex<Vec<QueuedJob>>>,
    spawned: Arc<Mutex<Vec<(String, Running)>>>,
    controllers: Arc<Mutex<BTreeMap<String, Inbox<ControllerMessage>>>>,
    /// Numbers that are given once: commands, nonces, request ids.
    numbers: Arc<AtomicU64>,
    /// The first replica that stopped for good, and why.
    broken: Arc<Mutex<Option<String>>>,
    limits: RouterLimits,
    /// Routers forward inboxes.
    forwards: bool,
}

/// Long work of a process, until the scheduler draws it.
pub struct QueuedJob {
    pub process: String,
    pub run: Box<dyn FnOnce() + Send>,
}

/// A role with what wakes it.
pub struct Running {
    role: Box<dyn Role + Send>,
    awake: Arc<AtomicBool>,
    wake_at_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Node(NodeId),
    Router,
    Controller,
    Desk,
}

/// A process: its roles die together.
pub struct Process {
    pub name: String,
    pub kind: Kind,
    pub roles: Vec<Running>,
    /// Set while it is down.
    pub restart_at_ms: Option<u64>,
    /// Set while it gets no turn, and knows nothing of it.
    pub frozen_until_ms: Option<u64>,
    /// How clients reach it, if it is a router.
    pub router: Option<RouterHandle>,
    pub desk: Option<DeskHandle>,
}

impl Process {
    pub fn is_frozen(&self, now_ms: u64) -> bool {
        self.frozen_until_ms.is_some_and(|until| now_ms < until)
    }
}

impl Running {
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.awake.load(Ordering::SeqCst) || self.wake_at_ms.is_some_and(|at| at <= now_ms)
    }

    pub fn wake_at_ms(&self) -> Option<u64> {
        self.wake_at_ms
    }

    /// Takes a turn; returns false when the role has ended and is to be dropped.
    pub fn turn(&mut self, now_ms: u64) -> bool {
        self.awake.store(false, Ordering::SeqCst);
        let Turn { progressed, wake_at_ms } = self.role.turn(now_ms);
        if progressed {
            self.awake.store(true, Ordering::SeqCst);
        }
        self.wake_at_ms = wake_at_ms;
        !self.role.has_ended()
    }
}

fn waker() -> (Arc<AtomicBool>, Waker) {
    let awake = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&awake);
    (awake, Arc::new(move || flag.store(true, Ordering::SeqCst)))
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Site {
    pub fn new(broker: Broker, forwards: bool) -> Site {
        // Low limits, so that runs meet them.
        let limits = RouterLimits { appends_per_shard_max: 2, append_records_max: 4, ..RouterLimits::STANDARD };
        Site {
            broker,
            network: Network::default(),
            snapshots: MemorySnapshots::new(),
            stores: Arc::default(),
            jobs: Arc::default(),
            spawned: Arc::default(),
            controllers: Arc::default(),
            numbers: Arc::new(AtomicU64::new(1)),
            broken: Arc::default(),
            limits,
            forwards,
        }
    }

    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    /// Returns why a replica stopped for good, if one has.
    pub fn broken(&self) -> Option<String> {
        lock(&self.broken).clone()
    }

    /// Gives the roles that were hosted since the last call to their processes.
    pub fn take_spawned(&self) -> Vec<(String, Running)> {
        std::mem::take(&mut *lock(&self.spawned))
    }

    /// Starts a process: an error means that what it needs is not there yet.
    pub fn start(&self, process: &mut Process) -> Result<(), PortError> {
        let log = self.broker.handle(&process.name);
        let (awake, wake) = waker();
        let mut forwarder = None;
        let role: Box<dyn Role + Send> = match process.kind {
            Kind::Node(node) => Box::new(self.node(&process.name, node, log, wake)?),
            Kind::Router => {
                let handle = RouterHandle::new(self.limits, Arc::clone(&wake));
                let follower = ControlFollower::new(&*log, wake)?;
                let site = self.clone();
                let ids = Box::new(move || RequestId(u128::from(site.number()).to_be_bytes()));
                let router = Router::new(handle.clone(), follower, log, Arc::new(self.network.clone()), ids);
                self.network.connect_router(&process.name, handle.verdict_sink());
                if self.forwards {
                    forwarder = Some(self.forwarder(&process.name, handle.clone())?);
                }
                process.router = Some(handle);
                Box::new(router)
            }
            Kind::Controller => {
                let site = self.clone();
                let inbox = Inbox::new(Arc::clone(&wake));
                lock(&self.controllers).insert(process.name.clone(), inbox.clone());
                let follower = ControlFollower::new(&*log, wake)?;
                let nonces = Box::new(move || site.number());
                Box::new(Controller::new(ControllerParts {
                    log,
                    follower,
                    inbox,
                    nonces,
                    hook: None,
                    told_waits: Box::new(|_| ()),
                }))
            }
            Kind::Desk => {
                let desk = ControlDesk::new(log, wake)?;
                process.desk = Some(desk.handle());
                Box::new(desk)
            }
        };
        process.roles = vec![Running { role, awake, wake_at_ms: None }];
        process.roles.extend(forwarder);
        process.restart_at_ms = None;
        Ok(())
    }

    fn forwarder(&self, name: &str, router: RouterHandle) -> Result<Running, PortError> {
        let (awake, wake) = waker();
        let (log, site) = (self.broker.handle(name), self.clone());
        let follower = ControlFollower::new(&*log, Arc::clone(&wake))?;
        let ids = Box::new(move || u128::from(site.number()));
        let role = Box::new(Forwarder::new(log, router, follower, wake, ids));
        Ok(Running { role, awake, wake_at_ms: None })
    }

    fn node(&self, name: &str, node: NodeId, log: Arc<dyn rehome_ports::Log>, wake: Waker) -> Result<Node, PortError> {
        let reads = NodeReads::default();
        self.network.connect_node(name, reads.clone());
        let (stores, removed) = (Arc::clone(&self.stores), Arc::clone(&self.stores));
        let broker = self.broker.clone();
        let controllers = Arc::clone(&self.controllers);
        let broken = Arc::clone(&self.broken);
        let site = self.clone();
        let config = NodeConfig {
            node,
            address: name.to_owned(),
            log,
            open_stores: Arc::new(move |keyspace, shards| {
                let mut stores = lock(&stores);
                let open = |shard: &ShardId| {
                    let store = stores.entry((node, keyspace, *shard)).or_insert_with(|| {
                        let broker = broker.clone();
                        MemoryStore::guarded(Arc::new(move || {
                            broker.sync();
                            Ok(())
                        }))
                    });
                    Ok(Arc::clone(store) as Arc<dyn rehome_ports::Store>)
                };
                shards.iter().map(open).collect()
            }),
            remove_stores: Arc::new(move |keyspace| {
                lock(&removed).retain(|(owner, of, _), _| *owner != node || *of != keyspace);
                Ok(())
            }),
            snapshots: Arc::clone(&self.snapshots) as Arc<dyn rehome_ports::SnapshotStore>,
            jobs: Arc::new(JobsOf { process: name.to_owned(), queue: Arc::clone(&self.jobs) }),
            host: Arc::new(HostOf { process: name.to_owned(), spawned: Arc::clone(&self.spawned) }),
            verdicts: self.network.verdict_sink(name),
            progress: Arc::new(move |progress| {
                if let Some(reason) = &progress.broken {
                    let shard = progress.shard;
                    lock(&broken).get_or_insert_with(|| format!("shard {shard}: {reason}"));
                }
                for inbox in lock(&controllers).values() {
                    inbox.push(ControllerMessage::Progress(progress.clone()));
                }
            }),
            hook: None,
            commands: Arc::new(move || u128::from(site.number())),
        };
        Node::new(config, reads, wake)
    }

    /// Kills a process: its roles are gone, its messages go nowhere, its stores lose what was not flushed.
    pub fn crash(&self, process: &mut Process, restart_at_ms: u64, rng: &mut StdRng) {
        self.end(process, restart_at_ms);
        if let Kind::Node(node) = process.kind {
            for (_, store) in lock(&self.stores).iter().filter(|((owner, _, _), _)| *owner == node) {
                store.crash(rng as &mut dyn RngCore);
            }
        }
    }

    /// Loses power: every process is gone at once, with every message, and of log and stores what was not durable.
    pub fn lose_power(&self, processes: &mut [Process], restart_at_ms: u64) -> Vec<Lost> {
        let lost = self.broker.lose_power();
        processes.iter_mut().for_each(|process| self.end(process, restart_at_ms));
        self.network.lose_everything();
        lock(&self.stores).values().for_each(|store| store.lose_power());
        lost
    }

    /// A store flushes by itself, as its write buffers fill.
    pub fn flush_one(&self, rng: &mut StdRng) {
        let stores = lock(&self.stores);
        if let Some(store) = stores.values().nth(rng.random_range(0..stores.len().max(1))) {
            store.flush().expect("a store in memory flushes");
        }
    }

    fn end(&self, process: &mut Process, restart_at_ms: u64) {
        process.roles.clear();
        process.router = None;
        process.desk = None;
        process.frozen_until_ms = None;
        process.restart_at_ms = Some(restart_at_ms);
        self.broker.cut(&process.name);
        self.network.disconnect(&process.name);
        lock(&self.controllers).remove(&process.name);
        lock(&self.jobs).retain(|job| job.process != process.name);
    }
}

struct JobsOf {
    process: String,
    queue: Arc<Mutex<Vec<QueuedJob>>>,
}

impl Jobs for JobsOf {
    fn spawn(&self, _name: String, run: Box<dyn FnOnce() + Send>) {
        lock(&self.queue).push(QueuedJob { process: self.process.clone(), run });
    }

    /// One after the other: a job is one step of the scheduler.
    fn together(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(work);
    }

    fn hold(&self, _holder: (KeyspaceId, ShardId), _held: bool) {}

    /// Which job runs when is the scheduler's.
    fn give_way(&self) {}
}

struct HostOf {
    process: String,
    spawned: Arc<Mutex<Vec<(String, Running)>>>,
}

impl Host for HostOf {
    fn host(&self, _name: String, make: MakeRole) -> Result<(), PortError> {
        let (awake, wake) = waker();
        let role = make(wake)?;
        lock(&self.spawned).push((self.process.clone(), Running { role, awake, wake_at_ms: None }));
        Ok(())
    }
}
