//! What a node tells everybody who listens: verdicts and progress.
//!
//! A caller that takes too slowly loses verdicts, never the node's memory: the next batch that it gets tells by its
//! `applied` that some were missed, and a router then sends those writes again under their request ids.

use crate::convert::{progress_out, verdicts_out};
use crate::pb;
use rehome_keyspace::{KeyspaceId, Offset, ShardId};
use rehome_ports::{ReplicaProgress, VerdictBatch, VerdictSink};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::UnboundedSender;

/// Most verdicts that wait for one caller. Reason: more than a second of a busy node; some tens of bytes each.
const VERDICTS_QUEUED_MAX: usize = 1 << 18;

/// One thing that goes to a caller.
pub(crate) enum Out {
    Verdicts(pb::VerdictBatch),
    Progress(pb::Progress),
    Result(pb::ReadResult),
}

/// A caller that listens.
pub(crate) struct Listener {
    pub(crate) out: UnboundedSender<Out>,
    /// Verdicts that wait in `out`; whoever takes them counts down.
    pub(crate) verdicts_queued: Arc<AtomicUsize>,
    pub(crate) wants_verdicts: bool,
    pub(crate) wants_progress: bool,
}

/// Gives what replicas tell to every listener.
#[derive(Clone, Default)]
pub struct Hub(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    listeners: Vec<Listener>,
    /// The newest of each replica, for listeners to come.
    applied: BTreeMap<(KeyspaceId, ShardId), Offset>,
    progress: BTreeMap<(KeyspaceId, ShardId), ReplicaProgress>,
}

impl Hub {
    pub fn new() -> Hub {
        Hub::default()
    }

    /// Returns where replicas tell their verdicts.
    pub fn verdict_sink(&self) -> VerdictSink {
        let hub = self.clone();
        Arc::new(move |batch| hub.verdicts(&batch))
    }

    fn verdicts(&self, batch: &VerdictBatch) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.applied.insert((batch.keyspace, batch.shard), batch.applied);
        if !told.listeners.iter().any(|listener| listener.wants_verdicts) {
            return;
        }
        let out = verdicts_out(batch);
        told.listeners.retain(|listener| !listener.wants_verdicts || listener.tell_verdicts(&out));
    }

    /// Takes a replica's report.
    pub fn progress(&self, progress: ReplicaProgress) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let out = progress_out(&progress);
        told.progress.insert((progress.keyspace, progress.shard), progress);
        told.listeners
            .retain(|listener| !listener.wants_progress || listener.out.send(Out::Progress(out.clone())).is_ok());
    }

    /// Forgets what was told of a replica that is gone.
    pub fn forget(&self, keyspace: KeyspaceId) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.applied.retain(|(of, _), _| *of != keyspace);
        told.progress.retain(|(of, _), _| *of != keyspace);
    }

    /// Tells the listener where every replica stands, and from now on everything that it wants.
    pub(crate) fn listen(&self, listener: Listener) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if listener.wants_verdicts {
            for ((keyspace, shard), applied) in &told.applied {
                let batch =
                    VerdictBatch { keyspace: *keyspace, shard: *shard, verdicts: Vec::new(), applied: *applied };
                listener.tell_verdicts(&verdicts_out(&batch));
            }
        }
        if listener.wants_progress {
            for progress in told.progress.values() {
                // A listener that has gone is found out by the next report.
                let _ = listener.out.send(Out::Progress(progress_out(progress)));
            }
        }
        told.listeners.push(listener);
    }

    /// Returns how many listen.
    pub fn listeners(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).listeners.len()
    }
}

impl Listener {
    /// Tells the verdicts, or only how far they go when too many wait; false when nobody listens any more.
    fn tell_verdicts(&self, batch: &pb::VerdictBatch) -> bool {
        let count = batch.judged.len();
        let queued = self.verdicts_queued.fetch_add(count, Ordering::Relaxed) + count;
        if queued <= VERDICTS_QUEUED_MAX {
            return self.out.send(Out::Verdicts(batch.clone())).is_ok();
        }
        self.verdicts_queued.fetch_sub(count, Ordering::Relaxed);
        // Whoever gets the next batch that fits finds by its `applied` that these were missed.
        !self.out.is_closed()
    }
}
