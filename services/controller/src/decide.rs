//! What should be done now. Pure: the same state, observations, memory and time give the same effects.
//!
//! ```text
//! keyspace      data topic has fewer partitions than shards       -> EnsurePartitions
//! dropped       no node has anything left                         -> RemoveTopics, then ProposeTopicRemoved
//! planned       fewer moves of the job run than may               -> StartMove
//! catching-up   fresh reports, predicted pause small enough       -> StartCutover; too many aborted -> FailMove
//!               nothing of either while the job is paused
//! cutting-over  before the time is over: Open, once acknowledged Fence, then the replicas and the fold
//!               time over, or the move is to be ended: Fence if it is not known to be there, then AbortCutover
//! all others    the nodes
//! no move open, routes unchanged for as long as request ids are kept, older ones known -> AppendHorizon
//! ```

use crate::memory::growing;
use crate::{ControllerEffect, Memory, Observed, Step};
use rehome_control_core::{Attempt, ControlState, Ending, Job, Keyspace, Move, Phase};
use rehome_keyspace::{Outcome, ShardId, Side};
use rehome_planner::predicted_pause;
use rehome_records::TopicPartition;
use std::collections::BTreeSet;
use std::time::Duration;

/// Most attempts of one move before it fails. Reason: whatever aborts that many, a human must look (R11).
pub const ATTEMPTS_MAX: usize = 16;
/// Lag that is left when a cutover starts, if it goes that low: a replay that still catches up would lengthen the pause.
const CATCH_UP_LEFT: Duration = Duration::from_millis(2);
/// How long that is waited for, in milliseconds; after it, any predicted pause up to the job's limit will do.
const CATCH_UP_WAIT_MS: u64 = 2_000;
/// Pause after the first aborted attempt, in milliseconds; doubled by each that follows, up to the longest.
const PAUSE_MS_FIRST: u64 = 100;
const PAUSE_MS_MAX: u64 = 10_000;

/// Returns everything that should be done now, in order, without what is on its way already.
pub fn decide(state: &ControlState, observed: &Observed, memory: &Memory, now_ms: u64) -> Vec<ControllerEffect> {
    let mut effects = Vec::new();
    ensure_partitions(state, observed, &mut effects);
    remove_topics(state, observed, &mut effects);
    start_moves(state, observed, memory, now_ms, &mut effects);
    for one in state.open_moves() {
        let effect = match one.phase {
            Phase::CatchingUp if state.is_paused(one.job) => None,
            Phase::CatchingUp => next_attempt(state, observed, memory, one, now_ms),
            Phase::CuttingOver { attempt } => {
                state.attempt_record(attempt).and_then(|attempt| go_on(state, memory, one, attempt, now_ms))
            }
            _ => None,
        };
        effects.extend(effect);
    }
    forget_requests(state, observed, memory, now_ms, &mut effects);
    effects.retain(|effect| memory.may_take(effect.step(), now_ms));
    effects
}

/// Returns when something becomes due that nothing will wake the controller for.
pub fn wake_at_ms(state: &ControlState, memory: &Memory, now_ms: u64) -> Option<u64> {
    let of_move = |one: &Move| match one.phase {
        Phase::CuttingOver { attempt } => {
            memory.attempt_started_ms(attempt).map(|since| since.saturating_add(one.options.abort_after_ms))
        }
        Phase::CatchingUp => pause_ends_ms(state, memory, one),
        _ => None,
    };
    let due = state.open_moves().filter_map(of_move).filter(|at_ms| *at_ms > now_ms);
    due.chain(memory.retry_at_ms(now_ms)).min()
}

fn ensure_partitions(state: &ControlState, observed: &Observed, effects: &mut Vec<ControllerEffect>) {
    let lacking = state.keyspaces().filter(|keyspace| observed.partitions(keyspace.id) < keyspace.shards);
    effects.extend(lacking.map(|keyspace| ControllerEffect::EnsurePartitions {
        keyspace: keyspace.id,
        topic: keyspace.data_topic(),
        count: keyspace.shards,
    }));
}

