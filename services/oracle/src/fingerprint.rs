//! Names for rows, requests and values that take a few bytes each, so that millions fit in memory.

use rehome_keyspace::{Placement, RequestId, SlotId};
use std::num::NonZeroU64;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Names a row, a request or a source of one partition key: its slot in the top 32 bits, then 96 bits of a hash.
///
/// Two of ten million fall together with a probability below 1e-15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint(u128);

impl Fingerprint {
    pub fn row(placement: &Placement, partition_key: &[u8], sort_key: &[u8]) -> Fingerprint {
        Fingerprint::of(placement.slot(partition_key), b'r', partition_key, sort_key)
    }

    pub fn request(placement: &Placement, partition_key: &[u8], request: RequestId) -> Fingerprint {
        Fingerprint::of(placement.slot(partition_key), b'q', partition_key, &request.0)
    }

    pub fn source(placement: &Placement, partition_key: &[u8], source: &str) -> Fingerprint {
        Fingerprint::of(placement.slot(partition_key), b's', partition_key, source.as_bytes())
    }

    pub fn slot(self) -> SlotId {
        SlotId((self.0 >> 96) as u32)
    }

    fn of(slot: SlotId, kind: u8, partition_key: &[u8], rest: &[u8]) -> Fingerprint {
        let mut hasher = Xxh3::new();
        hasher.update(&[kind]);
        hasher.update(&(partition_key.len() as u64).to_be_bytes());
        hasher.update(partition_key);
        hasher.update(rest);
        Fingerprint((u128::from(slot.0) << 96) | (hasher.digest128() >> 32))
    }

    /// Returns a hash of this name together with some facts, for sums that do not depend on order.
    pub(crate) fn with(self, facts: &[u64]) -> u128 {
        let mut hasher = Xxh3::new();
        hasher.update(&self.0.to_be_bytes());
        for fact in facts {
            hasher.update(&fact.to_be_bytes());
        }
        hasher.digest128()
    }
}

/// Hash of a value; never zero, so that "no value" costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueHash(NonZeroU64);

impl ValueHash {
    pub fn of(value: &[u8]) -> ValueHash {
        ValueHash(NonZeroU64::new(xxh3_64(value)).unwrap_or(NonZeroU64::MIN))
    }

    pub(crate) fn number(value: Option<ValueHash>) -> u64 {
        value.map_or(0, |hash| hash.0.get())
    }
}
