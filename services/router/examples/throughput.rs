//! Prints what one write costs in the router: one thread, a log and replicas that answer at once.
//!
//! `cargo run --release -p rehome-router --example throughput`

use rehome_control_log::{ControlFollower, control_partition};
use rehome_keyspace::{Epoch, KeyspaceId, Offset, Placement, RequestId, ShardId, Version};
use rehome_ports::{
    AppendDone, Batch, EndDone, Lane, Log, PortError, ReadDone, ReadLimits, ReadRefused, ReadRequest, Replicas, Role,
    Tail, VerdictBatch, Waker,
};
use rehome_records::{ControlEvent, ControlRecord, Logged, Operation, Record, RowChange, TopicPartition, Verdict};
use rehome_router::{Router, RouterHandle, RouterLimits, WriteAsk};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const SHARDS: u32 = 4;
const KEYSPACE: KeyspaceId = KeyspaceId(0);

/// Acknowledges at once, and keeps of each shard what was appended since the last look.
struct Instantly {
    partitions: Vec<Mutex<(u64, Vec<Offset>)>>,
}

impl Log for Instantly {
    fn ensure_topic(&self, _: &str, _: u32) -> Result<(), PortError> {
        Ok(())
    }

    fn remove_topic(&self, _: &str) -> Result<(), PortError> {
        Ok(())
    }

    fn partitions(&self, _: &str) -> Result<Option<u32>, PortError> {
        Ok(Some(SHARDS))
    }

    fn append(&self, partition: &TopicPartition, _: Lane, records: Vec<Record>, done: AppendDone) {
        let mut partition = self.partitions[partition.partition as usize].lock().expect("no thread panics");
        let first = partition.0;
        partition.0 += records.len() as u64;
        let offsets: Vec<Offset> = (first..partition.0).map(Offset).collect();
        partition.1.extend(&offsets);
        drop(partition);
        done(Ok(offsets));
    }

    fn tail(&self, partition: &TopicPartition, _: Offset, _: Waker) -> Result<Box<dyn Tail>, PortError> {
        assert_eq!(*partition, control_partition());
        Ok(Box::new(OneKeyspace { told: false }))
    }

    fn end(&self, _: &TopicPartition, done: EndDone) {
        done(Ok(Offset(0)));
    }

    fn start(&self, _: &TopicPartition) -> Result<Offset, PortError> {
        Ok(Offset(0))
    }

    fn sync(&self) -> Result<(), PortError> {
        Ok(())
    }

    fn trim(&self, _: &TopicPartition, _: Offset) -> Result<(), PortError> {
        Ok(())
    }
}

struct OneKeyspace {
    told: bool,
}

impl Tail for OneKeyspace {
    fn poll(&mut self, _: ReadLimits) -> Result<Batch, PortError> {
        if std::mem::replace(&mut self.told, true) {
            return Ok(Batch { records: Vec::new(), next: Offset(1) });
        }
        let event = ControlEvent::KeyspaceCreated {
            name: "k".into(),
            placement: Placement::buckets(4096).expect("a valid count"),
            shards: SHARDS,
            request_retention_ms: 1,
        };
        let record = ControlRecord { command: 1, event }.into_record();
        Ok(Batch { records: vec![Logged { offset: Offset(0), append_time_ms: 0, record }], next: Offset(1) })
    }
}

struct Nobody;

impl Replicas for Nobody {
    fn read(&self, _: KeyspaceId, _: ShardId, _: ReadRequest, done: ReadDone) {
        done(Err(ReadRefused::Unavailable { reason: "nobody".into() }));
    }
}

fn main() {
    println!("{:>10} {:>14} {:>14}", "in flight", "writes/s", "us per write");
    for in_flight in [1, 8, 64, 512, 4096] {
        let (writes, seconds) = run(in_flight);
        println!("{in_flight:>10} {:>14.0} {:>14.2}", writes as f64 / seconds, seconds * 1e6 / writes as f64);
    }
}

/// Writes so many at a time until enough were answered; returns how many, and the seconds that took.
fn run(in_flight: usize) -> (u64, f64) {
    let log = Arc::new(Instantly { partitions: (0..SHARDS).map(|_| Mutex::default()).collect() });
    let wake: Waker = Arc::new(|| {});
    let handle = RouterHandle::new(RouterLimits::STANDARD, Arc::clone(&wake));
    let follower = ControlFollower::new(&*log, wake).expect("the control log is there");
    let mut ids = 0u128;
    let request_ids = Box::new(move || {
        ids += 1;
        RequestId(ids.to_be_bytes())
    });
    let mut router =
        Router::new(handle.clone(), follower, Arc::clone(&log) as Arc<dyn Log>, Arc::new(Nobody), request_ids);
    let sink = handle.verdict_sink();
    let answered = Arc::new(AtomicU64::new(0));
    let wanted = if in_flight < 8 { 200_000 } else { 1_000_000 };
    router.turn(0);
    let started = Instant::now();
    let mut asked = 0u64;
    while answered.load(Ordering::Relaxed) < wanted {
        let asks = (0..in_flight).map(|_| {
            asked += 1;
            let answered = Arc::clone(&answered);
            let done: rehome_router::WriteDone = Box::new(move |answer| {
                assert!(answer.is_ok_and(|answer| answer.is_done()));
                answered.fetch_add(1, Ordering::Relaxed);
            });
            (write(asked), done)
        });
        handle.write_many(asks.collect());
        // One turn takes the asks in and sends them, one their acks, one their verdicts.
        router.turn(asked);
        router.turn(asked);
        for (shard, partition) in log.partitions.iter().enumerate() {
            let offsets = std::mem::take(&mut partition.lock().expect("no thread panics").1);
            let Some(applied) = offsets.last().copied() else { continue };
            let epoch = Epoch(shard as u64 + 1);
            let accepted = |offset| (offset, Verdict::Accepted { version: Version { epoch, offset } });
            let verdicts = offsets.into_iter().map(accepted).collect();
            sink(VerdictBatch { keyspace: KEYSPACE, shard: ShardId(shard as u32), verdicts, applied });
        }
        router.turn(asked);
    }
    (asked, started.elapsed().as_secs_f64())
}

fn write(number: u64) -> WriteAsk {
    let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 100_000;
    WriteAsk {
        keyspace: KEYSPACE,
        partition_key: format!("key-{key}").into_bytes(),
        operation: Operation::Change(RowChange { sort_key: b"sort".to_vec(), value: Some(vec![7; 100]) }),
        request: None,
        source: None,
        deadline_ms: number + 1_000_000,
    }
}
