//! The inbox: plain records of producers that know no routes, and what forwarders note about them.
//!
//! ```text
//! record of the inbox   key = partition key   value = the bytes, null = delete
//!   rh-sort   sort key, raw                                           absent = empty
//! record of inbox-progress   value = framed progress
//! ```
//! An inbox partition is an ordered source: a record's position in it is its offset.

use crate::codec::{DecodeError, Kind, decode, encode};
use crate::data::{HEADER_SORT, Invalid, check_key, check_partition_key};
use crate::record::Record;
use crate::{RowChange, SourcePosition};
use bincode::{Decode, Encode};
use rehome_keyspace::Offset;

/// How the names of the sources that inbox partitions are begin. Clients' own sources must not.
pub const INBOX_SOURCE_PREFIX: &str = "rehome.inbox/";

/// Returns the position of an inbox record as an ordered source.
pub fn source_of(partition: u32, offset: Offset) -> SourcePosition {
    SourcePosition { source: format!("{INBOX_SOURCE_PREFIX}{partition}"), position: offset.0 }
}

/// Reads a record of an inbox: its partition key, and the row that it changes.
pub fn read_plain(record: Record) -> Result<(Vec<u8>, RowChange), (Record, Invalid)> {
    let sort_key = record.header(HEADER_SORT).unwrap_or_default().to_vec();
    let checked = match &record.key {
        None => Err(Invalid("it has no key".into())),
        Some(key) => check_partition_key(key).and_then(|()| check_key("sort key", &sort_key)),
    };
    match checked {
        Ok(()) => Ok((record.key.unwrap_or_default(), RowChange { sort_key, value: record.value })),
        Err(invalid) => Err((record, invalid)),
    }
}

/// What a forwarder says now and then: that it is the one, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct InboxProgress {
    /// Random; names one life of one forwarder.
    pub forwarder: u128,
    /// The highest term has the say; of two that claim the same, the first.
    pub term: u64,
    /// For each partition: every record below was judged. True whoever says it.
    pub next: Vec<Offset>,
}

impl InboxProgress {
    pub fn into_record(self) -> Record {
        Record { key: None, value: Some(encode(Kind::InboxProgress, &self)), headers: Vec::new() }
    }

    pub fn read(record: &Record) -> Result<InboxProgress, DecodeError> {
        decode(Kind::InboxProgress, record.value.as_deref().unwrap_or_default())
    }
}
