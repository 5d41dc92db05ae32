//! The tree of commands. [`server`]: where they find the system; [`kafka`]: how a process finds Kafka.

mod kafka;
mod server;

pub use kafka::{KafkaArgs, KafkaChoice};

use crate::commands::{
    bench, delete, demo, explain, export, get, import, job, keyspace, put, rejects, reshard, scan, serve, status, stop,
    up, wait, watch,
};
use crate::exit::EXIT_CODES;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// A sharded, log-backed key-value store whose shard count can change while it is written to.
#[derive(Debug, Parser)]
#[command(name = "rehome", version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// Where the server is, and how to print.
#[derive(Clone, Debug, clap::Args)]
pub struct Remote {
    /// Address of the server's API, as http://HOST:PORT
    #[arg(long, env = "REHOME_SERVER", default_value = "http://127.0.0.1:8090", value_name = "URL", value_parser = server::server)]
    pub server: String,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Up(up::Args),
    Serve(serve::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Keyspace(keyspace::Args),
    Put(put::Args),
    Get(get::Args),
    Delete(delete::Args),
    Scan(scan::Args),
    Import(import::Args),
    Export(export::Args),
    Plan(reshard::PlanArgs),
    Reshard(reshard::Args),
    Status(status::Args),
    Stop(stop::Args),
    List(job::ListArgs),
    Show(job::ShowArgs),
    Wait(wait::Args),
    Watch(watch::Args),
    Explain(explain::Args),
    Pause(job::PauseArgs),
    Resume(job::ResumeArgs),
    Cancel(job::CancelArgs),
    Complete(job::CompleteArgs),
    Rejects(rejects::Args),
    #[cfg(feature = "failpoints")]
    #[command(hide = true)]
    FailPoints(crate::commands::fail_points::Args),
}

/// Reads the command line; every verb's help ends with the exit codes.
///
/// Errors: the command line is wrong, or asks for help.
pub fn parse() -> Result<Args, clap::Error> {
    Args::from_arg_matches(&with_exit_codes(Args::command()).try_get_matches()?)
}

fn with_exit_codes(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|verb| {
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        let verb = if help.is_empty() { verb } else { verb.after_help(format!("{help}\n\n{EXIT_CODES}")) };
        with_exit_codes(verb)
    })
}

impl Command {
    /// Tells whether the answer, a failure included, is printed as JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            Command::Up(args) => args.wants_json(),
            Command::Serve(args) => args.json,
            Command::Demo(args) => args.json,
            Command::Bench(args) => args.json,
            Command::Keyspace(args) => args.command.remote().json,
            Command::Put(args) => args.remote.json,
            Command::Get(args) => args.remote.json,
            Command::Delete(args) => args.remote.json,
            Command::Scan(args) => args.remote.json,
            Command::Import(args) => args.remote.json,
            Command::Export(args) => args.remote.json && !args.is_to_standard_output(),
            Command::Plan(args) => args.remote.json,
            Command::Reshard(args) => args.remote.json,
            Command::Status(args) => args.remote.json,
            Command::Stop(args) => args.json,
            Command::List(args) => args.remote.json,
            Command::Show(args) => args.remote.json,
            Command::Wait(args) => args.remote.json,
            Command::Watch(args) => args.remote.json,
            Command::Explain(args) => args.remote.json,
            Command::Pause(args) => args.remote.json,
            Command::Resume(args) => args.remote.json,
            Command::Cancel(args) => args.remote.json,
            Command::Complete(args) => args.remote.json,
            Command::Rejects(args) => args.command.remote().json,
            #[cfg(feature = "failpoints")]
            Command::FailPoints(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_sound_and_every_help_has_an_example() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            for child in command.get_subcommands() {
                check(child, &path);
            }
            if command.get_subcommands().next().is_none() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example"), "`{path} --help` shows no example");
                assert!(help.ends_with(EXIT_CODES), "`{path} --help` tells no exit codes");
                assert!(help.contains("  rehome"), "`{path} --help` shows no command line");
                assert!(command.get_about().is_some(), "`{path}` says nothing about itself");
            }
        }
        let command = with_exit_codes(Args::command());
        command.clone().debug_assert();
        check(&command, "");
        assert!(Args::command().get_after_help().is_some_and(|help| help.to_string().contains("Exit codes")));
    }

    #[test]
    fn command_lines_are_read() {
        for line in [
            "up",
            "up --data d --listen 127.0.0.1:0",
            "up --ephemeral --port 0",
            "up --port 9000 --json",
            "up --fsync every-100ms",
            "up --value-bytes-max 4MiB",
            "serve --kafka-brokers 127.0.0.1:9092",
            "serve --roles node,router --kafka-brokers a:1,b:2 --kafka sasl.password=file:p --node 3 --json",
            "demo --input zipf --plan 3,5,2 --rows 1000 --writers 8 --seed 7 --json",
            "demo --input f.csv --key a --sort b --data d",
            "bench --rates 5000,20000 --repeat 5 --json",
            "demo --input zipf --plan 2,13 --cutovers 500",
            "keyspace create flights --shards 3 --buckets 4096",
            "keyspace list --json",
            "keyspace show flights --key ORD",
            "keyspace drop flights --dry-run",
            "keyspace drop flights --yes --json",
            "put flights ORD 2001 value --request 00000000000000000000000000000001",
            "get flights ORD 2001",
            "get flights ORD --list",
            "delete flights ORD 2001 --if present",
            "scan flights --limit 10",
            "import flights f.parquet --key origin --sort date",
            "import flights - --format jsonl --key origin --sort date --unique --rejects r.jsonl --dry-run",
            "import flights f.csv --exported",
            "export flights f.parquet --json",
            "export flights - --format csv",
            "plan flights --shards 5",
            "reshard flights --shards 5 --keep-source --dry-run",
            "status --server http://127.0.0.1:1",
            "stop --data d --timeout 5 --json",
            "list",
            "show 12",
            "wait 12 --timeout 30",
            "watch",
            "watch 12 --json --patience 5",
            "explain 12",
            "explain --move 3",
            "pause 12 --reason later",
            "resume 12",
            "cancel 12",
            "complete 12",
        ] {
            let words = ["rehome"].into_iter().chain(line.split(' '));
            Args::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for line in [
            "",
            "up --ephemeral --data d",
            "up --port 65536",
            "keyspace create flights",
            "reshard flights",
            "up --fsync never",
            "up --value-bytes-max 9MiB",
            "serve --kafka-brokers a:1 --roles king",
            "serve --kafka-brokers a:1 --kafka nothing",
            "serve --kafka-brokers a:1 --node 0",
            "demo --plan 3",
            "demo --plan 3,0",
            "demo --plan 3,3",
            "demo --plan 3,5000",
            "bench --repeat 0",
            "bench --rates 0",
            "keyspace drop flights --yes --dry-run",
            "put flights ORD 2001 v --request abc",
            "explain",
            "explain 1 --move 2",
            "import flights f.csv",
            "import flights f.csv --key a --unique",
            "import flights f.csv --key a --exported",
            "import flights f.csv --key a --format xml",
            "export flights",
        ] {
            let words = ["rehome"].into_iter().chain(line.split_whitespace());
            assert!(Args::try_parse_from(words).is_err(), "{line}");
        }
    }
}
