//! A Kafka to run demo and bench over: given, or a broker that Docker runs as long as this process wants it.

use crate::args::{KafkaArgs, KafkaChoice};
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use anyhow::Context;
use rehome_kafka::{KafkaConfig, KafkaLog};
use rehome_ports::{Log, PortError};
use rehome_records::control::{CONTROL_TOPIC, data_topic};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The image, and the version that scripts/kafka.sh makes sure of.
const IMAGE: &str = "apache/kafka:4.1.2";
/// Longest time until a broker answers.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A Kafka that answers.
pub struct OverKafka {
    args: KafkaArgs,
    config: KafkaConfig,
    log: Arc<KafkaLog>,
    /// Ends last.
    container: Option<Container>,
}

impl OverKafka {
    /// Finds the brokers or starts one, and waits until they answer.
    pub fn reach(choice: &KafkaChoice, what: &str) -> Result<OverKafka, Failure> {
        let container = match &choice.kafka_brokers {
            Some(_) => None,
            None => {
                crate::workload::say(what, &format!("starting a broker in a container of {IMAGE}"));
                Some(Container::start(what)?)
            }
        };
        let brokers = choice.kafka_brokers.clone().or_else(|| Some(container.as_ref()?.address())).unwrap_or_default();
        let args = choice.args(&brokers, format!("{what}-{:08x}.", rand::random::<u32>()));
        let config = args.config()?;
        let log = KafkaLog::open(config.clone()).map_err(|error| Failure::usage(error.to_string()))?;
        answers(&*log).map_err(|error| {
            let message = format!("no broker of {brokers} answers: {error}");
            Failure::new(Exit::Failed, "kafka_unreachable", message)
                .next(format!("rehome {what} --kafka --kafka-brokers HOST:PORT"))
        })?;
        Ok(OverKafka { args, config, log, container })
    }

    pub fn log(&self) -> Arc<KafkaLog> {
        Arc::clone(&self.log)
    }

    /// Returns how the log reaches it.
    pub fn config(&self) -> &KafkaConfig {
        &self.config
    }

    /// Returns the words by which another process reaches the same topics.
    pub fn words(&self) -> Vec<String> {
        self.args.words()
    }

    /// Removes the topics, unless their broker goes as well.
    pub fn forget(&self, topics: &[String]) -> Result<(), PortError> {
        if self.container.is_some() {
            return Ok(());
        }
        topics.iter().try_for_each(|topic| self.log.remove_topic(topic))
    }
}

/// Returns the topics that a cluster has made.
pub fn topics(cluster: &Cluster) -> Vec<String> {
    let state = cluster.desk().state();
    let data = state.keyspaces().map(|keyspace| data_topic(&keyspace.name, keyspace.id));
    data.chain([CONTROL_TOPIC.to_owned()]).collect()
}

/// Asks until there is an answer.
fn answers(log: &dyn Log) -> Result<(), PortError> {
    let deadline = Instant::now() + ANSWER_MAX;
    loop {
        // Each question waits a few seconds for a broker.
        match log.partitions(CONTROL_TOPIC) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => {}
        }
    }
}

/// A broker in a container, which goes with this.
struct Container {
    name: String,
    port: u16,
}

impl Container {
    fn start(what: &str) -> Result<Container, Failure> {
        // A port that was free a moment ago: the broker must know beforehand which one clients see.
        let free = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        let port = free.local_addr().context("the listener has no address")?.port();
        drop(free);
        let name = format!("rehome-{what}-{}-{port}", std::process::id());
        let settings = [
            "NODE_ID=1".to_owned(),
            "PROCESS_ROLES=broker,controller".into(),
            "LISTENERS=PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094".into(),
            format!("ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port},BROKER://localhost:9093"),
            "LISTENER_SECURITY_PROTOCOL_MAP=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".into(),
            "INTER_BROKER_LISTENER_NAME=BROKER".into(),
            "CONTROLLER_LISTENER_NAMES=CONTROLLER".into(),
            "CONTROLLER_QUORUM_VOTERS=1@localhost:9094".into(),
            "OFFSETS_TOPIC_REPLICATION_FACTOR=1".into(),
        ];
        let mut command = Command::new("docker");
        command.args(["run", "--detach", "--rm", "--name", &name, "--publish", &format!("127.0.0.1:{port}:9092")]);
        for setting in settings {
            command.args(["--env", &format!("KAFKA_{setting}")]);
        }
        let output = command.arg(IMAGE).stdin(Stdio::null()).output();
        let refused = |why: &str| {
            Failure::new(Exit::Failed, "no_broker", format!("Docker starts no broker: {}", why.trim()))
                .next("scripts/kafka.sh")
                .next(format!("rehome {what} --kafka --kafka-brokers HOST:PORT"))
        };
        match output {
            Ok(output) if output.status.success() => Ok(Container { name, port }),
            Ok(output) => Err(refused(&String::from_utf8_lossy(&output.stderr))),
            Err(error) => Err(refused(&error.to_string())),
        }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // It removes itself when it stops.
        let stopped = Command::new("docker")
            .args(["kill", &self.name])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !stopped.is_ok_and(|status| status.success()) {
            tracing::warn!(container = self.name, "the broker could not be stopped; try docker kill");
        }
    }
}
