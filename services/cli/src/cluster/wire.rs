//! What a process sees of the others, and they of it.

use rehome_control_core::ControlState;
use rehome_control_log::DeskHandle;
use rehome_keyspace::NodeId;
use rehome_node::move_and_copy;
use rehome_ports::{PortError, Replicas, SnapshotStore};
use rehome_rpc::{FetchedSnapshots, Hub, NodeService, Peers, RoutedReplicas, Sinks};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How long the desk may be behind a replica of this process, which has folded who took the snapshot that it asks for.
const KNOWN_MAX: Duration = Duration::from_secs(2);

/// Offers a node's service to others; called once.
pub type Offer = Box<dyn FnOnce(NodeService) + Send>;

/// How a process reaches others and is reached.
pub struct Wire {
    runtime: Handle,
    offer: Mutex<Option<Offer>>,
}

impl Wire {
    /// Streams run on that runtime; `offer` is called if the process is a node.
    pub fn new(runtime: Handle, offer: Offer) -> Wire {
        Wire { runtime, offer: Mutex::new(Some(offer)) }
    }

    /// Reaches for every registered node but this one, as long as the desk folds.
    pub(super) fn follow(&self, desk: &DeskHandle, own: Option<NodeId>, sinks: Sinks) -> Arc<Peers> {
        let peers = Arc::new(Peers::new(self.runtime.clone(), sinks));
        let (followed, watched) = (Arc::downgrade(&peers), desk.clone());
        let follow = move || {
            let Some(peers) = followed.upgrade() else { return };
            let state = watched.state();
            let others = state.nodes().filter(|node| Some(node.id) != own);
            peers.follow(others.map(|node| (node.id, node.address.clone())));
        };
        follow();
        desk.watch(Arc::new(follow));
        peers
    }

    pub(super) fn replicas(
        &self,
        desk: &DeskHandle,
        own: Option<(NodeId, Arc<dyn Replicas>)>,
        peers: Arc<Peers>,
    ) -> Arc<dyn Replicas> {
        let desk = desk.clone();
        let hosts = Arc::new(move |keyspace, shard| {
            let state = desk.state();
            state.keyspace(keyspace).map_or_else(Vec::new, |keyspace| keyspace.replicas_of(shard).to_vec())
        });
        Arc::new(RoutedReplicas::new(own, peers, hosts))
    }

    pub(super) fn snapshots(
        &self,
        desk: &DeskHandle,
        node: NodeId,
        own: Arc<dyn SnapshotStore>,
        dir: &Path,
    ) -> Result<Arc<dyn SnapshotStore>, PortError> {
        let changes = Arc::new(Changes::default());
        let (told, desk) = (Arc::clone(&changes), desk.clone());
        desk.watch(Arc::new(move || told.tell()));
        let place = Arc::new(move |name: &str| changes.wait_for(KNOWN_MAX, || taken_by(&desk.state(), name)));
        Ok(Arc::new(FetchedSnapshots::open(node, own, dir, place, self.runtime.clone())?))
    }

    /// Offers the node to others; returns where it tells verdicts and progress.
    pub(super) fn serve(&self, node: NodeId, replicas: Arc<dyn Replicas>, snapshots: Arc<dyn SnapshotStore>) -> Hub {
        let hub = Hub::new();
        let offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(offer) = offer {
            offer(NodeService { node, hub: hub.clone(), replicas, snapshots });
        }
        hub
    }
}

/// Wakes whoever waits for the fold.
#[derive(Default)]
struct Changes {
    lock: Mutex<()>,
    changed: Condvar,
}

impl Changes {
    fn tell(&self) {
        // Taken, so that nobody is between a look and a wait.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Returns what `look` finds, now or after a change within that time.
    fn wait_for<T>(&self, time: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + time;
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match look() {
                None if !left.is_zero() => {
                    held = self.changed.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                found => return found,
            }
        }
    }
}

/// Returns which node told that it took that copy, and its address.
fn taken_by(state: &ControlState, name: &str) -> Option<(NodeId, String)> {
    let (move_id, copy) = move_and_copy(name)?;
    let snapshot = state.move_(move_id)?.snapshot.as_ref().filter(|snapshot| snapshot.copy == copy)?;
    let node = state.node(snapshot.node)?;
    Some((node.id, node.address.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_is_folded_a_little_later_is_found_and_what_is_not_is_given_up() {
        let (changes, is_there) = (Arc::new(Changes::default()), Arc::new(AtomicBool::new(false)));
        let look = || is_there.load(Ordering::SeqCst).then_some(7);
        assert_eq!(changes.wait_for(Duration::from_millis(1), look), None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| changes.wait_for(Duration::from_secs(60), look));
            is_there.store(true, Ordering::SeqCst);
            changes.tell();
            assert_eq!(waiting.join().expect("no panic"), Some(7));
        });
    }
}
