//! Measures the log in the folder given: `cargo run --release --example measure_log -p rehome-embedded -- FOLDER`.

use rehome_embedded::{EmbeddedLog, Limits};
use rehome_keyspace::Offset;
use rehome_ports::{Lane, Log, ReadLimits, Signal};
use rehome_records::{Record, TopicPartition};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

const TOPIC: &str = "measured";
const LIMITS: ReadLimits = ReadLimits { records_max: 1000, bytes_max: 1 << 20 };

fn main() {
    let dir = std::env::args().nth(1).expect("usage: measure FOLDER");
    let dir = Path::new(&dir);
    let log: Arc<dyn Log> = EmbeddedLog::open(dir, Limits::default()).expect("the log opens");
    log.ensure_topic(TOPIC, 5).expect("a topic can be created");
    show("write 256 B, fdatasync: alone", bare_sync(dir));
    for appenders in [1, 16, 64] {
        show(&format!("append, acknowledged: {appenders} in a closed loop"), closed_loop(&log, appenders));
    }
    show("append until a waiting reader has it", until_read(&log));
    show("append until a reader has it, 20,000 other records/s", until_read_under_load(&log));
    for records in [1, 16] {
        println!("pipelined, {records} per append: {:.0} records/s", pipelined(&log, 1_000_000, records));
    }
    println!("read back: {:.0} records/s", read_back(&log));
}

fn record() -> Record {
    Record { key: Some(vec![b'k'; 16]), value: Some(vec![b'v'; 100]), headers: Vec::new() }
        .with_header("rh-epoch", 7u64.to_be_bytes())
        .with_header("rh-sort", vec![b's'; 16])
        .with_header("rh-request", [3; 16])
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{what}: p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms ({})", at(0.5), at(0.99), at(1.0), times.len());
}

fn bare_sync(dir: &Path) -> Vec<Duration> {
    let mut file = File::create(dir.join("bare")).expect("a file can be made");
    let mut once = || {
        let began = Instant::now();
        file.write_all(&[7; 256]).and_then(|()| file.sync_data()).expect("a file can be synced");
        began.elapsed()
    };
    (0..1000).map(|_| once()).collect()
}

fn append_one(log: &Arc<dyn Log>, partition: u32) -> Duration {
    let (told, answer) = sync_channel(1);
    let began = Instant::now();
    let done = move |result: Result<Vec<Offset>, _>| drop(told.send(result.map(|_| began.elapsed())));
    log.append(&TopicPartition::new(TOPIC, partition), Lane::Data, vec![record()], Box::new(done));
    answer.recv().expect("every append is answered").expect("the log takes a record")
}

fn closed_loop(log: &Arc<dyn Log>, appenders: u32) -> Vec<Duration> {
    let until = Instant::now() + Duration::from_secs(2);
    let work = |appender: u32| {
        let log = Arc::clone(log);
        move || {
            let mut times = Vec::new();
            while Instant::now() < until {
                times.push(append_one(&log, appender % 5));
            }
            times
        }
    };
    let threads: Vec<_> = (0..appenders).map(|appender| thread::spawn(work(appender))).collect();
    threads.into_iter().flat_map(|thread| thread.join().expect("an appender does not panic")).collect()
}

/// One appender, and a reader that sleeps until it is woken.
fn until_read(log: &Arc<dyn Log>) -> Vec<Duration> {
    let partition = TopicPartition::new(TOPIC, 0);
    let (told, end) = channel();
    log.end(&partition, Box::new(move |result| drop(told.send(result))));
    let from = end.recv().expect("it is answered").expect("the partition has an end");
    let signal = Signal::new();
    let mut tail = log.tail(&partition, from, signal.waker()).expect("the partition exists");
    let mut once = || {
        let began = Instant::now();
        log.append(&partition, Lane::Protocol, vec![record()], Box::new(|_| {}));
        loop {
            if !tail.poll(LIMITS).expect("the records are there").records.is_empty() {
                return began.elapsed();
            }
            signal.wait(None);
        }
    };
    (0..1000).map(|_| once()).collect()
}

fn until_read_under_load(log: &Arc<dyn Log>) -> Vec<Duration> {
    let stop = Arc::new(AtomicUsize::new(0));
    let load = {
        let (log, stop) = (Arc::clone(log), Arc::clone(&stop));
        thread::spawn(move || {
            let mut due = Instant::now();
            while stop.load(Ordering::Relaxed) == 0 {
                for partition in 1..5 {
                    let records = (0..5).map(|_| record()).collect();
                    log.append(&TopicPartition::new(TOPIC, partition), Lane::Data, records, Box::new(|_| {}));
                }
                due += Duration::from_millis(1);
                thread::park_timeout(due.saturating_duration_since(Instant::now()));
            }
        })
    };
    let times = until_read(log);
    stop.store(1, Ordering::Relaxed);
    load.join().expect("the load does not panic");
    times
}

/// Keeps up to 20,000 records on their way, over five partitions.
fn pipelined(log: &Arc<dyn Log>, records: usize, per_append: usize) -> f64 {
    let (told, answers) = channel();
    let mut flying = 0;
    let began = Instant::now();
    for number in 0..records / per_append {
        while flying >= 20_000 / per_append {
            answers.recv().expect("every append is answered");
            flying -= 1;
        }
        let told = told.clone();
        let done = move |result: Result<Vec<Offset>, _>| {
            drop(told.send(result.expect("the log takes records")));
        };
        let batch = (0..per_append).map(|_| record()).collect();
        log.append(&TopicPartition::new(TOPIC, (number % 5) as u32), Lane::Data, batch, Box::new(done));
        flying += 1;
    }
    (0..flying).for_each(|_| drop(answers.recv().expect("every append is answered")));
    records as f64 / began.elapsed().as_secs_f64()
}

fn read_back(log: &Arc<dyn Log>) -> f64 {
    let began = Instant::now();
    let mut tail = log.tail(&TopicPartition::new(TOPIC, 0), Offset(0), Signal::new().waker()).expect("it exists");
    let mut records = 0;
    loop {
        match tail.poll(LIMITS).expect("the records are there").records.len() {
            0 => return records as f64 / began.elapsed().as_secs_f64(),
            more => records += more,
        }
    }
}
