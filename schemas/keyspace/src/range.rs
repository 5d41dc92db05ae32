//! Ranges of placed keys, and selectors made of them.
//!
//! A placed key is what a partition key looks like in a store: slot prefix, then the escaped partition key. Slots,
//! pinned keys and whole shards are all ranges of placed keys, so ownership needs one notion only.

use bincode::{Decode, Encode};
use std::fmt;

/// A partition key where the placement puts it: slot prefix, escaped key, terminator. Rows of one partition key share it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct PlacedKey(pub Vec<u8>);

impl fmt::Debug for PlacedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Hex(&self.0))
    }
}

/// All placed keys `k` with `start <= k < end`; without an end, all from `start` on. Never empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct KeyRange {
    pub start: Vec<u8>,
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Returns the range of every placed key.
    pub fn all() -> KeyRange {
        KeyRange { start: Vec::new(), end: None }
    }

    pub fn new(start: Vec<u8>, end: Option<Vec<u8>>) -> KeyRange {
        debug_assert!(end.as_ref().is_none_or(|end| start < *end), "a key range is never empty");
        KeyRange { start, end }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Returns the keys that both ranges hold, or nothing when they share none.
    pub fn intersection(&self, other: &KeyRange) -> Option<KeyRange> {
        let start = self.start.clone().max(other.start.clone());
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.clone().min(b.clone())),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        end.as_ref().is_none_or(|end| start < *end).then_some(KeyRange { start, end })
    }

    /// Returns how many slots the range touches, at least.
    fn slots(&self) -> u64 {
        let end = self.end.as_deref().map_or(1 << 32, |end| u64::from(slot_of(end)));
        end.saturating_sub(u64::from(slot_of(&self.start))).max(1)
    }

    /// Returns the start of the slot that comes so many after the one of the start.
    fn cut(&self, slots: u64) -> Vec<u8> {
        let slot = u64::from(slot_of(&self.start)) + slots;
        u32::try_from(slot).unwrap_or(u32::MAX).to_be_bytes().to_vec()
    }

    pub fn overlaps(&self, other: &KeyRange) -> bool {
        self.end.as_ref().is_none_or(|end| other.start < *end) && other.end.as_ref().is_none_or(|end| self.start < *end)
    }
}

/// Reads the slot at the front of a placed key, or of where a range starts or ends.
fn slot_of(bytes: &[u8]) -> u32 {
    let mut slot = [0; 4];
    let known = bytes.len().min(slot.len());
    slot[..known].copy_from_slice(&bytes[..known]);
    u32::from_be_bytes(slot)
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}..", Hex(&self.start))?;
        match &self.end {
            Some(end) => write!(f, "{})", Hex(end)),
            None => write!(f, ")"),
        }
    }
}

/// A set of keys that moves together: sorted ranges that neither overlap nor touch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Selector {
    ranges: Vec<KeyRange>,
}

