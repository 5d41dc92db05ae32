//! Demo and bench over a real broker. The demo has router and controller in one process, nodes in two more.
//! `REHOME_KAFKA_CUTOVERS=N` asks for more cutovers.

use anyhow::{Context, ensure};
use rehome_integration::binaries;
use rehome_integration::broker::Broker;
use rehome_integration::others::topics;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Cutovers with a write right before and after, or half of those of any kind.
const CUTOVERS: usize = 16;

const COUNTERS: [&str; 7] =
    ["lost", "duplicated", "resurrected", "stale_reads", "misplaced_rows", "digest_mismatches", "client_errors"];

#[test]
fn demo_and_bench_over_kafka_leave_every_counter_at_zero_and_nothing_behind() -> anyhow::Result<()> {
    let cutovers = std::env::var("REHOME_KAFKA_CUTOVERS").map_or(CUTOVERS, |text| text.parse().expect("a number"));
    let broker = Broker::start()?;
    let words = format!(
        "demo --input zipf --rows 20000 --plan 2,5 --writers 8 --cutovers {cutovers} --kafka --kafka-brokers {} --json",
        broker.address()
    );
    let report = run(&words)?;
    for counter in COUNTERS {
        assert_eq!(report[counter], 0, "{counter}: {report}");
    }
    let count = |field: &str| report[field].as_u64().unwrap_or(0);
    assert!(count("cutovers") >= cutovers as u64 && count("acked") > 0, "{report}");
    assert!(
        count("rows_visible") > 0 && count("writes_accepted") >= 20_000 + count("acked") - count("retries"),
        "{report}"
    );
    let pauses = report["write_pause_ms"]["count"].as_u64();
    assert!(pauses.is_some_and(|pauses| pauses > 0), "a pause is told for cutovers: {report}");
    assert_eq!(topics(&broker.address())?, Vec::<String>::new(), "the demo's topics are removed");

    let words = format!(
        "bench --rows 10000 --shards 2 --rates 500 --cutovers 1 --seconds 1 --repeat 1 --kafka --kafka-brokers {} --json",
        broker.address()
    );
    let report = run(&words)?;
    let figures = report["figures"].as_array().context("a list of figures")?;
    let value = |name: &str| {
        let figure = figures.iter().find(|figure| figure["name"] == name);
        figure.and_then(|figure| figure["median"].as_f64()).with_context(|| format!("no {name} in {report}"))
    };
    for name in
        ["kafka_alone_64_in_flight_per_sec", "acknowledged_and_applied_64_in_flight_per_sec", "copy_rows_per_sec"]
    {
        assert!(value(name)? > 0.0, "{name}: {report}");
    }
    assert!(value("kafka_alone_at_500_trip_p50_ms")? > 0.0 && value("at_500_write_pause_p50_ms")? >= 0.0);
    assert_eq!(topics(&broker.address())?, Vec::<String>::new(), "the bench's topics are removed");
    Ok(())
}

/// Runs the program; its last line is JSON.
fn run(words: &str) -> anyhow::Result<Value> {
    let output = Command::new(binaries::plain()).args(words.split(' ')).stdin(Stdio::null()).output()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "rehome {words}: {}\n{out}\n{err}", output.status);
    Ok(serde_json::from_str(out.lines().last().unwrap_or_default())?)
}
