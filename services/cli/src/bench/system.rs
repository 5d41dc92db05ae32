//! Figures of a running system, one after the other on the same rows.

use super::closed_loop::{self, Until};
use super::figures::{Figures, Unit};
use super::gate::Gate;
use super::open_loop::{OpenLoop, Sample, Seen, histogram};
use super::target::Target;
use super::{Options, jobs, memory, rows};
use crate::cluster::{Cluster, NodeRole, Parts, Roles};
use crate::failpoints::Hooks;
use crate::over_kafka::{OverKafka, topics};
use crate::workload::{Phases, create_keyspace, load, run_for};
use anyhow::Context;
use hdrhistogram::Histogram;
use rehome_control_core::Phase;
use rehome_keyspace::{NodeId, ShardId, SlotId};
use rehome_router::RouterLimits;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEYSPACE: &str = "bench";
const MEBIBYTE: f64 = (1 << 20) as f64;
/// How long flushes are given to settle before memory is looked at.
const SETTLE: Duration = Duration::from_secs(2);
/// How long a load runs before anything is noted.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time before a fence, and after a switch, that counts as around it, in microseconds.
const AROUND_US: u64 = 5_000;

/// A system with its rows.
struct System {
    target: Target,
    phases: Arc<Phases>,
    gate: Gate,
    shards: u32,
}

/// Measures in the folder, over that broker if there is one.
pub fn measure(dir: &Path, broker: Option<&OverKafka>, options: &Options, figures: &mut Figures) -> anyhow::Result<()> {
    let gate = Gate::default();
    let hooks = Hooks { node: Some(gate.hook()), ..Hooks::default() };
    let cluster = Arc::new(match broker {
        None => Cluster::start(dir, "in-process", hooks)?,
        Some(broker) => over(broker, dir, hooks)?,
    });
    let measured = measure_on(&cluster, gate.clone(), options, figures);
    // Nobody may wait for it while the cluster stops.
    gate.open();
    let topics = topics(&cluster);
    cluster.stop().map_err(|error| anyhow::anyhow!("cannot stop cleanly: {error}"))?;
    if let Some(broker) = broker {
        broker.forget(&topics)?;
    }
    measured
}

/// Everything in this process, on that broker.
fn over(broker: &OverKafka, dir: &Path, hooks: Hooks) -> anyhow::Result<Cluster> {
    let node = NodeRole { id: NodeId(1), address: "in-process".into() };
    Ok(Cluster::start_parts(Parts {
        log: broker.log(),
        close_log: Box::new(|| Ok(())),
        before_flush: None,
        dir,
        roles: Roles { node: Some(node), router: Some(RouterLimits::STANDARD), controller: true },
        hooks,
        wire: None,
    })?)
}

fn measure_on(cluster: &Arc<Cluster>, gate: Gate, options: &Options, figures: &mut Figures) -> anyhow::Result<()> {
    super::say(&format!("loading {} rows into {} shards", options.rows, options.shards));
    let (keyspace, placement) = create_keyspace(cluster, KEYSPACE, options.shards)?;
    let loaded = load(cluster, keyspace, rows::rows(options.rows, options.seed), Some(options.rows), options.seed)?;
    figures.rate("load_rows_per_sec", loaded.rows, loaded.took);
    run_for(SETTLE);
    let target = Target::new(cluster, keyspace, placement, loaded.sample);
    // What the load remembered is not the system's.
    drop((loaded.acknowledged, loaded.partition_keys));
    figures.note("resident_after_load_mib", Unit::Mebibytes, memory::resident_bytes()? as f64 / MEBIBYTE);
    let phases = Phases::follow(cluster, keyspace, placement);
    let system = System { target, phases, gate, shards: options.shards };
    let watch = memory::Watch::start()?;
    system.copy(figures)?;
    system.throughput(options, figures)?;
    system.replay(options, figures)?;
    for rate in &options.rates {
        system.under_load(*rate, options, figures)?;
    }
    figures.note("resident_most_mib", Unit::Mebibytes, watch.stop() as f64 / MEBIBYTE);
    Ok(())
}

impl System {
    /// A whole shard to a new one and back, while nobody writes.
    fn copy(&self, figures: &mut Figures) -> anyhow::Result<()> {
        super::say("copying a shard");
        let new = ShardId(self.shards);
        let (mut rows, mut took) = (0, Duration::ZERO);
        for (source, destination, shards) in [(ShardId(0), new, self.shards + 1), (new, ShardId(0), self.shards)] {
            let job = jobs::submit_whole(&self.target, source, destination, shards)?;
            let began = jobs::wait_phase(&self.target, &self.phases, &job, |phase| *phase != Phase::Planned)?;
            let copied = |phase: &Phase| !matches!(phase, Phase::Planned | Phase::Copying);
            took += jobs::wait_phase(&self.target, &self.phases, &job, copied)? - began;
            let state = self.target.cluster.desk().state();
            let snapshot = state.move_(job.moves[0]).and_then(|one| one.snapshot).context("the copy is gone")?;
            rows += snapshot.digest.row_count;
            jobs::wait(&self.target, &self.phases, &job)?;
        }
        figures.rate("copy_rows_per_sec", rows, took);
        Ok(())
    }

    /// As many writes as the system takes.
    fn throughput(&self, options: &Options, figures: &mut Figures) -> anyhow::Result<()> {
        for in_flight in [options.in_flight, 16 * options.in_flight] {
            super::say(&format!("{in_flight} writes on their way at once"));
            let until = Until::After(Duration::from_secs(options.seconds));
            let (writes, took) = closed_loop::run(&self.target, in_flight, until, options.seed)?;
            figures.rate(format!("acknowledged_and_applied_{in_flight}_in_flight_per_sec"), writes, took);
        }
        Ok(())
    }

