//! What replicas do for a job that is paused, judged from the control log.

use crate::world::Failure;
use rehome_control_core::{Accepted, ControlState, Decision};
use rehome_keyspace::MoveId;
use rehome_records::Logged;
use std::collections::BTreeMap;

/// A paused job begins no copy. Replicas fold the control log in its order: one that learns during a pause that a copy
/// was finished, or given up, knew of the pause before, and does not take the copy in, or write the next one.
///
/// Errors: during one pause, a step follows another that a replica had to learn of first.
pub fn nothing_begins_while_paused(control: &[Logged]) -> Result<(), Failure> {
    let mut state = ControlState::new();
    // What happened last to the copy of a move since its job was paused.
    let mut since_pause: BTreeMap<MoveId, &str> = BTreeMap::new();
    for logged in control {
        let decision = state.fold(logged);
        since_pause.retain(|id, _| state.move_(*id).is_some_and(|one| state.is_paused(one.job)));
        let (id, what, not_after) = match decision {
            Decision::Accepted(Accepted::SnapshotTaken(id)) => (id, "finished", "given up"),
            Decision::Accepted(Accepted::CopyIngested(id)) => (id, "taken in", "finished"),
            Decision::Accepted(Accepted::CopyGivenUp(id)) => (id, "given up", ""),
            _ => continue,
        };
        if !state.move_(id).is_some_and(|one| state.is_paused(one.job)) {
            continue;
        }
        if since_pause.insert(id, what) == Some(not_after) {
            let offset = logged.offset;
            return Err(Failure(format!(
                "the copy of move {id} is {what} at control position {offset}, after it was {not_after}, in one pause"
            )));
        }
    }
    Ok(())
}
