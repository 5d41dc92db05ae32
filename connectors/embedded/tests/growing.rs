//! Topics that grow while others grow too.

// In the helpers as in the tests themselves.
#![allow(clippy::unwrap_used)]

use rehome_embedded::{EmbeddedLog, Limits};
use rehome_keyspace::Offset;
use rehome_ports::{Lane, Log, ReadLimits};
use rehome_records::{Record, TopicPartition};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(30);
const TOPICS: [&str; 2] = ["one", "two"];
const PARTITIONS: u32 = 6;

#[test]
fn topics_that_several_callers_grow_at_once_have_each_partition_once_and_apart() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), Limits::default()).unwrap();
    std::thread::scope(|scope| {
        for topic in TOPICS {
            for wanted in [PARTITIONS, 1, PARTITIONS, 3] {
                let log = &log;
                scope.spawn(move || log.ensure_topic(topic, wanted).unwrap());
            }
        }
    });
    let all: Vec<TopicPartition> =
        TOPICS.iter().flat_map(|topic| (0..PARTITIONS).map(|number| TopicPartition::new(*topic, number))).collect();
    let (told, answers) = channel();
    for name in &all {
        let record = Record { value: Some(name.to_string().into_bytes()), ..Record::default() };
        let told = told.clone();
        log.append(name, Lane::Data, vec![record], Box::new(move |result| drop(told.send(result))));
    }
    for _ in &all {
        assert_eq!(answers.recv_timeout(DEADLINE).unwrap().unwrap(), [Offset(0)], "each has an end of its own");
    }
    for name in &all {
        assert_eq!(log.partitions(&name.topic).unwrap(), Some(PARTITIONS));
        let mut tail = log.tail(name, Offset(0), Arc::new(|| ())).unwrap();
        let batch = tail.poll(ReadLimits { records_max: 10, bytes_max: 1 << 20 }).unwrap();
        let values: Vec<_> = batch.records.into_iter().filter_map(|logged| logged.record.value).collect();
        assert_eq!(values, [name.to_string().into_bytes()]);
    }
}
