//! The one binary, `rehome`: configuration, adapters, run.
//!
//! - [`allocators`]: who gives memory to whom.
//! - [`args`]: the tree of commands; [`commands`]: one file for each.
//! - [`exit`]: exit codes, and failures with the next command to run; [`usage`]: wrong command lines.
//! - [`cluster`]: everything in one process; [`api`]: HTTP in front of it; [`failpoints`]: where tests stop it.
//! - [`pause`]: how long a cutover held writes back, from the logs.
//! - [`demo`]: loads, reshards under load, compares; [`bench`]: figures, beside those of RocksDB alone;
//!   [`workload`]: what both share; [`over_kafka`]: the brokers that both may run over.
//! - [`notify`]: tells a service manager how far the process is.
//! - [`client`]: the HTTP client; [`wire`]: the JSON that both sides speak.

mod allocators;
mod api;
mod args;
mod bench;
mod client;
mod cluster;
mod commands;
mod demo;
mod exit;
mod failpoints;
mod notify;
mod over_kafka;
mod pause;
mod usage;
mod wire;
mod workload;

use std::process::ExitCode;

fn main() -> ExitCode {
    allocators::give_back();
    let args = match args::parse() {
        Ok(args) => args,
        Err(error) => return usage::wrong_usage(&error, std::env::args().skip(1)),
    };
    let json = args.command.wants_json();
    match commands::run(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.or_help(std::env::args().nth(1)).report(json),
    }
}
