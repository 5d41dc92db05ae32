//! Everything in one process: log, stores, a node with its replicas, a router, a controller. Used by `up` and `demo`.
//!
//! ```text
//! DIR/address    where the API of the process that holds the folder answers, if it has one
//! DIR/log        the embedded log; also says who holds the folder
//! DIR/stores     one RocksDB per shard
//! DIR/snapshots  copies of moves that are under way
//! ```

#[cfg(test)]
mod brought_back;
mod clock;
mod holds;
mod rates;
mod sizes;
mod threads;

pub use clock::Clock;
pub use rates::Rates;
pub use sizes::{Limit, Size, size};

use crate::failpoints::Hooks;
use rehome_control_core::Decision;
use rehome_control_log::{ControlDesk, ControlFollower, DeskHandle, control_partition};
use rehome_controller::{Controller, ControllerMessage, ControllerParts, Waits};
use rehome_embedded::{EmbeddedLog, Fsync, Limits, OpenError};
use rehome_keyspace::{KeyspaceId, NodeId, RequestId, ShardId};
use rehome_node::{Node, NodeConfig, NodeReads};
use rehome_ports::{Inbox, Log, PortError, ReplicaProgress, Signal, Store};
use rehome_records::ControlEvent;
use rehome_records::control::CONTROL_TOPIC;
use rehome_rocks::{Memory, RocksNode, SnapshotFolder};
use rehome_router::{Router, RouterHandle, RouterLimits};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use thiserror::Error;
use threads::Threads;

/// The one node of a process that is everything. A restarted node is the same node.
const NODE: NodeId = NodeId(1);

/// How long request ids are kept where a keyspace does not say otherwise, by the log's clock.
pub const REQUEST_RETENTION_MS: u64 = 24 * 3_600_000;

/// Longest time to fold the control log at a start. Reason: millions of records; whoever needs longer should look.
const FOLD_TIME_MAX: Duration = Duration::from_secs(60);

/// Most messages in front of the controller when another report comes.
const REPORTS_QUEUED_MAX: usize = 4_096;

/// Why a cluster does not start.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Log(#[from] OpenError),
    #[error("{0}")]
    Port(#[from] PortError),
}

/// What roles of this process told lately.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The newest report of each replica.
    pub reports: BTreeMap<(KeyspaceId, ShardId), ReplicaProgress>,
    /// What moves wait for.
    pub waits: Waits,
}

impl Progress {
    pub fn get(&self, key: &(KeyspaceId, ShardId)) -> Option<&ReplicaProgress> {
        self.reports.get(key)
    }
}

type SharedProgress = Arc<Mutex<Progress>>;

/// A running system.
pub struct Cluster {
    log: Arc<EmbeddedLog>,
    stores: Arc<RocksNode>,
    threads: Arc<Threads>,
    reads: NodeReads,
    desk: DeskHandle,
    router: RouterHandle,
    progress: SharedProgress,
    rates: Arc<Mutex<Rates>>,
    clock: Clock,
    dir: PathBuf,
}

impl Cluster {
    /// Starts on the folder, which is made if it does not exist, and goes on where it was.
    ///
    /// Errors: `Held` when another process has it open.
    pub fn start(dir: &Path, address: &str, hooks: Hooks) -> Result<Cluster, StartError> {
        Cluster::start_on(Cluster::take(dir, Fsync::Always)?, dir, address, hooks, RouterLimits::STANDARD)
    }

    /// Takes the folder for this process, before anything else is tried.
    ///
    /// Errors: another process holds it, or the log in it is damaged.
    pub fn take(dir: &Path, fsync: Fsync) -> Result<Arc<EmbeddedLog>, StartError> {
        Ok(EmbeddedLog::open_with(&dir.join("log"), Limits::default(), fsync)?)
    }

