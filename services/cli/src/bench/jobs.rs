//! Jobs of a bench: which slots move, and waiting for them.

use super::target::Target;
use crate::pause::measured_pause_ms;
use crate::workload::{Phases, submit};
use anyhow::bail;
use rehome_control_core::{JobState, Phase};
use rehome_keyspace::{JobId, MoveId, Outcome, ShardId, SlotId};
use rehome_planner::spans;
use rehome_records::TopicPartition;
use rehome_records::control::MoveWanted;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const JOB_TIME_MAX: Duration = Duration::from_secs(600);
/// Each move of a round takes one of so many parts of its source's slots.
const PARTS: usize = 4;

/// A job under way.
pub struct Job {
    pub id: JobId,
    pub moves: Vec<MoveId>,
    pub slots: BTreeSet<SlotId>,
}

/// A cutover that switched. Times are in milliseconds of the log's clock.
pub struct Cutover {
    pub slots: BTreeSet<SlotId>,
    pub fenced_ms: u64,
    pub switched_ms: u64,
}

/// Submits a job in which every shard gives a part of its slots to the next one.
pub fn submit_round(target: &Target) -> anyhow::Result<Job> {
    let owned = owned(target)?;
    let shards = owned.len() as u32;
    let wanted = owned.into_iter().map(|(source, mut slots)| {
        let given = slots.split_off(slots.len() - slots.len() / PARTS);
        (source, ShardId((source.0 + 1) % shards), given)
    });
    submit_moves(target, wanted.collect(), shards)
}

/// Submits a job in which a shard gives all its slots to another.
pub fn submit_whole(target: &Target, source: ShardId, destination: ShardId, shards: u32) -> anyhow::Result<Job> {
    let slots = owned(target)?.remove(&source).unwrap_or_default();
    submit_moves(target, vec![(source, destination, slots)], shards)
}

fn submit_moves(target: &Target, moves: Vec<(ShardId, ShardId, Vec<SlotId>)>, shards: u32) -> anyhow::Result<Job> {
    let slots = moves.iter().flat_map(|(_, _, slots)| slots).copied().collect();
    let wanted = moves.into_iter().filter(|(_, _, slots)| !slots.is_empty());
    let wanted = wanted.map(|(source, destination, slots)| MoveWanted { source, destination, slots: spans(slots) });
    let (id, moves) = submit(&target.cluster, target.keyspace, wanted.collect(), shards, "the bench")?;
    Ok(Job { id, moves, slots })
}

/// Returns the slots of each shard, ascending.
fn owned(target: &Target) -> anyhow::Result<BTreeMap<ShardId, Vec<SlotId>>> {
    let state = target.cluster.desk().state();
    let Some(keyspace) = state.keyspace(target.keyspace) else { bail!("the keyspace is gone") };
    let mut owned: BTreeMap<ShardId, Vec<SlotId>> = BTreeMap::new();
    for (slot, owner) in (0u32..).map(SlotId).zip(keyspace.owners()) {
        owned.entry(owner).or_default().push(slot);
    }
    Ok(owned)
}

/// Waits until the job has completed.
pub fn wait(target: &Target, phases: &Phases, job: &Job) -> anyhow::Result<()> {
    let desk = target.cluster.desk();
    let is_over = || desk.state().job_state(job.id).is_some_and(|how| how.is_final());
    if !phases.wait(Instant::now() + JOB_TIME_MAX, is_over) {
        bail!("job {} has not ended after {JOB_TIME_MAX:?}", job.id);
    }
    match desk.state().job_state(job.id) {
        Some(JobState::Completed) => Ok(()),
        other => bail!("job {} should have completed, and is {other:?}", job.id),
    }
}

/// Waits until the first move of the job is in such a phase, and returns when it was seen.
pub fn wait_phase(target: &Target, phases: &Phases, job: &Job, is: impl Fn(&Phase) -> bool) -> anyhow::Result<Instant> {
    let desk = target.cluster.desk();
    let there = || desk.state().move_(job.moves[0]).is_some_and(|one| is(&one.phase));
    if !phases.wait(Instant::now() + JOB_TIME_MAX, there) {
        bail!("a move of job {} is stuck", job.id);
    }
    Ok(Instant::now())
}

/// Returns the cutovers of those moves that switched.
pub fn cutovers(target: &Target, moves: &[MoveId]) -> Vec<Cutover> {
    let state = target.cluster.desk().state();
    let cutover = |id: &MoveId| {
        let one = state.move_(*id)?;
        let mut attempts = one.attempts.iter().filter_map(|id| state.attempt_record(*id));
        let attempt = attempts.find(|attempt| matches!(attempt.outcome(), Some(Outcome::Switched { .. })))?;
        let partition = TopicPartition::new(state.keyspace(one.keyspace)?.data_topic(), one.source.0);
        let pause_ms = measured_pause_ms(target.cluster.log(), &partition, attempt)?;
        let switched_ms = attempt.decided_ms?;
        Some(Cutover { slots: one.slot_ids().collect(), fenced_ms: switched_ms - pause_ms, switched_ms })
    };
    moves.iter().filter_map(cutover).collect()
}
