//! The laid-over view equals the view with the changes written to it.

use super::*;
use proptest::prelude::*;

struct Map(BTreeMap<Vec<u8>, Vec<u8>>);

impl View for Map {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, range: &KeyRange, visit: Visit<'_>) -> Result<(), ViewError> {
        for (key, value) in self.0.iter().filter(|(key, _)| range.contains(key)) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn collect(scan: impl Fn(Visit<'_>) -> Result<(), ViewError>, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = Vec::new();
    scan(&mut |key, value| {
        seen.push((key.to_vec(), value.to_vec()));
        if seen.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .unwrap();
    seen
}

proptest! {
    #[test]
    fn pending_changes_look_as_if_they_were_written(
        before in prop::collection::btree_map(prop::collection::vec(0u8..4, 1..3), prop::collection::vec(0u8..9, 0..3), 0..12),
        changes in prop::collection::vec((prop::collection::vec(0u8..4, 1..3), prop::option::of(prop::collection::vec(0u8..9, 0..3))), 0..12),
        start in prop::collection::vec(0u8..4, 0..2),
        limit in 1usize..12,
    ) {
        let view = Map(before.clone());
        let mut after = Map(before);
        let mut pending = Pending::new();
        for (key, value) in changes {
            match value {
                Some(value) => {
                    after.0.insert(key.clone(), value.clone());
                    pending.put(key, value);
                }
                None => {
                    after.0.remove(&key);
                    pending.remove(key);
                }
            }
        }
        let range = KeyRange::new(start, Some(vec![3, 2]));
        prop_assert_eq!(
            collect(|visit| pending.scan(&view, &range, visit), limit),
            collect(|visit| after.scan(&range, visit), limit)
        );
        for a in 0..4 {
            prop_assert_eq!(pending.get(&view, &[a]), after.get(&[a]));
        }
        let bytes = pending.bytes();
        let counted: usize = pending.into_changes().map(|(key, value)| key.len() + value.map_or(0, |v| v.len())).sum();
        prop_assert_eq!(bytes, counted);
    }
}
