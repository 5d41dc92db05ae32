//! The Kafka log keeps the promises of the Log port, on a real broker.

mod broker;

use broker::Broker;
use rehome_kafka::KafkaConfig;
use rehome_ports::Log;
use rehome_ports::conformance::log::LogBed;
use std::sync::Arc;
use std::time::Duration;

/// The suite's topics have fixed names, so each bed has a prefix of its own.
struct Bed {
    config: KafkaConfig,
    _broker: Arc<Broker>,
}

impl Bed {
    fn new(change: impl Fn(&mut KafkaConfig)) -> Bed {
        let broker = Broker::shared();
        let mut config = broker.config();
        change(&mut config);
        Bed { config, _broker: broker }
    }
}

impl LogBed for Bed {
    fn open(&mut self) -> Arc<dyn Log> {
        broker::open(&self.config)
    }
}

mod as_usual {
    use super::*;

    rehome_ports::log_conformance!(Bed::new(|_| ()));
}

/// Data records wait for each other, and little is fetched ahead, so that batches are cut everywhere.
mod in_large_batches_fetched_in_small_pieces {
    use super::*;

    fn change(config: &mut KafkaConfig) {
        config.data_linger = Duration::from_millis(5);
        config.fetched_bytes_max = 1024;
        config.properties.insert("fetch.message.max.bytes".into(), "1000".into());
    }

    rehome_ports::log_conformance!(Bed::new(change));
}
