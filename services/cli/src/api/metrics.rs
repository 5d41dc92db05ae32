//! `GET /metrics`: what the system has done and holds, in Prometheus' text format. Labels never hold keys of rows.

use super::errors::Refusal;
use super::{Api, Shared};
use axum::http::header::CONTENT_TYPE as CONTENT_TYPE_HEADER;
use axum::response::{IntoResponse, Response};
use rehome_router::Pauses;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::path::Path;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// Name, type and help of every metric.
#[rustfmt::skip]
const METRICS: &[(&str, &str, &str)] = &[
    ("rehome_router_writes_acknowledged_total", "counter", "Writes that were given a verdict"),
    ("rehome_router_writes_refused_total", "counter", "Writes that were refused: limits, deadlines, order of a source"),
    ("rehome_router_writes_resent_total", "counter", "Copies of writes sent after the first one"),
    ("rehome_router_verdicts_stale_total", "counter", "Verdicts that say: another owner"),
    ("rehome_router_reads_answered_total", "counter", "Reads of one partition key that were answered"),
    ("rehome_router_scans_answered_total", "counter", "Pages over all shards that were answered"),
    ("rehome_router_holds_total", "counter", "How often writes of a slot were held while it changed its owner"),
    ("rehome_router_held_seconds_total", "counter", "For how long, added up over slots"),
    ("rehome_router_write_pause_seconds", "histogram", "How long writes of a slot were held while it changed its owner, one sample a slot and change"),
    ("rehome_router_read_pause_seconds", "histogram", "How long reads of one partition key waited for its new owner, one sample a read that had to"),
    ("rehome_router_queued_asks", "gauge", "Asks in the queue in front of the router"),
    ("rehome_router_waiting_writes", "gauge", "Writes without an answer"),
    ("rehome_router_waiting_bytes", "gauge", "Bytes of keys and values of those writes"),
    ("rehome_api_refused_total", "counter", "Answers that were not a success, by their code"),
    ("rehome_replica_applied_offset", "gauge", "Offset below which a replica has applied everything"),
    ("rehome_replica_lag_records", "gauge", "Records that a replica is behind; no sample while unknown"),
    ("rehome_replica_broken", "gauge", "1 when a replica has stopped for good"),
    ("rehome_moves", "gauge", "Moves, by the phase that they are in"),
    ("rehome_moves_copied_rows", "gauge", "Rows in the snapshots of all moves"),
    ("rehome_log_bytes", "gauge", "Bytes of the log's files"),
    ("rehome_stores_bytes", "gauge", "Bytes of the stores' files"),
    ("rehome_snapshots_bytes", "gauge", "Bytes of the snapshots' files"),
    ("rehome_uptime_seconds", "gauge", "Since the process started"),
    ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes"),
];

pub async fn metrics(state: Shared) -> Result<Response, Refusal> {
    let api = std::sync::Arc::clone(&state);
    // Sizes are asked of the file system.
    let page = tokio::task::spawn_blocking(move || page(&api)).await.map_err(|_| Refusal::stopped())?;
    Ok(([(CONTENT_TYPE_HEADER, CONTENT_TYPE)], page).into_response())
}