/// Lets the log forget dropped keyspaces of which no node has anything left, and says so. A controller that ends between
/// the two leaves a topic that is asked for once more, and is not there.
fn remove_topics(state: &ControlState, observed: &Observed, effects: &mut Vec<ControllerEffect>) {
    let owed = state.dropped_keyspaces().filter(|dropped| dropped.awaited.is_empty() && !dropped.topic_removed);
    effects.extend(owed.map(|dropped| {
        let keyspace = dropped.keyspace.id;
        match observed.is_topic_removed(keyspace) {
            true => ControllerEffect::ProposeTopicRemoved { keyspace },
            false => ControllerEffect::RemoveTopics { keyspace, topics: dropped.keyspace.topics() },
        }
    }));
}

/// Starts planned moves, at most as many at once as their job allows. Moves whose source no running move reads come
/// first: a destination reads its source's whole partition to filter its share.
fn start_moves(
    state: &ControlState,
    observed: &Observed,
    memory: &Memory,
    now_ms: u64,
    effects: &mut Vec<ControllerEffect>,
) {
    let is_starting = |one: &Move| one.phase == Phase::Planned && memory.is_under_way(Step::Start(one.id));
    let runs = |one: &&Move| {
        matches!(one.phase, Phase::Copying | Phase::CatchingUp | Phase::CuttingOver { .. }) || is_starting(one)
    };
    let mut sources: BTreeSet<_> = state.open_moves().filter(runs).map(|one| (one.keyspace, one.source)).collect();
    let jobs: BTreeSet<_> = state.open_moves().map(|one| one.job).collect();
    for job in jobs.into_iter().filter_map(|job| state.job(job)) {
        let of_job = |one: &&Move| one.job == job.id;
        let running = state.open_moves().filter(of_job).filter(runs).count();
        let ready = |one: &&Move| {
            one.phase == Phase::Planned
                && !state.is_paused(job.id)
                && memory.may_take(Step::Start(one.id), now_ms)
                && observed.partitions(one.keyspace) > one.destination.0
        };
        let mut waiting: Vec<&Move> = state.open_moves().filter(of_job).filter(ready).collect();
        for _ in running..moves_at_once(job) {
            let calm = waiting.iter().position(|one| !sources.contains(&(one.keyspace, one.source)));
            if waiting.is_empty() {
                break;
            }
            let one = waiting.remove(calm.unwrap_or(0));
            sources.insert((one.keyspace, one.source));
            effects.push(ControllerEffect::StartMove { move_id: one.id });
        }
    }
}

/// Lets shards forget the request ids and tombstones that are older than they are kept.
///
/// Only while nothing could bring an older value or repeat what was forgotten: no move of the keyspace is open, and the
/// routes last changed so long ago that all that was written under earlier epochs is older, too.
fn forget_requests(
    state: &ControlState,
    observed: &Observed,
    memory: &Memory,
    now_ms: u64,
    effects: &mut Vec<ControllerEffect>,
) {
    let moving: BTreeSet<_> = state.open_moves().map(|one| one.keyspace).collect();
    let is_settled = |keyspace: &&Keyspace| {
        let since_ms = keyspace.routes_changed_ms.saturating_add(keyspace.request_retention_ms);
        since_ms <= now_ms && !moving.contains(&keyspace.id)
    };
    for keyspace in state.keyspaces().filter(is_settled) {
        for shard in (0..keyspace.shards).map(ShardId) {
            let up_to = observed.horizon(keyspace, shard, now_ms);
            let Some(up_to) = up_to.filter(|_| up_to > memory.horizon_sent(keyspace.id, shard)) else { continue };
            let owned = keyspace.owned(shard);
            let partition = TopicPartition::new(keyspace.data_topic(), shard.0);
            if !owned.is_empty() {
                let keyspace = keyspace.id;
                effects.push(ControllerEffect::AppendHorizon { keyspace, shard, up_to, owned, partition });
            }
        }
    }
}

/// A job that allows no move at once would never end (R11).
fn moves_at_once(job: &Job) -> usize {
    job.options.moves_at_once.max(1) as usize
}

