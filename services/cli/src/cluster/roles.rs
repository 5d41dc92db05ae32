//! Which roles a process has, and how each is started.

use super::threads::Threads;
use super::{Clock, Rates, SharedProgress, Wire};
use crate::failpoints::Hooks;
use rehome_control_log::{ControlFollower, DeskHandle};
use rehome_controller::{Controller, ControllerMessage, ControllerParts};
use rehome_keyspace::{NodeId, RequestId};
use rehome_node::{Node, NodeConfig, NodeReads};
use rehome_ports::{BeforeFlush, Inbox, Log, PortError, ReplicaProgress, Replicas, Signal, SnapshotStore, VerdictSink};
use rehome_rocks::{Memory, RocksNode, SnapshotFolder};
use rehome_router::{Forwarder, Router, RouterHandle, RouterLimits, Verdicts};
use rehome_rpc::{Hub, Peers, Sinks};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Most messages in front of the controller when another report comes.
const REPORTS_QUEUED_MAX: usize = 4_096;

/// What a process is.
#[derive(Clone, Debug)]
pub struct Roles {
    pub node: Option<NodeRole>,
    /// How much its router takes, where it is one.
    pub router: Option<RouterLimits>,
    pub controller: bool,
}

/// Which node it is, and where the others reach it.
#[derive(Clone, Debug)]
pub struct NodeRole {
    pub id: NodeId,
    pub address: String,
}

type Report = Arc<dyn Fn(ReplicaProgress) + Send + Sync>;

/// What every role is started with.
pub(super) struct Starting {
    pub(super) log: Arc<dyn Log>,
    pub(super) threads: Arc<Threads>,
    pub(super) desk: DeskHandle,
    pub(super) clock: Clock,
    pub(super) progress: SharedProgress,
    pub(super) rates: Arc<Mutex<Rates>>,
    pub(super) verdicts: Verdicts,
    pub(super) dir: PathBuf,
}

/// What others in the process need of the roles.
pub(super) struct Started {
    pub(super) node: Option<(Arc<RocksNode>, NodeReads)>,
    pub(super) router: Option<RouterHandle>,
    /// Streams to other nodes, which end with it.
    pub(super) peers: Option<Arc<Peers>>,
}

impl Starting {
    pub(super) fn start(
        &self,
        roles: Roles,
        hooks: Hooks,
        before_flush: Option<BeforeFlush>,
        wire: Option<Wire>,
    ) -> Result<Started, PortError> {
        let controls = roles.controller.then(|| self.start_controller(hooks.controller)).transpose()?;
        let report = self.reports(controls);
        let router_signal = Signal::new();
        let router = roles.router.map(|limits| RouterHandle::new(limits, router_signal.waker()));
        let verdicts = router.as_ref().map(|router| self.verdicts.sink(router.verdict_sink()));
        let (reads, own) = (NodeReads::default(), roles.node.as_ref().map(|node| node.id));

        let sinks = Sinks { verdicts: verdicts.clone(), progress: Some(Arc::clone(&report)) };
        let peers = wire.as_ref().map(|wire| wire.follow(&self.desk, own, sinks));
        if let Some(handle) = &router {
            let replicas: Arc<dyn Replicas> = match (&wire, peers.clone()) {
                (Some(wire), Some(peers)) => {
                    let own = own.map(|node| (node, Arc::new(reads.clone()) as Arc<dyn Replicas>));
                    wire.replicas(&self.desk, own, peers)
                }
                _ => Arc::new(reads.clone()),
            };
            self.start_router(handle.clone(), router_signal, replicas, hooks.router)?;
            self.forget_verdicts();
            self.start_forwarder(handle.clone())?;
        }

        let Some(role) = roles.node else { return Ok(Started { node: None, router, peers }) };
        let stores = Arc::new(match before_flush {
            None => RocksNode::open(&self.dir.join("stores"))?,
            Some(before_flush) => RocksNode::guarded(&self.dir.join("stores"), Memory::default(), before_flush)?,
        });
        let own: Arc<dyn SnapshotStore> = Arc::new(SnapshotFolder::open(&self.dir.join("snapshots"))?);
        let (snapshots, verdicts, report, hub) = match &wire {
            None => (own, verdicts.unwrap_or_else(|| Arc::new(drop)), report, None),
            Some(wire) => {
                let fetched = wire.snapshots(&self.desk, role.id, Arc::clone(&own), &self.dir.join("fetched"))?;
                let hub = wire.serve(role.id, Arc::new(reads.clone()), own);
                let (told, reported) = (hub.clone(), report);
                let report: Report = Arc::new(move |progress| {
                    told.progress(progress.clone());
                    reported(progress);
                });
                (fetched, both(verdicts, hub.verdict_sink()), report, Some(hub))
            }
        };
        self.start_node(role, &stores, snapshots, verdicts, report, &reads, hub, hooks.node)?;
        Ok(Started { node: Some((stores, reads)), router, peers })
    }

