//! What could not be applied: the record whole, with where it lay and why.
//!
//! ```text
//! record of rejects   key, value and headers of the rejected record, and
//!   rh-rejected-from    topic of the keyspace, `inbox` or `data`
//!   rh-rejected-at      partition, u32 BE, and offset, u64 BE
//!   rh-rejected-reason  UTF-8
//!   rh-rejected-cut     one byte                                        when the value was too large to be kept
//! record that marks a reject as sent again: no key, no value, `rh-rejected-from`, `rh-rejected-at`, and
//!   rh-rejected-retried one byte
//! ```
//! Where it lay names it: two records that name the same place are one.

use crate::codec::{DecodeError, Kind, decode, encode};
use crate::data::{DataRecord, HEADER_EPOCH, HEADER_MARK, HEADER_OPERATION, HEADER_SORT, Invalid, Operation};
use crate::record::{Header, Record, header_name};
use bincode::{Decode, Encode};
use rehome_keyspace::Offset;
use std::fmt;

pub const HEADER_REJECTED_FROM: &str = "rh-rejected-from";
pub const HEADER_REJECTED_AT: &str = "rh-rejected-at";
pub const HEADER_REJECTED_REASON: &str = "rh-rejected-reason";
pub const HEADER_REJECTED_CUT: &str = "rh-rejected-cut";
pub const HEADER_REJECTED_RETRIED: &str = "rh-rejected-retried";

/// Bytes that headers of rejects add at most, so that a record that a topic could hold fits with them.
const REASON_BYTES_MAX: usize = 512;

/// Where a rejected record lay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RejectedAt {
    pub from: RejectedFrom,
    pub partition: u32,
    pub offset: Offset,
}

/// Which topic of the keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RejectedFrom {
    Inbox,
    Data,
}

impl RejectedFrom {
    pub fn name(self) -> &'static str {
        match self {
            RejectedFrom::Inbox => "inbox",
            RejectedFrom::Data => "data",
        }
    }

    pub fn named(name: &[u8]) -> Option<RejectedFrom> {
        [RejectedFrom::Inbox, RejectedFrom::Data].into_iter().find(|from| from.name().as_bytes() == name)
    }
}

impl RejectedAt {
    /// Reads what is displayed: `inbox/0@17`.
    pub fn read(text: &str) -> Option<RejectedAt> {
        let (from, place) = text.split_once('/')?;
        let (partition, offset) = place.split_once('@')?;
        let from = RejectedFrom::named(from.as_bytes())?;
        Some(RejectedAt { from, partition: partition.parse().ok()?, offset: Offset(offset.parse().ok()?) })
    }
}

impl fmt::Display for RejectedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.from.name(), self.partition, self.offset)
    }
}

/// A record that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub at: RejectedAt,
    pub reason: String,
    /// As it was, but for a value that was cut.
    pub record: Record,
    /// Its value was too large to be kept with the rest.
    pub is_cut: bool,
    /// It only says that the reject of this place was sent again.
    pub is_retried: bool,
}

impl Rejected {
    pub fn new(at: RejectedAt, reason: impl Into<String>, record: Record) -> Rejected {
        let mut reason: String = reason.into();
        if reason.len() > REASON_BYTES_MAX {
            let end = (0..=REASON_BYTES_MAX).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
            reason.truncate(end);
        }
        Rejected { at, reason, record, is_cut: false, is_retried: false }
    }

    /// Returns what says that the reject of that place was sent again.
    pub fn retried(at: RejectedAt) -> Rejected {
        Rejected { is_retried: true, ..Rejected::new(at, "", Record::default()) }
    }

