//! `rehome stop`.

use super::{next_lines, print, quoted};
use crate::exit::{Exit, Failure};
use crate::wire::StopShape;
use anyhow::Context;
use rehome_embedded::{holder, wait_until_free};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::time::Duration;

/// End the `rehome up` that holds a folder on this machine, and wait until it has
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  rehome stop --data ./rehome-data")]
pub struct Args {
    /// Folder that the process holds
    #[arg(long, default_value = "./rehome-data")]
    data: PathBuf,
    /// Give up after this many seconds; the process goes on ending
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    // Where the log lies in the folder; it says who holds all of it.
    let dir = args.data.join("log");
    let data = args.data.display().to_string();
    let up = format!("rehome up --data {}", quoted(&data));
    let pid = holder(&dir).context("cannot tell who holds the folder")?;
    let Some(pid) = pid else {
        return Err(Failure::new(Exit::NotFound, "not_running", format!("no process holds {data}")).next(up));
    };
    let process =
        i32::try_from(pid).ok().and_then(Pid::from_raw).context("the folder's process id is no process id")?;
    kill_process(process, Signal::TERM).with_context(|| format!("cannot end process {pid}"))?;
    let freed = wait_until_free(&dir, Duration::from_secs(args.timeout));
    if !freed.context("cannot tell whether the folder is free")? {
        let message = format!("process {pid} has not ended within {} s", args.timeout);
        let again = format!("rehome stop --data {}", quoted(&data));
        return Err(Failure::new(Exit::TimedOut, "stop_timed_out", message).next(again));
    }
    let stopped = StopShape { pid, data, next_steps: vec![up] };
    print(args.json, &stopped, |stopped| {
        format!("process {} has ended, {} is free{}", stopped.pid, stopped.data, next_lines(&stopped.next_steps))
    });
    Ok(())
}
