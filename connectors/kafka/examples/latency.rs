//! Measures what the log adds to Kafka: from producing a record until a reader has it, through the log and by rdkafka
//! alone, in turns within one run; and two hops, as a fence and its `Ready` make them, beside the same load.
//!
//! `cargo run -p rehome-kafka --example latency [LINGER_US [BROKERS]]`; without brokers it starts one in a container.
//! The first rounds are not counted: a new broker compiles itself.

// A measurement says why it cannot go on by stopping.
#![allow(clippy::unwrap_used)]

#[path = "../tests/broker/mod.rs"]
mod broker;

use broker::{Broker, end, open, record, send_to};
use hdrhistogram::Histogram;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, ThreadedProducer};
use rdkafka::{Offset as NativeOffset, TopicPartitionList};
use rehome_kafka::{KafkaConfig, KafkaLog};
use rehome_ports::{Lane, Log, ReadLimits, Signal};
use rehome_records::TopicPartition;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PARTITIONS: u32 = 4;
const PER_SECOND: u64 = 10_000;
const SECONDS: u64 = 6;
const ROUNDS: usize = 6;
const WARMING: usize = 3;
const TWO_HOPS: usize = 400;
const VALUE_BYTES: usize = 116;
const TOPIC: &str = "load";
const CONTROL: &str = "control";
const LIMITS: ReadLimits = ReadLimits { records_max: 1000, bytes_max: 1 << 20 };

fn main() {
    let started = std::env::args().nth(2).map_or_else(|| Ok(Broker::start()), Err);
    let mut config = match &started {
        Ok(broker) => broker.config(),
        Err(brokers) => KafkaConfig::new(brokers.clone()),
    };
    config.topic_prefix = format!("latency-{}.", std::process::id());
    if let Some(linger) = std::env::args().nth(1) {
        config.data_linger = Duration::from_micros(linger.parse().expect("LINGER_US is a number"));
    }
    config.replication_factor = 1;
    config.min_insync_replicas = 1;
    let log = open(&config);
    log.ensure_topic(TOPIC, PARTITIONS).unwrap();
    log.ensure_topic(CONTROL, 1).unwrap();
    let clock = Clock(Instant::now());
    println!("{PER_SECOND} records/s of {VALUE_BYTES} bytes over {PARTITIONS} partitions, {SECONDS} s each");
    println!("from producing until a reader has it, ms: p50 p99 max");
    let (mut all_bare, mut all_log) = (histogram(), histogram());
    for round in 1..=ROUNDS {
        let bare = bare(&log, &config, clock);
        let through = through(&log, clock, |_| ());
        println!("  round {round}: rdkafka alone {}   the log {}", figures(&bare), figures(&through));
        if round > WARMING {
            all_bare.add(&bare).unwrap();
            all_log.add(&through).unwrap();
        }
    }
    println!("  counted: rdkafka alone {}   the log {}", figures(&all_bare), figures(&all_log));
    let added = (all_log.value_at_quantile(0.5) as f64 - all_bare.value_at_quantile(0.5) as f64) / 1e6;
    println!("  added at the median: {added:.2} ms");
    let mut hops = histogram();
    through(&log, clock, |log| hops = two_hops(log, clock));
    println!("two hops beside that load, ms: {} ({} of them)", figures(&hops), hops.len());
    log.remove_topic(TOPIC).unwrap();
    log.remove_topic(CONTROL).unwrap();
}

#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn nanos(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap()
    }

    fn stamp(self) -> Vec<u8> {
        let mut value = self.nanos().to_be_bytes().to_vec();
        value.resize(VALUE_BYTES, 7);
        value
    }

    fn since(self, value: &[u8]) -> u64 {
        self.nanos() - u64::from_be_bytes(value[..8].try_into().unwrap())
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).unwrap()
}

fn figures(histogram: &Histogram<u64>) -> String {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e6;
    format!("{:.2} {:.2} {:.1}", at(0.5), at(0.99), at(1.0))
}

/// Calls once for each record that is due, in steps of a millisecond: waking for each by itself costs more than it shows.
fn paced(mut produce: impl FnMut(u64)) {
    let began = Instant::now();
    for number in 0..PER_SECOND * SECONDS {
        let due = began + Duration::from_millis(number * 1_000 / PER_SECOND);
        let now = Instant::now();
        if due > now {
            // tidy: sleep because records are produced at a pace.
            thread::sleep(due - now);
        }
        produce(number);
    }
}

