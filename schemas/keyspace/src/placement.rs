//! The fixed function from a key to its slot, and where a slot's keys lie in a store.
//!
//! Hash placements map the slot, never the single key, so that routes stay explicit.
//!
//! ```text
//! placed key of a bucket placement
//! | hash mod B0: u32 | bit-reversed low 32 bits of (hash div B0): u32 | partition key, 00 -> 00 FF | 00 01 |
//! ```
//! B0 is the bucket count at creation: each doubling of the bucket count cuts contiguous ranges in two.

use crate::{KeyRange, PlacedKey, Selector, SlotId};
use bincode::{Decode, Encode};
use thiserror::Error;

/// Largest number of slots that a bucket placement may have. Reason: routes stay small enough to hold whole everywhere.
pub const SLOTS_MAX: u32 = 1 << 20;

/// Ends the escaped partition key; smaller than any escaped zero byte, so that a prefix sorts first.
pub const PARTITION_KEY_END: [u8; 2] = [0x00, 0x01];

const SLOT_PREFIX_BYTES: usize = 8;

/// Hash of the partition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum HashFunction {
    /// XXH3, 64 bits, seed 0.
    Xxh3,
}

impl HashFunction {
    pub fn hash(self, partition_key: &[u8]) -> u64 {
        match self {
            HashFunction::Xxh3 => xxhash_rust::xxh3::xxh3_64(partition_key),
        }
    }
}

/// The fixed function from a partition key to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Placement {
    /// slot = hash mod `count`.
    Buckets { count: u32, hash: HashFunction },
}

/// Why a placement cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    #[error("a keyspace needs 1 to {SLOTS_MAX} buckets, not {count}")]
    BucketCount { count: u32 },
}

impl Placement {
    /// Returns a bucket placement.
    pub fn buckets(count: u32) -> Result<Placement, PlacementError> {
        if count == 0 || count > SLOTS_MAX {
            return Err(PlacementError::BucketCount { count });
        }
        Ok(Placement::Buckets { count, hash: HashFunction::Xxh3 })
    }

    pub fn slot_count(&self) -> u32 {
        match self {
            Placement::Buckets { count, .. } => *count,
        }
    }

    pub fn hash(&self, partition_key: &[u8]) -> u64 {
        match self {
            Placement::Buckets { hash, .. } => hash.hash(partition_key),
        }
    }

    pub fn slot(&self, partition_key: &[u8]) -> SlotId {
        match self {
            Placement::Buckets { count, hash } => SlotId((hash.hash(partition_key) % u64::from(*count)) as u32),
        }
    }

    /// Returns where the partition key's rows lie in a store.
    pub fn place(&self, partition_key: &[u8]) -> PlacedKey {
        match self {
            Placement::Buckets { count, hash } => {
                let hash = hash.hash(partition_key);
                let mut placed =
                    Vec::with_capacity(SLOT_PREFIX_BYTES + partition_key.len() + PARTITION_KEY_END.len() + 8);
                placed.extend_from_slice(&((hash % u64::from(*count)) as u32).to_be_bytes());
                placed.extend_from_slice(&((hash / u64::from(*count)) as u32).reverse_bits().to_be_bytes());
                escape_into(&mut placed, partition_key);
                PlacedKey(placed)
            }
        }
    }

    /// Splits a placed key with what follows it into the partition key and the rest; nothing when it is malformed.
    pub fn unplace<'a>(&self, placed_and_rest: &'a [u8]) -> Option<(Vec<u8>, &'a [u8])> {
        match self {
            Placement::Buckets { .. } => unescape(placed_and_rest.get(SLOT_PREFIX_BYTES..)?),
        }
    }

    /// Returns the slot that a placed key is in, read from its prefix; nothing when it is malformed.
    pub fn slot_of_placed(&self, placed: &[u8]) -> Option<SlotId> {
        match self {
            Placement::Buckets { .. } => {
                let prefix: [u8; 4] = placed.get(..4)?.try_into().ok()?;
                Some(SlotId(u32::from_be_bytes(prefix)))
            }
        }
    }

    /// Returns the range of all keys of a slot.
    pub fn slot_range(&self, slot: SlotId) -> KeyRange {
        match self {
            Placement::Buckets { .. } => KeyRange::new(
                slot.0.to_be_bytes().to_vec(),
                slot.0.checked_add(1).map(|next| next.to_be_bytes().to_vec()),
            ),
        }
    }

    /// Returns the set of all keys of the given slots.
    pub fn selector(&self, slots: impl IntoIterator<Item = SlotId>) -> Selector {
        Selector::new(slots.into_iter().map(|slot| self.slot_range(slot)).collect())
    }
}

fn escape_into(out: &mut Vec<u8>, key: &[u8]) {
    for &byte in key {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&PARTITION_KEY_END);
}

fn unescape(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut key = Vec::new();
    let mut at = 0;
    loop {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (0, Some(0x01)) => return Some((key, &bytes[at + 2..])),
            (0, Some(0xFF)) => {
                key.push(0);
                at += 2;
            }
            (0, _) => return None,
            (byte, _) => {
                key.push(byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn placing_can_be_undone_and_keeps_the_slot(key: Vec<u8>, rest: Vec<u8>, count in 1u32..5000) {
            let placement = Placement::buckets(count).unwrap();
            let placed = placement.place(&key);
            let slot = placement.slot(&key);
            prop_assert!(placement.slot_range(slot).contains(&placed.0));
            prop_assert_eq!(placement.slot_of_placed(&placed.0), Some(slot));
            let mut whole = placed.0.clone();
            whole.extend_from_slice(&rest);
            prop_assert_eq!(placement.unplace(&whole), Some((key, rest.as_slice())));
        }

        #[test]
        fn escaped_keys_keep_their_order(a: Vec<u8>, b: Vec<u8>) {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            escape_into(&mut x, &a);
            escape_into(&mut y, &b);
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
        }
    }

    #[test]
    fn hashes_never_change() {
        // Placement is for ever: a changed hash would put keys where no one looks.
        let placement = Placement::buckets(4096).unwrap();
        assert_eq!(placement.hash(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(placement.slot(b"ORD"), SlotId((placement.hash(b"ORD") % 4096) as u32));
        assert_eq!(placement.place(b"a\0b").0[8..], [b'a', 0, 0xFF, b'b', 0, 1]);
    }

    #[test]
    fn bucket_counts_out_of_range_are_refused() {
        assert!(Placement::buckets(0).is_err());
        assert!(Placement::buckets(SLOTS_MAX).is_ok());
        assert!(Placement::buckets(SLOTS_MAX + 1).is_err());
    }

    #[test]
    fn all_slots_together_are_one_range() {
        let placement = Placement::buckets(16).unwrap();
        assert_eq!(placement.selector((0..16).map(SlotId)).ranges().len(), 1);
    }
}
