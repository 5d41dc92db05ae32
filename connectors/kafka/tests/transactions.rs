//! Transactions of others in our partitions.

// In the helpers as in the tests themselves.
#![allow(clippy::unwrap_used)]

mod broker;

use broker::{Broker, DEADLINE, Reader, append, end, open, partition, record, send, stranger, wait};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rehome_kafka::{KafkaConfig, KafkaLog};
use rehome_keyspace::Offset;
use rehome_ports::{Lane, Log};
use std::sync::Arc;
use std::time::Instant;

struct World {
    config: KafkaConfig,
    log: Arc<KafkaLog>,
    _broker: Arc<Broker>,
}

fn world() -> World {
    let broker = Broker::shared();
    let config = broker.config();
    let log = open(&config);
    log.ensure_topic(&partition().topic, 1).unwrap();
    World { config, log, _broker: broker }
}

/// A foreign producer with a transaction begun.
fn begin(config: &KafkaConfig) -> BaseProducer {
    let producer: BaseProducer =
        stranger(config).set("transactional.id", format!("{}foreign", config.topic_prefix)).create().unwrap();
    producer.init_transactions(DEADLINE).unwrap();
    producer.begin_transaction().unwrap();
    producer
}

/// Writes them within the transaction; they are in the partition when it returns.
fn write(producer: &BaseProducer, config: &KafkaConfig, texts: &[&str]) {
    let topic = config.name(&partition().topic);
    for text in texts {
        let record = BaseRecord::<[u8], [u8]>::to(&topic).partition(0).payload(text.as_bytes());
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(DEADLINE).unwrap();
}

/// A transaction is over for its producer a little before its end is in the partition.
fn wait_for_end(log: &KafkaLog, wanted: Offset) {
    let deadline = Instant::now() + DEADLINE;
    while end(log, &partition()).unwrap() < wanted {
        assert!(Instant::now() < deadline, "the end does not come to {wanted}");
    }
}

#[test]
fn aborted_records_are_not_delivered_and_their_gaps_are_passed_up_to_the_end() {
    let World { config, log, _broker } = world();
    let mut reader = Reader::new(&log, Offset(0));
    let producer = begin(&config);
    let mut expected = Vec::new();
    for round in 0..5 {
        let ours = format!("ours {round}");
        let offset = append(&log, &ours);
        expected.push(ours);
        write(&producer, &config, &["aborted 1", "aborted 2"]);
        producer.abort_transaction(DEADLINE).unwrap();
        // Nothing follows the gap, so only what stands in it can tell that it is passed.
        let end = Offset(offset.0 + 4);
        wait_for_end(&log, end);
        reader.read_to(end);
        assert_eq!(reader.next, end);
        assert_eq!(reader.texts(), expected);
        producer.begin_transaction().unwrap();
    }
    write(&producer, &config, &["committed"]);
    producer.commit_transaction(DEADLINE).unwrap();
    expected.push("committed".into());
    let end = Offset(reader.next.0 + 2);
    wait_for_end(&log, end);
    reader.read_to(end);
    assert_eq!(reader.texts(), expected);
    // From within a gap, too.
    let last = reader.records.last().unwrap().offset;
    for from in 0..=last.0 {
        let mut again = Reader::new(&log, Offset(from));
        again.read_to(reader.next);
        let later = reader.records.iter().filter(|logged| logged.offset.0 >= from).cloned();
        assert_eq!(again.records, later.collect::<Vec<_>>(), "from {from}");
    }
}

#[test]
fn an_open_transaction_holds_the_end_and_every_reader_back() {
    let World { config, log, _broker } = world();
    let before = append(&log, "before");
    let producer = begin(&config);
    write(&producer, &config, &["theirs"]);
    let after = append(&log, "after");
    let held = end(&log, &partition()).unwrap();
    assert!(before < held && held < after, "{before} < {held} < {after}");
    let mut reader = Reader::new(&log, Offset(0));
    reader.read_to(held);
    assert_eq!(reader.texts(), ["before"]);
    // What is asked for later is told later: the end moves as soon as the transaction is over.
    producer.commit_transaction(DEADLINE).unwrap();
    wait_for_end(&log, after.next());
    reader.read_to(after.next());
    assert_eq!(reader.texts(), ["before", "theirs", "after"]);
}

#[test]
fn a_mark_does_not_wait_behind_bulk_data() {
    let World { log, _broker, .. } = world();
    append(&log, "first");
    let data: Vec<_> = (0..40).map(|_| send(&log, Lane::Data, vec![record(vec![7; 10_000]); 100])).collect();
    let mark = send(&log, Lane::Protocol, vec![record("mark")]);
    wait(&mark).unwrap();
    let answered = data.iter().filter(|answer| answer.try_recv().is_ok()).count();
    assert!(answered < data.len() / 2, "{answered} of {} appends of data went before the mark", data.len());
    drop(data);
}