    /// Starts everything on a folder that was taken.
    pub fn start_on(
        log: Arc<EmbeddedLog>,
        dir: &Path,
        address: &str,
        hooks: Hooks,
        limits: RouterLimits,
    ) -> Result<Cluster, StartError> {
        log.ensure_topic(CONTROL_TOPIC, 1)?;
        let shared: Arc<dyn Log> = Arc::clone(&log) as Arc<dyn Log>;
        let stores = Arc::new(open_stores(&log, &dir.join("stores"))?);
        let snapshots = Arc::new(SnapshotFolder::open(&dir.join("snapshots"))?);
        let clock = Clock::start();
        let threads = Threads::new(clock);
        let reads = NodeReads::default();
        let progress = SharedProgress::default();

        let desk_signal = Signal::new();
        let desk = ControlDesk::new(Arc::clone(&shared), desk_signal.waker())?;
        let desk_handle = desk.handle();
        threads.run("desk", desk_signal, Box::new(desk));
        wait_folded(&shared, &desk_handle)?;

        let controls = start_controller(&threads, &shared, hooks.controller, Arc::clone(&progress))?;
        let router = start_router(&threads, &shared, &reads, hooks.router, limits)?;

        let rates = Arc::new(Mutex::new(Rates::default()));
        let (noted, measured) = (Arc::clone(&progress), Arc::clone(&rates));
        let (opened, removed, forgotten) = (Arc::clone(&stores), Arc::clone(&stores), Arc::clone(&progress));
        let config = NodeConfig {
            node: NODE,
            address: address.to_owned(),
            log: shared,
            open_stores: Arc::new(move |keyspace, shards| opened.stores(keyspace, shards)),
            remove_stores: Arc::new(move |keyspace| {
                removed.remove(keyspace)?;
                // Its replicas have ended: nothing reports on it again.
                let mut told = forgotten.lock().unwrap_or_else(PoisonError::into_inner);
                told.reports.retain(|(of, _), _| *of != keyspace);
                Ok(())
            }),
            snapshots,
            jobs: Arc::clone(&threads) as Arc<dyn rehome_node::Jobs>,
            host: Arc::clone(&threads) as Arc<dyn rehome_node::Host>,
            verdicts: router.verdict_sink(),
            progress: Arc::new(move |report: ReplicaProgress| {
                measured.lock().unwrap_or_else(PoisonError::into_inner).note(&report, clock.now_ms());
                let key = (report.keyspace, report.shard);
                noted.lock().unwrap_or_else(PoisonError::into_inner).reports.insert(key, report.clone());
                // Advice: the next report tells more.
                let _ = controls.push_below(REPORTS_QUEUED_MAX, ControllerMessage::Progress(report));
            }),
            hook: hooks.node,
            commands: Arc::new(rand::random),
        };
        let signal = Signal::new();
        let node = Node::new(config, reads.clone(), signal.waker())?;
        threads.run("node", signal, Box::new(node));
        Ok(Cluster {
            log,
            stores,
            threads,
            reads,
            desk: desk_handle,
            router,
            progress,
            rates,
            clock,
            dir: dir.to_path_buf(),
        })
    }

    pub fn log(&self) -> &dyn Log {
        &*self.log
    }

    pub fn desk(&self) -> &DeskHandle {
        &self.desk
    }

    pub fn router(&self) -> &RouterHandle {
        &self.router
    }

