//! A broker that dies, stands still or refuses a producer, in the middle of appends.

// In the helpers as in the tests themselves.
#![allow(clippy::unwrap_used)]

mod broker;

use broker::{Answer, Broker, DEADLINE, Reader, end, open, partition, record, send, send_to, wait};
use rehome_kafka::{KafkaConfig, KafkaLog};
use rehome_keyspace::Offset;
use rehome_ports::{Lane, Log, Remedy};
use rehome_records::TopicPartition;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Appends numbered records, some always on their way, and notes what became of each.
struct Appender {
    log: Arc<KafkaLog>,
    /// Records are numbers with zeros before them up to so many digits.
    digits: usize,
    on_their_way: VecDeque<(usize, Answer<Vec<Offset>>)>,
    sent: usize,
    acknowledged: BTreeMap<usize, Offset>,
    unknown: Vec<usize>,
    not_applied: Vec<usize>,
}

const ON_THEIR_WAY: usize = 200;

impl Appender {
    fn new(log: &Arc<KafkaLog>) -> Appender {
        Appender {
            log: Arc::clone(log),
            digits: 1,
            on_their_way: VecDeque::new(),
            sent: 0,
            acknowledged: BTreeMap::new(),
            unknown: Vec::new(),
            not_applied: Vec::new(),
        }
    }

    fn send(&mut self) {
        let number = self.sent;
        self.sent += 1;
        let digits = self.digits;
        self.on_their_way.push_back((number, send(&self.log, Lane::Data, vec![record(format!("{number:0digits$}"))])));
    }

    fn settle(&mut self) {
        let Some((number, answer)) = self.on_their_way.pop_front() else { return };
        match wait(&answer) {
            Ok(offsets) => drop(self.acknowledged.insert(number, offsets[0])),
            Err(error) if error.remedy == Remedy::Unknown => self.unknown.push(number),
            Err(error) => {
                assert_eq!(error.remedy, Remedy::NotApplied, "{error}");
                self.not_applied.push(number);
            }
        }
    }

    /// Goes on until so many more are acknowledged.
    fn acknowledge(&mut self, more: usize) {
        let wanted = self.acknowledged.len() + more;
        let deadline = Instant::now() + DEADLINE;
        while self.acknowledged.len() < wanted {
            assert!(Instant::now() < deadline, "only {} of {wanted} were acknowledged", self.acknowledged.len());
            while self.on_their_way.len() < ON_THEIR_WAY {
                self.send();
            }
            self.settle();
        }
    }

    fn settle_all(&mut self) {
        while !self.on_their_way.is_empty() {
            self.settle();
        }
    }

    /// Acknowledged: there, once, at its offset, in order. Unknown: at most once. Not applied: not there.
    fn check(&self) {
        let mut reader = Reader::new(&self.log, Offset(0));
        reader.read_to(end(&self.log, &partition()).unwrap());
        let numbers: Vec<usize> = reader.texts().iter().map(|text| text.parse().unwrap()).collect();
        let found: BTreeMap<usize, Offset> =
            numbers.iter().copied().zip(reader.records.iter().map(|logged| logged.offset)).collect();
        assert_eq!(found.len(), numbers.len(), "none is there twice");
        assert!(self.acknowledged.values().is_sorted_by(|a, b| a < b), "in the order of the appends");
        for (number, offset) in &self.acknowledged {
            assert_eq!(found.get(number), Some(offset), "record {number} was acknowledged");
        }
        for number in &self.not_applied {
            assert_eq!(found.get(number), None, "record {number} was certainly not applied");
        }
        let accounted = self.acknowledged.len() + self.unknown.len() + self.not_applied.len();
        assert_eq!(accounted, self.sent, "each append is answered");
    }
}

struct World {
    broker: Broker,
    config: KafkaConfig,
}

fn world(append_timeout: Duration) -> World {
    let broker = Broker::start();
    let config = KafkaConfig { append_timeout, request_timeout: Duration::from_secs(2), ..broker.config() };
    World { broker, config }
}

fn appender(world: &World) -> Appender {
    let log = open(&world.config);
    log.ensure_topic(&partition().topic, 1).unwrap();
    Appender::new(&log)
}

#[test]
fn a_killed_broker_loses_no_acknowledged_record_and_doubles_none() {
    let world = world(DEADLINE);
    let mut appender = appender(&world);
    let log = Arc::clone(&appender.log);
    let mut reader = Reader::new(&log, Offset(0));
    for round in 1..=3 {
        appender.acknowledge(150 * round + 37);
        world.broker.kill();
        // On their way while nobody is there to take them.
        (0..100).for_each(|_| appender.send());
        let away = end(&log, &partition()).unwrap_err();
        assert_eq!(away.remedy, Remedy::NotApplied, "{away}");
        world.broker.start_again();
        appender.acknowledge(400);
    }
    appender.settle_all();
    assert_eq!((appender.unknown.len(), appender.not_applied.len()), (0, 0), "there was time enough to send again");
    appender.check();
    // A tail that was there all the time has the same.
    reader.read_to(end(&log, &partition()).unwrap());
    assert_eq!(reader.records.len(), appender.sent);
}

#[test]
fn appends_that_find_no_broker_in_time_are_told_apart_and_none_is_doubled() {
    let world = world(Duration::from_secs(1));
    let mut appender = appender(&world);
    appender.acknowledge(300);
    world.broker.pause();
    // More than fits on the wire; all of them are answered before the broker goes on.
    appender.digits = 60_000;
    (0..500).for_each(|_| appender.send());
    appender.settle_all();
    assert!(!appender.unknown.is_empty(), "what had gone out may be there");
    assert!(!appender.not_applied.is_empty(), "what never went out is not there");
    world.broker.unpause();
    appender.digits = 1;
    // Whatever is refused until the broker has woken is answered, too.
    appender.acknowledge(300);
    appender.settle_all();
    appender.check();
}

#[test]
fn a_producer_that_failed_for_good_is_replaced_and_nothing_acknowledged_is_lost() {
    let broker = Broker::shared();
    let config = broker.config();
    let log = open(&config);
    log.ensure_topic(&partition().topic, 2).unwrap();
    let mut appender = Appender::new(&log);
    for _ in 0..5 {
        appender.acknowledge(300);
        log.make_producer_fatal(Lane::Data);
        // The other lane has a producer of its own.
        wait(&send_to(&log, &TopicPartition::new(partition().topic, 1), Lane::Protocol, vec![record("mark")])).unwrap();
    }
    appender.settle_all();
    appender.check();
    assert!(appender.acknowledged.len() >= 1500);
}
