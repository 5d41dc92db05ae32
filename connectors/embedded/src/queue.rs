//! What waits for the committer: bounded, marks before data.

use crate::frames::Frames;
use crate::options::Limits;
use crate::partition::Partition;
use rehome_ports::{AppendDone, Lane, PortError};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Records to be appended together, in order.
pub struct Append {
    pub partition: Arc<Partition>,
    pub lane: Lane,
    pub frames: Frames,
    /// What the frames say.
    pub append_time_ms: u64,
    pub done: AppendDone,
}

/// Two bounded lanes.
pub struct Queue {
    limits: Limits,
    lanes: Mutex<Lanes>,
    filled: Condvar,
}

#[derive(Default)]
struct Lanes {
    protocol: Waiting,
    data: Waiting,
    /// Why nothing is taken any more.
    stopped: Option<PortError>,
}

#[derive(Default)]
struct Waiting {
    appends: VecDeque<Append>,
    records: usize,
    bytes: usize,
}

impl Queue {
    pub fn new(limits: Limits) -> Queue {
        Queue { limits, lanes: Mutex::default(), filled: Condvar::new() }
    }

    /// Queues the append, or tells it at once that it was not taken.
    pub fn push(&self, append: Append) {
        let mut lanes = self.lock();
        if let Some(error) = lanes.stopped.clone() {
            drop(lanes);
            (append.done)(Err(error));
            return;
        }
        let waiting = match append.lane {
            Lane::Protocol => &mut lanes.protocol,
            Lane::Data => &mut lanes.data,
        };
        // Whatever its size, an append fits an empty lane: otherwise it could never be made.
        let full = waiting.records + append.frames.len() > self.limits.queued_records_max
            || waiting.bytes + append.frames.bytes() > self.limits.queued_bytes_max;
        if full && !waiting.appends.is_empty() {
            let (records, bytes) = (waiting.records, waiting.bytes);
            drop(lanes);
            (append.done)(Err(PortError::not_applied(format!("the queue is full: {records} records, {bytes} bytes"))));
            return;
        }
        waiting.records += append.frames.len();
        waiting.bytes += append.frames.bytes();
        waiting.appends.push_back(append);
        drop(lanes);
        self.filled.notify_one();
    }

    /// Waits for appends and takes the next group, marks first. Nothing once the queue is stopped and empty.
    pub fn take(&self) -> Option<Vec<Append>> {
        let mut lanes = self.lock();
        while lanes.protocol.appends.is_empty() && lanes.data.appends.is_empty() {
            if lanes.stopped.is_some() {
                return None;
            }
            lanes = self.filled.wait(lanes).unwrap_or_else(PoisonError::into_inner);
        }
        let mut group = Vec::new();
        let (mut records, mut bytes) = (0, 0);
        let Lanes { protocol, data, .. } = &mut *lanes;
        for waiting in [protocol, data] {
            while records < self.limits.group_records_max && bytes < self.limits.group_bytes_max {
                let Some(append) = waiting.appends.pop_front() else { break };
                waiting.records -= append.frames.len();
                waiting.bytes -= append.frames.bytes();
                records += append.frames.len();
                bytes += append.frames.bytes();
                group.push(append);
            }
        }
        Some(group)
    }

    /// Takes nothing more; what follows is told that error. What waits can still be taken. The first reason stays.
    pub fn stop(&self, error: PortError) {
        self.lock().stopped.get_or_insert(error);
        self.filled.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
