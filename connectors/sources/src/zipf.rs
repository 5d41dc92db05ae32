//! Generated rows whose partition keys are as unequal as real ones.

use crate::SourceRow;
use crate::sort_key::row_number_text;

/// Describes a generated input: the partition key of rank r is drawn with weight 1 / r^exponent.
///
/// The same description gives the same rows. Sort keys are row numbers; values are letters and digits.
#[derive(Debug, Clone, PartialEq)]
pub struct Zipf {
    pub rows: u64,
    /// How many partition keys there are; at least 1. Rank 1, the largest, is `key-000001`.
    pub partition_keys: u32,
    /// 0 is even; real inputs are near 1.
    pub exponent: f64,
    pub seed: u64,
    pub value_bytes: usize,
}

impl Default for Zipf {
    /// Like the flights: the same skew and row size, a tenth of the rows.
    fn default() -> Self {
        Zipf { rows: 300_000, partition_keys: 229, exponent: 1.03, seed: 1, value_bytes: 100 }
    }
}

impl Zipf {
    /// Returns the rows, one by one.
    pub fn rows(&self) -> ZipfRows {
        let mut total = 0.0;
        let mut weight_up_to = Vec::new();
        for rank in 1..=self.partition_keys.max(1) {
            total += f64::from(rank).powf(-self.exponent);
            weight_up_to.push(total);
        }
        ZipfRows { rows: self.rows, row: 0, weight_up_to, value_bytes: self.value_bytes, random: SplitMix64(self.seed) }
    }
}

impl IntoIterator for &Zipf {
    type Item = SourceRow;
    type IntoIter = ZipfRows;

    fn into_iter(self) -> ZipfRows {
        self.rows()
    }
}

/// The rows of a [`Zipf`].
#[derive(Debug, Clone)]
pub struct ZipfRows {
    rows: u64,
    row: u64,
    /// The weight of all ranks up to this one, by rank.
    weight_up_to: Vec<f64>,
    value_bytes: usize,
    random: SplitMix64,
}

impl Iterator for ZipfRows {
    type Item = SourceRow;

    fn next(&mut self) -> Option<SourceRow> {
        if self.row == self.rows {
            return None;
        }
        self.row += 1;
        let total = self.weight_up_to.last().expect("there is at least one partition key");
        let drawn = self.random.fraction() * total;
        let rank = self.weight_up_to.partition_point(|&weight| weight <= drawn).min(self.weight_up_to.len() - 1) + 1;
        Some(SourceRow {
            partition_key: format!("key-{rank:06}").into_bytes(),
            sort_key: row_number_text(self.row).into_bytes(),
            value: self.random.text(self.value_bytes),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.rows - self.row).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

/// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
#[derive(Debug, Clone)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to, but not, 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns letters and digits, ten of them from each random number.
    fn text(&mut self, bytes: usize) -> Vec<u8> {
        const SYMBOLS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
        let mut text = Vec::with_capacity(bytes);
        while text.len() < bytes {
            let mut bits = self.next();
            for _ in 0..10.min(bytes - text.len()) {
                text.push(SYMBOLS[(bits & 63) as usize]);
                bits >>= 6;
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_same_description_gives_the_same_rows() {
        let zipf = Zipf { rows: 1_000, ..Zipf::default() };
        assert_eq!(zipf.rows().collect::<Vec<_>>(), zipf.rows().collect::<Vec<_>>());
        let other = Zipf { seed: 2, ..zipf.clone() };
        assert_ne!(zipf.rows().collect::<Vec<_>>(), other.rows().collect::<Vec<_>>());
    }

    #[test]
    fn splitmix_gives_its_published_numbers() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn the_first_key_is_as_heavy_as_the_exponent_says() {
        let zipf = Zipf { rows: 100_000, partition_keys: 100, exponent: 1.0, seed: 7, value_bytes: 8 };
        let mut rows_of = BTreeMap::<Vec<u8>, u64>::new();
        for row in &zipf {
            assert_eq!(row.value.len(), 8);
            *rows_of.entry(row.partition_key).or_default() += 1;
        }
        // 1 of the harmonic number of 100, 5.187: 19.3 %.
        let first = rows_of[b"key-000001".as_slice()];
        assert!((18_500..20_000).contains(&first), "{first} rows of the first key");
        assert_eq!(rows_of.len(), 100);
    }

    #[test]
    fn no_rows_and_one_key_are_possible() {
        assert_eq!(Zipf { rows: 0, ..Zipf::default() }.rows().count(), 0);
        let one = Zipf { rows: 3, partition_keys: 0, exponent: 2.0, seed: 0, value_bytes: 0 };
        assert!(one.rows().all(|row| row.partition_key == b"key-000001" && row.value.is_empty()));
        assert_eq!(one.rows().size_hint(), (3, Some(3)));
    }
}
