//! One step of the plan: a job under load, from its submission until it has completed by itself.

use super::client::Shared;
use super::probes::{Probes, Seen};
use crate::workload::{Phases, run_for, submit};
use anyhow::{Context, bail};
use rehome_control_core::JobState;
use rehome_keyspace::{MoveId, Placement};
use rehome_oracle::ClientHistory;
use rehome_records::control::MoveWanted;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a job may take before the demo gives up. Reason: ten times what millions of rows take.
const JOB_TIME_MAX: Duration = Duration::from_secs(600);

/// What one job did.
pub struct Resharded {
    pub moves: Vec<MoveId>,
    pub took: Duration,
    pub write_pauses: Vec<u64>,
    pub read_pauses: Vec<u64>,
    pub history: ClientHistory,
    pub errors: u64,
}

/// Reshards, with probes on a key of every move.
pub fn reshard(
    shared: &Shared,
    phases: &Arc<Phases>,
    partition_keys: &BTreeSet<Vec<u8>>,
    shards: u32,
) -> anyhow::Result<Resharded> {
    let state = shared.cluster.desk().state();
    let keyspace = state.keyspace(shared.keyspace).context("the keyspace is gone")?;
    let moves = rehome_planner::even(&keyspace.owners(), shards)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .thread_name("probes")
        .build()
        .context("cannot start the probes' thread")?;
    let keys = moves.iter().map(|wanted| key_of(wanted, &shared.placement, partition_keys));
    let probes: Vec<Probes> = keys.map(|key| Probes::start(&runtime, shared, phases, &key)).collect();
    run_for(Duration::from_millis(200));

    let started = Instant::now();
    let (job, ids) = submit(&shared.cluster, shared.keyspace, moves, shards, "the demo")?;
    let desk = shared.cluster.desk();
    let is_over = || desk.state().job_state(job).is_some_and(|how| how.is_final());
    if !phases.wait(started + JOB_TIME_MAX, is_over) {
        bail!("job {job} has not ended after {JOB_TIME_MAX:?}");
    }
    let took = started.elapsed();
    run_for(Duration::from_millis(100));
    let seen: Vec<Seen> = probes.into_iter().map(|probes| probes.stop(&runtime)).collect::<anyhow::Result<_>>()?;
    match desk.state().job_state(job) {
        Some(JobState::Completed) => {}
        other => bail!("job {job} should have completed, and is {other:?}"),
    }
    let mut done = Resharded {
        moves: ids,
        took,
        write_pauses: seen.iter().filter_map(|seen| seen.write_pause).collect(),
        read_pauses: seen.iter().filter_map(|seen| seen.read_pause).collect(),
        history: ClientHistory::new(),
        errors: seen.iter().map(|seen| seen.errors).sum(),
    };
    seen.into_iter().for_each(|seen| done.history.extend(seen.history));
    Ok(done)
}

/// Returns a partition key that moves: a loaded one if any does, else a made one.
fn key_of(wanted: &MoveWanted, placement: &Placement, partition_keys: &BTreeSet<Vec<u8>>) -> Vec<u8> {
    let moves = |key: &Vec<u8>| {
        let slot = placement.slot(key);
        wanted.slots.iter().any(|span| (span.first..=span.last).contains(&slot))
    };
    let made = || (0u64..).map(|number| format!("probe-{number}").into_bytes()).find(moves);
    partition_keys
        .iter()
        .find(|key| moves(key))
        .cloned()
        .or_else(made)
        .expect("some number's hash falls into the slots")
}
