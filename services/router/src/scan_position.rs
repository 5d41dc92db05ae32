//! Where a scan stands, and the part that it reads next.

use crate::ask::ScanCursor;
use crate::routes::Routes;
use rehome_keyspace::{Epoch, KeyRange, ShardId, SlotId};
use rehome_records::store_key::KIND_ROW;

const CURSOR_SLOT: u8 = 0;
const CURSOR_AFTER: u8 = 1;

/// Everything before was read: the slots before this one and, in this one, the rows up to a store key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) slot: SlotId,
    /// In that slot; the row at that key was read.
    pub(crate) after: Option<Vec<u8>>,
}

impl Position {
    pub(crate) fn first() -> Position {
        Position { slot: SlotId(0), after: None }
    }

    /// Returns the position after a row; nothing when the key is not one of a row.
    pub(crate) fn after(store_key: Vec<u8>, routes: &Routes) -> Option<Position> {
        let placed = store_key.strip_prefix(&[KIND_ROW])?;
        let slot = routes.placement.slot_of_placed(placed).filter(|slot| slot.0 < routes.slot_count())?;
        Some(Position { slot, after: Some(store_key) })
    }

    /// ```text
    /// 00 slot: u32 BE   at the start of that slot
    /// 01 store key      after that row
    /// ```
    pub(crate) fn cursor(&self) -> ScanCursor {
        let mut bytes = Vec::new();
        match &self.after {
            None => {
                bytes.push(CURSOR_SLOT);
                bytes.extend_from_slice(&self.slot.0.to_be_bytes());
            }
            Some(store_key) => {
                bytes.push(CURSOR_AFTER);
                bytes.extend_from_slice(store_key);
            }
        }
        ScanCursor(bytes)
    }

    /// Reads what [`Position::cursor`] wrote.
    pub(crate) fn read(cursor: &ScanCursor, routes: &Routes) -> Option<Position> {
        let (kind, rest) = cursor.0.split_first()?;
        match *kind {
            CURSOR_SLOT => {
                let slot = SlotId(u32::from_be_bytes(rest.try_into().ok()?));
                (slot.0 < routes.slot_count()).then_some(Position { slot, after: None })
            }
            CURSOR_AFTER => Position::after(rest.to_vec(), routes),
            _ => None,
        }
    }

    /// Returns the first key that is still to be read; nothing at the end.
    pub(crate) fn key(&self, routes: &Routes) -> Option<Vec<u8>> {
        match &self.after {
            Some(store_key) => Some([&store_key[1..], &[0]].concat()),
            None if self.slot.0 >= routes.slot_count() => None,
            None => Some(routes.placement.slot_range(self.slot).start),
        }
    }

    /// Returns the keys that are still to be read.
    ///
    /// Requires: it is not at the end.
    pub(crate) fn rest(&self, routes: &Routes) -> KeyRange {
        KeyRange { start: self.key(routes).expect("a scan at its end misses nothing"), end: None }
    }
}

/// The longest run of slots that one shard owns, as the router believed when it asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) first: SlotId,
    /// The first slot that is not in it.
    pub(crate) end: SlotId,
    pub(crate) range: KeyRange,
    pub(crate) shard: ShardId,
    /// Of the slots from `first` on: runs of equal epochs, each by its first slot.
    epochs: Vec<(SlotId, Epoch)>,
}

impl Part {
    pub(crate) fn from(routes: &Routes, first: SlotId) -> Part {
        let (end, shard) = routes.run_from(first);
        let mut epochs: Vec<(SlotId, Epoch)> = Vec::new();
        for slot in (first.0..end.0).map(SlotId) {
            let epoch = routes.route(slot).epoch;
            if epochs.last().is_none_or(|(_, last)| *last != epoch) {
                epochs.push((slot, epoch));
            }
        }
        let last = SlotId(end.0 - 1);
        let range =
            KeyRange { start: routes.placement.slot_range(first).start, end: routes.placement.slot_range(last).end };
        Part { first, end, range, shard, epochs }
    }

    /// Requires: a slot of the part.
    pub(crate) fn epoch(&self, slot: SlotId) -> Epoch {
        let after = self.epochs.partition_point(|(first, _)| *first <= slot);
        self.epochs[after - 1].1
    }

    /// Returns the first slot that the shard did not own whole under the epoch that was believed; `end` if there is none.
    pub(crate) fn owned_to(&self, routes: &Routes, mut covered: Vec<(KeyRange, Epoch)>) -> SlotId {
        covered.sort_by(|(a, _), (b, _)| a.start.cmp(&b.start));
        let region_of = |key: &[u8]| {
            let after = covered.partition_point(|(range, _)| range.start.as_slice() <= key);
            covered[..after].last().filter(|(range, _)| range.contains(key))
        };
        let ends = self.epochs.iter().skip(1).map(|(first, _)| *first).chain([self.end]);
        for ((first, epoch), end) in self.epochs.iter().zip(ends) {
            let run_end = routes.placement.slot_range(SlotId(end.0 - 1)).end;
            let mut at = routes.placement.slot_range(*first).start;
            loop {
                let Some((range, _)) = region_of(&at).filter(|(_, found)| found == epoch) else {
                    return routes.placement.slot_of_placed(&at).unwrap_or(*first);
                };
                match (&range.end, &run_end) {
                    (None, _) => break,
                    (Some(covered_to), Some(run_end)) if covered_to >= run_end => break,
                    (Some(covered_to), _) => at.clone_from(covered_to),
                }
            }
        }
        self.end
    }

    /// Tells whether the slot has another owner by now.
    pub(crate) fn is_outdated(&self, routes: &Routes, slot: SlotId) -> bool {
        (self.first..self.end).contains(&slot) && routes.route(slot).epoch != self.epoch(slot)
    }
}
