//! What a record of a data topic means: a write or a mark.
//!
//! ```text
//! write   key = partition key   value = the bytes, null = delete
//!   rh-epoch    epoch, u64 BE                                         always
//!   rh-sort     sort key, raw                                         absent = empty
//!   rh-request  request id, 16 bytes                                  optional
//!   rh-source   position in the source, u64 BE, then its name, UTF-8  optional
//!   rh-op       framed operation                                      when it is not a plain put or delete
//! mark    value = framed mark
//!   rh-mark     format of the mark, one byte                          always
//! ```
//! A record is a mark if and only if it has the header `rh-mark`; a client's bytes are never looked into. A write whose
//! keys or whose source's name break a limit is invalid, whoever wrote it. `schemas/FORMATS.md` says the same for clients
//! in other languages.

use crate::codec::{Kind, decode, encode};
use crate::record::Record;
use bincode::{Decode, Encode};
use rehome_keyspace::{AttemptId, Epoch, KeyRange, MoveId, Nonce, Offset, RequestId, Selector, Version};
use thiserror::Error;

pub const HEADER_EPOCH: &str = "rh-epoch";
pub const HEADER_SORT: &str = "rh-sort";
pub const HEADER_REQUEST: &str = "rh-request";
pub const HEADER_SOURCE: &str = "rh-source";
pub const HEADER_OPERATION: &str = "rh-op";
pub const HEADER_MARK: &str = "rh-mark";
/// Bytes of a partition key or a sort key. Reason: keys are repeated in every row, request id and log record.
pub const KEY_BYTES_MAX: usize = 4 << 10;
/// Bytes of the name of an ordered source. Reason: it is part of a store key.
pub const SOURCE_BYTES_MAX: usize = 255;
/// All headers, the most frequent first.
pub const HEADERS: [&str; 6] =
    [HEADER_EPOCH, HEADER_REQUEST, HEADER_SORT, HEADER_OPERATION, HEADER_SOURCE, HEADER_MARK];

/// A record of a data topic, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataRecord {
    Write(Write),
    Mark(Mark),
}

/// A change that somebody asked for under an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub partition_key: Vec<u8>,
    pub epoch: Epoch,
    pub request: Option<RequestId>,
    pub source: Option<SourcePosition>,
    pub operation: Operation,
}

/// Position in an ordered source: one record per position, one sender per partition key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct SourcePosition {
    pub source: String,
    pub position: u64,
}

/// What a write does. Sort keys are raw bytes; no value means delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Change(RowChange),
    /// Done only if the condition holds for the row.
    ChangeIf {
        change: RowChange,
        condition: Condition,
    },
    /// Several rows of the partition key, all or nothing; of a row named twice the last wins.
    Batch(Vec<RowChange>),
}

/// One row's new value, or its deletion.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RowChange {
    pub sort_key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

/// What must hold for a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Condition {
    Absent,
    Present,
    VersionIs(Version),
}

#[derive(Clone, Debug, Encode, Decode)]
enum OperationHeader {
    If(Condition),
    Batch,
}

/// An ownership mark. `Open` and `Fence` cite the control record that allowed them by its offset and nonce.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Mark {
    /// In the destination's partition: the selector may become owned under `epoch`, if the attempt is switched.
    Open(AttemptMark),
    /// In the source's partition: every older epoch of the selector ends here.
    Fence(AttemptMark),
    /// Tombstones and request ids up to `version` may be forgotten, in regions still owned under the epoch given.
    Horizon { regions: Vec<(KeyRange, Epoch)>, version: Version },
}

/// What `Open` and `Fence` say.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AttemptMark {
    pub move_id: MoveId,
    pub attempt: AttemptId,
    pub epoch: Epoch,
    pub selector: Selector,
    /// Offset of the control record that started the attempt.
    pub control_offset: Offset,
    pub nonce: Nonce,
}

/// Why a record of a data topic cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Write {
    /// Returns the rows that the write names.
    pub fn changes(&self) -> &[RowChange] {
        match &self.operation {
            Operation::Change(change) | Operation::ChangeIf { change, .. } => std::slice::from_ref(change),
            Operation::Batch(changes) => changes,
        }
    }

    /// Returns a hash of what the write does: equal for a retry, whatever epoch it is sent under.
    pub fn content_hash(&self) -> u64 {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        let (tag, condition) = match &self.operation {
            Operation::Change(_) => (0u8, None),
            Operation::ChangeIf { condition, .. } => (1, Some(condition)),
            Operation::Batch(_) => (2, None),
        };
        hasher.update(&[tag]);
        if let Some(condition) = condition {
            hasher.update(&encode(Kind::Operation, condition));
        }
        for change in self.changes() {
            hasher.update(&(change.sort_key.len() as u64).to_be_bytes());
            hasher.update(&change.sort_key);
            let value = change.value.as_deref();
            hasher.update(&value.map_or(u64::MAX, |value| value.len() as u64).to_be_bytes());
            hasher.update(value.unwrap_or_default());
        }
        hasher.digest()
    }

    pub fn into_record(self) -> Record {
        let mut record = Record { key: Some(self.partition_key), value: None, headers: Vec::with_capacity(4) }
            .with_header(HEADER_EPOCH, self.epoch.0.to_be_bytes());
        if let Some(request) = self.request {
            record = record.with_header(HEADER_REQUEST, request.0);
        }
        if let Some(SourcePosition { source, position }) = self.source {
            let mut header = position.to_be_bytes().to_vec();
            header.extend_from_slice(source.as_bytes());
            record = record.with_header(HEADER_SOURCE, header);
        }
        let operation = match self.operation {
            Operation::Batch(changes) => {
                record.value = Some(encode(Kind::Batch, &changes));
                return record.with_header(HEADER_OPERATION, encode(Kind::Operation, &OperationHeader::Batch));
            }
            Operation::Change(change) => (change, None),
            Operation::ChangeIf { change, condition } => (change, Some(condition)),
        };
        let (change, condition) = operation;
        record.value = change.value;
        if !change.sort_key.is_empty() {
            record = record.with_header(HEADER_SORT, change.sort_key);
        }
        match condition {
            Some(condition) => {
                record.with_header(HEADER_OPERATION, encode(Kind::Operation, &OperationHeader::If(condition)))
            }
            None => record,
        }
    }
}