    /// A copy is held back until enough was written to its keys; then all of that is replayed.
    fn replay(&self, options: &Options, figures: &mut Figures) -> anyhow::Result<()> {
        super::say("replaying");
        self.gate.shut();
        let job = jobs::submit_whole(&self.target, ShardId(0), ShardId(self.shards), self.shards + 1)?;
        let state = self.target.cluster.desk().clone();
        let taken = || state.state().move_(job.moves[0]).is_some_and(|one| one.snapshot.is_some());
        anyhow::ensure!(self.phases.wait(Instant::now() + Duration::from_secs(600), taken), "no snapshot was taken");
        let moving = self.target.within(|slot| job.slots.contains(&slot));
        let until = Until::Writes(options.replayed);
        let (writes, _) = closed_loop::run(&moving, 16 * options.in_flight, until, options.seed + 1)?;
        self.gate.open();
        let switches = |phase: &Phase| !matches!(phase, Phase::Planned | Phase::Copying | Phase::CatchingUp);
        let caught_up = jobs::wait_phase(&self.target, &self.phases, &job, switches)?;
        let began = self.gate.read_back().context("no copy was read back")?;
        figures.rate("replay_rows_per_sec", writes, caught_up - began);
        jobs::wait(&self.target, &self.phases, &job)?;
        let back = jobs::submit_whole(&self.target, ShardId(self.shards), ShardId(0), self.shards)?;
        jobs::wait(&self.target, &self.phases, &back)
    }

    /// Arrivals at that rate: first nothing moves, then one round of moves follows the other.
    fn under_load(&self, rate: u32, options: &Options, figures: &mut Figures) -> anyhow::Result<()> {
        super::say(&format!("{rate} writes/s, nothing moves"));
        let still = OpenLoop::start(&self.target, rate, options.seed + 2)?;
        run_for(WARM_UP + Duration::from_secs(options.seconds));
        let still = still.stop();
        let warm = still.samples.iter().filter(|one| u128::from(one.scheduled_us) >= WARM_UP.as_micros());
        let before = histogram(warm);
        let name = |what: &str| format!("at_{rate}_{what}");
        figures.rate(name("acknowledged_per_sec"), still.samples.len() as u64, still.took);
        figures.latency(&name("nothing_moves"), &before);

        super::say(&format!("{rate} writes/s, at least {} cutovers", options.cutovers));
        let load = OpenLoop::start(&self.target, rate, options.seed + 3)?;
        run_for(WARM_UP);
        let (mut cutovers, mut rounds) = (Vec::new(), Vec::new());
        while cutovers.len() < options.cutovers {
            let began_ms = self.target.cluster.clock().now_ms();
            let job = jobs::submit_round(&self.target)?;
            jobs::wait(&self.target, &self.phases, &job)?;
            cutovers.extend(jobs::cutovers(&self.target, &job.moves));
            rounds.push(Round { slots: job.slots, began_ms, ended_ms: self.target.cluster.clock().now_ms() });
            super::say(&format!("{} cutovers", cutovers.len()));
        }
        let seen = load.stop();
        let moving = moments(&seen, &cutovers, &rounds, before.value_at_quantile(0.5));
        figures.note(name("cutovers"), Unit::Count, cutovers.len() as f64);
        figures.latency(&name("write_pause"), &moving.pauses);
        figures.latency(&name("fence_to_switch"), &moving.fence_to_switch);
        figures.latency(&name("slots_at_rest"), &moving.at_rest);
        figures.note(name("refused"), Unit::Count, (still.refused + seen.refused) as f64);
        Ok(())
    }
}

/// One job, in milliseconds of the log's clock.
struct Round {
    slots: BTreeSet<SlotId>,
    began_ms: u64,
    ended_ms: u64,
}

/// What a load saw of moves, in microseconds.
struct Moments {
    /// Of each cutover, the longest wait of any write to its keys around it, less the usual one.
    pauses: Histogram<u64>,
    fence_to_switch: Histogram<u64>,
    /// Of writes to keys that did not move, while others did.
    at_rest: Histogram<u64>,
}

fn moments(seen: &Seen, cutovers: &[jobs::Cutover], rounds: &[Round], usual_us: u64) -> Moments {
    let since_start_us = |time_ms: u64| time_ms.saturating_sub(seen.started_ms) * 1_000;
    let empty = || Histogram::new(3).expect("three digits are possible");
    let (mut pauses, mut fence_to_switch) = (empty(), empty());
    let overlaps = |one: &Sample, from_us: u64, to_us: u64| {
        let end_us = u64::from(one.scheduled_us) + u64::from(one.latency_us);
        u64::from(one.scheduled_us) <= to_us && end_us >= from_us
    };
    for cutover in cutovers {
        let (from, to) = (since_start_us(cutover.fenced_ms), since_start_us(cutover.switched_ms));
        fence_to_switch.record(to - from).expect("an auto-resizing histogram takes any value");
        let around = |one: &&Sample| {
            overlaps(one, from.saturating_sub(AROUND_US), to + AROUND_US) && cutover.slots.contains(&one.slot)
        };
        if let Some(longest) = seen.samples.iter().filter(around).map(|one| u64::from(one.latency_us)).max() {
            pauses.record(longest.saturating_sub(usual_us)).expect("an auto-resizing histogram takes any value");
        }
    }
    let rests = |one: &&Sample| {
        let of_round = |round: &&Round| overlaps(one, since_start_us(round.began_ms), since_start_us(round.ended_ms));
        rounds.iter().find(of_round).is_some_and(|round| !round.slots.contains(&one.slot))
    };
    Moments { pauses, fence_to_switch, at_rest: histogram(seen.samples.iter().filter(rests)) }
}
