//! Snapshots that nobody needs, from copies of an earlier life: what would have removed them died with it.

use crate::copy::move_and_copy;
use crate::node::NodeConfig;
use rehome_control_core::ControlState;

/// Removes them, in a job. Requires: the state was folded up to an end fetched since this process started, and nothing
/// of this process copies yet.
pub(crate) fn remove(config: &NodeConfig, state: &ControlState) {
    let names = match config.snapshots.names() {
        Ok(names) => names,
        Err(error) => return tracing::warn!(%error, "snapshots cannot be listed; what nobody needs is left on disk"),
    };
    let needless: Vec<String> = names.into_iter().filter(|name| is_needless(state, name)).collect();
    if needless.is_empty() {
        return;
    }
    let (snapshots, jobs) = (config.snapshots.clone(), config.jobs.clone());
    let job = move || {
        for name in needless {
            jobs.give_way();
            match snapshots.remove(&name) {
                Ok(()) => tracing::info!(name, "a snapshot that no move needs is removed"),
                Err(error) => tracing::warn!(name, %error, "a snapshot that no move needs is left on disk"),
            }
        }
    };
    config.jobs.spawn("left-over-snapshots".into(), Box::new(job));
}

/// Tells whether the move is known and will never take that copy: it has ended, or takes a later one.
fn is_needless(state: &ControlState, name: &str) -> bool {
    let known = move_and_copy(name).and_then(|(move_id, copy)| Some((state.move_(move_id)?, copy)));
    known.is_some_and(|(one, copy)| !one.is_open() || copy < one.copy)
}
