//! What demo and bench share: rows, a keyspace with them, jobs, and where they are.
//!
//! - [`input`]: where the rows come from; [`load`]: writes them as an ordered source.
//! - [`jobs`]: creates a keyspace, submits a job.
//! - [`phases`]: which slots are moving, and how far.

mod input;
mod jobs;
mod load;
mod phases;

pub use input::{FileInput, Input, Rows};
pub use jobs::{BUCKETS, create_keyspace, submit};
pub use load::{RowKey, load};
pub use phases::{Moving, Phases};

use std::io::Write;
use std::time::{Duration, Instant};

/// Lets what runs go on for that long.
pub fn run_for(time: Duration) {
    rehome_ports::Signal::new().wait(Some(Instant::now() + time));
}

/// Tells a person how far the command is; standard output is for the result alone.
pub fn say(command: &str, text: &str) {
    // Nobody may be listening; the result does not depend on it.
    let _ = writeln!(std::io::stderr(), "{command}: {text}");
}
