//! A real Kafka broker in a container; removed with what holds it. `scripts/kafka.sh` makes sure of its image.

use anyhow::Context;
use rehome_kafka::{KafkaConfig, KafkaLog};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use testcontainers_modules::kafka::apache::{KAFKA_PORT, Kafka};
use testcontainers_modules::testcontainers::runners::SyncRunner;
use testcontainers_modules::testcontainers::{Container, ImageExt};

/// The version that scripts/kafka.sh makes sure of.
const TAG: &str = "4.1.2";
/// Longest time until it takes records.
const START_MAX: Duration = Duration::from_secs(120);

pub struct Broker {
    _container: Container<Kafka>,
    port: u16,
}

impl Broker {
    pub fn start() -> anyhow::Result<Broker> {
        // A port that was free a moment ago: Docker would choose another at each start.
        let free = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        let port = free.local_addr()?.port();
        drop(free);
        let image = Kafka::default().with_jvm_image().with_tag(TAG);
        // There is one broker for what transactions of producers need.
        let image = image.with_env_var("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1");
        let image = image.with_env_var("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1");
        let image = image.with_mapped_port(port, KAFKA_PORT).with_startup_timeout(START_MAX);
        let container = image.start().context("Docker does not start the broker; run scripts/kafka.sh")?;
        Ok(Broker { _container: container, port })
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the log as the processes under test have it.
    pub fn log(&self) -> anyhow::Result<Arc<KafkaLog>> {
        let config = KafkaConfig { replication_factor: 1, min_insync_replicas: 1, ..KafkaConfig::new(self.address()) };
        Ok(KafkaLog::open(config)?)
    }
}
