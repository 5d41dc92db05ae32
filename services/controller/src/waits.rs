//! Why a move that could cut over does not: for people. Pure; decides nothing.

use crate::decide::pause_ends_ms;
use crate::{Memory, Observed};
use rehome_control_core::{ControlState, Move, Phase};
use rehome_keyspace::MoveId;
use rehome_planner::predicted_pause;
use std::collections::BTreeMap;
use std::time::Duration;

/// Moves that wait for something, with what that is.
pub type Waits = BTreeMap<MoveId, String>;

/// Returns what each move that catches up waits for, beyond a replay that is about to have caught up.
pub fn waits(state: &ControlState, observed: &Observed, memory: &Memory, now_ms: u64) -> Waits {
    let catching_up = state.open_moves().filter(|one| one.phase == Phase::CatchingUp && !state.is_paused(one.job));
    catching_up.filter_map(|one| Some((one.id, wait(state, observed, memory, one, now_ms)?))).collect()
}

fn wait(state: &ControlState, observed: &Observed, memory: &Memory, one: &Move, now_ms: u64) -> Option<String> {
    if pause_ends_ms(state, memory, one).is_some_and(|at_ms| at_ms > now_ms) {
        let last = one.attempts.last().and_then(|id| state.attempt_record(*id))?;
        let reason = last.abort_reason.as_deref().unwrap_or("aborted");
        return Some(format!("attempt {} was aborted: {reason}; another follows after a rest", last.facts.attempt));
    }
    let Some(facts) = observed.pause_facts(state, one, now_ms) else {
        let (source, destination) = (one.source, one.destination);
        return Some(format!("no sound replica of shard {source} or of shard {destination} has reported lately"));
    };
    let lag_records = facts.source_lag_records.max(facts.replay_lag_records);
    if lag_records == u64::MAX {
        return Some("it is not known yet how far its replay is behind".into());
    }
    let (predicted, limit) = (predicted_pause(&facts), Duration::from_millis(one.options.pause_ms_max));
    (predicted > limit).then(|| {
        format!(
            "its pause would be {:.0} ms, above {} ms: {lag_records} records are not applied on both sides yet",
            predicted.as_secs_f64() * 1000.0,
            limit.as_millis()
        )
    })
}
