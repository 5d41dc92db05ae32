//! One lane: its producer, and how much is on its way there.
//!
//! A producer that failed for good is replaced by the next append. What it held is told as `NotApplied` where it never
//! left this process, else as `Unknown`.

use crate::config::KafkaConfig;
use crate::context::{log_error, log_line};
use crate::errors::ConfigError;
use crate::native;
use crate::pending::{Fate, Pending};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};
use rehome_keyspace::Offset;
use rehome_ports::{AppendDone, PortError};
use rehome_records::Record;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;
use tracing::warn;

pub struct Lane {
    config: ClientConfig,
    record_bytes_max: usize,
    queued_records_max: usize,
    queued_bytes_max: usize,
    queued: Arc<Queued>,
    current: RwLock<Arc<Current>>,
}

/// What is on its way.
#[derive(Default)]
struct Queued {
    records: AtomicUsize,
    bytes: AtomicUsize,
}

/// A producer with a thread of its own that hears what became of records.
struct Current {
    producer: ThreadedProducer<Deliveries>,
    /// It failed for good.
    failed: Arc<AtomicBool>,
}

/// One record on its way.
struct Ticket {
    pending: Arc<Pending>,
    index: usize,
    bytes: usize,
    queued: Arc<Queued>,
}

impl Lane {
    pub fn new(config: &KafkaConfig, linger: Duration) -> Result<Lane, ConfigError> {
        let native = config.producer(linger);
        let current = Current::new(&native).map_err(|error| ConfigError::of_client(&error))?;
        Ok(Lane {
            config: native,
            record_bytes_max: config.record_bytes_max,
            queued_records_max: config.queued_records_max,
            queued_bytes_max: config.queued_bytes_max,
            queued: Arc::default(),
            current: RwLock::new(Arc::new(current)),
        })
    }

    /// Hands the records over, in order. Never blocks. Requires: the topic and the partition exist.
    pub fn send(&self, topic: &str, partition: i32, records: &[Record], done: AppendDone) {
        if records.is_empty() {
            return done(Ok(Vec::new()));
        }
        let bytes = records.iter().map(Record::bytes).sum::<usize>();
        if let Err(error) = self.admit(records, bytes) {
            return done(Err(error));
        }
        let pending = Pending::new(records.len(), done);
        for (index, record) in records.iter().enumerate() {
            let ticket = Ticket {
                pending: Arc::clone(&pending),
                index,
                bytes: record.bytes(),
                queued: Arc::clone(&self.queued),
            };
            if let Err((ticket, reason)) = self.produce(topic, partition, record, Box::new(ticket)) {
                ticket.settle(Fate::NotWritten(reason.clone()));
                // The rest stays out, else it would come before this one when the caller tries again.
                for (index, record) in records.iter().enumerate().skip(index + 1) {
                    let bytes = record.bytes();
                    let (pending, queued) = (Arc::clone(&pending), Arc::clone(&self.queued));
                    Ticket { pending, index, bytes, queued }.settle(Fate::NotWritten(reason.clone()));
                }
                return;
            }
        }
    }

    /// Learns about partitions that were added; blocks.
    pub fn refresh(&self, topic: &str, timeout: Duration) -> Result<(), KafkaError> {
        self.current().producer.client().fetch_metadata(Some(topic), timeout).map(drop)
    }

    /// Makes the producer fail for good, for tests.
    pub fn make_fatal(&self) {
        native::make_fatal(self.current().producer.client());
    }

    /// Takes room for the records. Whatever its size, an append fits an empty lane.
    fn admit(&self, records: &[Record], bytes: usize) -> Result<(), PortError> {
        if let Some(large) = records.iter().map(Record::bytes).find(|bytes| *bytes > self.record_bytes_max) {
            return Err(PortError::not_applied(format!(
                "a record of {large} bytes is larger than the log takes: {} bytes",
                self.record_bytes_max
            )));
        }
        let before = self.queued.records.fetch_add(records.len(), Ordering::Relaxed);
        let bytes_before = self.queued.bytes.fetch_add(bytes, Ordering::Relaxed);
        let full = before + records.len() > self.queued_records_max || bytes_before + bytes > self.queued_bytes_max;
        if full && before > 0 {
            self.queued.leave(records.len(), bytes);
            return Err(PortError::not_applied(format!("the queue is full: {before} records, {bytes_before} bytes")));
        }
        Ok(())
    }

