//! R9, R10 and R12: replicas agree, rows are in one place, reads are whole.

use crate::history::{History, Invariant, ReplicaState, Scan, Violation};
use rehome_keyspace::{KeyRange, Selector};
use std::collections::BTreeMap;

/// Every replica of a shard at the same position has the same state.
pub fn r9_replicas_at_one_position_are_equal(history: &History) -> Result<(), Violation> {
    let mut first: BTreeMap<_, &ReplicaState> = BTreeMap::new();
    for state in &history.replicas {
        let other = first.entry((state.shard, state.position, &state.ranges)).or_insert(state);
        if other.hash != state.hash {
            return Err(Violation {
                id: Invariant::R9,
                text: format!(
                    "replicas {} and {} of shard {} differ at {}",
                    other.replica, state.replica, state.shard, state.position
                ),
            });
        }
    }
    Ok(())
}

/// A row is visible nowhere but at the current owner of its key.
pub fn r10_rows_are_visible_at_their_owner_only(history: &History) -> Result<(), Violation> {
    let Some(visible) = &history.visible else { return Ok(()) };
    let mut owners: Vec<_> = visible.owners.iter().collect();
    owners.sort();
    for row in &visible.rows {
        let after = owners.partition_point(|(range, _)| range.start <= row.placed.0);
        let owner = after.checked_sub(1).map(|index| owners[index]).filter(|(range, _)| range.contains(&row.placed.0));
        if owner.is_none_or(|(_, shard)| *shard != row.shard) {
            return Err(Violation {
                id: Invariant::R10,
                text: format!(
                    "{} of {:?} is visible at shard {}, owned by {:?}",
                    row.version,
                    row.placed,
                    row.shard,
                    owner.map(|(_, shard)| *shard)
                ),
            });
        }
    }
    Ok(())
}

/// A read never mixes two owners of one key; a scatter read covers every key exactly once, or says what is missing.
pub fn r12_reads_do_not_mix_owners(history: &History) -> Result<(), Violation> {
    let violation = |text| Err(Violation { id: Invariant::R12, text });
    for read in &history.reads {
        if read.served_by.len() > 1 {
            return violation(format!("a read of {:?} mixes {:?}", read.placed, read.served_by));
        }
    }
    match history.scans.iter().find(|scan| !whole(scan)) {
        Some(scan) => {
            violation(format!("a scan of {:?} covers {:?}, lacks {:?}", scan.asked, scan.covered, scan.missing))
        }
        None => Ok(()),
    }
}

fn whole(scan: &Scan) -> bool {
    let mut told: Vec<KeyRange> = scan.covered.iter().map(|(range, ..)| range.clone()).collect();
    told.extend(scan.missing.iter().cloned());
    told.sort();
    let once = told.windows(2).all(|pair| !pair[0].overlaps(&pair[1]));
    once && Selector::new(told) == scan.asked
}
