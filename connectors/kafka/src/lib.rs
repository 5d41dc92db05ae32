//! The Log port on Kafka.
//!
//! ```text
//! append -> lane (data, protocol): a producer each -> broker -> acknowledged by all in sync -> offsets
//! tail   <- a queue per partition <- consumers, shared by many tails <- broker (committed records only)
//! end    <- one thread per leading broker: waiting questions, one request
//! ```
//! - [`config`]: how the cluster is reached; the librdkafka properties on which the contract rests.
//! - [`log`]: the Log port itself: open, append, read, close.
//! - [`lane`]: a producer, how much is on its way there, and its replacement when it fails for good; [`pending`]: one
//!   append; [`waiting`]: appends to topics that this log has not met yet.
//! - [`topics`]: topics made, grown and removed; [`identity`]: by what a re-created topic is told from the old.
//! - [`readers`]: the shared consumers; [`tail`]: follows a partition.
//! - [`questions`]: starts and ends of partitions.
//! - [`errors`]: what a failure means; [`context`]: what librdkafka tells; [`native`]: what rdkafka lacks.

mod config;
mod context;
mod errors;
mod identity;
mod lane;
mod log;
mod native;
mod pending;
mod questions;
mod readers;
mod tail;
mod topics;
mod waiting;

pub use config::KafkaConfig;
pub use errors::ConfigError;
pub use log::KafkaLog;