    fn produce(
        &self,
        topic: &str,
        partition: i32,
        record: &Record,
        ticket: Box<Ticket>,
    ) -> Result<(), (Box<Ticket>, String)> {
        let current = self.current();
        let mut ticket = ticket;
        if !current.failed.load(Ordering::Acquire) {
            match current.send(topic, partition, record, ticket) {
                Ok(()) => return Ok(()),
                Err((RDKafkaErrorCode::Fatal, back)) => ticket = back,
                Err((code, back)) => return Err((back, refused(code, record))),
            }
        }
        match self.replace(&current) {
            Ok(next) => {
                next.send(topic, partition, record, ticket).map_err(|(code, back)| (back, refused(code, record)))
            }
            Err(reason) => Err((ticket, reason)),
        }
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a new producer in the place of that one, unless somebody has.
    fn replace(&self, failed: &Arc<Current>) -> Result<Arc<Current>, String> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&current, failed) {
            let reason = failed.producer.client().fatal_error().map(|(_, reason)| reason).unwrap_or_default();
            warn!(reason, "a producer failed for good and is replaced");
            let next = Current::new(&self.config).map_err(|error| ConfigError::of_client(&error).to_string())?;
            let old = std::mem::replace(&mut *current, Arc::new(next));
            // Dropping waits for its thread, and tells what became of what it held.
            drop(thread::Builder::new().name("kafka-failed".into()).spawn(move || drop(old)));
        }
        Ok(Arc::clone(&current))
    }
}

fn refused(code: RDKafkaErrorCode, record: &Record) -> String {
    match code {
        RDKafkaErrorCode::MessageSizeTooLarge => {
            format!("a record of {} bytes is larger than the broker takes in that topic", record.bytes())
        }
        code => code.to_string(),
    }
}

impl Current {
    fn new(config: &ClientConfig) -> Result<Current, KafkaError> {
        let failed = Arc::new(AtomicBool::new(false));
        let producer = config.create_with_context(Deliveries { failed: Arc::clone(&failed) })?;
        Ok(Current { producer, failed })
    }

    fn send(
        &self,
        topic: &str,
        partition: i32,
        record: &Record,
        ticket: Box<Ticket>,
    ) -> Result<(), (RDKafkaErrorCode, Box<Ticket>)> {
        let mut message: BaseRecord<'_, [u8], [u8], Box<Ticket>> =
            BaseRecord::with_opaque_to(topic, ticket).partition(partition);
        if let Some(key) = &record.key {
            message = message.key(key);
        }
        if let Some(value) = &record.value {
            message = message.payload(value);
        }
        if !record.headers.is_empty() {
            let insert = |headers: OwnedHeaders, header: &rehome_records::Header| {
                headers.insert(Header { key: &header.name, value: Some(&header.value) })
            };
            let empty = OwnedHeaders::new_with_capacity(record.headers.len());
            message = message.headers(record.headers.iter().fold(empty, insert));
        }
        self.producer.send(message).map_err(|(error, message)| {
            (error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail), message.delivery_opaque)
        })
    }
}

impl Ticket {
    fn settle(self, fate: Fate) {
        self.queued.leave(1, self.bytes);
        self.pending.settle(self.index, fate);
    }
}

impl Queued {
    fn leave(&self, records: usize, bytes: usize) {
        self.records.fetch_sub(records, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Hears what became of each record, on the producer's own thread.
struct Deliveries {
    failed: Arc<AtomicBool>,
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log_line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.failed.store(true, Ordering::Release);
        }
        log_error(&error, reason);
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        let fate = match result {
            // The log has it, but a repeated request was not told where.
            Ok(message) => u64::try_from(message.offset()).map_or_else(
                |_| Fate::Unknown("it was written by a repeated request that was not told its offset".into()),
                |offset| Fate::Written(Offset(offset)),
            ),
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
                if code == RDKafkaErrorCode::Fatal {
                    self.failed.store(true, Ordering::Release);
                }
                let reason = match code {
                    RDKafkaErrorCode::MessageSizeTooLarge => {
                        format!("a record of {} bytes is larger than the broker takes in that topic", ticket.bytes)
                    }
                    code => code.to_string(),
                };
                if native::was_not_written(message) { Fate::NotWritten(reason) } else { Fate::Unknown(reason) }
            }
        };
        ticket.settle(fate);
    }
}
