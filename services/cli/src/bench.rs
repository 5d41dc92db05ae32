//! The bench: what the system does, beside what disk and RocksDB do by themselves in the same run.
//!
//! - [`ceilings`]: disk and RocksDB alone.
//! - [`system`]: one running system, figure by figure.
//! - [`open_loop`], [`closed_loop`]: writes on a schedule, and as many as are taken; [`target`]: what they write to.
//! - [`jobs`]: which slots move; [`gate`]: holds a copy back so that there is something to replay.
//! - [`rows`], [`memory`], [`figures`]: what is loaded, what it takes, and what is told.

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

/// Measures once, in a folder that is empty.
///
/// Errors: disk or system do not do what they are asked for; nothing is measured twice to make up for it.
pub fn run(dir: &Path, options: &Options) -> anyhow::Result<Figures> {
    let (mut system, mut all) = (Figures::default(), Figures::default());
    // First, so that its memory is its own.
    self::system::measure(&dir.join("system"), options, &mut system)?;
    std::fs::remove_dir_all(dir.join("system"))?;
    say("disk and RocksDB alone");
    ceilings::measure(&dir.join("ceilings"), options.rows, options.in_flight, &mut all)?;
    all.0.extend(system.0);
    Ok(all)
}

/// Tells a person how far the bench is.
pub fn say(text: &str) {
    crate::workload::say("bench", text);
}
