//! Hundreds of cutovers under load, each of a selector that is written to right before and right after: nothing may be
//! lost, doubled, brought back, read too old, left behind or differ. `REHOME_CUTOVERS=N` asks for more than 500.

use rehome_integration::binaries;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

/// Cutovers that must fulfil every condition below.
const CUTOVERS: usize = 500;
/// Fewest rows of a selector.
const ROWS: u64 = 100;
/// Longest time between the cutover and an acknowledged write to its keys, on either side.
const WRITTEN_WITHIN_MS: f64 = 50.0;
/// Few enough that rows and request ids, which every move carries, do not grow faster than they are moved.
const WRITERS: u32 = 4;

const COUNTERS: [&str; 7] =
    ["lost", "duplicated", "resurrected", "stale_reads", "misplaced_rows", "digest_mismatches", "client_errors"];

#[test]
fn five_hundred_cutovers_under_load_leave_every_counter_at_zero() {
    let cutovers = std::env::var("REHOME_CUTOVERS").map_or(CUTOVERS, |text| text.parse().expect("a number"));
    let report = demo(cutovers);
    let switched = report["switched"].as_array().expect("a list of cutovers");
    let counted = switched.iter().filter(|one| counts(one)).count();
    tell(&report, switched, counted);
    for counter in COUNTERS {
        assert_eq!(report[counter], 0, "{counter}");
    }
    // A load that mostly repeats itself would write nothing around a cutover.
    let (repeated, retries) = (report["writes_repeated"].as_u64(), report["retries"].as_u64());
    assert!(repeated < retries.map(|retries| 2 * retries), "{repeated:?} writes repeated, {retries:?} on purpose");
    let fulfil = format!("have {ROWS} rows and a write within {WRITTEN_WITHIN_MS} ms on either side");
    assert!(counted >= cutovers, "{counted} of {} cutovers {fulfil}; {cutovers} must", switched.len());
}

/// Reshards from two shards to nine and back under load, until there were so many cutovers that count.
fn demo(cutovers: usize) -> Value {
    let words = format!("demo --input zipf --rows 40000 --plan 2,9 --writers {WRITERS} --cutovers {cutovers} --json");
    let mut command = Command::new(binaries::plain());
    let output = command.args(words.split(' ')).stdin(Stdio::null()).output().expect("the program starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "rehome {words}: {}\n{out}\n{err}", output.status);
    serde_json::from_str(out.lines().last().unwrap_or_default()).expect("the last line is JSON")
}

/// Tells whether a cutover had enough rows, and an acknowledged write near enough on either side.
fn counts(cutover: &Value) -> bool {
    let within = |field: &str| cutover[field].as_f64().is_some_and(|ms| (-2.0..=WRITTEN_WITHIN_MS).contains(&ms));
    let rows = cutover["rows"].as_u64().is_some_and(|rows| rows >= ROWS);
    rows && within("written_before_ms") && within("written_after_ms")
}

/// Prints the figures past the test's capture: a table that nobody sees guards nothing.
fn tell(report: &Value, switched: &[Value], counted: usize) {
    let all = |field: &str| switched.iter().filter_map(|one| one[field].as_f64()).collect::<Vec<_>>();
    let pause = &report["write_pause_ms"];
    let figures = format!(
        "\ncutovers: {} switched, {} aborted, {counted} with {ROWS} rows and written within {WRITTEN_WITHIN_MS} ms on \
         either side\n  acknowledged {} writes ({}/s), {} reads\n  write pause       p50 {} ms, p99 {} ms, max {} ms \
         ({} measured)\n  fence to switch   {}\n  written before    {}\n  written after     {}\n",
        switched.len(),
        report["aborted_cutovers"],
        report["acked"],
        report["writes_per_sec"],
        report["reads"],
        pause["p50"],
        pause["p99"],
        pause["max"],
        pause["count"],
        ranked(all("fence_to_switch_ms")),
        ranked(all("written_before_ms")),
        ranked(all("written_after_ms")),
    );
    // Nobody may be listening; the result does not depend on it.
    let _ = std::io::stderr().write_all(figures.as_bytes());
}

fn ranked(mut ms: Vec<f64>) -> String {
    ms.sort_by(f64::total_cmp);
    let at = |share: f64| ms.get(((ms.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied();
    let at = |share| at(share).unwrap_or_default();
    format!("p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms", at(0.5), at(0.99), at(1.0))
}
