//! Records as they are written down, one after another in one piece of memory.
//!
//! Whoever appends encodes, whoever reads decodes: the committer only moves bytes, and records in memory take no more
//! than they do on disk.

use rehome_keyspace::Offset;
use rehome_ports::PortError;
use rehome_records::{DecodeError, Logged, Record, TopicPartition};

/// Encoded records, in order.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Where each record ends.
    ends: Vec<usize>,
}

impl Frames {
    pub fn encode(records: &[Record], append_time_ms: u64) -> Frames {
        let bytes = records.iter().map(|record| record.bytes() + 64).sum();
        let mut frames = Frames { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(records.len()) };
        for record in records {
            Logged::encode_into(record, append_time_ms, &mut frames.bytes);
            frames.ends.push(frames.bytes.len());
        }
        frames
    }

    pub fn push_all(&mut self, others: &Frames) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&others.bytes);
        self.ends.extend(others.ends.iter().map(|end| start + end));
    }

    /// Returns the same records with another append time.
    pub fn stamped(&self, append_time_ms: u64) -> Result<Frames, DecodeError> {
        let records: Result<Vec<_>, _> =
            self.iter().map(|frame| Logged::decode(Offset(0), frame).map(|logged| logged.record)).collect();
        Ok(Frames::encode(&records?, append_time_ms))
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// Reads a record; it must be whole.
pub fn decode(partition: &TopicPartition, offset: Offset, frame: &[u8]) -> Result<Logged, PortError> {
    Logged::decode(offset, frame).map_err(|error| PortError::broken(format!("{partition}@{offset}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_and_stamped_frames_hold_the_same_records() {
        let record = |text: &str| Record { value: Some(text.into()), ..Record::default() }.with_header("x", [1]);
        let mut frames = Frames::encode(&[record("a"), record("b")], 1);
        frames.push_all(&Frames::encode(&[record("c")], 1));
        let read = |frames: &Frames| {
            let logged = frames.iter().map(|frame| Logged::decode(Offset(0), frame).unwrap());
            logged.map(|logged| (logged.append_time_ms, logged.record)).collect::<Vec<_>>()
        };
        assert_eq!(read(&frames), [(1, record("a")), (1, record("b")), (1, record("c"))]);
        let later = frames.stamped(2).unwrap();
        assert_eq!((later.len(), read(&later)), (3, vec![(2, record("a")), (2, record("b")), (2, record("c"))]));
    }
}
