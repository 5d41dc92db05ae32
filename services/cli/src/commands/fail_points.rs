//! `rehome fail-points`, hidden: lists where a test can stop the process.

use crate::exit::{Failure, print_line};

/// List the fail points that REHOME_FAIL_AT may name
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome fail-points")]
pub struct Args {}

pub fn run() -> Result<(), Failure> {
    crate::failpoints::names().iter().for_each(|name| print_line(name));
    Ok(())
}
