//! What Kafka gives by itself, in the same run: records of the same size, produced and consumed by a program on rdkafka with
//! the log's own settings. The ceiling of acknowledged writes, which are produced and consumed once each.

use super::figures::Figures;
use super::rows::{KEY_BYTES, VALUE_BYTES};
use crate::over_kafka::OverKafka;
use crate::workload::run_for;
use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};
use rehome_ports::Log;
use std::time::{Duration, Instant};

const TOPIC: &str = "bare";
/// Longest time until a record comes back.
const TRIP_MAX: Duration = Duration::from_secs(30);
/// Time until the consumer has found its partitions.
const FIND: Duration = Duration::from_secs(2);
/// Time before anything is noted.
const WARM_UP: Duration = Duration::from_secs(1);
/// Records that are due within this time are produced together, as the system's arrivals are.
const PACE: Duration = Duration::from_micros(250);

struct Bare {
    name: String,
    partitions: u32,
    producer: ThreadedProducer<DefaultProducerContext>,
    consumer: BaseConsumer,
    began: Instant,
    produced: u64,
}

/// What came back.
struct Trips {
    trips: u64,
    took: Duration,
    times: Histogram<u64>,
}

/// Measures with a topic of its own, which is made and removed: as many records as go round with so many on their way, and
/// the trip at each rate.
pub fn measure(
    broker: &OverKafka,
    partitions: u32,
    in_flight: u32,
    rates: &[u32],
    seconds: u64,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let (log, config) = (broker.log(), broker.config());
    log.ensure_topic(TOPIC, partitions)?;
    let name = config.name(TOPIC);
    let consumer: BaseConsumer = config.consumer().set("enable.partition.eof", "false").create()?;
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(&name, i32::try_from(partition)?, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    let producer = config.producer(config.data_linger).create()?;
    let mut bare = Bare { name, partitions, producer, consumer, began: Instant::now(), produced: 0 };
    run_for(FIND);
    let time = Duration::from_secs(seconds);
    for in_flight in [in_flight, 16 * in_flight] {
        let closed = bare.closed_loop(in_flight, time)?;
        figures.rate(format!("kafka_alone_{in_flight}_in_flight_per_sec"), closed.trips, closed.took);
    }
    for rate in rates {
        let paced = bare.paced(*rate, time)?;
        figures.rate(format!("kafka_alone_at_{rate}_per_sec"), paced.trips, paced.took);
        figures.latency(&format!("kafka_alone_at_{rate}_trip"), &paced.times);
    }
    drop(bare);
    log.remove_topic(TOPIC)?;
    Ok(())
}

impl Bare {
    /// Produces a record that tells when it was due, in microseconds since the beginning.
    fn produce(&mut self, due_us: u64) -> anyhow::Result<()> {
        let mut value = [7; VALUE_BYTES];
        value[..8].copy_from_slice(&due_us.to_be_bytes());
        let partition = i32::try_from(self.produced % u64::from(self.partitions))?;
        let record = BaseRecord::<[u8], [u8]>::to(&self.name).partition(partition);
        let sent = self.producer.send(record.key(&[b'k'; KEY_BYTES]).payload(&value));
        sent.map_err(|(error, _)| error).context("a record is not taken")?;
        self.produced += 1;
        Ok(())
    }

    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Takes what has come, after waiting at most that long for the first; calls with when each was due.
    fn take(&self, wait: Duration, mut visit: impl FnMut(u64)) -> anyhow::Result<u64> {
        let (mut taken, mut wait) = (0, wait);
        while let Some(message) = self.consumer.poll(wait) {
            let message = message.context("a record does not come back")?;
            let due = message.payload().and_then(|value| value.first_chunk::<8>()).context("a foreign record")?;
            visit(u64::from_be_bytes(*due));
            (taken, wait) = (taken + 1, Duration::ZERO);
        }
        Ok(taken)
    }

    /// Keeps so many records on their way.
    fn closed_loop(&mut self, in_flight: u32, time: Duration) -> anyhow::Result<Trips> {
        let (began, mut back, mut sent) = (Instant::now(), 0, 0);
        let mut times = Histogram::new(3)?;
        loop {
            while sent - back < u64::from(in_flight) && began.elapsed() < time {
                self.produce(self.now_us())?;
                sent += 1;
            }
            if sent == back {
                return Ok(Trips { trips: back, took: began.elapsed(), times });
            }
            let now = self.now_us();
            let taken = self.take(TRIP_MAX, |due| times.record(now.saturating_sub(due)).unwrap_or(()))?;
            ensure!(taken > 0, "nothing comes back after {TRIP_MAX:?}");
            back += taken;
        }
    }

    /// Produces on a schedule; a trip counts from the scheduled time.
    fn paced(&mut self, rate: u32, time: Duration) -> anyhow::Result<Trips> {
        let (start_us, warm) = (self.now_us(), WARM_UP.as_micros() as u64);
        let end_us = start_us + (WARM_UP + time).as_micros() as u64;
        let mut times = Histogram::new(3)?;
        let (mut sent, mut back) = (0, 0);
        loop {
            let now = self.now_us().min(end_us);
            let due = ((now - start_us) as f64 / 1e6 * f64::from(rate)) as u64;
            while sent < due {
                self.produce(start_us + (sent as f64 / f64::from(rate) * 1e6) as u64)?;
                sent += 1;
            }
            let began = self.began;
            back += self.take(PACE, |due| {
                if due >= start_us + warm {
                    times.record((began.elapsed().as_micros() as u64).saturating_sub(due)).unwrap_or(());
                }
            })?;
            let now = self.now_us();
            if now >= end_us && sent == back {
                return Ok(Trips { trips: back, took: Duration::from_micros(now - start_us), times });
            }
            ensure!(now < end_us + TRIP_MAX.as_micros() as u64, "records do not come back after {TRIP_MAX:?}");
        }
    }
}
