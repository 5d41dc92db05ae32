//! Changes that are not written yet, laid over the view: later records of a batch see the earlier ones.

use crate::view::{View, ViewError, Visit};
use rehome_keyspace::KeyRange;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

/// The changes of one batch: the last change of each key, nothing for a removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
}

impl Pending {
    pub fn new() -> Pending {
        Pending::default()
    }

    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.change(key, Some(value));
    }

    pub fn remove(&mut self, key: Vec<u8>) {
        self.change(key, None);
    }

    /// Returns what the key holds once the changes are written.
    pub fn get(&self, view: &dyn View, key: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        match self.changes.get(key) {
            Some(change) => Ok(change.clone()),
            None => view.get(key),
        }
    }

    /// Visits what the range holds once the changes are written, in key order, until the visitor breaks.
    pub fn scan(&self, view: &dyn View, range: &KeyRange, visit: Visit<'_>) -> Result<(), ViewError> {
        let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut changes = self.changes.range::<[u8], _>((Bound::Included(range.start.as_slice()), end)).peekable();
        let mut flow = ControlFlow::Continue(());
        view.scan(range, &mut |key, value| {
            while let Some((changed, new)) = changes.next_if(|(changed, _)| changed.as_slice() < key) {
                if let Some(new) = new {
                    flow = visit(changed, new);
                    flow?;
                }
            }
            flow = match changes.next_if(|(changed, _)| changed.as_slice() == key) {
                Some((_, Some(new))) => visit(key, new),
                Some((_, None)) => ControlFlow::Continue(()),
                None => visit(key, value),
            };
            flow
        })?;
        if flow.is_continue() {
            for (key, new) in changes {
                if let Some(new) = new
                    && visit(key, new).is_break()
                {
                    break;
                }
            }
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the bytes of keys and values to be written.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the changes in key order; nothing for a removal.
    pub fn into_changes(self) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
        self.changes.into_iter()
    }

    fn change(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let key_bytes = key.len();
        self.bytes += value.as_ref().map_or(0, Vec::len);
        match self.changes.insert(key, value) {
            Some(before) => self.bytes -= before.map_or(0, |value| value.len()),
            None => self.bytes += key_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
