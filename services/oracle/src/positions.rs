//! A set of positions: one bit per offset where offsets are dense.

use rehome_keyspace::{Offset, ShardId};
use std::collections::BTreeMap;

/// A set of positions of one keyspace's partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    blocks: BTreeMap<(ShardId, u64), u64>,
    count: u64,
}

impl Positions {
    pub fn new() -> Positions {
        Positions::default()
    }

    /// Adds the position; false when it was there.
    pub fn insert(&mut self, shard: ShardId, offset: Offset) -> bool {
        let block = self.blocks.entry((shard, offset.0 / 64)).or_default();
        let bit = 1 << (offset.0 % 64);
        let new = *block & bit == 0;
        *block |= bit;
        self.count += u64::from(new);
        new
    }

    pub fn contains(&self, shard: ShardId, offset: Offset) -> bool {
        self.blocks.get(&(shard, offset.0 / 64)).is_some_and(|block| block & (1 << (offset.0 % 64)) != 0)
    }

    pub fn len(&self) -> u64 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Visits the positions of this set that the other lacks, in order.
    pub fn missing_in<'a>(&'a self, other: &'a Positions) -> impl Iterator<Item = (ShardId, Offset)> + 'a {
        self.blocks.iter().flat_map(move |(at, mine)| {
            let lacking = mine & !other.blocks.get(at).copied().unwrap_or_default();
            (0..64u64).filter(move |bit| lacking & (1 << bit) != 0).map(move |bit| (at.0, Offset(at.1 * 64 + bit)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_knows_what_it_holds_and_what_another_lacks() {
        let (mut a, mut b) = (Positions::new(), Positions::new());
        for offset in [0, 63, 64, 1 << 40] {
            assert!(a.insert(ShardId(1), Offset(offset)));
            assert!(!a.insert(ShardId(1), Offset(offset)));
        }
        assert_eq!(a.len(), 4);
        assert!(!a.contains(ShardId(0), Offset(0)));
        b.insert(ShardId(1), Offset(63));
        b.insert(ShardId(1), Offset(5));
        let lacking: Vec<u64> = a.missing_in(&b).map(|(_, offset)| offset.0).collect();
        assert_eq!(lacking, [0, 64, 1 << 40]);
    }
}
