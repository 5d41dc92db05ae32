//! A real broker in a container, shared by the tests that run at the same time and removed with the last of them.

// Each test file uses a part of it.
#![allow(dead_code)]

use rdkafka::ClientConfig;
use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use rehome_kafka::{KafkaConfig, KafkaLog};
use rehome_keyspace::Offset;
use rehome_ports::{Lane, Log, PortError, ReadLimits, Signal, Tail};
use rehome_records::{Logged, Record, TopicPartition};
use std::future::Future;
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use testcontainers_modules::kafka::apache::{KAFKA_PORT, Kafka};
use testcontainers_modules::testcontainers::runners::SyncRunner;
use testcontainers_modules::testcontainers::{Container, ImageExt};

/// The version that scripts/kafka.sh makes sure of.
const TAG: &str = "4.1.2";

pub struct Broker {
    container: Container<Kafka>,
    port: u16,
}

impl Broker {
    /// Returns the broker that other tests use now, or starts one.
    pub fn shared() -> Arc<Broker> {
        static SHARED: Mutex<Weak<Broker>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(broker) = shared.upgrade() {
            return broker;
        }
        let broker = Arc::new(Broker::start());
        *shared = Arc::downgrade(&broker);
        broker
    }

    /// Starts a broker of one's own. It keeps its port and its data when it is killed and started again.
    pub fn start() -> Broker {
        // A port that was free a moment ago: Docker chooses a new one at each start otherwise.
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let image = Kafka::default()
            .with_jvm_image()
            .with_tag(TAG)
            .with_mapped_port(port, KAFKA_PORT)
            .with_env_var("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1")
            .with_env_var("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1")
            .with_env_var("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0")
            .with_startup_timeout(Duration::from_secs(120));
        let container =
            image.start().expect("Docker starts the broker: run scripts/kafka.sh first, it tells what is missing");
        Broker { container, port }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// As a lost machine: nothing is written down at the end.
    pub fn kill(&self) {
        self.docker("kill");
    }

    pub fn start_again(&self) {
        self.docker("start");
    }

    /// Stops all its threads where they are, or lets them go on.
    pub fn pause(&self) {
        self.docker("pause");
    }

    pub fn unpause(&self) {
        self.docker("unpause");
    }

    fn docker(&self, verb: &str) {
        let done = Command::new("docker").args([verb, self.container.id()]).output().expect("docker runs");
        assert!(done.status.success(), "docker {verb}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Returns a configuration whose topics nobody else has.
    pub fn config(&self) -> KafkaConfig {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        KafkaConfig {
            topic_prefix: format!("test-{}-{number}.", std::process::id()),
            replication_factor: 1,
            min_insync_replicas: 1,
            ..KafkaConfig::new(self.address())
        }
    }
}

pub fn open(config: &KafkaConfig) -> Arc<KafkaLog> {
    KafkaLog::open(config.clone()).expect("the configuration is fine")
}

/// How long anything may take before a test fails. Long, so that a loaded machine does not fail it.
pub const DEADLINE: Duration = Duration::from_secs(90);

pub type Answer<T> = Receiver<Result<T, PortError>>;

pub fn partition() -> TopicPartition {
    TopicPartition::new("topic", 0)
}

pub fn record(text: impl Into<Vec<u8>>) -> Record {
    Record { key: Some(b"key".to_vec()), value: Some(text.into()), ..Record::default() }
}

pub fn text(logged: &Logged) -> String {
    String::from_utf8_lossy(logged.record.value.as_deref().unwrap_or_default()).into_owned()
}

pub fn send(log: &KafkaLog, lane: Lane, records: Vec<Record>) -> Answer<Vec<Offset>> {
    send_to(log, &partition(), lane, records)
}

pub fn send_to(log: &KafkaLog, partition: &TopicPartition, lane: Lane, records: Vec<Record>) -> Answer<Vec<Offset>> {
    let (told, answer) = channel();
    log.append(partition, lane, records, Box::new(move |result| drop(told.send(result))));
    answer
}

pub fn wait<T>(answer: &Answer<T>) -> Result<T, PortError> {
    answer.recv_timeout(DEADLINE).expect("every call is answered")
}

pub fn append(log: &KafkaLog, text: &str) -> Offset {
    wait(&send(log, Lane::Data, vec![record(text)])).expect("the log takes a record")[0]
}

pub fn end(log: &KafkaLog, partition: &TopicPartition) -> Result<Offset, PortError> {
    let (told, answer) = channel();
    log.end(partition, Box::new(move |result| drop(told.send(result))));
    wait(&answer)
}

/// A tail of the partition, and what it has delivered.
pub struct Reader {
    tail: Box<dyn Tail>,
    signal: Arc<Signal>,
    pub records: Vec<Logged>,
    pub next: Offset,
}

impl Reader {
    pub fn new(log: &KafkaLog, from: Offset) -> Reader {
        let signal = Signal::new();
        let tail = log.tail(&partition(), from, signal.waker()).expect("the partition exists");
        Reader::of(tail, signal, from)
    }

    pub fn of(tail: Box<dyn Tail>, signal: Arc<Signal>, from: Offset) -> Reader {
        Reader { tail, signal, records: Vec::new(), next: from }
    }

    /// Polls once.
    pub fn poll(&mut self) -> Result<bool, PortError> {
        let batch = self.tail.poll(ReadLimits { records_max: 1000, bytes_max: 1 << 20 })?;
        let progressed = batch.next > self.next;
        self.records.extend(batch.records);
        self.next = batch.next;
        Ok(progressed)
    }

    /// Follows until everything below that offset was delivered.
    pub fn read_to(&mut self, end: Offset) {
        let error = self.follow(|reader| reader.next >= end);
        assert_eq!(error, None);
    }

    /// Follows until the tail ends with an error.
    pub fn read_until_error(&mut self) -> PortError {
        self.follow(|_| false).expect("only an error ends it")
    }

    fn follow(&mut self, is_enough: impl Fn(&Reader) -> bool) -> Option<PortError> {
        let deadline = Instant::now() + DEADLINE;
        while !is_enough(self) {
            match self.poll() {
                Err(error) => return Some(error),
                Ok(true) => {}
                Ok(false) => {
                    self.signal.wait(Some(deadline));
                    assert!(Instant::now() < deadline, "the tail stands at {}", self.next);
                }
            }
        }
        None
    }

    pub fn texts(&self) -> Vec<String> {
        self.records.iter().map(text).collect()
    }
}

/// Another client of the same cluster, which knows nothing of us.
pub fn stranger(config: &KafkaConfig) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", &config.brokers);
    client
}

pub fn admin(config: &KafkaConfig) -> AdminClient<DefaultClientContext> {
    stranger(config).create().expect("a client can be made")
}

/// Waits for an answer of the admin client.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made").block_on(future)
}
