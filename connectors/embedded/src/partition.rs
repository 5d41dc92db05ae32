//! Where a partition stands, and its newest records.

use crate::disk::Extent;
use crate::frames::{Frames, decode};
use rehome_keyspace::Offset;
use rehome_ports::{Batch, PortError, ReadLimits, Waker};
use rehome_records::TopicPartition;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One partition. What it shows is durable, or its offset is reserved.
pub struct Partition {
    pub name: TopicPartition,
    /// Tells the partitions of one log apart.
    pub number: usize,
    /// Its topic is gone: nothing of it may reach the disk any more.
    removed: AtomicBool,
    state: Mutex<State>,
    reserved: AtomicU64,
}

struct State {
    extent: Extent,
    /// The newest records, oldest group first, without a hole up to the end.
    ring: VecDeque<Group>,
    ring_bytes: usize,
    tails: BTreeMap<u64, Waker>,
    tails_ever: u64,
}

/// Records without a gap, from `first` on.
#[derive(Clone)]
struct Group {
    first: Offset,
    frames: Arc<Frames>,
}

impl Group {
    fn end(&self) -> Offset {
        Offset(self.first.0 + self.frames.len() as u64)
    }
}

/// Where the next records of a tail are to be found.
pub enum Found {
    InMemory(Batch),
    /// On disk, below this end.
    OnDisk(Offset),
}

impl Partition {
    pub fn new(name: TopicPartition, number: usize, extent: Extent) -> Partition {
        let state = State { extent, ring: VecDeque::new(), ring_bytes: 0, tails: BTreeMap::new(), tails_ever: 0 };
        Partition {
            name,
            number,
            removed: AtomicBool::new(false),
            state: Mutex::new(state),
            reserved: AtomicU64::new(0),
        }
    }

    /// Returns below which offset records may be shown that are not durable; zero when none was shown in this life.
    pub fn reserved(&self) -> Offset {
        Offset(self.reserved.load(Ordering::Relaxed))
    }

    /// Notes that the disk will pass every offset below `end` when it is opened again.
    pub fn set_reserved(&self, end: Offset) {
        self.reserved.store(end.0, Ordering::Relaxed);
    }

    /// Notes that its topic is gone.
    pub fn remove(&self) {
        self.removed.store(true, Ordering::SeqCst);
    }

    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::SeqCst)
    }

    pub fn extent(&self) -> Extent {
        self.lock().extent
    }

    /// Shows written records, which follow the end, and wakes who follows them.
    pub fn publish(&self, frames: Frames, last_append_time_ms: u64, ring_bytes_max: &AtomicUsize) {
        if frames.is_empty() {
            return;
        }
        let mut state = self.lock();
        let group = Group { first: state.extent.end, frames: Arc::new(frames) };
        state.extent.end = group.end();
        state.extent.last_append_time_ms = last_append_time_ms;
        state.ring_bytes += group.frames.bytes();
        state.ring.push_back(group);
        let dropped = state.shrink(ring_bytes_max.load(Ordering::Relaxed));
        let wakers: Vec<Waker> = state.tails.values().cloned().collect();
        drop(state);
        wakers.iter().for_each(|wake| wake());
        drop(dropped);
    }

    /// Registers a tail; its number ends it again.
    ///
    /// Errors: `Broken` when it would start beyond the end.
    pub fn follow(&self, from: Offset, wake: Waker) -> Result<u64, PortError> {
        let mut state = self.lock();
        if from > state.extent.end {
            return Err(PortError::broken(format!("{}@{from} lies beyond the end {}", self.name, state.extent.end)));
        }
        let number = state.tails_ever;
        state.tails_ever += 1;
        state.tails.insert(number, Arc::clone(&wake));
        let behind = from < state.extent.end;
        drop(state);
        if behind {
            wake();
        }
        Ok(number)
    }

    pub fn unfollow(&self, number: u64) {
        self.lock().tails.remove(&number);
    }

    /// Returns the records from `from` on, if the ring still has them.
    ///
    /// Errors: `Broken` when `from` was trimmed away.
    pub fn find(&self, from: Offset, limits: ReadLimits) -> Result<Found, PortError> {
        self.check_kept(from)?;
        let state = self.lock();
        let end = state.extent.end;
        if from >= end {
            return Ok(Found::InMemory(Batch { records: Vec::new(), next: from }));
        }
        if state.ring.front().is_none_or(|oldest| from < oldest.first) {
            return Ok(Found::OnDisk(end));
        }
        let first = state.ring.partition_point(|group| group.end() <= from);
        let (mut groups, mut records, mut bytes) = (Vec::new(), 0, 0);
        for group in state.ring.range(first..) {
            // How much of the first group is needed is not counted here: one group too many costs nothing.
            if groups.len() > 1 && (records >= limits.records_max || bytes >= limits.bytes_max) {
                break;
            }
            if !groups.is_empty() {
                records += group.frames.len();
                bytes += group.frames.bytes();
            }
            groups.push(group.clone());
        }
        drop(state);
        copy(&self.name, &groups, from, limits).map(Found::InMemory)
    }

    /// Errors: `Broken` when records from that offset on were trimmed away.
    pub fn check_kept(&self, from: Offset) -> Result<(), PortError> {
        match self.extent().start {
            start if from < start => {
                Err(PortError::broken(format!("{}@{from} was trimmed, it starts at {start}", self.name)))
            }
            _ => Ok(()),
        }
    }

    /// Moves the start up; returns where the partition then stands, or nothing when it does not move.
    pub fn trim(&self, before: Offset) -> Option<Extent> {
        let mut state = self.lock();
        let before = before.min(state.extent.end);
        (before > state.extent.start).then(|| {
            state.extent.start = before;
            state.extent
        })
    }

    /// Keeps at most so many bytes of records, the newest group in any case.
    pub fn shrink(&self, ring_bytes_max: usize) {
        let dropped = self.lock().shrink(ring_bytes_max);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn shrink(&mut self, ring_bytes_max: usize) -> Vec<Group> {
        let mut dropped = Vec::new();
        while self.ring_bytes > ring_bytes_max && self.ring.len() > 1 {
            let group = self.ring.pop_front().expect("there is more than one");
            self.ring_bytes -= group.frames.bytes();
            dropped.push(group);
        }
        dropped
    }
}

fn copy(partition: &TopicPartition, groups: &[Group], from: Offset, limits: ReadLimits) -> Result<Batch, PortError> {
    let mut batch = Batch { records: Vec::new(), next: from };
    let mut bytes = 0;
    for group in groups {
        // Within a group offsets have no gaps.
        let first = batch.next.0.saturating_sub(group.first.0) as usize;
        for index in first..group.frames.len() {
            if batch.records.len() >= limits.records_max || bytes >= limits.bytes_max {
                return Ok(batch);
            }
            let logged = decode(partition, Offset(group.first.0 + index as u64), group.frames.get(index))?;
            bytes += logged.record.bytes();
            batch.next = logged.offset.next();
            batch.records.push(logged);
        }
    }
    Ok(batch)
}
