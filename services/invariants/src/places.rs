//! R9, R10 and R12: replicas agree, rows are in one place, reads are whole.

use crate::history::{Grant, History, Invariant, Read, ReplicaState, Scan, Violation};
use crate::reads::{acknowledged, floor_at};
use rehome_keyspace::{Epoch, KeyRange, Selector, ShardId};
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
///
/// Whoever answers had been granted the key under the epoch that it names, one that is neither below that of the row it
/// shows, nor below that of a write of the row that had been answered before the read was asked for.
pub fn r12_reads_do_not_mix_owners(history: &History) -> Result<(), Violation> {
    let violation = |text| Err(Violation { id: Invariant::R12, text });
    let grants: BTreeMap<Epoch, &Grant> = history.grants.iter().map(|grant| (grant.epoch, grant)).collect();
    let floors = acknowledged(history);
    for read in &history.reads {
        if read.served_by.len() > 1 {
            return violation(format!("a read of {:?} mixes {:?}", read.placed, read.served_by));
        }
        let Some((shard, epoch)) = read.served_by.first() else { continue };
        if !is_granted(&grants, *shard, *epoch, |selector| selector.contains(&read.placed.0)) {
            return violation(format!(
                "shard {shard} answers a read of {:?} under epoch {epoch}, not its",
                read.placed
            ));
        }
        let floor = floors.get(&(&read.placed, read.sort_key.as_slice())).and_then(|floor| floor_at(floor, read.asked));
        if let Some(newer) = newest(read, floor.map(|version| version.epoch)).filter(|newer| newer > epoch) {
            return violation(format!(
                "shard {shard} answers a read of {:?} under epoch {epoch}, of which epoch {newer} was known",
                read.placed
            ));
        }
    }
    for scan in &history.scans {
        if !whole(scan) {
            return violation(format!(
                "a scan of {:?} covers {:?}, lacks {:?}",
                scan.asked, scan.covered, scan.missing
            ));
        }
        let of_another = |(range, shard, epoch): &&(KeyRange, ShardId, Epoch)| {
            let range = Selector::new(vec![range.clone()]);
            !is_granted(&grants, *shard, *epoch, |selector| selector.covers(&range))
        };
        if let Some((range, shard, epoch)) = scan.covered.iter().find(of_another) {
            return violation(format!("shard {shard} answers a scan of {range:?} under epoch {epoch}, not its"));
        }
    }
    Ok(())
}

/// Tells whether the epoch was granted to the shard for that much; true where no grants were observed.
fn is_granted(
    grants: &BTreeMap<Epoch, &Grant>,
    shard: ShardId,
    epoch: Epoch,
    holds: impl Fn(&Selector) -> bool,
) -> bool {
    grants.is_empty() || grants.get(&epoch).is_some_and(|grant| grant.shard == shard && holds(&grant.selector))
}

/// Returns the newest epoch that the reader knew, or saw.
fn newest(read: &Read, floor: Option<Epoch>) -> Option<Epoch> {
    floor.max(read.found.as_ref().map(|(version, _)| version.epoch))
}

fn whole(scan: &Scan) -> bool {
    let mut told: Vec<KeyRange> = scan.covered.iter().map(|(range, ..)| range.clone()).collect();
    told.extend(scan.missing.iter().cloned());
    told.sort();
    let once = told.windows(2).all(|pair| !pair[0].overlaps(&pair[1]));
    once && Selector::new(told) == scan.asked
}
