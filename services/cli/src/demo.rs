//! The demo: load rows, reshard under load, compare everything three ways.
//!
//! - [`place`]: where it runs.
//! - [`client`]: one client that retries until it is answered, and remembers every answer.
//! - [`writers`]: the load meanwhile.
//! - [`probes`]: the pause of one move, seen by one writer and one reader.
//! - [`reshard`]: one step of the plan, from submission to completion.
//! - [`moves`]: what each move did, one line each.
//! - [`cutovers`]: how near to each cutover its keys were written.
//! - [`compare`]: the routers' answers, a raw scan of each store, and an independent fold of the logs.
//! - [`report`]: the figures, as a table and as JSON.

mod client;
pub mod compare;
mod cutovers;
mod latency;
mod moves;
mod place;
mod probes;
mod report;
mod reshard;
mod writers;

pub use place::Place;
pub use report::Report;

use crate::commands::count;
use crate::workload::{self, Input, Phases, create_keyspace, load, run_for};
use cutovers::CutoverSeen;
use std::sync::Arc;
use std::time::{Duration, Instant};
use writers::Writers;

const KEYSPACE: &str = "demo";
/// How long the writers run before the first reshard. Reason: some ten thousand answers to compare with.
const BASELINE: Duration = Duration::from_secs(3);
/// How long they run on after each reshard, unless there are many.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// What to do.
pub struct Options {
    pub input: Input,
    /// The first count is made, the others are resharded to.
    pub plan: Vec<u32>,
    /// The plan is gone through again until there were so many cutovers with writes around them, or twice as many.
    pub cutovers_min: usize,
    pub rows_max: Option<u64>,
    pub writers: u32,
    pub seed: u64,
}

/// Runs the demo there, and returns its figures.
///
/// Errors: the input cannot be read, the system does not answer, or a job does not complete.
pub fn run(mut place: Place, options: &Options) -> anyhow::Result<Report> {
    let report = drive(&mut place, options);
    place.stop()?;
    report
}

fn drive(place: &mut Place, options: &Options) -> anyhow::Result<Report> {
    let cluster = &Arc::clone(place.cluster());
    let shards = options.plan[0];
    say(&format!("keyspace {KEYSPACE} on {}", count(u64::from(shards), "shard")));
    let (keyspace, placement) = create_keyspace(cluster, KEYSPACE, shards)?;
    let (rows, total) = options.input.rows(options.rows_max)?;
    let loaded = load(cluster, keyspace, rows, total, options.seed)?;
    say(&format!("{} loaded, {:.0} rows/s", count(loaded.rows, "row"), loaded.rows as f64 / loaded.took.as_secs_f64()));

    let epoch = Instant::now();
    let phases = Phases::follow(cluster, keyspace, placement);
    let epoch_ms = cluster.clock().now_ms();
    let shared =
        client::Shared { cluster: Arc::clone(cluster), keyspace, placement, epoch, epoch_ms, writes: Arc::default() };
    let writers = Writers::start(shared.clone(), Arc::clone(&phases), loaded.sample, options)?;
    say(&format!("{}, {BASELINE:?} before anything moves", count(u64::from(options.writers), "writer")));
    run_for(BASELINE);
    let mut resharded = Vec::new();
    let (mut progress, mut shards_now) = (Progress::default(), shards);
    for &shards in options.plan.iter().cycle().skip(1) {
        if resharded.len() + 1 >= options.plan.len() && progress.is_enough(options.cutovers_min) {
            break;
        }
        // A plan may end where it begins.
        if std::mem::replace(&mut shards_now, shards) == shards {
            continue;
        }
        let done = reshard::reshard(&shared, &phases, &loaded.partition_keys, shards)?;
        progress.add(&cutovers::seen(&shared, &done.moves));
        let (now, moves) = (count(u64::from(shards), "shard"), count(done.moves.len() as u64, "move"));
        say(&format!("{now} after {:.1} s, {moves}", done.took.as_secs_f64()));
        moves::lines(cluster, &done.moves).iter().for_each(|line| say(line));
        resharded.push(done);
        if options.cutovers_min == 0 {
            run_for(AFTERWARDS);
        }
    }
    let load_time = epoch.elapsed();
    let written = writers.stop()?;
    say("comparing answers, stores and logs");
    let mut history = written.history;
    history.loaded = loaded.acknowledged;
    for done in &mut resharded {
        history.extend(std::mem::take(&mut done.history));
    }
    place.stop_nodes()?;
    let compared = compare::compare(cluster.log(), &|shard| place.store(keyspace, shard), keyspace, &history)?;
    let cutovers = cutovers::seen(&shared, resharded.iter().flat_map(|done| &done.moves));
    let facts = report::Facts {
        rows_loaded: loaded.rows,
        input_digest: loaded.digest,
        load_time,
        counts: written.counts,
        latencies: written.latencies,
        history: &history,
        resharded: &resharded,
        compared,
        cutovers,
    };
    Ok(Report::of(facts, &cluster.desk().state()))
}

/// Cutovers so far.
#[derive(Default)]
struct Progress {
    switched: usize,
    written_around: usize,
}

impl Progress {
    fn add(&mut self, seen: &[CutoverSeen]) {
        self.switched += seen.len();
        self.written_around += seen.iter().filter(|cutover| cutover.is_written_around()).count();
    }

    /// A machine on which no write is ever near a cutover gets an end all the same.
    fn is_enough(&self, cutovers_min: usize) -> bool {
        self.written_around >= cutovers_min || self.switched >= 2 * cutovers_min
    }
}

/// Tells a person how far the demo is.
fn say(text: &str) {
    workload::say("demo", text);
}
