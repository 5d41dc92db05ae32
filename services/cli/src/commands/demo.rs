//! `rehome demo`.

use crate::args::KafkaChoice;
use crate::demo::{self, Options, Place};
use crate::exit::{Exit, Failure};
use crate::over_kafka::OverKafka;
use crate::workload::{BUCKETS, FileInput, Input};
use anyhow::Context;
use rehome_sources::Columns;
use std::path::PathBuf;

/// Load rows, change the shard count under load, and compare everything three ways
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  rehome demo --input zipf\n  rehome demo --input flights.parquet --key origin --sort date --plan 3,5,2 --json\n  rehome demo --input zipf --kafka --kafka-brokers 127.0.0.1:9092"
)]
pub struct Args {
    /// A Parquet or CSV file, or `zipf` for generated rows. By default the flights that `make demo` fetches
    #[arg(long)]
    input: Option<String>,
    /// Column that becomes the partition key
    #[arg(long)]
    key: Option<String>,
    /// Column that becomes the sort key, with the row number appended
    #[arg(long)]
    sort: Option<String>,
    /// Shard counts, one after the other: the first is made, the others are resharded to under load
    #[arg(long, default_value = "3,5,2", value_parser = plan)]
    plan: Plan,
    /// Go through the plan again and again, until there were so many cutovers of at least 100 rows with an acknowledged
    /// write within 50 ms on either side, or twice as many of any kind
    #[arg(long, default_value_t = 0, value_name = "CUTOVERS", hide_default_value = true)]
    cutovers: usize,
    /// Folder to work in, kept afterwards; must be empty. By default a temporary one
    #[arg(long)]
    data: Option<PathBuf>,
    /// Closed-loop writers
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    writers: u32,
    /// Load only so many rows
    #[arg(long)]
    rows: Option<u64>,
    /// Seed of what the writers do
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    kafka: KafkaChoice,
    /// Print the figures as one JSON object, the last line of standard output
    #[arg(long)]
    pub json: bool,
}

/// The flights, in the home folder.
const FLIGHTS: &str = ".cache/rehome/data/flights-3m.parquet";

#[derive(Clone, Debug)]
struct Plan(Vec<u32>);

fn plan(text: &str) -> Result<Plan, String> {
    let counts: Option<Vec<u32>> = text.split(',').map(|part| part.parse().ok().filter(|count| *count > 0)).collect();
    let counts = counts.filter(|counts| counts.len() > 1);
    let counts = counts.ok_or("a plan is two or more shard counts, such as 3,5,2")?;
    if counts.windows(2).any(|step| step[0] == step[1]) {
        return Err("a plan changes the shard count at every step, such as 3,5,2".into());
    }
    if counts.iter().any(|count| *count > BUCKETS) {
        return Err(format!("a shard count is at most {}", BUCKETS));
    }
    Ok(Plan(counts))
}

pub fn run(args: &Args) -> Result<(), Failure> {
    super::log_to_stderr("warn");
    let options = Options {
        input: input(args)?,
        plan: args.plan.0.clone(),
        cutovers_min: args.cutovers,
        rows_max: args.rows,
        writers: args.writers,
        seed: args.seed,
    };
    // Removed when the demo ends.
    let temporary = tempfile::Builder::new().prefix("rehome-demo-").tempdir().context("cannot make a folder")?;
    let dir = args.data.as_deref().unwrap_or(temporary.path());
    if args.data.is_some() && std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::usage(format!("{} is not empty: the demo starts from nothing", dir.display())));
    }
    let place =
        if args.kafka.kafka { Place::apart(dir, OverKafka::reach(&args.kafka, "demo")?)? } else { Place::here(dir)? };
    let report = demo::run(place, &options)?;
    println!("{}", report.table());
    let next = format!("{} up", super::quoted(&std::env::args().next().unwrap_or_else(|| "rehome".into())));
    if report.is_good() {
        println!("{}\nnext: {next}", report.closing(&options.plan));
    }
    if !report.findings().is_clean() {
        println!("{}", report.findings());
    }
    if args.json {
        super::print_with(true, &report, if report.is_good() { vec![next] } else { Vec::new() }, |_| String::new());
    }
    if report.is_good() {
        return Ok(());
    }
    let failure = Failure::new(Exit::Failed, "demo_failed", "the comparison found differences, or nothing was written");
    Err(failure.next("rehome demo --data FOLDER").silent_if(args.json))
}

/// Returns the three million flights, where `make demo` has put them.
fn flights() -> Result<Input, Failure> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let path = PathBuf::from(home).join(FLIGHTS);
    if !path.exists() {
        let message = format!("{} is not there; it is fetched by `make demo`", path.display());
        return Err(Failure::new(Exit::NotFound, "no_flights", message)
            .next("make demo")
            .next("rehome demo --input zipf")
            .next("rehome demo --input FILE --key COLUMN"));
    }
    let columns = Columns { key: "origin".into(), sort: Some("date".into()) };
    Ok(Input::File(FileInput { path, columns }))
}

fn input(args: &Args) -> Result<Input, Failure> {
    let Some(input) = &args.input else { return flights() };
    if input == "zipf" {
        return Ok(Input::Zipf { seed: args.seed });
    }
    let Some(key) = args.key.clone() else {
        return Err(Failure::usage(format!("which column of {input} is the partition key? give --key COLUMN")));
    };
    Ok(Input::File(FileInput { path: input.into(), columns: Columns { key, sort: args.sort.clone() } }))
}
