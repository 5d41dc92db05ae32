//! What a failure means for whoever asked: certainly not done, perhaps done, or a human must look.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rehome_ports::PortError;
use thiserror::Error;

/// Why no log was opened.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("this Kafka configuration is refused: {problems}")]
    Refused { problems: String },
    #[error("librdkafka takes no client of this configuration: {reason}")]
    Client { reason: String },
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl ConfigError {
    /// Tells which property is wrong, never its value: it may be a secret.
    pub fn of_client(error: &KafkaError) -> ConfigError {
        let reason = match error {
            KafkaError::ClientConfig(_, _, name, _) => format!("property `{name}` is unknown or its value is wrong"),
            other => other.to_string(),
        };
        ConfigError::Client { reason }
    }
}

/// Tells whether the cluster answered that there is no such topic or partition.
pub fn is_missing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicId)
}

/// A question that changes nothing has failed: ask again.
pub fn unanswered(what: &str, error: &KafkaError) -> PortError {
    let missing = error.rdkafka_error_code().is_some_and(is_missing);
    let reason = if missing { "there is no such topic or partition".to_string() } else { said(error) };
    PortError::not_applied(format!("{what}: {reason}"))
}

/// A change has failed: it may have happened unless the cluster refused it.
pub fn undone(what: &str, error: &KafkaError) -> PortError {
    match error.rdkafka_error_code() {
        Some(code) => unchanged(what, code),
        None => PortError::unknown(format!("{what}: {}", said(error))),
    }
}

/// The same, where the cluster or librdkafka gave a code.
pub fn unchanged(what: &str, code: RDKafkaErrorCode) -> PortError {
    use RDKafkaErrorCode as Code;
    match code {
        Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::BrokerTransportFailure
        | Code::AllBrokersDown
        | Code::NetworkException => PortError::unknown(format!("{what}: {code}")),
        _ => PortError::not_applied(format!("{what}: {code}")),
    }
}

/// The error's text, without what it may say about a property's value.
fn said(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, _, name, _) => format!("property `{name}` is wrong"),
        other => other.rdkafka_error_code().map_or_else(|| other.to_string(), |code| code.to_string()),
    }
}

/// Nothing of the topic's records is where this log left them.
pub fn lost(name: &str, reason: &str) -> PortError {
    PortError::broken(format!(
        "topic `{name}` {reason}: nothing is read from it or written to it any more, stores are kept as they are; bring \
         back the topic with its records, or remove what was made of it"
    ))
}
