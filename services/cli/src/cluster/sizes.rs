//! How much a move has to copy: counted where it is little, else estimated from a sample of its slots.

use rehome_control_core::Keyspace;
use rehome_keyspace::SlotId;
use rehome_ports::{PortError, Store};
use rehome_records::store_key;
use rehome_records::store_value::RowView;
use std::ops::ControlFlow;

/// Entries that are read at most. Reason: some tens of milliseconds.
const ENTRIES_READ_MAX: u64 = 100_000;

/// What some slots of a store hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub rows: u64,
    /// Keys and values of all entries that move, before compression.
    pub bytes: u64,
    /// Every entry was counted; otherwise this follows from a sample and from the store's own estimate.
    pub counted: bool,
}

/// Returns how much those slots of the store hold.
pub fn size(store: &dyn Store, keyspace: &Keyspace, slots: &[SlotId]) -> Result<Size, PortError> {
    let mut sample = Sample::default();
    let mut read = 0usize;
    for slot in spread(slots) {
        if sample.entries >= ENTRIES_READ_MAX {
            break;
        }
        sample.add(store, keyspace, slot)?;
        read += 1;
    }
    let is_whole = read == slots.len() && sample.entries < ENTRIES_READ_MAX;
    if is_whole || sample.entries == 0 {
        return Ok(Size { rows: sample.rows, bytes: sample.bytes, counted: is_whole });
    }
    let selector = keyspace.placement.selector(slots.iter().copied());
    let estimated = store.estimate_entries(&store_key::selector_ranges(&selector))?;
    let factor = estimated.max(sample.entries) as f64 / sample.entries as f64;
    let scaled = |count: u64| (count as f64 * factor).round() as u64;
    Ok(Size { rows: scaled(sample.rows), bytes: scaled(sample.bytes), counted: false })
}

/// What was read.
#[derive(Default)]
struct Sample {
    entries: u64,
    rows: u64,
    bytes: u64,
}

impl Sample {
    fn add(&mut self, store: &dyn Store, keyspace: &Keyspace, slot: SlotId) -> Result<(), PortError> {
        for range in store_key::selector_ranges(&keyspace.placement.selector([slot])) {
            store.scan(&range, false, &mut |key, value| {
                self.entries += 1;
                let is_row = key.first() == Some(&store_key::KIND_ROW)
                    && RowView::decode(value).is_ok_and(|row| row.value.is_some());
                self.rows += u64::from(is_row);
                self.bytes += (key.len() + value.len()) as u64;
                if self.entries < ENTRIES_READ_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(())
    }
}

/// Returns every slot once, those first that lie far apart.
fn spread(slots: &[SlotId]) -> impl Iterator<Item = SlotId> {
    const STRIDE: usize = 16;
    (0..STRIDE).flat_map(|first| slots.iter().copied().skip(first).step_by(STRIDE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_read_once() {
        for count in [0, 1, 15, 16, 17, 100] {
            let slots: Vec<SlotId> = (0..count).map(SlotId).collect();
            let mut read: Vec<SlotId> = spread(&slots).collect();
            read.sort_unstable();
            assert_eq!(read, slots);
        }
    }
}
