//! Slot states by region of keys: sorted regions that do not overlap. States are never dropped and never joined; a
//! change of part of a region divides it.

use rehome_keyspace::{Epoch, KeyRange, Selector};
use rehome_records::{SlotState, StateRegion};

/// Returns regions that cover every key: owned where granted, closed everywhere else.
pub(crate) fn granted(granted: &[(KeyRange, Epoch)]) -> Vec<StateRegion> {
    let closed = SlotState::Closed { highest: Epoch(0) };
    let mut regions = vec![StateRegion { range: KeyRange::all(), state: closed }];
    for (range, epoch) in granted {
        assign(&mut regions, range, SlotState::Owned { epoch: *epoch });
    }
    regions
}

/// Returns the index of the region that holds the key.
pub(crate) fn find(regions: &[StateRegion], placed: &[u8]) -> Option<usize> {
    let after = regions.partition_point(|region| region.range.start.as_slice() <= placed);
    let index = after.checked_sub(1)?;
    regions[index].range.contains(placed).then_some(index)
}

/// Returns the parts of the regions that lie in the range, in key order.
pub(crate) fn parts_of_range<'a>(
    regions: &'a [StateRegion],
    range: &'a KeyRange,
) -> impl Iterator<Item = StateRegion> + 'a {
    let first = regions.partition_point(|region| region.range.end.as_ref().is_some_and(|end| *end <= range.start));
    regions[first..]
        .iter()
        .map_while(|region| Some(StateRegion { range: region.range.intersection(range)?, state: region.state }))
}

/// Returns the parts of the regions that lie in the selector, in key order.
pub(crate) fn parts(regions: &[StateRegion], selector: &Selector) -> Vec<StateRegion> {
    selector.ranges().iter().flat_map(|range| parts_of_range(regions, range)).collect()
}

/// Gives every key of the range that some region covers the state, and divides regions where the range ends inside
/// them. Returns the regions that are new or changed.
pub(crate) fn assign(regions: &mut Vec<StateRegion>, range: &KeyRange, state: SlotState) -> Vec<StateRegion> {
    let first = regions.partition_point(|region| region.range.end.as_ref().is_some_and(|end| *end <= range.start));
    let count = regions[first..].iter().take_while(|region| region.range.overlaps(range)).count();
    let mut changed = Vec::with_capacity(count + 2);
    for region in &regions[first..first + count] {
        let inside = region.range.intersection(range).expect("only overlapping regions were taken");
        if region.range.start < inside.start {
            let left = KeyRange::new(region.range.start.clone(), Some(inside.start.clone()));
            changed.push(StateRegion { range: left, state: region.state });
        }
        let right = inside.end.clone().filter(|end| Some(end) != region.range.end.as_ref());
        changed.push(StateRegion { range: inside, state });
        if let Some(start) = right {
            let right = KeyRange::new(start, region.range.end.clone());
            changed.push(StateRegion { range: right, state: region.state });
        }
    }
    regions.splice(first..first + count, changed.iter().cloned());
    changed
}

/// Tells whether the regions, in order, cover every key exactly once.
pub(crate) fn cover_everything(regions: &[StateRegion]) -> bool {
    let touching = regions.windows(2).all(|pair| pair[0].range.end.as_ref() == Some(&pair[1].range.start));
    touching
        && regions.first().is_some_and(|first| first.range.start.is_empty())
        && regions.last().is_some_and(|last| last.range.end.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: u8, end: u8) -> KeyRange {
        KeyRange::new(vec![start], Some(vec![end]))
    }

    proptest! {
        #[test]
        fn assigned_states_are_found_key_by_key(
            assigned in prop::collection::vec((0u8..30, 1u8..10, 1u64..9), 0..20)
        ) {
            let mut regions = granted(&[]);
            let mut naive = [Epoch(0); 45];
            for (start, length, epoch) in assigned {
                let changed =
                    assign(&mut regions, &range(start, start + length), SlotState::Owned { epoch: Epoch(epoch) });
                prop_assert!(changed.iter().all(|region| regions.contains(region)));
                naive[usize::from(start)..usize::from(start + length)].fill(Epoch(epoch));
            }
            prop_assert!(cover_everything(&regions));
            for (key, epoch) in naive.iter().enumerate() {
                let found = find(&regions, &[key as u8, 7]).expect("every key is covered");
                prop_assert_eq!(regions[found].state.highest(), *epoch);
            }
            let selector = Selector::new(vec![range(3, 9), range(20, 31)]);
            let covered = Selector::new(parts(&regions, &selector).into_iter().map(|part| part.range).collect());
            prop_assert_eq!(covered, selector);
        }
    }

    #[test]
    fn keys_outside_every_region_are_left_alone() {
        let mut regions = vec![StateRegion { range: range(5, 9), state: SlotState::Closed { highest: Epoch(1) } }];
        assert_eq!(find(&regions, &[4]), None);
        assert_eq!(find(&regions, &[9]), None);
        assert!(assign(&mut regions, &range(9, 12), SlotState::Owned { epoch: Epoch(2) }).is_empty());
        assign(&mut regions, &range(0, 6), SlotState::Owned { epoch: Epoch(2) });
        assert_eq!(regions.len(), 2);
        assert!(!cover_everything(&regions));
    }
}