/// Starts the next attempt of a move that catches up, if its pause is predicted to be small enough.
fn next_attempt(
    state: &ControlState,
    observed: &Observed,
    memory: &Memory,
    one: &Move,
    now_ms: u64,
) -> Option<ControllerEffect> {
    if aborted(state, one) >= ATTEMPTS_MAX {
        let last = one.attempts.last().and_then(|id| state.attempt_record(*id)?.abort_reason.clone());
        let reason = format!(
            "{ATTEMPTS_MAX} attempts to cut over were aborted, the last one because: {}",
            last.unwrap_or_default()
        );
        return Some(ControllerEffect::FailMove { move_id: one.id, reason });
    }
    if pause_ends_ms(state, memory, one).is_some_and(|at_ms| at_ms > now_ms) {
        return None;
    }
    let facts = observed.pause_facts(state, one, now_ms)?;
    let predicted_pause = predicted_pause(&facts);
    let fits = predicted_pause <= Duration::from_millis(one.options.pause_ms_max);
    let caught_up = predicted_pause <= facts.fence_hop + facts.ready_hop + CATCH_UP_LEFT;
    let waited = now_ms.saturating_sub(one.changed_ms) >= CATCH_UP_WAIT_MS;
    (fits && (caught_up || waited)).then_some(ControllerEffect::StartCutover { move_id: one.id, predicted_pause })
}

/// Takes the next step of the attempt that is under way.
fn go_on(
    state: &ControlState,
    memory: &Memory,
    one: &Move,
    attempt: &Attempt,
    now_ms: u64,
) -> Option<ControllerEffect> {
    let (facts, id) = (attempt.facts.clone(), attempt.facts.attempt);
    let topic = state.keyspace(facts.keyspace)?.data_topic();
    let partition = |shard: ShardId| TopicPartition::new(topic.clone(), shard.0);
    let fence = attempt.fence_seen().or_else(|| memory.mark_offset(Step::Fence(id)));
    let (source, destination) = (partition(facts.source), partition(facts.destination));
    match (give_up(memory, one, attempt, now_ms), fence) {
        (Some(reason), Some(fence)) => Some(ControllerEffect::AbortCutover { attempt: id, fence, reason }),
        (Some(_), None) => Some(ControllerEffect::AppendFence { facts, partition: source }),
        (None, fence) => {
            let is_seen_open = attempt.readies.iter().any(|ready| ready.side == Side::Destination);
            let is_open = is_seen_open || memory.mark_offset(Step::Open(id)).is_some();
            match (is_open, fence) {
                (false, _) => Some(ControllerEffect::AppendOpen { facts, partition: destination }),
                (true, None) => Some(ControllerEffect::AppendFence { facts, partition: source }),
                (true, Some(_)) => None,
            }
        }
    }
}

/// Returns why the attempt is to be aborted; nothing while it may still switch.
fn give_up(memory: &Memory, one: &Move, attempt: &Attempt, now_ms: u64) -> Option<String> {
    match &one.ending {
        Some(Ending::Cancel { reason }) => return Some(format!("cancelled: {reason}")),
        Some(Ending::Fail { reason }) => return Some(format!("the move failed: {reason}")),
        None => {}
    }
    let since_ms = memory.attempt_started_ms(attempt.facts.attempt)?;
    let limit_ms = one.options.abort_after_ms;
    (now_ms.saturating_sub(since_ms) >= limit_ms).then(|| format!("no outcome after {limit_ms} ms"))
}

/// Returns when the pause after the last aborted attempt ends.
pub(crate) fn pause_ends_ms(state: &ControlState, memory: &Memory, one: &Move) -> Option<u64> {
    let since_ms = memory.attempt_aborted_ms(*one.attempts.last()?)?;
    let times = u32::try_from(aborted(state, one).saturating_sub(1)).unwrap_or(u32::MAX);
    Some(since_ms.saturating_add(growing(PAUSE_MS_FIRST, PAUSE_MS_MAX, times)))
}

fn aborted(state: &ControlState, one: &Move) -> usize {
    let outcome = |id| state.attempt_record(id).and_then(Attempt::outcome);
    one.attempts.iter().filter(|id| matches!(outcome(**id), Some(Outcome::Aborted { .. }))).count()
}
