//! What waits for the committer: bounded, marks before data.

use crate::frames::Frames;
use crate::options::Limits;
use crate::partition::Partition;
use rehome_ports::{AppendDone, Lane, PortError};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Records of a group from which on data comes so fast that the next group gathers for a while.
const FAST_RECORDS: usize = 8;

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
    /// The next group gathers until then.
    gather_until: Option<Instant>,
    /// The committer waits for that, so that it need not be told of more data.
    gathering: bool,
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
        let is_awaited = !lanes.gathering || append.lane == Lane::Protocol;
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
        if is_awaited {
            self.filled.notify_one();
        }
    }

    /// Waits for appends and takes the next group, marks first. Data that comes fast gathers a little. Nothing once the
    /// queue is stopped and empty.
    pub fn take(&self) -> Option<Vec<Append>> {
        let mut lanes = self.lock();
        while lanes.protocol.appends.is_empty() && lanes.data.appends.is_empty() {
            if lanes.stopped.is_some() {
                return None;
            }
            lanes = self.filled.wait(lanes).unwrap_or_else(PoisonError::into_inner);
        }
        lanes = self.gather(lanes);
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
        let gathers = lanes.stopped.is_none() && records >= FAST_RECORDS;
        lanes.gather_until = gathers.then(|| Instant::now() + self.limits.gather);
        Some(group)
    }

    /// Waits while data gathers, unless a mark is there or the queue is stopped.
    fn gather<'a>(&self, mut lanes: MutexGuard<'a, Lanes>) -> MutexGuard<'a, Lanes> {
        let Some(until) = lanes.gather_until.take() else { return lanes };
        lanes.gathering = true;
        while lanes.protocol.appends.is_empty() && lanes.stopped.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            lanes = self.filled.wait_timeout(lanes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        lanes.gathering = false;
        lanes
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Extent;
    use rehome_records::{Record, TopicPartition};
    use std::sync::mpsc;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(600);

    fn queue(gather: Duration) -> Arc<Queue> {
        Arc::new(Queue::new(Limits { gather, ..Limits::default() }))
    }

    fn push(queue: &Queue, lane: Lane, records: usize) {
        let partition = Arc::new(Partition::new(TopicPartition::new("t", 0), 0, Extent::default()));
        let record = Record { key: None, value: Some(vec![7]), headers: Vec::new() };
        let frames = Frames::encode(&vec![record; records], 1);
        let done: AppendDone = Box::new(|_| {});
        queue.push(Append { partition, lane, frames, append_time_ms: 1, done });
    }

    /// Takes the next group on another thread, and tells its lanes once it has it.
    fn take(queue: &Arc<Queue>) -> mpsc::Receiver<Vec<Lane>> {
        let (tell, told) = mpsc::channel();
        let queue = Arc::clone(queue);
        std::thread::spawn(move || {
            let group = queue.take().unwrap_or_default();
            tell.send(group.iter().map(|append| append.lane).collect()).expect("the test listens");
        });
        told
    }

    #[test]
    fn data_that_comes_fast_gathers_until_a_mark_comes_or_the_end() {
        let queue = queue(LONG);
        push(&queue, Lane::Data, FAST_RECORDS);
        assert_eq!(take(&queue).recv(), Ok(vec![Lane::Data]));
        push(&queue, Lane::Data, 1);
        let gathering = take(&queue);
        push(&queue, Lane::Data, 1);
        push(&queue, Lane::Protocol, 1);
        let group = gathering.recv_timeout(Duration::from_secs(30));
        assert_eq!(group, Ok(vec![Lane::Protocol, Lane::Data, Lane::Data]), "a mark never waits");
        push(&queue, Lane::Data, FAST_RECORDS);
        assert_eq!(take(&queue).recv_timeout(Duration::from_secs(30)), Ok(vec![Lane::Data]), "a slow group before it");
        push(&queue, Lane::Data, 1);
        let gathering = take(&queue);
        queue.stop(PortError::broken("the end"));
        assert_eq!(gathering.recv_timeout(Duration::from_secs(30)), Ok(vec![Lane::Data]));
    }

    #[test]
    fn the_first_record_after_a_fast_group_is_not_missed() {
        let queue = queue(Duration::from_micros(100));
        // Often enough that the take waits before the record comes, and the other way round.
        for _ in 0..200 {
            push(&queue, Lane::Data, FAST_RECORDS);
            assert_eq!(queue.take().map(|group| group.len()), Some(1));
            let waiting = take(&queue);
            std::thread::yield_now();
            push(&queue, Lane::Data, 1);
            assert_eq!(waiting.recv_timeout(Duration::from_secs(30)), Ok(vec![Lane::Data]));
        }
    }

    #[test]
    fn data_gathers_no_longer_than_that() {
        const SHORT: Duration = Duration::from_millis(50);
        let queue = queue(SHORT);
        push(&queue, Lane::Data, FAST_RECORDS);
        let began = Instant::now();
        assert_eq!(queue.take().map(|group| group.len()), Some(1));
        push(&queue, Lane::Data, 1);
        push(&queue, Lane::Data, 1);
        assert_eq!(queue.take().map(|group| group.len()), Some(2));
        assert!(began.elapsed() >= SHORT, "{:?}", began.elapsed());
    }
}
