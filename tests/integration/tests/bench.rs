//! The bench, as small as it goes: every figure is there, with its spread, and nothing was refused.

use rehome_integration::binaries;
use serde_json::Value;
use std::process::{Command, Stdio};

const FIGURES: [&str; 17] = [
    "fdatasync_p50_ms",
    "fdatasync_max_ms",
    "rocksdb_synced_commits_per_sec",
    "rocksdb_unlogged_batch_writes_per_sec",
    "rocksdb_sst_ingest_rows_per_sec",
    "rocksdb_copy_rows_per_sec",
    "rocksdb_scan_rows_per_sec",
    "load_rows_per_sec",
    "resident_after_load_mib",
    "resident_most_mib",
    "copy_rows_per_sec",
    "replay_rows_per_sec",
    "acknowledged_and_applied_4_in_flight_per_sec",
    "acknowledged_and_applied_64_in_flight_per_sec",
    "at_500_acknowledged_per_sec",
    "at_500_nothing_moves_p99_ms",
    "at_500_slots_at_rest_p99_ms",
];

#[test]
fn a_small_bench_prints_every_figure_and_refuses_no_write() {
    let words = "bench --rows 10000 --seconds 1 --cutovers 4 --repeat 2 --rates 500 --in-flight 4 --json";
    let mut command = Command::new(binaries::plain());
    let output = command.args(words.split(' ')).stdin(Stdio::null()).output().expect("the program starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "rehome {words}: {}\n{out}\n{err}", output.status);
    let report: Value = serde_json::from_str(out.lines().last().unwrap_or_default()).expect("the last line is JSON");
    let figure = |name: &str| {
        let all = report["figures"].as_array().expect("a list of figures");
        let found = all.iter().find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("no {name} in {out}"));
        ["min", "median", "max"].map(|which| found[which].as_f64().expect("a number"))
    };
    for name in FIGURES {
        let [min, median, max] = figure(name);
        assert!(0.0 < min && min <= median && median <= max, "{name}: {min} {median} {max}");
    }
    assert!(figure("at_500_cutovers")[0] >= 4.0);
    assert!(figure("at_500_write_pause_max_ms")[2] >= figure("at_500_write_pause_p50_ms")[0]);
    assert_eq!(figure("at_500_refused"), [0.0; 3]);
}