    /// Returns where the reports of replicas go, of this process and of others.
    fn reports(&self, controls: Option<Inbox<ControllerMessage>>) -> Report {
        let (noted, measured, clock) = (Arc::clone(&self.progress), Arc::clone(&self.rates), self.clock);
        Arc::new(move |report| {
            measured.lock().unwrap_or_else(PoisonError::into_inner).note(&report, clock.now_ms());
            let key = (report.keyspace, report.shard);
            noted.lock().unwrap_or_else(PoisonError::into_inner).reports.insert(key, report.clone());
            if let Some(controls) = &controls {
                // Advice: the next report tells more.
                let _ = controls.push_below(REPORTS_QUEUED_MAX, ControllerMessage::Progress(report));
            }
        })
    }

    fn start_controller(
        &self,
        hook: Option<rehome_controller::EffectHook>,
    ) -> Result<Inbox<ControllerMessage>, PortError> {
        let signal = Signal::new();
        let inbox = Inbox::new(signal.waker());
        let progress = Arc::clone(&self.progress);
        let controller = Controller::new(ControllerParts {
            log: Arc::clone(&self.log),
            follower: ControlFollower::new(&*self.log, signal.waker())?,
            inbox: inbox.clone(),
            nonces: Box::new(rand::random),
            hook,
            told_waits: Box::new(move |waits| {
                progress.lock().unwrap_or_else(PoisonError::into_inner).waits.clone_from(waits);
            }),
        });
        self.threads.run("controller", signal, Box::new(controller));
        Ok(inbox)
    }

    fn start_router(
        &self,
        handle: RouterHandle,
        signal: Arc<Signal>,
        replicas: Arc<dyn Replicas>,
        hook: Option<rehome_router::EffectHook>,
    ) -> Result<(), PortError> {
        let follower = ControlFollower::new(&*self.log, signal.waker())?;
        let ids = Box::new(|| RequestId(rand::random()));
        let mut router = Router::new(handle, follower, Arc::clone(&self.log), replicas, ids);
        if let Some(hook) = hook {
            router = router.with_hook(hook);
        }
        self.threads.run("router", signal, Box::new(router));
        Ok(())
    }

    /// Verdicts go with their keyspace.
    fn forget_verdicts(&self) {
        let (verdicts, desk) = (self.verdicts.clone(), self.desk.clone());
        self.desk.watch(Arc::new(move || {
            let state = desk.state();
            verdicts.keep(|keyspace| state.keyspace(keyspace).is_some());
        }));
    }

    /// Forwards inboxes by this process's router.
    fn start_forwarder(&self, router: RouterHandle) -> Result<(), PortError> {
        let signal = Signal::new();
        let follower = ControlFollower::new(&*self.log, signal.waker())?;
        let ids = Box::new(rand::random);
        let forwarder = Forwarder::new(Arc::clone(&self.log), router, follower, signal.waker(), ids);
        self.threads.run("forwarder", signal, Box::new(forwarder));
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn start_node(
        &self,
        role: NodeRole,
        stores: &Arc<RocksNode>,
        snapshots: Arc<dyn SnapshotStore>,
        verdicts: VerdictSink,
        progress: Report,
        reads: &NodeReads,
        hub: Option<Hub>,
        hook: Option<rehome_node::StepHook>,
    ) -> Result<(), PortError> {
        let (opened, removed, forgotten) = (Arc::clone(stores), Arc::clone(stores), Arc::clone(&self.progress));
        let config = NodeConfig {
            node: role.id,
            address: role.address,
            log: Arc::clone(&self.log),
            open_stores: Arc::new(move |keyspace, shards| opened.stores(keyspace, shards)),
            remove_stores: Arc::new(move |keyspace| {
                removed.remove(keyspace)?;
                // Its replicas have ended: nothing reports on it again.
                let mut told = forgotten.lock().unwrap_or_else(PoisonError::into_inner);
                told.reports.retain(|(of, _), _| *of != keyspace);
                if let Some(hub) = &hub {
                    hub.forget(keyspace);
                }
                Ok(())
            }),
            snapshots,
            jobs: Arc::clone(&self.threads) as Arc<dyn rehome_node::Jobs>,
            host: Arc::clone(&self.threads) as Arc<dyn rehome_node::Host>,
            verdicts,
            progress,
            hook,
            commands: Arc::new(rand::random),
        };
        let signal = Signal::new();
        let node = Node::new(config, reads.clone(), signal.waker())?;
        self.threads.run("node", signal, Box::new(node));
        Ok(())
    }
}

/// Returns where verdicts go when a router of this process wants them as well as those of others.
fn both(own: Option<VerdictSink>, others: VerdictSink) -> VerdictSink {
    match own {
        None => others,
        Some(own) => Arc::new(move |batch| {
            others(batch.clone());
            own(batch);
        }),
    }
}