/// What a program on rdkafka with the same settings has: one producer, one consumer of all partitions.
fn bare(log: &KafkaLog, config: &KafkaConfig, clock: Clock) -> Histogram<u64> {
    let name = config.name(TOPIC);
    let producer: ThreadedProducer<DefaultProducerContext> = config.producer(config.data_linger).create().unwrap();
    let consumer: BaseConsumer = config.consumer().set("enable.partition.eof", "false").create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        let end = end(log, &TopicPartition::new(TOPIC, partition)).unwrap();
        list.add_partition_offset(&name, partition as i32, NativeOffset::Offset(end.0 as i64)).unwrap();
    }
    consumer.assign(&list).unwrap();
    let warm = Instant::now() + Duration::from_millis(500);
    while Instant::now() < warm {
        drop(consumer.poll(Duration::from_millis(10)));
    }
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut histogram = histogram();
            while histogram.len() < PER_SECOND * SECONDS {
                match consumer.poll(Duration::from_secs(20)) {
                    Some(Ok(message)) => histogram.record(clock.since(message.payload().unwrap())).unwrap(),
                    other => panic!("{:?}", other.map(|result| result.map(drop))),
                }
            }
            histogram
        });
        paced(|number| {
            let value = clock.stamp();
            let record = BaseRecord::<[u8], [u8]>::to(&name).partition((number % u64::from(PARTITIONS)) as i32);
            producer.send(record.payload(&value)).map_err(|(error, _)| error).unwrap();
        });
        reader.join().unwrap()
    })
}

/// The same through the log: a thread for each partition that waits until it is woken, as a replica's does.
fn through(log: &Arc<KafkaLog>, clock: Clock, beside: impl FnOnce(&Arc<KafkaLog>) + Send) -> Histogram<u64> {
    thread::scope(|scope| {
        let each = PER_SECOND * SECONDS / u64::from(PARTITIONS);
        let readers: Vec<_> = (0..PARTITIONS)
            .map(|partition| {
                let signal = Signal::new();
                let partition = TopicPartition::new(TOPIC, partition);
                let from = end(log, &partition).unwrap();
                let mut tail = log.tail(&partition, from, signal.waker()).unwrap();
                scope.spawn(move || {
                    let mut histogram = histogram();
                    while histogram.len() < each {
                        let batch = tail.poll(LIMITS).unwrap();
                        for logged in &batch.records {
                            histogram.record(clock.since(logged.record.value.as_deref().unwrap())).unwrap();
                        }
                        if batch.records.is_empty() {
                            signal.wait(None);
                        }
                    }
                    histogram
                })
            })
            .collect();
        // tidy: sleep because readers stand at the ends before it begins.
        thread::sleep(Duration::from_millis(500));
        let beside = scope.spawn(|| beside(log));
        paced(|number| {
            let partition = TopicPartition::new(TOPIC, (number % u64::from(PARTITIONS)) as u32);
            log.append(&partition, Lane::Data, vec![record(clock.stamp())], Box::new(|result| drop(result.unwrap())));
        });
        beside.join().unwrap();
        let mut all = histogram();
        for reader in readers {
            all.add(reader.join().unwrap()).unwrap();
        }
        all
    })
}

/// A mark in a loaded partition; whoever reads it answers in the control topic; until a third has read that.
fn two_hops(log: &Arc<KafkaLog>, clock: Clock) -> Histogram<u64> {
    let (source, control) = (TopicPartition::new(TOPIC, 0), TopicPartition::new(CONTROL, 0));
    let stop = AtomicBool::new(false);
    let (at_source, at_control) = (Signal::new(), Signal::new());
    let mut source_tail = log.tail(&source, end(log, &source).unwrap(), at_source.waker()).unwrap();
    let mut control_tail = log.tail(&control, end(log, &control).unwrap(), at_control.waker()).unwrap();
    // tidy: sleep because readers stand at the ends before it begins.
    thread::sleep(Duration::from_millis(300));
    let mut histogram = histogram();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let batch = source_tail.poll(LIMITS).unwrap();
                for logged in batch.records.iter().filter(|logged| logged.record.header("mark").is_some()) {
                    let answer = logged.record.clone();
                    log.append(&control, Lane::Protocol, vec![answer], Box::new(|result| drop(result.unwrap())));
                }
                if batch.records.is_empty() {
                    at_source.wait(Some(Instant::now() + Duration::from_millis(100)));
                }
            }
        });
        for _ in 0..TWO_HOPS {
            let mark = record(clock.stamp()).with_header("mark", *b"1");
            drop(send_to(log, &source, Lane::Protocol, vec![mark]));
            loop {
                let batch = control_tail.poll(LIMITS).unwrap();
                if let Some(logged) = batch.records.first() {
                    histogram.record(clock.since(logged.record.value.as_deref().unwrap())).unwrap();
                    break;
                }
                at_control.wait(None);
            }
            // tidy: sleep because marks come now and then.
            thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
    });
    histogram
}
