//! The process killed with SIGKILL at random times of a long run of reshards, restarted, and compared three ways.

use anyhow::ensure;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rehome_integration::{Arming, Bench, Medium};
use std::io::Write;
use std::time::{Duration, Instant};

const KILLS: u32 = 30;
/// Shard counts, one after the other and again from the first.
const PLAN: [u32; 6] = [5, 2, 4, 3, 6, 3];
/// Longest life, from the moment at which the process listens.
const LIFE_MS_MAX: u64 = 700;

#[test]
fn killed_at_random_times_nothing_is_lost_doubled_or_brought_back() {
    run_and_tell(&Arming::default());
}

/// What was not synced is lost with the machine's power, never with the process.
#[test]
fn killed_while_answers_come_before_syncs_nothing_is_lost_doubled_or_brought_back() {
    run_and_tell(&Arming { fsync: Some("every-200ms"), ..Arming::default() });
}

fn run_and_tell(arming: &Arming) {
    let seed = std::env::var("REHOME_SEED").ok().map_or(1, |text| text.parse().expect("REHOME_SEED is a number"));
    let told = run(seed, arming).unwrap_or_else(|error| panic!("REHOME_SEED={seed}: {error:#}"));
    let fsync = arming.fsync.unwrap_or("always");
    // Past the test's capture: the seed belongs into every log.
    let _ = writeln!(std::io::stderr(), "\nSIGKILL at {KILLS} random times, fsync {fsync}, seed {seed}: {told}");
}

fn run(seed: u64, arming: &Arming) -> anyhow::Result<String> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut bench = Bench::filled(seed, Medium::Disk, 3)?;
    bench.work();
    for _ in 0..KILLS {
        bench.start(arming)?;
        let ends = Instant::now() + Duration::from_millis(random.random_range(0..LIFE_MS_MAX));
        while Instant::now() < ends {
            submit_next(&bench)?;
            let nap = ends.saturating_duration_since(Instant::now()).min(Duration::from_millis(20));
            // tidy: sleep because the life is to last that long, whatever happens in it
            std::thread::sleep(nap);
        }
        bench.kill()?;
    }
    bench.start(arming)?;
    let ended = bench.wait_jobs()?;
    ensure!(ended.iter().all(|state| state == "completed"), "jobs are {ended:?}");
    ensure!(!ended.is_empty(), "no job was ever submitted");
    bench.rest()?;
    bench.check_every_row()?;
    let remark = bench.conclude()?;
    Ok(format!("{} reshards, {remark}", ended.len()))
}

/// Submits the next reshard of the plan, if none is under way.
fn submit_next(bench: &Bench) -> anyhow::Result<()> {
    let jobs = bench.jobs()?;
    if jobs.iter().all(|job| job["ended"] == true) {
        bench.reshard(PLAN[jobs.len() % PLAN.len()])?;
    }
    Ok(())
}
