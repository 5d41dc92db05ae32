//! How much a move has to copy: counted where it is little, else estimated from a sample of its slots.

use rehome_control_core::Keyspace;
use rehome_keyspace::SlotId;
use rehome_ports::{PortError, Store};
use rehome_records::store_key;
use rehome_records::store_value::RowView;
use std::ops::ControlFlow;
use std::time::Instant;

/// Entries after which the clock is looked at.
const CLOCK_EVERY: u64 = 1_024;

/// How much is read before the rest is estimated.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    entries: u64,
    until: Option<Instant>,
}

impl Limit {
    /// Some tens of milliseconds.
    pub const SAMPLE: Limit = Limit { entries: 100_000, until: None };

    /// Everything that can be read until then.
    pub fn until(until: Instant) -> Limit {
        Limit { entries: u64::MAX, until: Some(until) }
    }

    fn is_reached(&self, entries: u64) -> bool {
        let is_late = |until: Instant| entries.is_multiple_of(CLOCK_EVERY) && Instant::now() >= until;
        entries >= self.entries || self.until.is_some_and(is_late)
    }
}

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
pub fn size(store: &dyn Store, keyspace: &Keyspace, slots: &[SlotId], limit: Limit) -> Result<Size, PortError> {
    let mut sample = Sample::default();
    let mut read = 0usize;
    for slot in spread(slots) {
        if sample.is_cut {
            break;
        }
        sample.add(store, keyspace, slot, limit)?;
        read += 1;
    }
    let is_whole = read == slots.len() && !sample.is_cut;
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
    /// The limit came first.
    is_cut: bool,
}

impl Sample {
    fn add(&mut self, store: &dyn Store, keyspace: &Keyspace, slot: SlotId, limit: Limit) -> Result<(), PortError> {
        for range in store_key::selector_ranges(&keyspace.placement.selector([slot])) {
            store.scan(&range, false, &mut |key, value| {
                self.entries += 1;
                let is_row = key.first() == Some(&store_key::KIND_ROW)
                    && RowView::decode(value).is_ok_and(|row| row.value.is_some());
                self.rows += u64::from(is_row);
                self.bytes += (key.len() + value.len()) as u64;
                self.is_cut = limit.is_reached(self.entries);
                if self.is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
    fn a_limit_is_a_number_of_entries_or_a_time() {
        assert!(!Limit::SAMPLE.is_reached(99_999) && Limit::SAMPLE.is_reached(100_000));
        let (past, later) = (Instant::now(), Instant::now() + std::time::Duration::from_secs(600));
        assert!(Limit::until(past).is_reached(CLOCK_EVERY) && !Limit::until(past).is_reached(CLOCK_EVERY + 1));
        assert!(!Limit::until(later).is_reached(1_000 * CLOCK_EVERY));
    }

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
