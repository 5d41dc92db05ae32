//! The rows of a bench: 24 bytes of key, 116 of value, spread evenly.

use crate::workload::Rows;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rehome_sources::SourceRow;

pub const KEY_BYTES: usize = 24;
pub const VALUE_BYTES: usize = 116;
/// Rows of one partition key. Reason: enough keys that every slot has some.
const ROWS_PER_KEY: u64 = 100;

/// Returns the rows.
pub fn rows(count: u64, seed: u64) -> Rows {
    let mut random = SmallRng::seed_from_u64(seed);
    Box::new((0..count).map(move |row| {
        let partition_key = format!("key{:09}", row / ROWS_PER_KEY).into_bytes();
        let sort_key = format!("{row:012}").into_bytes();
        Ok(SourceRow { partition_key, sort_key, value: value(&mut random) })
    }))
}

/// Returns a value that does not compress to nothing: letters and digits.
pub fn value(random: &mut SmallRng) -> Vec<u8> {
    const SYMBOLS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let mut value = vec![0u8; VALUE_BYTES];
    random.fill(&mut value[..]);
    value.iter_mut().for_each(|byte| *byte = SYMBOLS[(*byte & 63) as usize]);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_large_as_they_are_said_to_be() {
        let all: Vec<SourceRow> = rows(250, 1).collect::<Result<_, _>>().expect("rows are made");
        assert_eq!(all.len(), 250);
        assert!(all.iter().all(|row| row.partition_key.len() + row.sort_key.len() == KEY_BYTES));
        assert!(all.iter().all(|row| row.value.len() == VALUE_BYTES));
    }
}
