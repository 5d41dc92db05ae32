//! `rehome bench`.

use crate::args::KafkaChoice;
use crate::bench::{self, Figures, Options, Spread};
use crate::exit::{Exit, Failure};
use crate::over_kafka::OverKafka;
use anyhow::{Context, ensure};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Measure writes, copies, replays, pauses and memory, beside what disk and RocksDB do by themselves
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  rehome bench\n  rehome bench --repeat 5 --rates 5000,20000 --json\n  rehome bench --rows 100000 --seconds 2 --cutovers 5 --repeat 1\n  rehome bench --kafka --rates 10000"
)]
pub struct Args {
    /// Rows of 24 bytes of key and 116 of value [default: 2000000; 200000 over Kafka]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10_000..))]
    rows: Option<u64>,
    /// Shards
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=64))]
    shards: u32,
    /// Writes a second that arrive on a schedule, whether or not earlier ones are answered
    #[arg(long, default_value = "5000,20000", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    rates: Vec<u32>,
    /// Fewest cutovers at each rate
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    cutovers: u32,
    /// Closed-loop writes on their way at once, here and for RocksDB alone; 16 times that are tried as well
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    in_flight: u32,
    /// Seconds of each load during which nothing moves
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Times that everything is measured, each in a process of its own
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Seed of what is written
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder on the disk to measure, in which a temporary one is made; the system's by default
    #[arg(long)]
    data: Option<PathBuf>,
    #[command(flatten)]
    kafka: KafkaChoice,
    /// Print the figures as one JSON object, the last line of standard output
    #[arg(long)]
    pub json: bool,
    /// Measure once, and print the bare figures
    #[arg(long, hide = true)]
    one_run: bool,
}

/// Everything that the bench prints.
#[derive(Debug, Serialize)]
struct Report {
    rows: u64,
    shards: u32,
    repeat: u32,
    processors: usize,
    figures: Vec<Spread>,
}

/// Records that a replay is measured with, at most: one for each two rows of the shard that moves.
const REPLAYED_MAX: u64 = 200_000;

impl Args {
    fn rows(&self) -> u64 {
        self.rows.unwrap_or(if self.kafka.kafka { 200_000 } else { 2_000_000 })
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    super::log_to_stderr("warn");
    if args.one_run {
        let figures = once(args)?;
        crate::exit::print_line(&serde_json::to_string(&figures).context("the figures are no JSON")?);
        return Ok(());
    }
    let mut runs = Vec::new();
    for number in 1..=args.repeat {
        bench::say(&format!("run {number} of {}", args.repeat));
        runs.push(in_a_process_of_its_own()?);
    }
    let report = Report {
        rows: args.rows(),
        shards: args.shards,
        repeat: args.repeat,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        figures: bench::spreads(&runs),
    };
    crate::exit::print_line(&bench::table(&report.figures));
    if args.json {
        crate::exit::print_line(&serde_json::to_string(&report).context("the figures are no JSON")?);
    }
    Ok(())
}

fn once(args: &Args) -> Result<Figures, Failure> {
    let options = Options {
        rows: args.rows(),
        shards: args.shards,
        rates: args.rates.clone(),
        cutovers: args.cutovers as usize,
        in_flight: args.in_flight,
        seconds: args.seconds,
        replayed: REPLAYED_MAX.min(args.rows() / u64::from(2 * args.shards)),
        seed: args.seed,
    };
    let folder = |parent: &Path| tempfile::Builder::new().prefix("rehome-bench-").tempdir_in(parent);
    let parent = args.data.clone().unwrap_or_else(std::env::temp_dir);
    let dir = folder(&parent).map_err(|error| {
        Failure::new(Exit::Failed, "no_folder", format!("cannot make a folder in {}: {error}", parent.display()))
            .next("rehome bench --data FOLDER")
    })?;
    let broker = args.kafka.kafka.then(|| OverKafka::reach(&args.kafka, "bench")).transpose()?;
    Ok(bench::run(dir.path(), broker.as_ref(), &options)?)
}

/// Runs this command once more, so that no run finds the memory or the threads of another.
fn in_a_process_of_its_own() -> anyhow::Result<Figures> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--one-run").stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context("cannot start a run")?;
    ensure!(output.status.success(), "a run ended with {}; it told why above", output.status);
    serde_json::from_slice(&output.stdout).context("a run printed no figures")
}
