//! Topics: how they are made, and what somebody else may do to them behind our back.

// In the helpers as in the tests themselves.
#![allow(clippy::unwrap_used)]

mod broker;

use broker::{Broker, DEADLINE, Reader, admin, append, block_on, end, open, partition, record, send, send_to, wait};
use rdkafka::admin::{AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::{Offset as NativeOffset, TopicPartitionList};
use rehome_kafka::{KafkaConfig, KafkaLog};
use rehome_keyspace::Offset;
use rehome_ports::{Lane, Log, PortError, Remedy};
use rehome_records::TopicPartition;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

struct World {
    config: KafkaConfig,
    log: Arc<KafkaLog>,
    name: String,
    _broker: Arc<Broker>,
}

fn world(change: impl Fn(&mut KafkaConfig)) -> World {
    let broker = Broker::shared();
    let mut config = broker.config();
    change(&mut config);
    let (log, name) = (open(&config), config.name(&partition().topic));
    World { config, log, name, _broker: broker }
}

fn usual() -> World {
    let world = world(|_| ());
    world.log.ensure_topic(&partition().topic, 1).unwrap();
    world
}

fn assert_lost(error: &PortError, how: &str) {
    assert_eq!(error.remedy, Remedy::Broken, "{error}");
    assert!(error.message.contains(how) && error.message.contains("topic"), "{error}");
}

/// What one broker has done, another client learns a little later.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
    }
}

#[test]
fn a_topic_is_made_so_that_nothing_in_it_is_ever_dropped() {
    let World { config, log, name, _broker } = world(|config| config.record_bytes_max = 3 << 20);
    log.ensure_topic(&partition().topic, 2).unwrap();
    let described = block_on(admin(&config).describe_configs(&[ResourceSpecifier::Topic(&name)], &AdminOptions::new()));
    let entries = described.unwrap().remove(0).unwrap().entries;
    let found: BTreeMap<_, _> = entries.into_iter().map(|entry| (entry.name, entry.value)).collect();
    for (name, value) in [
        ("cleanup.policy", "delete"),
        ("retention.ms", "-1"),
        ("retention.bytes", "-1"),
        ("message.timestamp.type", "LogAppendTime"),
        ("min.insync.replicas", "1"),
        ("unclean.leader.election.enable", "false"),
    ] {
        assert_eq!(found[name].as_deref(), Some(value), "{name}");
    }
    // A record of the largest size fits.
    let large = record(vec![1; (3 << 20) - 3]);
    wait(&send(&log, Lane::Data, vec![large.clone()])).unwrap();
    let refused = wait(&send(&log, Lane::Data, vec![record(vec![1; 3 << 20])])).unwrap_err();
    assert_eq!(refused.remedy, Remedy::NotApplied, "{refused}");
    let mut reader = Reader::new(&log, Offset(0));
    reader.read_to(Offset(1));
    assert_eq!(reader.records[0].record, large);
}

#[test]
fn a_record_larger_than_the_broker_takes_is_refused_and_the_next_one_is_not() {
    let World { config, log, name, _broker } = world(|_| ());
    let small = NewTopic::new(&name, 1, TopicReplication::Fixed(1)).set("max.message.bytes", "20000");
    block_on(admin(&config).create_topics([&small], &AdminOptions::new())).unwrap();
    wait_until("it is made", || log.partitions(&partition().topic) == Ok(Some(1)));
    append(&log, "before");
    let refused = wait(&send(&log, Lane::Data, vec![record(vec![1; 100_000])])).unwrap_err();
    assert_eq!(refused.remedy, Remedy::NotApplied, "{refused}");
    assert!(refused.message.contains("larger than the broker takes"), "{refused}");
    append(&log, "after");
    let mut reader = Reader::new(&log, Offset(0));
    reader.read_to(end(&log, &partition()).unwrap());
    assert_eq!(reader.texts(), ["before", "after"]);
}

