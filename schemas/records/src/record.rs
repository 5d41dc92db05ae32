//! An ordinary Kafka record, as the log port carries it.

use crate::codec::{DecodeError, Kind, decode_borrowed, encode_into};
use crate::data;
use rehome_keyspace::Offset;
use std::borrow::Cow;
use std::fmt;

/// One partition of one topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: String,
    pub partition: u32,
}

impl TopicPartition {
    pub fn new(topic: impl Into<String>, partition: u32) -> TopicPartition {
        TopicPartition { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// Key, value and headers of a record, before the log has given it a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<Header>,
}

/// One header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: Cow<'static, str>,
    pub value: Vec<u8>,
}

impl Record {
    /// Returns the value of the first header of that name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|header| header.name == name).map(|header| header.value.as_slice())
    }

    pub fn with_header(mut self, name: &'static str, value: impl Into<Vec<u8>>) -> Record {
        self.headers.push(Header { name: name.into(), value: value.into() });
        self
    }

    /// Returns roughly how many bytes the record takes.
    pub fn bytes(&self) -> usize {
        let parts = self.key.as_ref().map_or(0, Vec::len) + self.value.as_ref().map_or(0, Vec::len);
        parts + self.headers.iter().map(|header| header.name.len() + header.value.len()).sum::<usize>()
    }
}

/// A record as the log gives it back: with its position, and the time at which it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    pub offset: Offset,
    /// Milliseconds since 1970 at which the log appended it; never used for ordering.
    pub append_time_ms: u64,
    pub record: Record,
}

impl Logged {
    /// Returns the record as a local log writes it down; its offset is the log's own key.
    pub fn encode(record: &Record, append_time_ms: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(record.bytes() + 64);
        Logged::encode_into(record, append_time_ms, &mut out);
        out
    }

    /// Appends what [`Logged::encode`] returns to what is there.
    pub fn encode_into(record: &Record, append_time_ms: u64, out: &mut Vec<u8>) {
        let headers: Vec<(&str, &[u8])> =
            record.headers.iter().map(|header| (&*header.name, header.value.as_slice())).collect();
        encode_into(Kind::LogRecord, &(append_time_ms, record.key.as_deref(), record.value.as_deref(), headers), out);
    }

    /// Reads what [`Logged::encode`] wrote.
    pub fn decode(offset: Offset, bytes: &[u8]) -> Result<Logged, DecodeError> {
        type Body<'a> = (u64, Option<&'a [u8]>, Option<&'a [u8]>, Vec<(&'a str, &'a [u8])>);
        let (append_time_ms, key, value, headers): Body<'_> = decode_borrowed(Kind::LogRecord, bytes)?;
        let headers =
            headers.into_iter().map(|(name, value)| Header { name: header_name(name), value: value.to_vec() });
        let record =
            Record { key: key.map(<[u8]>::to_vec), value: value.map(<[u8]>::to_vec), headers: headers.collect() };
        Ok(Logged { offset, append_time_ms, record })
    }

    /// Returns a hash of the record and its append time; another record at the same offset means another log.
    pub fn hash(&self) -> u64 {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        let mut part = |bytes: Option<&[u8]>| {
            hasher.update(&bytes.map_or(u64::MAX, |bytes| bytes.len() as u64).to_be_bytes());
            hasher.update(bytes.unwrap_or_default());
        };
        part(Some(&self.append_time_ms.to_be_bytes()));
        part(self.record.key.as_deref());
        part(self.record.value.as_deref());
        for header in &self.record.headers {
            part(Some(header.name.as_bytes()));
            part(Some(&header.value));
        }
        hasher.digest()
    }
}

/// Returns a header's name without a copy when it is one of ours.
pub fn header_name(name: &str) -> Cow<'static, str> {
    match data::HEADERS.iter().find(|known| **known == name) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(name.to_string()),
    }
}
