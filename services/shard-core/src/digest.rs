//! The digest of a selector, computed by reading it: a function of the state, not of its history.

use crate::stop::Stop;
use crate::view::View;
use rehome_keyspace::Selector;
use rehome_records::store_value::RowView;
use rehome_records::{Digest, store_key};
use std::ops::ControlFlow;

/// Returns the digest of everything that moves with the selector: rows, tombstones, request ids, source positions.
pub fn digest_of(view: &dyn View, selector: &Selector) -> Result<Digest, Stop> {
    let mut digest = Digest::default();
    let mut problem = None;
    for range in store_key::selector_ranges(selector) {
        view.scan(&range, &mut |key, stored| match digest_entry(&mut digest, key, stored) {
            Ok(()) => ControlFlow::Continue(()),
            Err(stop) => {
                problem = Some(stop);
                ControlFlow::Break(())
            }
        })?;
    }
    problem.map_or(Ok(digest), Err)
}

/// Puts one entry that moves with its key into the digest.
pub fn digest_entry(digest: &mut Digest, key: &[u8], stored: &[u8]) -> Result<(), Stop> {
    match key.first() {
        Some(&store_key::KIND_ROW) => {
            let tombstone = RowView::decode(stored)?.value.is_none();
            digest.add_row(key, stored, tombstone);
        }
        Some(&(store_key::KIND_REQUEST | store_key::KIND_SOURCE)) => digest.add_request(key, stored),
        other => return Err(Stop::Broken(format!("an entry of kind {other:?} does not move with keys"))),
    }
    Ok(())
}
