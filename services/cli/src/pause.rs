//! How long writes to the keys of a move stood still, by the logs alone.

use rehome_control_core::Attempt;
use rehome_keyspace::Offset;
use rehome_ports::{Log, ReadLimits};
use rehome_records::TopicPartition;
use std::sync::Arc;

/// Returns the milliseconds from the append of the fence to that of the outcome; nothing before there is an outcome,
/// or when the log no longer has the fence.
pub fn measured_pause_ms(log: &dyn Log, source: &TopicPartition, attempt: &Attempt) -> Option<u64> {
    let fenced_ms = append_time_ms(log, source, attempt.outcome()?.fence())?;
    attempt.decided_ms.map(|decided_ms| decided_ms.saturating_sub(fenced_ms))
}

/// Returns when the log appended the record; nothing when it is no longer there.
fn append_time_ms(log: &dyn Log, partition: &TopicPartition, offset: Offset) -> Option<u64> {
    let mut tail = log.tail(partition, offset, Arc::new(|| ())).ok()?;
    let batch = tail.poll(ReadLimits { records_max: 1, bytes_max: 1 }).ok()?;
    batch.records.first().filter(|logged| logged.offset == offset).map(|logged| logged.append_time_ms)
}