    /// Returns what the record would have written: its partition key, and the operation.
    ///
    /// Errors: nothing that can be written now either.
    pub fn into_write(self) -> Result<(Vec<u8>, Operation), Invalid> {
        if self.is_cut {
            return Err(Invalid(format!("its value was too large to be kept; it lies at {} still", self.at)));
        }
        if self.record.header(HEADER_MARK).is_some() {
            return Err(Invalid("it is no write but a mark".into()));
        }
        let mut record = self.record;
        // Epoch, request id and source were of that other try.
        record.headers.retain(|header| [HEADER_SORT, HEADER_OPERATION].contains(&&*header.name));
        match DataRecord::read(&record.with_header(HEADER_EPOCH, [0; 8]))? {
            DataRecord::Write(write) => Ok((write.partition_key, write.operation)),
            DataRecord::Mark(_) => Err(Invalid("it is no write but a mark".into())),
        }
    }

    /// Leaves the value out if the record is larger than that.
    pub fn fit(mut self, bytes_max: usize) -> Rejected {
        if self.record.bytes() > bytes_max {
            self.record.value = None;
            self.is_cut = true;
        }
        self
    }

    /// Returns the record as it lies in the topic of rejects.
    pub fn into_record(self) -> Record {
        let mut at = self.at.partition.to_be_bytes().to_vec();
        at.extend(self.at.offset.0.to_be_bytes());
        let record = self.record.with_header(HEADER_REJECTED_FROM, self.at.from.name());
        let record = record.with_header(HEADER_REJECTED_AT, at);
        if self.is_retried {
            return record.with_header(HEADER_REJECTED_RETRIED, [1]);
        }
        let record = record.with_header(HEADER_REJECTED_REASON, self.reason);
        if self.is_cut { record.with_header(HEADER_REJECTED_CUT, [1]) } else { record }
    }

    /// Reads a record of the topic of rejects.
    pub fn read(mut record: Record) -> Result<Rejected, Invalid> {
        let lacking = || Invalid("it does not say where it was rejected".into());
        // Ours are the last ones: a rejected record may have had headers of these names itself.
        let first = record.headers.iter().rposition(|header| header.name == HEADER_REJECTED_FROM);
        let ours = record.headers.split_off(first.ok_or_else(lacking)?);
        let take = |name: &str| ours.iter().find(|header| header.name == name).map(|header| header.value.clone());
        let (cut, reason) = (take(HEADER_REJECTED_CUT), take(HEADER_REJECTED_REASON));
        let (at, from) = (take(HEADER_REJECTED_AT), take(HEADER_REJECTED_FROM));
        let at: [u8; 12] = at.and_then(|at| at.try_into().ok()).ok_or_else(lacking)?;
        let from = from.and_then(|from| RejectedFrom::named(&from)).ok_or_else(lacking)?;
        let (partition, offset) = at.split_first_chunk::<4>().expect("12 bytes hold 4");
        let offset = u64::from_be_bytes(offset.try_into().expect("8 bytes are left"));
        let at = RejectedAt { from, partition: u32::from_be_bytes(*partition), offset: Offset(offset) };
        let reason = String::from_utf8_lossy(&reason.unwrap_or_default()).into_owned();
        Ok(Rejected { at, reason, record, is_cut: cut.is_some(), is_retried: take(HEADER_REJECTED_RETRIED).is_some() })
    }
}

/// What a shard keeps of a record of its partition that it could not apply, until that is in the topic of rejects.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StoredReject {
    pub reason: String,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
}

impl StoredReject {
    pub fn of(record: &Record, reason: impl Into<String>) -> StoredReject {
        let headers = record.headers.iter().map(|header| (header.name.to_string(), header.value.clone())).collect();
        StoredReject { reason: reason.into(), key: record.key.clone(), value: record.value.clone(), headers }
    }

    pub fn into_rejected(self, partition: u32, offset: Offset) -> Rejected {
        let headers = self.headers.into_iter().map(|(name, value)| Header { name: header_name(&name), value });
        let record = Record { key: self.key, value: self.value, headers: headers.collect() };
        Rejected::new(RejectedAt { from: RejectedFrom::Data, partition, offset }, self.reason, record)
    }

    pub fn encode(&self) -> Vec<u8> {
        encode(Kind::Rejected, self)
    }

    pub fn decode(bytes: &[u8]) -> Result<StoredReject, DecodeError> {
        decode(Kind::Rejected, bytes)
    }
}
