//! Which slots are moving now, and how far: read by writers at every answer, so it must cost nothing.

use crate::cluster::Cluster;
use rehome_control_core::{ControlState, Phase};
use rehome_keyspace::{KeyspaceId, MoveId, Placement, SlotId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How a slot is to its writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moving {
    Not = 0,
    Copying = 1,
    CatchingUp = 2,
    CuttingOver = 3,
}

/// The phase of each slot, kept up with the control log.
pub struct Phases {
    slots: Vec<AtomicU8>,
    moving: AtomicU64,
    /// Moves whose end was noted: nothing more will come of them.
    ended: Mutex<BTreeSet<MoveId>>,
    changed: Mutex<u64>,
    change: Condvar,
}

impl Phases {
    /// Follows the desk's fold as long as the cluster lives.
    pub fn follow(cluster: &Arc<Cluster>, keyspace: KeyspaceId, placement: Placement) -> Arc<Phases> {
        let phases = Arc::new(Phases {
            slots: (0..placement.slot_count()).map(|_| AtomicU8::new(Moving::Not as u8)).collect(),
            moving: AtomicU64::new(0),
            ended: Mutex::default(),
            changed: Mutex::new(0),
            change: Condvar::new(),
        });
        let (noted, desk) = (Arc::downgrade(&phases), cluster.desk().clone());
        cluster.desk().watch(Arc::new(move || {
            if let Some(phases) = noted.upgrade() {
                phases.note(&desk.state(), keyspace);
            }
        }));
        phases
    }

    pub fn of(&self, slot: SlotId) -> Moving {
        match self.slots[slot.0 as usize].load(Ordering::Relaxed) {
            1 => Moving::Copying,
            2 => Moving::CatchingUp,
            3 => Moving::CuttingOver,
            _ => Moving::Not,
        }
    }

    /// Tells whether any move is under way.
    pub fn any(&self) -> bool {
        self.moving.load(Ordering::Relaxed) > 0
    }

    /// Waits until `done` holds, looking again whenever the control log was folded further; false at the deadline.
    pub fn wait(&self, deadline: Instant, mut done: impl FnMut() -> bool) -> bool {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if done() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return false;
            }
            changed = self.change.wait_timeout(changed, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn note(&self, state: &ControlState, keyspace: KeyspaceId) {
        let mut moving = 0;
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // Ended moves first, so that a later move of the same slot has the last word.
        for one in state.moves().filter(|one| one.keyspace == keyspace) {
            if !one.is_open() && !ended.insert(one.id) {
                continue;
            }
            let phase = match one.phase {
                Phase::Copying => Moving::Copying,
                Phase::CatchingUp => Moving::CatchingUp,
                Phase::CuttingOver { .. } => Moving::CuttingOver,
                _ => Moving::Not,
            };
            moving += u64::from(one.is_open());
            one.slot_ids().for_each(|slot| self.slots[slot.0 as usize].store(phase as u8, Ordering::Relaxed));
        }
        self.moving.store(moving, Ordering::Relaxed);
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.change.notify_all();
    }
}