#[test]
fn a_topic_that_somebody_removed_is_refused() {
    let World { config, log, name, _broker } = usual();
    append(&log, "gone");
    let mut reader = Reader::new(&log, Offset(0));
    reader.read_to(Offset(1));
    block_on(admin(&config).delete_topics(&[&name], &AdminOptions::new())).unwrap();
    assert_lost(&reader.read_until_error(), "was removed");
    assert_lost(&wait(&send(&log, Lane::Data, vec![record("late")])).unwrap_err(), "was removed");
    assert_lost(&log.ensure_topic(&partition().topic, 1).unwrap_err(), "was removed");
    assert_lost(&end(&log, &partition()).unwrap_err(), "was removed");
    // A topic that is removed through the log may be made again.
    log.remove_topic(&partition().topic).unwrap();
    log.ensure_topic(&partition().topic, 1).unwrap();
    assert_eq!(append(&log, "new"), Offset(0));
}

#[test]
fn a_topic_that_somebody_made_again_is_refused_also_where_it_is_longer_than_the_old_one() {
    let World { config, log, name, _broker } = usual();
    append(&log, "old");
    let mut reader = Reader::new(&log, Offset(0));
    reader.read_to(Offset(1));
    let other = open(&config);
    other.remove_topic(&partition().topic).unwrap();
    other.ensure_topic(&partition().topic, 1).unwrap();
    for _ in 0..50 {
        append(&other, "of another topic");
    }
    // It may be told first that its position is not there: the new topic was empty for a moment.
    let error = reader.read_until_error();
    assert_eq!(error.remedy, Remedy::Broken, "{error}");
    wait_until("the log notices", || {
        log.ensure_topic(&partition().topic, 1).is_err_and(|error| error.remedy == Remedy::Broken)
    });
    assert_lost(&wait(&send(&log, Lane::Data, vec![record("late")])).unwrap_err(), "made again");
    assert_lost(&log.ensure_topic(&partition().topic, 1).unwrap_err(), "made again");
    let refused = log.tail(&partition(), Offset(1), Arc::new(|| ())).err().unwrap();
    assert_lost(&refused, "made again");
    assert!(refused.message.contains(&name), "{refused}");
    assert_eq!(end(&other, &partition()), Ok(Offset(50)), "nothing of ours is in it");
}

#[test]
fn partitions_that_somebody_added_can_be_written_and_read_at_once() {
    let World { config, log, name, _broker } = usual();
    append(&log, "first");
    let added = TopicPartition::new(partition().topic, 3);
    let grown = NewPartitions::new(&name, 4);
    block_on(admin(&config).create_partitions([&grown], &AdminOptions::new())).unwrap();
    let other = open(&config);
    wait_until("it has grown", || other.partitions(&partition().topic) == Ok(Some(4)));
    for log in [&log, &other] {
        wait(&send_to(log, &added, Lane::Data, vec![record("x")])).unwrap();
    }
    assert_eq!(end(&other, &added), Ok(Offset(2)));
    let signal = rehome_ports::Signal::new();
    let tail = log.tail(&added, Offset(0), signal.waker()).unwrap();
    let mut reader = Reader::of(tail, signal, Offset(0));
    reader.read_to(Offset(2));
    assert_eq!(reader.texts(), ["x", "x"]);
}

#[test]
fn a_tail_whose_records_somebody_trimmed_away_is_broken_and_skips_nothing() {
    let World { config, log, name, _broker } = world(|config| {
        config.fetched_bytes_max = 1 << 10;
        config.properties.insert("fetch.message.max.bytes".into(), "10000".into());
    });
    log.ensure_topic(&partition().topic, 1).unwrap();
    let records = |range: std::ops::Range<usize>| range.map(|number| record(format!("{number:01000}"))).collect();
    wait(&send(&log, Lane::Data, records(0..2000))).unwrap();
    let mut reader = Reader::new(&log, Offset(0));
    reader.read_to(Offset(1));
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&name, 0, NativeOffset::Offset(1990)).unwrap();
    block_on(admin(&config).delete_records(&list, &AdminOptions::new())).unwrap();
    let error = reader.read_until_error();
    assert_eq!(error.remedy, Remedy::Broken, "{error}");
    let expected: Vec<_> = (0..reader.records.len()).map(|number| format!("{number:01000}")).collect();
    assert!(expected.len() < 1990, "it had not fetched everything before");
    assert_eq!(reader.texts(), expected);
    assert_eq!(log.start(&partition()), Ok(Offset(1990)));
}
