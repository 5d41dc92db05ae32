//! What librdkafka tells beside its answers.

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use tracing::{debug, warn};

/// Passes log lines on. A broker that is away is met by retries, so it is no error here: whoever waited is told.
pub struct Context;

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log_line(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl ConsumerContext for Context {}

pub fn log_line(level: RDKafkaLogLevel, facility: &str, text: &str) {
    use RDKafkaLogLevel as Level;
    match level {
        Level::Emerg | Level::Alert | Level::Critical => warn!(facility, text, "librdkafka"),
        _ => debug!(facility, text, "librdkafka"),
    }
}

pub fn log_error(error: &KafkaError, reason: &str) {
    // The end of a partition comes this way too, many times a second.
    debug!(code = ?error.rdkafka_error_code(), reason, "librdkafka reports");
}
