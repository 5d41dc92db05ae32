//! The part of a scatter read that this shard owns.

use crate::replica::StoreView;
use rehome_control_core::ControlState;
use rehome_keyspace::{AttemptId, Attempts, Epoch, KeyRange, KeyspaceId, Placement, ShardId};
use rehome_ports::{PortError, ReadKind, Reader, Row};
use rehome_records::store_key::{self, KIND_ROW};
use rehome_records::store_value::StoredRow;
use std::ops::ControlFlow;

/// Most bytes of rows in one answer. Reason: an answer is held in memory whole.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Most entries that one answer looks at, tombstones included. Reason: a replica reads between two turns of its live tail.
const ANSWER_ENTRIES_MAX: usize = 20_000;

/// Who owns a region, as far as a replica may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    Under(Epoch),
    No,
    Unknown,
}

/// Rows found, and where to go on.
#[derive(Default)]
pub(crate) struct Found {
    pub rows: Vec<Row>,
    pub more_after: Option<Vec<u8>>,
    /// Store key of the last entry that was looked at, a tombstone included.
    last: Option<Vec<u8>>,
    bytes: usize,
    entries: usize,
}

/// Tells who owns a contested region, by routes that were folded after it was found contested: as long as they show the
/// attempt without an outcome, the source owns it still.
pub(crate) fn owned_by_routes(
    state: &ControlState,
    keyspace: KeyspaceId,
    shard: ShardId,
    attempt: AttemptId,
    range: &KeyRange,
) -> Owned {
    let Some(facts) = state.attempt(attempt) else { return Owned::Unknown };
    if facts.outcome.is_some() {
        return Owned::Unknown;
    }
    let Some(keyspace) = state.keyspace(keyspace) else { return Owned::No };
    let Some(slot) = keyspace.placement.slot_of_placed(&range.start) else { return Owned::No };
    match keyspace.routes.get(slot.0 as usize) {
        Some(route) if route.shard == shard => Owned::Under(route.epoch),
        _ => Owned::No,
    }
}

/// Returns the rows that a get or a list asks for.
pub(crate) fn rows(view: &StoreView<'_>, placement: &Placement, kind: &ReadKind) -> Result<Found, PortError> {
    let mut found = Found::default();
    match kind {
        ReadKind::Get { partition_key, sort_key } => {
            let key = store_key::row(&placement.place(partition_key), sort_key);
            if let Some(stored) = Reader::get(view.0, &key)? {
                found.take(placement, &key, &stored)?;
            }
        }
        ReadKind::List { partition_key, from, to, reverse, limit } => {
            let placed = placement.place(partition_key);
            let whole = store_key::rows_of(&placed);
            let start = store_key::row(&placed, from);
            let end = to.as_ref().map_or(whole.end, |to| Some(store_key::row(&placed, to)));
            if end.as_ref().is_none_or(|end| start < *end) {
                found.scan(view, placement, &KeyRange::new(start, end), *reverse, *limit)?;
            }
        }
        ReadKind::Scan { .. } => return Err(PortError::broken("a scan is not of one key")),
    }
    Ok(found)
}

/// Returns the rows of the owned regions up to the limit, and the regions cut to what was really read.
pub(crate) fn owned_rows(
    view: &StoreView<'_>,
    placement: &Placement,
    kind: &ReadKind,
    covered: Vec<(KeyRange, Epoch)>,
) -> Result<(Found, Vec<(KeyRange, Epoch)>), PortError> {
    let ReadKind::Scan { after, limit, .. } = kind else { return Err(PortError::broken("only a scan has regions")) };
    let mut found = Found::default();
    for (range, _) in &covered {
        let mut rows = store_key::kind_of_range(KIND_ROW, range);
        if let Some(after) = after.as_ref().filter(|after| rows.start <= **after) {
            rows.start = after.clone();
            rows.start.push(0);
        }
        if rows.end.as_ref().is_none_or(|end| rows.start < *end) {
            found.scan(view, placement, &rows, false, *limit)?;
        }
        if found.more_after.is_some() {
            break;
        }
    }
    Ok((found, covered))
}

impl Found {
    fn scan(
        &mut self,
        view: &StoreView<'_>,
        placement: &Placement,
        range: &KeyRange,
        reverse: bool,
        limit: usize,
    ) -> Result<(), PortError> {
        let mut failed = None;
        Reader::scan(view.0, range, reverse, &mut |key, stored| {
            let full = self.rows.len() >= limit || self.bytes >= ANSWER_BYTES_MAX || self.entries >= ANSWER_ENTRIES_MAX;
            self.entries += 1;
            if full {
                self.more_after = self.last.take();
                return ControlFlow::Break(());
            }
            match self.take(placement, key, stored) {
                Ok(()) => {
                    self.last = Some(key.to_vec());
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn take(&mut self, placement: &Placement, key: &[u8], stored: &[u8]) -> Result<(), PortError> {
        let row = StoredRow::decode(stored).map_err(|error| PortError::broken(error.to_string()))?;
        let Some(value) = row.value else { return Ok(()) };
        let (partition_key, sort_key) = placement
            .unplace(&key[1..])
            .ok_or_else(|| PortError::broken(format!("store key {key:02x?} is not a row's")))?;
        self.bytes += key.len() + value.len();
        self.rows.push(Row { partition_key, sort_key: sort_key.to_vec(), value, version: row.version });
        Ok(())
    }
}