impl Mark {
    pub fn into_record(self) -> Record {
        Record { key: None, value: Some(encode(Kind::Mark, &self)), headers: Vec::new() }
            .with_header(HEADER_MARK, [crate::codec::FORMAT])
    }
}

impl DataRecord {
    /// Reads a record of a data topic.
    pub fn read(record: &Record) -> Result<DataRecord, Invalid> {
        if record.header(HEADER_MARK).is_some() {
            let value = record.value.as_deref().ok_or_else(|| Invalid("mark without a value".into()))?;
            let mark = decode(Kind::Mark, value).map_err(|error| Invalid(error.to_string()))?;
            return Ok(DataRecord::Mark(mark));
        }
        read_write(record).map(DataRecord::Write)
    }
}

fn read_write(record: &Record) -> Result<Write, Invalid> {
    let epoch = record.header(HEADER_EPOCH).ok_or_else(|| Invalid(format!("header {HEADER_EPOCH} is missing")))?;
    let epoch =
        epoch.try_into().map_err(|_| Invalid(format!("header {HEADER_EPOCH} has {} bytes, not 8", epoch.len())))?;
    let request = match record.header(HEADER_REQUEST) {
        None => None,
        Some(id) => Some(RequestId(
            id.try_into().map_err(|_| Invalid(format!("header {HEADER_REQUEST} has {} bytes, not 16", id.len())))?,
        )),
    };
    let source = record.header(HEADER_SOURCE).map(read_source).transpose()?;
    let sort_key = record.header(HEADER_SORT).unwrap_or_default().to_vec();
    let change = || RowChange { sort_key: sort_key.clone(), value: record.value.clone() };
    let operation = match record.header(HEADER_OPERATION) {
        None => Operation::Change(change()),
        Some(header) => match decode(Kind::Operation, header).map_err(|error| Invalid(error.to_string()))? {
            OperationHeader::If(condition) => Operation::ChangeIf { change: change(), condition },
            OperationHeader::Batch => {
                let value = record.value.as_deref().ok_or_else(|| Invalid("batch without a value".into()))?;
                Operation::Batch(decode(Kind::Batch, value).map_err(|error| Invalid(error.to_string()))?)
            }
        },
    };
    let partition_key = record.key.clone().ok_or_else(|| Invalid("write without a key".into()))?;
    let write = Write { partition_key, epoch: Epoch(u64::from_be_bytes(epoch)), request, source, operation };
    check_keys(&write)?;
    Ok(write)
}

fn check_keys(write: &Write) -> Result<(), Invalid> {
    check_partition_key(&write.partition_key)?;
    write.changes().iter().try_for_each(|change| check_key("sort key", &change.sort_key))
}

/// Refuses a partition key that is empty or too long.
pub fn check_partition_key(key: &[u8]) -> Result<(), Invalid> {
    if key.is_empty() {
        return Err(Invalid("the partition key is empty".into()));
    }
    check_key("partition key", key)
}

/// Refuses a source without a name, or with one that is too long.
pub fn check_source(name: &str) -> Result<(), Invalid> {
    if name.is_empty() || name.len() > SOURCE_BYTES_MAX {
        return Err(Invalid(format!("the name of a source has 1 to {SOURCE_BYTES_MAX} bytes, not {}", name.len())));
    }
    Ok(())
}

/// Refuses a key that is too long.
pub fn check_key(what: &str, key: &[u8]) -> Result<(), Invalid> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Invalid(format!("a {what} has at most {KEY_BYTES_MAX} bytes, not {}", key.len())));
    }
    Ok(())
}

fn read_source(header: &[u8]) -> Result<SourcePosition, Invalid> {
    let (position, name) = header
        .split_first_chunk::<8>()
        .ok_or_else(|| Invalid(format!("header {HEADER_SOURCE} is shorter than 8 bytes")))?;
    let source = std::str::from_utf8(name)
        .map_err(|_| Invalid(format!("header {HEADER_SOURCE} has a name that is not UTF-8")))?;
    check_source(source)?;
    Ok(SourcePosition { source: source.to_owned(), position: u64::from_be_bytes(*position) })
}
