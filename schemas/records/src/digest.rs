//! The digest of a selector's state: a function of the state, not of its history.
//!
//! Each part is the sum modulo 2^128 of a 128-bit hash over each entry, so entries can be taken out again.

use bincode::{Decode, Encode};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

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

/// Entries up to this many bytes are hashed at once. Reason: to begin a hasher takes longer than to hash a short entry.
const AT_ONCE_BYTES: usize = 512;

/// Returns XXH3-128 of the key's length (u64 BE), the key, and what is stored.
fn entry_hash(key: &[u8], stored: &[u8]) -> u128 {
    let parts = [&(key.len() as u64).to_be_bytes(), key, stored];
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    if bytes > AT_ONCE_BYTES {
        let mut hasher = Xxh3::new();
        parts.iter().for_each(|part| hasher.update(part));
        return hasher.digest128();
    }
    let mut joined = [0; AT_ONCE_BYTES];
    let mut end = 0;
    for part in parts {
        joined[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    xxh3_128(&joined[..end])
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
    fn entries_of_every_length_are_hashed_as_one_stream() {
        let bytes: Vec<u8> = (0..AT_ONCE_BYTES + 9).map(|at| at as u8).collect();
        for length in (0..=bytes.len()).filter(|length| *length < 40 || *length > AT_ONCE_BYTES - 40) {
            let (key, stored) = bytes[..length].split_at(length / 3);
            let mut hasher = Xxh3::new();
            hasher.update(&(key.len() as u64).to_be_bytes());
            hasher.update(&bytes[..length]);
            assert_eq!(entry_hash(key, stored), hasher.digest128(), "{length} bytes");
        }
    }

    #[test]
    fn a_byte_that_wanders_from_key_to_value_changes_the_digest() {
        let (mut a, mut b) = (Digest::default(), Digest::default());
        a.add_row(b"ab", b"c", false);
        b.add_row(b"a", b"bc", false);
        assert_ne!(a, b);
    }
}
