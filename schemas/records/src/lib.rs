//! What is written down: record formats, store key layout, codec. No I/O.
//!
//! - [`codec`]: the frame around everything binary, and the only user of bincode.
//! - [`record`]: an ordinary Kafka record, as the log port carries it.
//! - [`data`]: what a record of a data topic means: a write or a mark.
//! - [`control`]: the records of the control log.
//! - [`inbox`]: plain records of producers that know no routes, and how far they are forwarded.
//! - [`rejects`]: what could not be applied, with its reason.
//! - [`store_key`]: where things lie in a store, hand-encoded.
//! - [`store_value`]: what lies there.
//! - [`digest`]: the digest of a selector's state.
//! - [`manifest`]: what a snapshot holds.
//! - [`verdict`]: the answer of a partition to a write.

pub mod codec;
pub mod control;
pub mod data;
pub mod digest;
pub mod inbox;
pub mod manifest;
pub mod record;
pub mod rejects;
pub mod store_key;
pub mod store_value;
pub mod verdict;

pub use codec::{DecodeError, Kind, decode, encode};
pub use control::{ControlEvent, ControlRecord};
pub use data::{Condition, DataRecord, Invalid, Mark, Operation, RowChange, SourcePosition, Write};
pub use digest::Digest;
pub use manifest::{Manifest, RunInfo};
pub use record::{Header, Logged, Record, TopicPartition, header_name};
pub use rejects::{Rejected, RejectedAt, RejectedFrom};
pub use store_value::{SlotState, StateRegion};
pub use verdict::{FirstAnswer, Verdict};
