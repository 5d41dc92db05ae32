//! What the core reads of its store: a small synchronous view.

use rehome_keyspace::KeyRange;
use std::ops::ControlFlow;
use thiserror::Error;

/// The store could not be read. The replica stops: what it would judge next depends on what it cannot see.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the store cannot be read: {0}")]
pub struct ViewError(pub String);

/// Is shown entries, key and value, until it breaks.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Sees the entries of one replica's store, as of its last written batch.
pub trait View {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ViewError>;

    /// Visits the entries of the range in key order until the visitor breaks.
    fn scan(&self, range: &KeyRange, visit: Visit<'_>) -> Result<(), ViewError>;
}