/// A page under way: the samples of each metric.
#[derive(Default)]
struct Samples(BTreeMap<&'static str, String>);

impl Samples {
    fn put(&mut self, name: &'static str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        writeln!(self.of(name), "{name}{labels} {value}").expect("a string takes everything");
    }

    /// Puts one sample a bucket, each with all that is not longer, then sum and count.
    fn histogram(&mut self, name: &'static str, pauses: &Pauses) {
        let samples = self.of(name);
        let mut line = |part: String, value: String| {
            writeln!(samples, "{name}_{part} {value}").expect("a string takes everything");
        };
        for (bound_ms, count) in pauses.up_to() {
            line(format!("bucket{{le=\"{}\"}}", seconds(bound_ms)), count.to_string());
        }
        line("bucket{le=\"+Inf\"}".into(), pauses.count().to_string());
        line("sum".into(), seconds(pauses.sum_ms()).to_string());
        line("count".into(), pauses.count().to_string());
    }

    fn of(&mut self, name: &'static str) -> &mut String {
        debug_assert!(METRICS.iter().any(|(known, ..)| *known == name), "{name} is not in the list of metrics");
        self.0.entry(name).or_default()
    }

    fn page(&self) -> String {
        METRICS.iter().fold(String::new(), |page, (name, kind, help)| {
            let samples = self.0.get(name).map_or("", String::as_str);
            page + &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")
        })
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn page(api: &Api) -> String {
    let mut samples = Samples::default();
    router(api, &mut samples);
    replicas(api, &mut samples);
    moves(api, &mut samples);
    for (kind, count) in api.told.counts().filter(|(kind, _)| kind.status != 200) {
        samples.put("rehome_api_refused_total", &[("code", kind.code)], count);
    }
    for (name, folder) in
        [("rehome_log_bytes", "log"), ("rehome_stores_bytes", "stores"), ("rehome_snapshots_bytes", "snapshots")]
    {
        samples.put(name, &[], bytes_below(&Path::new(&api.data).join(folder)));
    }
    samples.put("rehome_uptime_seconds", &[], api.cluster.clock().uptime().as_secs_f64());
    if let Some(bytes) = resident_bytes() {
        samples.put("process_resident_memory_bytes", &[], bytes);
    }
    samples.page()
}

fn router(api: &Api, samples: &mut Samples) {
    let Some(router) = api.cluster.try_router() else { return };
    let counters = router.counters();
    samples.put("rehome_router_writes_acknowledged_total", &[], counters.writes_answered);
    samples.put("rehome_router_writes_refused_total", &[], counters.writes_refused);
    samples.put("rehome_router_writes_resent_total", &[], counters.writes_resent);
    samples.put("rehome_router_verdicts_stale_total", &[], counters.stale_verdicts);
    samples.put("rehome_router_reads_answered_total", &[], counters.reads_answered);
    samples.put("rehome_router_scans_answered_total", &[], counters.scans_answered);
    samples.put("rehome_router_holds_total", &[], counters.holds);
    samples.put("rehome_router_held_seconds_total", &[], seconds(counters.write_pauses.sum_ms()));
    samples.histogram("rehome_router_write_pause_seconds", &counters.write_pauses);
    samples.histogram("rehome_router_read_pause_seconds", &counters.read_pauses);
    samples.put("rehome_router_queued_asks", &[], router.queued());
    samples.put("rehome_router_waiting_writes", &[], counters.writes_waiting);
    samples.put("rehome_router_waiting_bytes", &[], counters.write_bytes_waiting);
}

fn replicas(api: &Api, samples: &mut Samples) {
    let control = api.cluster.desk().state();
    for ((keyspace, shard), report) in api.cluster.progress().reports {
        let Some(keyspace) = control.keyspace(keyspace) else { continue };
        let shard = shard.to_string();
        let labels = [("keyspace", keyspace.name.as_str()), ("shard", shard.as_str())];
        samples.put("rehome_replica_applied_offset", &labels, report.applied_next.0);
        samples.put("rehome_replica_broken", &labels, u8::from(report.broken.is_some()));
        if report.lag_records != u64::MAX {
            samples.put("rehome_replica_lag_records", &labels, report.lag_records);
        }
    }
}

fn moves(api: &Api, samples: &mut Samples) {
    let control = api.cluster.desk().state();
    let mut phases: BTreeMap<&str, u64> = BTreeMap::new();
    let mut rows = 0;
    for one in control.jobs().flat_map(|job| &job.moves).filter_map(|id| control.move_(*id)) {
        *phases.entry(one.phase.name()).or_default() += 1;
        rows += one.snapshot.map_or(0, |snapshot| snapshot.digest.row_count);
    }
    for (phase, count) in phases {
        samples.put("rehome_moves", &[("phase", phase)], count);
    }
    samples.put("rehome_moves_copied_rows", &[], rows);
}

/// Returns the size of all files below a folder; what is gone or cannot be read counts nothing.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// Returns the memory that the process has in RAM, as Linux tells it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn labels_are_escaped_and_every_metric_is_introduced() {
        let mut samples = Samples::default();
        samples.put("rehome_replica_broken", &[("keyspace", "a\"b\\c\nd"), ("shard", "0")], 1);
        let page = samples.page();
        assert!(page.contains("rehome_replica_broken{keyspace=\"a\\\"b\\\\c\\nd\",shard=\"0\"} 1\n"), "{page}");
        assert_eq!(page.matches("# TYPE ").count(), METRICS.len());
    }

    #[test]
    fn metrics_are_named_as_prometheus_wants_it() {
        let mut names = BTreeSet::new();
        for (name, kind, help) in METRICS {
            assert!(names.insert(name), "{name} stands in the list twice");
            assert!(matches!(*kind, "counter" | "gauge" | "histogram"), "{name} is a {kind}");
            assert_eq!(name.ends_with("_total"), *kind == "counter", "{name}");
            assert!(name.starts_with("rehome_") || name.starts_with("process_"), "{name} is of nobody");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert!(!help.is_empty() && !help.contains('\n'), "{name} is not explained in a line");
            // Seconds and bytes, whole ones, and last.
            let unit = name.trim_end_matches("_total").rsplit('_').next().unwrap_or_default();
            assert!(*kind != "histogram" || unit == "seconds", "{name}");
            let other = ["ms", "millis", "milliseconds", "minutes", "hours", "kb", "mb", "kib", "mib", "percent"];
            assert!(!name.split('_').any(|part| other.contains(&part)), "{name} has no base unit");
            assert!(!["_sum", "_count", "_bucket"].iter().any(|end| name.ends_with(end)), "{name} is a part's name");
        }
    }

    #[test]
    fn the_bytes_in_memory_are_known() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
