//! How the log reaches its cluster, and which librdkafka properties follow from that.

use crate::errors::ConfigError;
use rdkafka::ClientConfig;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How the log reaches its cluster, and what it makes there.
#[derive(Clone)]
pub struct KafkaConfig {
    /// `host:port`, several with commas.
    pub brokers: String,
    /// Put before the name of every topic, so that several installations can share a cluster.
    pub topic_prefix: String,
    /// Properties of librdkafka by name: TLS, SASL, and whatever else does not touch the contract.
    pub properties: BTreeMap<String, String>,
    /// Replicas of each partition of topics that are made.
    pub replication_factor: u32,
    /// Replicas that must have a record before it is acknowledged, in topics that are made.
    pub min_insync_replicas: u32,
    /// Bytes of the largest record; topics are made so that they take it.
    pub record_bytes_max: usize,
    /// How long a record may be tried before its append ends as `Unknown`.
    pub append_timeout: Duration,
    /// How long one question to the cluster may take.
    pub request_timeout: Duration,
    /// How long making, growing or removing a topic may take.
    pub topic_timeout: Duration,
    /// Records that may be on their way in each lane. A full lane refuses; it never blocks.
    pub queued_records_max: usize,
    /// Bytes that may be on their way in each lane.
    pub queued_bytes_max: usize,
    /// Bytes that are fetched ahead for each tail.
    pub fetched_bytes_max: usize,
    /// How long a record in the data lane may wait for others to share its batch.
    pub data_linger: Duration,
}

impl KafkaConfig {
    /// Units and reasons: three replicas of which two acknowledge survive the loss of one broker without losing a record
    /// or a write; values of up to 8 MiB are allowed, and keys and headers come with them. The rest bounds memory: 64 MiB
    /// a lane and process, 2 MiB a tail.
    pub fn new(brokers: impl Into<String>) -> KafkaConfig {
        KafkaConfig {
            brokers: brokers.into(),
            topic_prefix: String::new(),
            properties: BTreeMap::new(),
            replication_factor: 3,
            min_insync_replicas: 2,
            record_bytes_max: 9 << 20,
            append_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(5),
            topic_timeout: Duration::from_secs(30),
            queued_records_max: 128 << 10,
            queued_bytes_max: 64 << 20,
            fetched_bytes_max: 2 << 20,
            data_linger: Duration::from_micros(500),
        }
    }

    /// Returns every problem of the configuration at once.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        if self.brokers.trim().is_empty() {
            problems.push("no broker is named".to_string());
        }
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
        if !self.topic_prefix.chars().all(allowed) || self.topic_prefix.len() > PREFIX_BYTES_MAX {
            problems.push(format!(
                "the topic prefix may have letters, digits, `.`, `_` and `-`, at most {PREFIX_BYTES_MAX}"
            ));
        }
        if self.replication_factor == 0 || self.min_insync_replicas == 0 {
            problems.push("replication factor and in-sync replicas start at 1".to_string());
        } else if self.min_insync_replicas > self.replication_factor {
            problems
                .push(format!("{} replicas cannot have {} in sync", self.replication_factor, self.min_insync_replicas));
        }
        for name in self.properties.keys() {
            if let Some((_, reason)) = RESERVED.iter().find(|(reserved, _)| reserved == name) {
                problems.push(format!("`{name}` cannot be set: {reason}"));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Refused { problems: problems.join("; ") }) }
    }

    /// Returns the topic's name in the cluster.
    pub fn name(&self, topic: &str) -> String {
        format!("{}{topic}", self.topic_prefix)
    }

    /// Bytes of the largest message: record and what Kafka puts around it.
    pub fn message_bytes_max(&self) -> usize {
        self.record_bytes_max + MESSAGE_OVERHEAD_BYTES
    }

    /// What producers, consumers and questions share: reach the cluster, and come back to it soon.
    pub fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("socket.nagle.disable", "true");
        config.set("reconnect.backoff.ms", "50").set("reconnect.backoff.max.ms", "500");
        config.set("retry.backoff.ms", "50").set("retry.backoff.max.ms", "500");
        config.set("log.connection.close", "false");
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.brokers);
        config.set("allow.auto.create.topics", "false");
        config
    }

    /// One lane's producer: no record twice, none before its elders, acknowledged by every replica in sync.
    pub fn producer(&self, linger: Duration) -> ClientConfig {
        let mut config = self.client();
        config.set("enable.idempotence", "true").set("acks", "all").set("max.in.flight", "5");
        config.set("linger.ms", format!("{:.3}", linger.as_secs_f64() * 1e3));
        config.set("message.timeout.ms", self.append_timeout.as_millis().to_string());
        config.set("message.max.bytes", self.message_bytes_max().to_string());
        // The lane's own limits hold instead: they are counted before a record goes in.
        config.set("queue.buffering.max.messages", "0").set("queue.buffering.max.kbytes", "2097151");
        config
    }

    /// One consumer of many partitions: committed records only, positions given by the caller, bounded fetches.
    pub fn consumer(&self) -> ClientConfig {
        let mut config = self.client();
        let or = |config: &mut ClientConfig, name: &str, value: &str| {
            if !self.properties.contains_key(name) {
                config.set(name, value);
            }
        };
        // A partition that was added, or whose queue was full, waits for the answer that is under way.
        or(&mut config, "fetch.wait.max.ms", "100");
        or(&mut config, "fetch.queue.backoff.ms", "2");
        or(&mut config, "fetch.error.backoff.ms", "50");
        or(&mut config, "queued.min.messages", "8192");
        or(&mut config, "check.crcs", "true");
        config.set("queued.max.messages.kbytes", self.fetched_bytes_max.div_ceil(1024).max(1).to_string());
        config.set("isolation.level", "read_committed").set("auto.offset.reset", "error");
        config.set("enable.partition.eof", "true");
        // librdkafka assigns partitions only to what has a group name; no group is joined and nothing is committed.
        config.set("group.id", format!("{}rehome", self.topic_prefix));
        config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
        config
    }

    /// Questions for offsets: what readers of committed records can see.
    pub fn questions(&self) -> ClientConfig {
        let mut config = self.client();
        config.set("isolation.level", "read_committed");
        config
    }
}