impl Selector {
    /// Returns the union of the given ranges, in order, touching ones joined.
    pub fn new(mut ranges: Vec<KeyRange>) -> Selector {
        ranges.sort();
        let mut joined: Vec<KeyRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.end.as_ref().is_none_or(|end| range.start <= *end) => {
                    if let (Some(end), Some(other)) = (&last.end, &range.end) {
                        last.end = Some(end.clone().max(other.clone()));
                    } else {
                        last.end = None;
                    }
                }
                _ => joined.push(range),
            }
        }
        Selector { ranges: joined }
    }

    pub fn ranges(&self) -> &[KeyRange] {
        &self.ranges
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Tells whether the key is in the set.
    pub fn contains(&self, key: &[u8]) -> bool {
        let after = self.ranges.partition_point(|range| range.start.as_slice() <= key);
        after > 0 && self.ranges[after - 1].contains(key)
    }

    /// Tells whether both sets hold some key. Takes one walk along both, however many ranges they have.
    pub fn overlaps(&self, other: &Selector) -> bool {
        let (mut mine, mut theirs) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        while let (Some(a), Some(b)) = (mine.peek(), theirs.peek()) {
            if a.overlaps(b) {
                return true;
            }
            if a.start < b.start {
                mine.next()
            } else {
                theirs.next()
            };
        }
        false
    }

    /// Returns the set in at most so many parts, in key order, each with about as many slots. What lies within one slot
    /// stays together.
    pub fn parts(&self, count: u32) -> Vec<Selector> {
        let widths: Vec<u64> = self.ranges.iter().map(KeyRange::slots).collect();
        let share = widths.iter().sum::<u64>().div_ceil(u64::from(count.max(1))).max(1);
        let (mut parts, mut part, mut left) = (Vec::new(), Vec::new(), share);
        for (range, width) in self.ranges.iter().zip(widths) {
            let (mut range, mut width) = (range.clone(), width);
            while width > left {
                let cut = range.cut(left);
                part.push(KeyRange::new(range.start, Some(cut.clone())));
                parts.push(Selector { ranges: std::mem::take(&mut part) });
                range = KeyRange::new(cut, range.end);
                width -= left;
                left = share;
            }
            part.push(range);
            left -= width;
            if left == 0 {
                parts.push(Selector { ranges: std::mem::take(&mut part) });
                left = share;
            }
        }
        if !part.is_empty() {
            parts.push(Selector { ranges: part });
        }
        parts
    }

    pub fn overlaps_range(&self, range: &KeyRange) -> bool {
        self.ranges.iter().any(|mine| mine.overlaps(range))
    }

    /// Tells whether every key of `other` is in this set.
    pub fn covers(&self, other: &Selector) -> bool {
        other
            .ranges
            .iter()
            .all(|theirs| self.ranges.iter().any(|mine| mine.intersection(theirs).as_ref() == Some(theirs)))
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: &[u8], end: &[u8]) -> KeyRange {
        KeyRange::new(start.to_vec(), Some(end.to_vec()))
    }

    #[test]
    fn touching_and_overlapping_ranges_join() {
        let selector = Selector::new(vec![
            range(b"c", b"d"),
            range(b"a", b"b"),
            range(b"b", b"c"),
            range(b"x", b"z"),
            range(b"y", b"yy"),
        ]);
        assert_eq!(selector.ranges(), &[range(b"a", b"d"), range(b"x", b"z")]);
        for (key, inside) in
            [(b"a".as_slice(), true), (b"cz", true), (b"d", false), (b"x", true), (b"z", false), (b"", false)]
        {
            assert_eq!(selector.contains(key), inside, "{key:?}");
        }
    }

    #[test]
    fn an_open_end_swallows_what_follows() {
        let selector = Selector::new(vec![KeyRange::new(b"m".to_vec(), None), range(b"p", b"q")]);
        assert_eq!(selector.ranges().len(), 1);
        assert!(selector.contains(b"\xff\xff"));
        assert!(selector.covers(&Selector::new(vec![range(b"n", b"o")])));
        assert!(!selector.covers(&Selector::new(vec![range(b"a", b"o")])));
    }

    #[test]
    fn selectors_overlap_only_where_some_key_is_in_both() {
        let odd = Selector::new(vec![range(b"b", b"c"), range(b"d", b"e"), range(b"f", b"g")]);
        let even = Selector::new(vec![range(b"a", b"b"), range(b"c", b"d"), range(b"e", b"f")]);
        assert!(!odd.overlaps(&even) && !even.overlaps(&odd));
        let last = Selector::new(vec![range(b"a", b"b"), range(b"fx", b"fy")]);
        assert!(odd.overlaps(&last) && last.overlaps(&odd));
        let open = Selector::new(vec![KeyRange::new(b"ff".to_vec(), None)]);
        assert!(odd.overlaps(&open) && open.overlaps(&odd) && !even.overlaps(&open));
        assert!(!Selector::new(Vec::new()).overlaps(&odd));
    }

    #[test]
    fn intersections_are_exact() {
        assert_eq!(range(b"a", b"m").intersection(&range(b"f", b"z")), Some(range(b"f", b"m")));
        assert_eq!(range(b"a", b"f").intersection(&range(b"f", b"z")), None);
        assert_eq!(KeyRange::all().intersection(&range(b"f", b"z")), Some(range(b"f", b"z")));
        assert!(!range(b"a", b"f").overlaps(&range(b"f", b"z")));
    }

    #[test]
    fn parts_of_a_whole_shard_have_as_many_slots_each() {
        let slot = |slot: u32| slot.to_be_bytes().to_vec();
        let all = Selector::new(vec![KeyRange::new(slot(8), Some(slot(16)))]);
        let part = |from, to| Selector::new(vec![KeyRange::new(slot(from), Some(slot(to)))]);
        assert_eq!(all.parts(4), [part(8, 10), part(10, 12), part(12, 14), part(14, 16)]);
        assert_eq!(all.parts(3), [part(8, 11), part(11, 14), part(14, 16)]);
        assert_eq!(all.parts(0), all.parts(1));
        assert_eq!(all.parts(1), [part(8, 16)]);
        assert_eq!(part(8, 9).parts(4), [part(8, 9)], "a slot stays together");
        assert_eq!(Selector::new(vec![KeyRange::all()]).parts(2).len(), 2);
        assert_eq!(Selector::new(Vec::new()).parts(4), []);
    }

    proptest! {
        #[test]
        fn parts_are_the_set_again_in_order(
            bounds in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 1..6), 2..20),
            count in 0u32..7,
        ) {
            let bounds: Vec<_> = bounds.into_iter().collect();
            let ranges = bounds.chunks_exact(2).map(|pair| range(&pair[0], &pair[1])).collect();
            let selector = Selector::new(ranges);
            let parts = selector.parts(count);
            prop_assert!(parts.len() as u32 <= count.max(1));
            prop_assert!(parts.iter().all(|part| !part.is_empty()));
            let ranges: Vec<_> = parts.iter().flat_map(|part| part.ranges().to_vec()).collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end.as_ref().is_some_and(|end| *end <= pair[1].start)));
            prop_assert!(ranges.iter().all(|range| range.end.as_ref().is_none_or(|end| range.start < *end)));
            prop_assert_eq!(Selector::new(ranges), selector);
        }
    }
}
