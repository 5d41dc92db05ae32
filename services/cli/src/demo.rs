//! The demo: load rows, reshard under load, compare everything three ways.
//!
//! - [`input`]: where the rows come from; [`load`]: writes them as an ordered source.
//! - [`client`]: one client that retries until it is answered, and remembers every answer.
//! - [`phases`]: which slots are moving, and how far; [`writers`]: the load meanwhile.
//! - [`probes`]: the pause of one move, seen by one writer and one reader.
//! - [`reshard`]: one step of the plan, from submission to completion.
//! - [`moves`]: what each move did, one line each.
//! - [`compare`]: the routers' answers, a raw scan of each store, and an independent fold of the logs.
//! - [`report`]: the figures, as a table and as JSON.

mod client;
mod compare;
mod input;
mod latency;
mod load;
mod moves;
mod phases;
mod probes;
mod report;
mod reshard;
mod writers;

pub use input::{FileInput, Input};
pub use report::Report;

use crate::cluster::{Cluster, REQUEST_RETENTION_MS};
use crate::failpoints::Hooks;
use anyhow::{Context, bail};
use phases::Phases;
use rehome_control_core::{Accepted, Decision};
use rehome_keyspace::{KeyspaceId, Placement};
use rehome_records::ControlEvent;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use writers::Writers;

const KEYSPACE: &str = "demo";
pub const BUCKETS: u32 = 4096;
/// How long the writers run before the first reshard. Reason: some ten thousand answers to compare with.
const BASELINE: Duration = Duration::from_secs(3);
/// How long they run on after each reshard.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// What to do.
pub struct Options {
    pub input: Input,
    /// The first count is made, the others are resharded to.
    pub plan: Vec<u32>,
    pub rows_max: Option<u64>,
    pub writers: u32,
    pub seed: u64,
}

/// Runs the demo in the folder, and returns its figures.
///
/// Errors: the input cannot be read, the system does not answer, or a job does not complete.
pub fn run(dir: &Path, options: &Options) -> anyhow::Result<Report> {
    let cluster = Arc::new(Cluster::start(dir, "in-process", Hooks::default())?);
    let report = drive(&cluster, options);
    cluster.stop().map_err(|error| anyhow::anyhow!("cannot stop cleanly: {error}"))?;
    report
}

fn drive(cluster: &Arc<Cluster>, options: &Options) -> anyhow::Result<Report> {
    let shards = options.plan[0];
    say(&format!("keyspace {KEYSPACE} on {shards} shards"));
    let (keyspace, placement) = create(cluster, shards)?;
    let loaded = load::load(cluster, keyspace, options)?;
    say(&format!("{} rows loaded, {:.0} rows/s", loaded.rows, loaded.rows as f64 / loaded.took.as_secs_f64()));

    let epoch = Instant::now();
    let phases = Phases::follow(cluster, keyspace, placement);
    let shared = client::Shared { cluster: Arc::clone(cluster), keyspace, placement, epoch };
    let writers = Writers::start(shared.clone(), Arc::clone(&phases), loaded.sample, options)?;
    say(&format!("{} writers, {BASELINE:?} before anything moves", options.writers));
    run_for(BASELINE);
    let mut resharded = Vec::new();
    for &shards in &options.plan[1..] {
        let done = reshard::reshard(&shared, &phases, &loaded.partition_keys, shards)?;
        say(&format!("{shards} shards after {:.1} s, {} moves", done.took.as_secs_f64(), done.moves.len()));
        moves::lines(cluster, &done.moves).iter().for_each(|line| say(line));
        resharded.push(done);
        run_for(AFTERWARDS);
    }
    let load_time = epoch.elapsed();
    let written = writers.stop()?;
    say("comparing answers, stores and logs");
    let mut history = written.history;
    history.loaded = loaded.acknowledged;
    for done in &mut resharded {
        history.extend(std::mem::take(&mut done.history));
    }
    let compared = compare::compare(cluster, keyspace, &history)?;
    let facts = report::Facts {
        rows_loaded: loaded.rows,
        input_digest: loaded.digest,
        load_time,
        counts: written.counts,
        latencies: written.latencies,
        history: &history,
        resharded: &resharded,
        compared,
    };
    Ok(Report::of(facts, &cluster.desk().state()))
}

fn create(cluster: &Cluster, shards: u32) -> anyhow::Result<(KeyspaceId, Placement)> {
    let placement = Placement::buckets(BUCKETS)?;
    let event = ControlEvent::KeyspaceCreated {
        name: KEYSPACE.into(),
        placement,
        shards,
        request_retention_ms: REQUEST_RETENTION_MS,
    };
    match cluster.propose(event).context("the control log does not answer")? {
        Decision::Accepted(Accepted::KeyspaceCreated(id)) => Ok((id, placement)),
        Decision::Refused(refusal) => bail!("the keyspace was refused: {refusal}"),
        other => bail!("the keyspace was not made: {other:?}"),
    }
}

/// Lets the load run for that long.
fn run_for(time: Duration) {
    rehome_ports::Signal::new().wait(Some(Instant::now() + time));
}

/// Tells a person how far the demo is; standard output is for the result alone.
fn say(text: &str) {
    // Nobody may be listening; the result does not depend on it.
    let _ = writeln!(std::io::stderr(), "demo: {text}");
}