/// Shows the names of properties, never their values: some are secrets.
impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("topic_prefix", &self.topic_prefix)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .field("replication_factor", &self.replication_factor)
            .field("min_insync_replicas", &self.min_insync_replicas)
            .field("record_bytes_max", &self.record_bytes_max)
            .field("append_timeout", &self.append_timeout)
            .finish_non_exhaustive()
    }
}

/// Kafka's names have at most 249 bytes; ours need about a hundred.
const PREFIX_BYTES_MAX: usize = 100;
/// Headers of batch and record, lengths and the like.
const MESSAGE_OVERHEAD_BYTES: usize = 4 << 10;

const IDEMPOTENT: &str = "records would be doubled or change places";
const COMMITTED: &str = "readers would see records that were never committed";
const POSITIONS: &str = "positions live in the stores";
const BY_ITSELF: &str = "no topic is made by accident";
const OWN: &str = "the log has a setting of its own for it";

/// Properties on which the contract rests, with both names where there are two, and why they are not to be set.
const RESERVED: &[(&str, &str)] = &[
    ("bootstrap.servers", OWN),
    ("metadata.broker.list", OWN),
    ("allow.auto.create.topics", BY_ITSELF),
    ("enable.idempotence", IDEMPOTENT),
    ("enable.gapless.guarantee", IDEMPOTENT),
    ("acks", IDEMPOTENT),
    ("request.required.acks", IDEMPOTENT),
    ("max.in.flight", IDEMPOTENT),
    ("max.in.flight.requests.per.connection", IDEMPOTENT),
    ("retries", IDEMPOTENT),
    ("message.send.max.retries", IDEMPOTENT),
    ("transactional.id", "the log uses no transactions"),
    ("isolation.level", COMMITTED),
    ("auto.offset.reset", POSITIONS),
    ("enable.partition.eof", POSITIONS),
    ("group.id", POSITIONS),
    ("group.instance.id", POSITIONS),
    ("group.protocol", POSITIONS),
    ("enable.auto.commit", POSITIONS),
    ("auto.commit.enable", POSITIONS),
    ("enable.auto.offset.store", POSITIONS),
    ("linger.ms", OWN),
    ("queue.buffering.max.ms", OWN),
    ("message.timeout.ms", OWN),
    ("delivery.timeout.ms", OWN),
    ("message.max.bytes", OWN),
    ("queue.buffering.max.messages", OWN),
    ("queue.buffering.max.kbytes", OWN),
    ("queued.max.messages.kbytes", OWN),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> KafkaConfig {
        let mut config = KafkaConfig::new("broker:9092");
        config.properties.insert(name.to_string(), value.to_string());
        config
    }

    #[test]
    fn what_the_contract_rests_on_cannot_be_overridden() {
        for (name, reason) in RESERVED {
            let refused = with(name, "1").check().expect_err("it is reserved").to_string();
            assert!(refused.contains(name) && refused.contains(reason), "{refused}");
        }
        with("security.protocol", "SASL_SSL").check().expect("anything else passes through");
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let mut config = with("acks", "0");
        config.brokers = " ".to_string();
        config.topic_prefix = "two words".to_string();
        config.min_insync_replicas = 4;
        let refused = config.check().expect_err("there are four problems").to_string();
        for part in ["no broker", "prefix", "cannot have 4 in sync", "`acks`"] {
            assert!(refused.contains(part), "{part} is not in: {refused}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for name in ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.config"] {
            let shown = format!("{:?}", with(name, "hunter2"));
            assert!(shown.contains(name) && !shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn properties_of_the_user_win_over_ours_where_the_contract_allows_it() {
        let config = with("fetch.wait.max.ms", "7");
        assert_eq!(config.consumer().get("fetch.wait.max.ms"), Some("7"));
        assert_eq!(config.consumer().get("isolation.level"), Some("read_committed"));
    }
}
