//! How long writes to the keys of a move stood still, by the logs alone.

use rehome_control_core::Attempt;
use rehome_keyspace::Offset;
use rehome_ports::{Log, ReadLimits, Records};
use rehome_records::TopicPartition;
use std::time::Duration;

const ONE: ReadLimits = ReadLimits { records_max: 1, bytes_max: 1 };
/// Longest time until a record can be read that is there.
const READ_MAX: Duration = Duration::from_secs(5);

/// Returns the milliseconds from the append of the fence to that of the outcome; nothing before there is an outcome,
/// or when the log no longer has the fence. Blocks while the log is asked.
pub fn measured_pause_ms(log: &dyn Log, source: &TopicPartition, attempt: &Attempt) -> Option<u64> {
    let fenced_ms = append_time_ms(log, source, attempt.outcome()?.fence())?;
    attempt.decided_ms.map(|decided_ms| decided_ms.saturating_sub(fenced_ms))
}

/// Returns when the log appended the record; nothing when it is no longer there.
fn append_time_ms(log: &dyn Log, partition: &TopicPartition, offset: Offset) -> Option<u64> {
    let records = Records::up_to_now(log, partition, offset, READ_MAX).ok()?;
    let first = records.at_most(ONE).next()?.ok()?;
    (first.offset == offset).then_some(first.append_time_ms)
}
