//! Measures stores in the folder given: `cargo run --release --example measure_stores -p rehome-rocks -- FOLDER`.

use rehome_keyspace::{KeyRange, KeyspaceId, ShardId};
use rehome_ports::conformance::snapshots::manifest;
use rehome_ports::{Change, Reader, SnapshotStore, Store};
use rehome_rocks::{RocksNode, SnapshotFolder};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ROWS: u64 = 2_000_000;
const BATCH: u64 = 1000;

fn main() {
    let dir = std::env::args().nth(1).expect("usage: measure FOLDER");
    let dir = Path::new(&dir);
    let node = RocksNode::open(&dir.join("stores")).expect("a node opens");
    let store = node.store(KeyspaceId(7), ShardId(0)).expect("a store opens");

    rate("blind puts", ROWS, || (0..ROWS).step_by(BATCH as usize).for_each(|first| put(&*store, first)));
    rate("lookups of absent keys", 200_000, || {
        (0..200_000).for_each(|number| assert_eq!(store.get(&[&[0x11], &key(number)[..]].concat()), Ok(None)));
    });
    rate("lookups of present keys", 200_000, || {
        (0..200_000).for_each(|number| assert!(store.get(&key(number * 7919 % ROWS)).expect("a read works").is_some()));
    });
    rate("scanned rows", ROWS, || assert_eq!(count(&*store), ROWS));

    let snapshots = SnapshotFolder::open(&dir.join("snapshots")).expect("a folder opens");
    let mut runs = Vec::new();
    rate("exported rows", ROWS, || {
        let writer = snapshots.create("s").expect("a snapshot can be started");
        let mut part = writer.part(0).expect("a part can be started");
        let looked = store.snapshot(&mut |reader| {
            reader.scan(&KeyRange::all(), false, &mut |key, value| {
                part.add(key, value).expect("keys ascend");
                ControlFlow::Continue(())
            })
        });
        looked.expect("a snapshot works");
        runs = part.finish().expect("runs can be ended");
        writer.seal(&manifest(runs.clone())).expect("a snapshot can be sealed");
    });
    println!("exported: {} runs, {} bytes", runs.len(), runs.iter().map(|run| run.bytes).sum::<u64>());

    // Into a store that is written to meanwhile, below the range and (with `around`) on both sides of it.
    for (shard, around) in [(1, false), (2, true)] {
        let target = node.store(KeyspaceId(7), ShardId(shard)).expect("a store opens");
        let writing = Writing::start(&target, around);
        took("wipe of an empty range", || target.wipe(&[rows()]).expect("a wipe works"));
        took("ingest", || target.ingest(&snapshots, "s", &manifest(runs.clone())).expect("an ingest works"));
        took("wipe", || target.wipe(&[rows()]).expect("a wipe works"));
        let (writes, longest) = writing.stop();
        println!("around: {around}; {writes} batches meanwhile, the longest took {longest:.3?}");
        if !around {
            let writer = snapshots.create("s").expect("a snapshot can be started");
            let mut part = writer.part(0).expect("a part can be started");
            (0..ROWS).for_each(|number| part.add(&key(number), &[b'v'; 116]).expect("keys ascend"));
            runs = part.finish().expect("runs can be ended");
            writer.seal(&manifest(runs.clone())).expect("a snapshot can be sealed");
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
}

fn key(number: u64) -> [u8; 24] {
    let mut key = [0x10; 24];
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

fn rows() -> KeyRange {
    KeyRange::new(key(0).to_vec(), Some(key(ROWS).to_vec()))
}

fn put(store: &dyn Store, first: u64) {
    // Scattered, as hashed keys are.
    let change = |number| Change::Put { key: key(number * 7919 % ROWS).to_vec(), value: vec![b'v'; 116] };
    store.write((first..first + BATCH).map(change).collect()).expect("a batch is taken");
}

fn count(reader: &dyn Reader) -> u64 {
    let mut count = 0;
    let scanned = reader.scan(&KeyRange::all(), false, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    });
    scanned.expect("a scan works");
    count
}

/// A thread that writes small batches, and remembers the longest.
struct Writing {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<(u64, Duration)>,
}

impl Writing {
    fn start(store: &Arc<dyn Store>, around: bool) -> Writing {
        let (store, stop) = (Arc::clone(store), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut writes, mut longest) = (0, Duration::ZERO);
            while !stopped.load(Ordering::Relaxed) {
                let prefix: &[u8] = if around && writes % 2 == 0 { &[0x12] } else { &[0x01] };
                let changes = (0..10u64).map(|number| Change::Put {
                    key: [prefix, &(writes * 10 + number).to_be_bytes()].concat(),
                    value: vec![b'w'; 116],
                });
                let inside = Change::Put { key: [&key(ROWS / 2)[..], b"+"].concat(), value: Vec::new() };
                let began = Instant::now();
                store.write(changes.chain(around.then_some(inside)).collect()).expect("a batch is taken");
                longest = longest.max(began.elapsed());
                writes += 1;
                thread::park_timeout(Duration::from_micros(500));
            }
            (writes, longest)
        });
        Writing { stop, thread }
    }

    fn stop(self) -> (u64, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the writer does not panic")
    }
}

fn rate(what: &str, count: u64, work: impl FnOnce()) {
    let began = Instant::now();
    work();
    println!("{what}: {:.0}/s", count as f64 / began.elapsed().as_secs_f64());
}

fn took(what: &str, work: impl FnOnce()) {
    let began = Instant::now();
    work();
    println!("{what}: {:.3?}", began.elapsed());
}