    /// Returns the clock that deadlines are told in.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns what roles told lately.
    pub fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what was measured lately.
    pub fn rates(&self) -> Rates {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns how many bytes the folder's disk has left for this process.
    pub fn disk_free_bytes(&self) -> Result<u64, PortError> {
        let disk = rustix::fs::statvfs(&self.dir)
            .map_err(|error| PortError::not_applied(format!("{}: {error}", self.dir.display())))?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    pub fn store(&self, keyspace: KeyspaceId, shard: ShardId) -> Result<Arc<dyn Store>, PortError> {
        self.stores.store(keyspace, shard)
    }

    /// Appends a request to the control log, and returns what the fold decided. Blocks.
    pub fn propose(&self, event: ControlEvent) -> Result<Decision, PortError> {
        let (tell, told) = mpsc::sync_channel(1);
        let done = Box::new(move |result| drop(tell.send(result)));
        self.desk.propose(rand::random(), event, done);
        told.recv().unwrap_or_else(|_| Err(PortError::unknown("the control desk has stopped")))
    }

    /// Makes stores durable, then ends every thread and closes the log. What was acknowledged is safe without it; a
    /// clean end only makes the next start quick.
    pub fn stop(&self) -> Result<(), PortError> {
        let (tell, told) = mpsc::channel();
        let flushing = self.reads.flush_all(move |result| drop(tell.send(result)));
        let flushed: Result<(), PortError> = told.iter().take(flushing).collect();
        self.threads.stop();
        self.log.close()?;
        flushed
    }
}

/// Where records may be applied that are not durable, no store may keep what the log could lose.
fn open_stores(log: &Arc<EmbeddedLog>, dir: &Path) -> Result<RocksNode, PortError> {
    match log.fsync() {
        Fsync::Always => RocksNode::open(dir),
        Fsync::Every(_) => {
            let log = Arc::clone(log);
            RocksNode::guarded(dir, Memory::default(), Arc::new(move || log.sync()))
        }
    }
}

/// Waits until the desk has folded everything that the control log holds now: whoever asks a process that has just
/// started must not be told of an older time.
fn wait_folded(log: &Arc<dyn Log>, desk: &DeskHandle) -> Result<(), PortError> {
    let signal = Signal::new();
    desk.watch(signal.waker());
    let (tell, told) = mpsc::sync_channel(1);
    log.end(&control_partition(), Box::new(move |end| drop(tell.send(end))));
    let end = told.recv().unwrap_or_else(|_| Err(PortError::unknown("the log has stopped")))?;
    let deadline = Instant::now() + FOLD_TIME_MAX;
    while desk.state().folded_next() < end {
        if Instant::now() >= deadline {
            let message = format!("the control log is not folded up to {end} after {FOLD_TIME_MAX:?}");
            return Err(PortError::not_applied(message));
        }
        signal.wait(Some(deadline));
    }
    Ok(())
}

fn start_controller(
    threads: &Arc<Threads>,
    log: &Arc<dyn Log>,
    hook: Option<rehome_controller::EffectHook>,
    progress: SharedProgress,
) -> Result<Inbox<ControllerMessage>, PortError> {
    let signal = Signal::new();
    let inbox = Inbox::new(signal.waker());
    let controller = Controller::new(ControllerParts {
        log: Arc::clone(log),
        follower: ControlFollower::new(&**log, signal.waker())?,
        inbox: inbox.clone(),
        nonces: Box::new(rand::random),
        hook,
        told_waits: Box::new(move |waits| {
            progress.lock().unwrap_or_else(PoisonError::into_inner).waits.clone_from(waits);
        }),
    });
    threads.run("controller", signal, Box::new(controller));
    Ok(inbox)
}

fn start_router(
    threads: &Arc<Threads>,
    log: &Arc<dyn Log>,
    reads: &NodeReads,
    hook: Option<rehome_router::EffectHook>,
    limits: RouterLimits,
) -> Result<RouterHandle, PortError> {
    let signal = Signal::new();
    let handle = RouterHandle::new(limits, signal.waker());
    let follower = ControlFollower::new(&**log, signal.waker())?;
    let ids = Box::new(|| RequestId(rand::random()));
    let mut router = Router::new(handle.clone(), follower, Arc::clone(log), Arc::new(reads.clone()), ids);
    if let Some(hook) = hook {
        router = router.with_hook(hook);
    }
    threads.run("router", signal, Box::new(router));
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehome_keyspace::JobId;
    use rehome_ports::Lane;
    use rehome_records::ControlRecord;

    #[test]
    fn a_cluster_that_has_started_tells_of_everything_that_was_there_before() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = Cluster::start(dir.path(), "test", Hooks::default()).expect("it starts");
        // Each is refused, and has to be folded all the same; many more than one turn folds.
        let event = ControlEvent::CompleteRequested { job: JobId(1) };
        let record = |command| ControlRecord { command, event: event.clone() }.into_record();
        let (tell, told) = mpsc::channel();
        let done = Box::new(move |offsets| drop(tell.send(offsets)));
        first.log().append(&control_partition(), Lane::Protocol, (0..4_000).map(record).collect(), done);
        let last = *told.recv().expect("an answer").expect("offsets").last().expect("one for each");
        first.stop().expect("it stops");
        drop(first);
        let second = Cluster::start(dir.path(), "test", Hooks::default()).expect("it starts again");
        assert!(second.desk().state().folded_next() > last);
        second.stop().expect("it stops");
    }
}
