//! The digest of a selector's state: a function of the state, not of its history.
//!
//! Each part is the sum modulo 2^128 of a 128-bit hash over each entry, so entries can be taken out again.

use bincode::{Decode, Encode};
use xxhash_rust::xxh3::Xxh3;

/// Digest of the entries of a selector: rows (tombstones included), and request ids with source positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Digest {
    pub rows: u128,
    pub requests: u128,
    /// Rows that have a value, modulo 2^64.
    pub row_count: u64,
    /// Rows that are tombstones, modulo 2^64.
    pub tombstone_count: u64,
}

impl Digest {
    /// Puts a row in: its store key and its stored value.
    pub fn add_row(&mut self, key: &[u8], stored: &[u8], tombstone: bool) {
        self.rows = self.rows.wrapping_add(entry_hash(key, stored));
        let count = if tombstone { &mut self.tombstone_count } else { &mut self.row_count };
        *count = count.wrapping_add(1);
    }

    /// Takes a row out that was put in.
    pub fn remove_row(&mut self, key: &[u8], stored: &[u8], tombstone: bool) {
        self.rows = self.rows.wrapping_sub(entry_hash(key, stored));
        let count = if tombstone { &mut self.tombstone_count } else { &mut self.row_count };
        *count = count.wrapping_sub(1);
    }

    /// Puts a request id or a source position in.
    pub fn add_request(&mut self, key: &[u8], stored: &[u8]) {
        self.requests = self.requests.wrapping_add(entry_hash(key, stored));
    }

    /// Takes a request id or a source position out that was put in.
    pub fn remove_request(&mut self, key: &[u8], stored: &[u8]) {
        self.requests = self.requests.wrapping_sub(entry_hash(key, stored));
    }

    /// Returns the digest of both sets of entries together.
    pub fn plus(self, other: Digest) -> Digest {
        Digest {
            rows: self.rows.wrapping_add(other.rows),
            requests: self.requests.wrapping_add(other.requests),
            row_count: self.row_count.wrapping_add(other.row_count),
            tombstone_count: self.tombstone_count.wrapping_add(other.tombstone_count),
        }
    }

    /// Returns the digest without the entries of the other.
    pub fn minus(self, other: Digest) -> Digest {
        Digest {
            rows: self.rows.wrapping_sub(other.rows),
            requests: self.requests.wrapping_sub(other.requests),
            row_count: self.row_count.wrapping_sub(other.row_count),
            tombstone_count: self.tombstone_count.wrapping_sub(other.tombstone_count),
        }
    }
}

fn entry_hash(key: &[u8], stored: &[u8]) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(&(key.len() as u64).to_be_bytes());
    hasher.update(key);
    hasher.update(stored);
    hasher.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_entries_does_not_matter_and_removal_undoes() {
        let mut a = Digest::default();
        a.add_row(b"k1", b"v1", false);
        a.add_row(b"k2", b"v2", true);
        let mut b = Digest::default();
        b.add_row(b"k2", b"v2", true);
        b.add_row(b"k3", b"v3", false);
        b.add_row(b"k1", b"v1", false);
        b.remove_row(b"k3", b"v3", false);
        assert_eq!(a, b);
        assert_eq!((a.row_count, a.tombstone_count), (1, 1));
        b.add_request(b"k1", b"v1");
        assert_ne!(a, b);
        assert_eq!(b.minus(a).plus(a), b);
    }

    #[test]
    fn a_byte_that_wanders_from_key_to_value_changes_the_digest() {
        let (mut a, mut b) = (Digest::default(), Digest::default());
        a.add_row(b"ab", b"c", false);
        b.add_row(b"a", b"bc", false);
        assert_ne!(a, b);
    }
}
