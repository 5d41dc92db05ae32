//! What one process runs: some or all of a node with its stores, a router and a controller, over one log. `up`, `demo`
//! and `bench` run everything on an embedded log; `serve` runs some of it on Kafka.
//!
//! ```text
//! DIR/address    where the API of the process that holds the folder answers, if it has one
//! DIR/log        the embedded log, where that is the log; also says who holds the folder
//! DIR/stores     one RocksDB per shard
//! DIR/snapshots  copies of moves that are under way
//! DIR/fetched    those of other nodes
//! ```
//!
//! - [`roles`]: the parts that a process is made of, and how each is started; [`wire`]: what other processes see of it.

#[cfg(test)]
mod brought_back;
mod clock;
mod holds;
mod rates;
mod roles;
mod sizes;
mod threads;
mod wire;

pub use clock::Clock;
pub use rates::Rates;
pub use roles::{NodeRole, Roles};
pub use sizes::{Limit, Size, size};
pub use wire::Wire;

use crate::failpoints::Hooks;
use rehome_control_core::Decision;
use rehome_control_log::{ControlDesk, DeskHandle, control_partition};
use rehome_controller::Waits;
use rehome_embedded::{EmbeddedLog, Fsync, Limits, OpenError};
use rehome_keyspace::{KeyspaceId, NodeId, ShardId};
use rehome_node::NodeReads;
use rehome_ports::{BeforeFlush, Log, PortError, ReplicaProgress, Signal, Store};
use rehome_records::ControlEvent;
use rehome_records::control::CONTROL_TOPIC;
use rehome_rocks::RocksNode;
use rehome_router::{RouterHandle, RouterLimits, Verdicts};
use rehome_rpc::Peers;
use roles::Starting;
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

/// Ends the log of a process, when everything that uses it has ended.
pub type CloseLog = Box<dyn Fn() -> Result<(), PortError> + Send + Sync>;

/// What a process is made of.
pub struct Parts<'a> {
    pub log: Arc<dyn Log>,
    pub close_log: CloseLog,
    /// What stores wait for before they make anything durable, where the log shows records that are not.
    pub before_flush: Option<BeforeFlush>,
    pub dir: &'a Path,
    pub roles: Roles,
    pub hooks: Hooks,
    /// How other processes are reached; nothing when there are none.
    pub wire: Option<Wire>,
}

/// A running system, or the part of one that runs in this process.
pub struct Cluster {
    log: Arc<dyn Log>,
    close_log: CloseLog,
    threads: Arc<Threads>,
    desk: DeskHandle,
    /// Its stores and its replicas, where the process is a node.
    node: Option<(Arc<RocksNode>, NodeReads)>,
    router: Option<RouterHandle>,
    /// Held: what other nodes tell comes by these streams.
    _peers: Option<Arc<Peers>>,
    progress: SharedProgress,
    rates: Arc<Mutex<Rates>>,
    verdicts: Verdicts,
    clock: Clock,
    dir: PathBuf,
}

impl Cluster {
    /// Starts everything on the folder, which is made if it does not exist, and goes on where it was.
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
        let (closed, synced) = (Arc::clone(&log), Arc::clone(&log));
        // Where records may be applied that are not durable, no store may keep what the log could lose.
        let before_flush: Option<BeforeFlush> = match log.fsync() {
            Fsync::Always => None,
            Fsync::Every(_) => Some(Arc::new(move || synced.sync())),
        };
        let node = NodeRole { id: NODE, address: address.to_owned() };
        Cluster::start_parts(Parts {
            log,
            close_log: Box::new(move || closed.close()),
            before_flush,
            dir,
            roles: Roles { node: Some(node), router: Some(limits), controller: true },
            hooks,
            wire: None,
        })
    }

    /// Starts the roles that are asked for.
    pub fn start_parts(parts: Parts<'_>) -> Result<Cluster, StartError> {
        let log = parts.log;
        log.ensure_topic(CONTROL_TOPIC, 1)?;
        let clock = Clock::start();
        let threads = Threads::new(clock);
        let desk_signal = Signal::new();
        let desk = ControlDesk::new(Arc::clone(&log), desk_signal.waker())?;
        let desk_handle = desk.handle();
        threads.run("desk", desk_signal, Box::new(desk));
        wait_folded(&log, &desk_handle)?;

        let starting = Starting {
            log: Arc::clone(&log),
            threads: Arc::clone(&threads),
            desk: desk_handle.clone(),
            clock,
            progress: SharedProgress::default(),
            rates: Arc::new(Mutex::new(Rates::default())),
            verdicts: Verdicts::default(),
            dir: parts.dir.to_path_buf(),
        };
        let started = starting.start(parts.roles, parts.hooks, parts.before_flush, parts.wire)?;
        Ok(Cluster {
            log,
            close_log: parts.close_log,
            threads,
            desk: desk_handle,
            node: started.node,
            router: started.router,
            _peers: started.peers,
            progress: starting.progress,
            rates: starting.rates,
            verdicts: starting.verdicts,
            clock,
            dir: starting.dir,
        })
    }

    pub fn log(&self) -> &dyn Log {
        &*self.log
    }

    pub fn desk(&self) -> &DeskHandle {
        &self.desk
    }

    /// Returns the router of this process, if it has one.
    pub fn try_router(&self) -> Option<&RouterHandle> {
        self.router.as_ref()
    }

    /// Returns the router of this process. Requires: it has one.
    pub fn router(&self) -> &RouterHandle {
        self.router.as_ref().expect("the process was started with a router")
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

    /// Returns the newest verdicts of each shard, where the process has a router.
    pub fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    /// Returns how many bytes the folder's disk has left for this process.
    pub fn disk_free_bytes(&self) -> Result<u64, PortError> {
        let disk = rustix::fs::statvfs(&self.dir)
            .map_err(|error| PortError::not_applied(format!("{}: {error}", self.dir.display())))?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    pub fn store(&self, keyspace: KeyspaceId, shard: ShardId) -> Result<Arc<dyn Store>, PortError> {
        let (stores, _) = self.node.as_ref().ok_or_else(|| PortError::not_applied("this process is no node"))?;
        stores.store(keyspace, shard)
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
        let flushing =
            self.node.as_ref().map_or(0, |(_, reads)| reads.flush_all(move |result| drop(tell.send(result))));
        let flushed: Result<(), PortError> = told.iter().take(flushing).collect();
        self.threads.stop();
        (self.close_log)()?;
        flushed
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
