//! Records that are kept because they could not be applied, and nobody will send them again.
//!
//! That is what cannot be read as a write, and a stale write with neither a request id nor a source position: its producer
//! could not send it a second time without the danger of doing it twice. Everybody else hears the verdict and goes on.
//! What is kept follows from the partition's prefix alone. It belongs to the partition, not to keys: it moves with none
//! and is in no digest.

use crate::pending::Pending;
use rehome_records::rejects::StoredReject;
use rehome_records::{Logged, store_key};

/// Why a stale write is kept.
pub(crate) const STALE: &str =
    "stale route: the slot was not owned there under that epoch, and the record had no request id";

/// Puts the record among the rejects.
pub(crate) fn keep(logged: &Logged, reason: &str, pending: &mut Pending) {
    pending.put(store_key::reject(logged.offset), StoredReject::of(&logged.record, reason).encode());
}
