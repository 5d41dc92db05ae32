//! Follows one partition.

use crate::errors;
use crate::identity::Identity;
use crate::native;
use crate::readers::Held;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rehome_keyspace::Offset;
use rehome_ports::{Batch, PortError, ReadLimits, Remedy, Tail};
use rehome_records::{Logged, Record, header_name};
use std::sync::Arc;
use std::time::Duration;

pub struct KafkaTail {
    held: Held,
    name: String,
    partition: i32,
    next: Offset,
    identity: Arc<Identity>,
    watch: u64,
    /// What stopped the last poll after it had records to return.
    failed: Option<PortError>,
}

impl KafkaTail {
    /// Requires: the topic's loss wakes whoever polls, by that number.
    pub fn new(
        held: Held,
        name: String,
        partition: i32,
        from: Offset,
        identity: Arc<Identity>,
        watch: u64,
    ) -> KafkaTail {
        KafkaTail { held, name, partition, next: from, identity, watch, failed: None }
    }

    /// What a report in the partition's queue means: how far the reader has come, if it tells that.
    fn report(&self, error: &KafkaError) -> Result<Option<Offset>, PortError> {
        use RDKafkaErrorCode as Code;
        let what = format!("{}/{} at {}", self.name, self.partition, self.next);
        match error.rdkafka_error_code() {
            // The end was reached; control records and aborted ones before it were passed.
            _ if matches!(error, KafkaError::PartitionEOF(_)) => {
                let client = self.held.reader.consumer.client();
                Ok(native::position(client, &self.name, self.partition).map(Offset))
            }
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation) => {
                Err(PortError::broken(format!("{what}: the log does not reach there: trimmed away, or beyond its end")))
            }
            // Whoever looks at the topics finds out; until then there is nothing to read.
            Some(code) if errors::is_missing(code) => Ok(None),
            Some(Code::BadMessage | Code::InvalidMessage | Code::InvalidMessageSize | Code::BadCompression) => {
                Err(PortError::broken(format!("{what}: a record is damaged")))
            }
            _ => Err(errors::unanswered(&what, error)),
        }
    }
}

impl Tail for KafkaTail {
    fn poll(&mut self, limits: ReadLimits) -> Result<Batch, PortError> {
        if let Some(lost) = self.identity.lost() {
            return Err(errors::lost(&self.name, lost));
        }
        if let Some(failed) = &self.failed {
            let failed = failed.clone();
            if failed.remedy != Remedy::Broken {
                self.failed = None;
            }
            return Err(failed);
        }
        let (mut records, mut bytes) = (Vec::new(), 0);
        while records.len() < limits.records_max && bytes < limits.bytes_max {
            match self.held.queue.poll(Duration::ZERO) {
                None => break,
                Some(Ok(message)) => {
                    if let Some(logged) = logged(&message).filter(|logged| logged.offset >= self.next) {
                        self.next = logged.offset.next();
                        bytes += logged.record.bytes();
                        records.push(logged);
                    }
                }
                Some(Err(error)) => match self.report(&error) {
                    Ok(position) => self.next = self.next.max(position.unwrap_or(self.next)),
                    Err(failed) => {
                        self.failed = Some(failed.clone());
                        if records.is_empty() {
                            return self.poll(limits);
                        }
                        break;
                    }
                },
            }
        }
        Ok(Batch { records, next: self.next })
    }
}

/// Returns nothing for what has no offset, which no record of a log lacks.
fn logged(message: &BorrowedMessage<'_>) -> Option<Logged> {
    let record = Record {
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: native::headers(message, header_name),
    };
    let append_time_ms = message.timestamp().to_millis().and_then(|millis| u64::try_from(millis).ok()).unwrap_or(0);
    Some(Logged { offset: Offset(u64::try_from(message.offset()).ok()?), append_time_ms, record })
}

impl Drop for KafkaTail {
    fn drop(&mut self) {
        self.identity.unwatch(self.watch);
    }
}
