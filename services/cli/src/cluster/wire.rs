//! What a process sees of the others, and they of it.

use rehome_control_core::ControlState;
use rehome_control_log::DeskHandle;
use rehome_keyspace::NodeId;
use rehome_node::move_and_copy;
use rehome_ports::{PortError, Replicas, SnapshotStore};
use rehome_rpc::{FetchedSnapshots, Hub, NodeService, Peers, RoutedReplicas, Sinks};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;

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
        let desk = desk.clone();
        let place = Arc::new(move |name: &str| taken_by(&desk.state(), name));
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

/// Returns which node told that it took that copy, and its address.
fn taken_by(state: &ControlState, name: &str) -> Option<(NodeId, String)> {
    let (move_id, copy) = move_and_copy(name)?;
    let snapshot = state.move_(move_id)?.snapshot.as_ref().filter(|snapshot| snapshot.copy == copy)?;
    let node = state.node(snapshot.node)?;
    Some((node.id, node.address.clone()))
}
