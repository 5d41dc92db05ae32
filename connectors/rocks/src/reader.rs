//! Point reads and scans, of the newest state or of a snapshot.

use crate::errors::rocks;
use crate::options::whole_scan;
use rehome_keyspace::KeyRange;
use rehome_ports::{PortError, Reader, Visitor};
use rocksdb::{DB, DBRawIterator, ReadOptions, Snapshot};
use std::ops::ControlFlow;

/// The newest state.
pub struct Newest<'a>(pub &'a DB);

/// The state at one moment.
pub struct Moment<'a>(pub Snapshot<'a>);

impl Reader for Newest<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PortError> {
        let value = self.0.get_pinned(key).map_err(|error| rocks("reading", &error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(&self, range: &KeyRange, reverse: bool, visit: &mut Visitor<'_>) -> Result<(), PortError> {
        walk(self.0.raw_iterator_opt(bounded(ReadOptions::default(), range)), range, reverse, visit)
    }
}

impl Reader for Moment<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PortError> {
        self.0.get(key).map_err(|error| rocks("reading", &error))
    }

    fn scan(&self, range: &KeyRange, reverse: bool, visit: &mut Visitor<'_>) -> Result<(), PortError> {
        walk(self.0.raw_iterator_opt(bounded(whole_scan(), range)), range, reverse, visit)
    }
}

/// Tells whether nothing lies in the range.
pub fn is_empty(db: &DB, range: &KeyRange) -> Result<bool, PortError> {
    let mut empty = true;
    Newest(db).scan(range, false, &mut |_, _| {
        empty = false;
        ControlFlow::Break(())
    })?;
    Ok(empty)
}

fn bounded(mut options: ReadOptions, range: &KeyRange) -> ReadOptions {
    options.set_iterate_lower_bound(range.start.clone());
    if let Some(end) = &range.end {
        options.set_iterate_upper_bound(end.clone());
    }
    options
}

fn walk(
    mut entries: DBRawIterator<'_>,
    range: &KeyRange,
    reverse: bool,
    visit: &mut Visitor<'_>,
) -> Result<(), PortError> {
    if reverse {
        entries.seek_to_last()
    } else {
        entries.seek(&range.start)
    }
    while let Some((key, value)) = entries.item() {
        if visit(key, value).is_break() {
            return Ok(());
        }
        if reverse { entries.prev() } else { entries.next() }
    }
    entries.status().map_err(|error| rocks("scanning", &error))
}
