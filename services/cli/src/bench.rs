//! The bench: what the system does, beside what disk and RocksDB do by themselves in the same run.
//!
//! - [`ceilings`]: disk and RocksDB alone; [`bare_kafka`]: Kafka alone.
//! - [`system`]: one running system, figure by figure.
//! - [`open_loop`], [`closed_loop`]: writes on a schedule, and as many as are taken; [`target`]: what they write to.
//! - [`jobs`]: which slots move; [`gate`]: holds a copy back so that there is something to replay.
//! - [`rows`], [`memory`], [`figures`]: what is loaded, what it takes, and what is told.

mod bare_kafka;
mod ceilings;
mod closed_loop;
mod figures;
mod gate;
mod jobs;
mod memory;
mod open_loop;
mod rows;
mod system;
mod target;

pub use figures::{Figures, Spread, spreads, table};

use crate::over_kafka::OverKafka;
use std::path::Path;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    pub rows: u64,
    pub shards: u32,
    /// Open-loop writes a second, one after the other.
    pub rates: Vec<u32>,
    /// Fewest cutovers at each rate.
    pub cutovers: usize,
    /// Closed-loop writes on their way at once; sixteen times that are tried as well.
    pub in_flight: u32,
    /// How long each load without moves runs.
    pub seconds: u64,
    /// Records that are replayed.
    pub replayed: u64,
    pub seed: u64,
}

/// Measures once, in a folder that is empty; over that broker if there is one.
///
/// Errors: disk or system do not do what they are asked for; nothing is measured twice to make up for it.
pub fn run(dir: &Path, broker: Option<&OverKafka>, options: &Options) -> anyhow::Result<Figures> {
    let (mut system, mut all) = (Figures::default(), Figures::default());
    if let Some(broker) = broker {
        // A new broker compiles itself under its first load: rounds of it were five times slower than later ones.
        say("warming the broker up");
        let (in_flight, rates, seconds) = (options.in_flight, &options.rates, options.seconds);
        bare_kafka::measure(broker, options.shards, in_flight, rates, seconds, &mut Figures::default())?;
    }
    // Before the ceilings, so that its memory is its own.
    std::fs::create_dir_all(dir.join("system"))?;
    self::system::measure(&dir.join("system"), broker, options, &mut system)?;
    std::fs::remove_dir_all(dir.join("system"))?;
    if let Some(broker) = broker {
        say("Kafka alone");
        bare_kafka::measure(broker, options.shards, options.in_flight, &options.rates, options.seconds, &mut all)?;
    }
    say("disk and RocksDB alone");
    ceilings::measure(&dir.join("ceilings"), options.rows, options.in_flight, &mut all)?;
    all.0.extend(system.0);
    Ok(all)
}

/// Tells a person how far the bench is.
pub fn say(text: &str) {
    crate::workload::say("bench", text);
}
