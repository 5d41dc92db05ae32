//! One number for a set of rows, whatever their order.

use std::fmt;

use xxhash_rust::xxh3::xxh3_128;

use crate::SourceRow;

/// The sum modulo 2^128 of a 128-bit hash of each row: equal for equal multisets of rows, in any order.
///
/// Each row is hashed with the lengths of its parts, so that bytes cannot slip from one part into the next.
#[derive(Debug, Clone, Default)]
pub struct InputDigest {
    sum: u128,
    rows: u64,
    scratch: Vec<u8>,
}

impl InputDigest {
    /// Takes one row in.
    pub fn add(&mut self, row: &SourceRow) {
        self.scratch.clear();
        for part in [&row.partition_key, &row.sort_key, &row.value] {
            self.scratch.extend_from_slice(&(part.len() as u64).to_be_bytes());
            self.scratch.extend_from_slice(part);
        }
        self.sum = self.sum.wrapping_add(xxh3_128(&self.scratch));
        self.rows += 1;
    }

    /// Returns the digest; a digest of no rows is 0.
    pub fn value(&self) -> u128 {
        self.sum
    }

    /// Returns how many rows were taken in.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// 32 hex digits.
impl fmt::Display for InputDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(rows: &[(&str, &str, &str)]) -> String {
        let mut digest = InputDigest::default();
        for (partition_key, sort_key, value) in rows {
            digest.add(&SourceRow {
                partition_key: partition_key.as_bytes().to_vec(),
                sort_key: sort_key.as_bytes().to_vec(),
                value: value.as_bytes().to_vec(),
            });
        }
        assert_eq!(digest.rows(), rows.len() as u64);
        digest.to_string()
    }

    #[test]
    fn order_does_not_matter_and_everything_else_does() {
        let whole = digest(&[("a", "1", "x"), ("b", "2", "y")]);
        assert_eq!(whole.len(), 32);
        assert_eq!(whole, digest(&[("b", "2", "y"), ("a", "1", "x")]));
        assert_ne!(whole, digest(&[("a", "1", "x")]));
        assert_ne!(whole, digest(&[("a", "1", "x"), ("b", "2", "z")]));
        assert_ne!(whole, digest(&[("a", "1", "x"), ("b", "2", "y"), ("b", "2", "y")]));
    }

    #[test]
    fn bytes_do_not_slip_between_the_parts() {
        assert_ne!(digest(&[("ab", "c", "")]), digest(&[("a", "bc", "")]));
        assert_ne!(digest(&[("a", "bc", "")]), digest(&[("a", "b", "c")]));
    }

    /// Figures of earlier runs are compared with later ones, so the digest of given rows never changes.
    #[test]
    fn the_digest_of_given_rows_is_fixed() {
        assert_eq!(digest(&[]), "00000000000000000000000000000000");
        assert_eq!(digest(&[("ORD", "2001-01-01", "{}")]), "4ca678786d54f486134aecc4939f8f85");
    }
}
