//! The demo over a real broker: router and controller in one process, nodes in two more. `REHOME_KAFKA_CUTOVERS=N` asks for
//! more cutovers.

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
fn the_demo_over_kafka_leaves_every_counter_at_zero_and_nothing_behind() -> anyhow::Result<()> {
    let cutovers = std::env::var("REHOME_KAFKA_CUTOVERS").map_or(CUTOVERS, |text| text.parse().expect("a number"));
    let broker = Broker::start()?;
    let words = format!(
        "demo --input zipf --rows 20000 --plan 2,5 --writers 8 --cutovers {cutovers} --kafka --kafka-brokers {} --json",
        broker.address()
    );
    let mut command = Command::new(binaries::plain());
    let output = command.args(words.split(' ')).stdin(Stdio::null()).output()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "rehome {words}: {}\n{out}\n{err}", output.status);
    let report: Value = serde_json::from_str(out.lines().last().unwrap_or_default())?;
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
    Ok(())
}
