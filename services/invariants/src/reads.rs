//! R5 and R7: what was acknowledged is read, what was deleted stays away.

use crate::history::{History, Invariant, Moment, Read, Violation};
use rehome_keyspace::{PlacedKey, Version};
use std::collections::BTreeMap;

pub(crate) type RowName<'a> = (&'a PlacedKey, &'a [u8]);
type Written<'a> = BTreeMap<RowName<'a>, BTreeMap<Version, Option<&'a [u8]>>>;

/// An acknowledged write is readable at its owner until a later accepted write replaces it, whatever moved meanwhile;
/// and what is read was written.
pub fn r5_acknowledged_writes_are_readable(history: &History) -> Result<(), Violation> {
    let written = written(history);
    let floors = acknowledged(history);
    for ack in &history.acks {
        for sort_key in &ack.sort_keys {
            let accepted = written.get(&(&ack.placed, sort_key.as_slice()));
            if accepted.is_none_or(|accepted| !accepted.contains_key(&ack.version)) {
                return violation(format!("{} of key {:?} was answered and never accepted", ack.version, ack.placed));
            }
        }
    }
    for read in &history.reads {
        let accepted = written.get(&name(read));
        let floor = floors.get(&name(read)).and_then(|floor| floor_at(floor, read.asked));
        match &read.found {
            Some((version, value)) => {
                if accepted.and_then(|accepted| accepted.get(version)) != Some(&Some(value.as_slice())) {
                    return violation(format!("a read of {:?} found {version}, which nobody wrote so", read.placed));
                }
                if floor.is_some_and(|floor| *version < floor) {
                    return violation(format!("a read of {:?} found {version}, older than answered", read.placed));
                }
            }
            None => {
                let Some(floor) = floor else { continue };
                let deleted =
                    accepted.is_some_and(|accepted| accepted.range(floor..).any(|(_, value)| value.is_none()));
                if !deleted {
                    return violation(format!("a read of {:?} found nothing, {floor} was answered", read.placed));
                }
            }
        }
    }
    let Some(visible) = &history.visible else { return Ok(()) };
    let rows: BTreeMap<RowName<'_>, _> =
        visible.rows.iter().map(|row| ((&row.placed, row.sort_key.as_slice()), row)).collect();
    for (row, accepted) in &written {
        let Some((version, Some(value))) = accepted.last_key_value() else { continue };
        if rows.get(row).is_none_or(|found| found.version != *version || found.value != *value) {
            let found = rows.get(row).map(|found| found.version);
            return violation(format!("{version} of {:?} is the last write, {found:?} is visible", row.0));
        }
    }
    Ok(())
}

/// A deleted row stays deleted until a later accepted write.
pub fn r7_deleted_rows_stay_deleted(history: &History) -> Result<(), Violation> {
    let written = written(history);
    let floors = acknowledged(history);
    let back = |placed: &PlacedKey, found: Version, deleted: Version| {
        Err(Violation { id: Invariant::R7, text: format!("{found} of {placed:?} is back, deleted by {deleted}") })
    };
    for read in &history.reads {
        let Some((version, _)) = &read.found else { continue };
        let Some(floor) = floors.get(&name(read)).and_then(|floor| floor_at(floor, read.asked)) else { continue };
        let deleted = written.get(&name(read)).is_some_and(|accepted| accepted.get(&floor) == Some(&None));
        if deleted && *version < floor {
            return back(&read.placed, *version, floor);
        }
    }
    for row in history.visible.iter().flat_map(|visible| &visible.rows) {
        let accepted = written.get(&(&row.placed, row.sort_key.as_slice()));
        if let Some((version, None)) = accepted.and_then(|accepted| accepted.last_key_value()) {
            return back(&row.placed, row.version, *version);
        }
    }
    Ok(())
}

fn violation(text: String) -> Result<(), Violation> {
    Err(Violation { id: Invariant::R5, text })
}

fn name(read: &Read) -> RowName<'_> {
    (&read.placed, read.sort_key.as_slice())
}

fn written(history: &History) -> Written<'_> {
    let mut written: Written<'_> = BTreeMap::new();
    for write in &history.accepted {
        for (sort_key, value) in &write.rows {
            written.entry((&write.placed, sort_key)).or_default().insert(write.version, value.as_deref());
        }
    }
    written
}

/// Returns, per row, the highest version that was answered up to each answer, in the order of answers.
pub(crate) fn acknowledged(history: &History) -> BTreeMap<RowName<'_>, Vec<(Moment, Version)>> {
    let mut floors: BTreeMap<RowName<'_>, Vec<(Moment, Version)>> = BTreeMap::new();
    for ack in &history.acks {
        for sort_key in &ack.sort_keys {
            floors.entry((&ack.placed, sort_key)).or_default().push((ack.answered, ack.version));
        }
    }
    for floor in floors.values_mut() {
        floor.sort();
        for index in 1..floor.len() {
            floor[index].1 = floor[index].1.max(floor[index - 1].1);
        }
    }
    floors
}

pub(crate) fn floor_at(floor: &[(Moment, Version)], asked: Moment) -> Option<Version> {
    let after = floor.partition_point(|(answered, _)| *answered < asked);
    Some(floor[after.checked_sub(1)?].1)
}
