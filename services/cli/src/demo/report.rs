//! The figures of a demo, as a table and as one JSON object.

use super::compare::Compared;
use super::cutovers::CutoverSeen;
use super::latency::Latencies;
use super::reshard::Resharded;
use super::writers::Counts;
use hdrhistogram::Histogram;
use rehome_control_core::ControlState;
use rehome_keyspace::{Outcome, Side};
use rehome_oracle::{ClientHistory, Finding, Findings};
use rehome_sources::InputDigest;
use serde::Serialize;
use std::time::Duration;

/// What the parts of the demo saw.
pub struct Facts<'a> {
    pub rows_loaded: u64,
    pub input_digest: InputDigest,
    pub load_time: Duration,
    pub counts: Counts,
    pub latencies: Latencies,
    pub history: &'a ClientHistory,
    pub resharded: &'a [Resharded],
    pub compared: Compared,
    pub cutovers: Vec<CutoverSeen>,
}

/// Everything that the demo prints.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub rows_loaded: u64,
    /// Equal for equal rows in any order; 32 hex digits.
    pub input_digest: String,
    /// Writes acknowledged to the writers and probes: puts, deletes and retries.
    pub acked: u64,
    pub reads: u64,
    pub deletes: u64,
    /// Writes sent again on purpose, and answered.
    pub retries: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub resurrected: u64,
    pub stale_reads: u64,
    pub misplaced_rows: u64,
    pub digest_mismatches: u64,
    pub moves: u64,
    /// Attempts that were begun.
    pub cutovers: u64,
    pub aborted_cutovers: u64,
    /// Rows at the destinations at F.
    pub rows_moved: u64,
    /// Over the time in which jobs ran, from submission to clean-up.
    pub rows_moved_per_sec: f64,
    pub writes_per_sec: f64,
    pub write_pause_ms: Pause,
    pub read_pause_ms: Pause,
    pub client_errors: u64,
    pub baseline_latency_ms: Latency,
    pub moving_latency_ms: MovingLatency,
    /// Rows that readers can see at the end, and accepted and repeated writes in the logs.
    pub rows_visible: u64,
    pub writes_accepted: u64,
    pub writes_repeated: u64,
    /// Of the cutovers that switched, those of at least 100 rows with an acknowledged write within 50 ms on either side.
    pub written_around: usize,
    /// Every cutover that switched.
    pub switched: Vec<CutoverSeen>,
    #[serde(skip)]
    findings: Findings,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pause {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    /// Moves that were measured.
    pub count: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
}

/// Latency of writes to keys that were moving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MovingLatency {
    pub p50: f64,
    pub p99: f64,
    pub copying: Latency,
    pub catching_up: Latency,
    pub cutting_over: Latency,
}

impl Report {
    pub fn of(facts: Facts<'_>, state: &ControlState) -> Report {
        let Facts { counts, compared, resharded, .. } = &facts;
        let ids = || resharded.iter().flat_map(|done| &done.moves);
        let attempts = || state.attempts().filter(|attempt| ids().any(|id| *id == attempt.facts.move_id));
        let aborted = attempts().filter(|attempt| matches!(attempt.outcome(), Some(Outcome::Aborted { .. })));
        let switched = attempts().filter(|attempt| matches!(attempt.outcome(), Some(Outcome::Switched { .. })));
        let rows_moved: u64 = switched
            .flat_map(|attempt| attempt.readies.iter().find(|ready| ready.side == Side::Destination))
            .map(|ready| ready.digest.row_count)
            .sum();
        let job_seconds: f64 = resharded.iter().map(|done| done.took.as_secs_f64()).sum();
        let count = |finding| compared.findings.count(finding);
        let acked = facts.history.writes.len() as u64;
        let moving = facts.latencies.moving();
        let pauses = |of: fn(&Resharded) -> &[u64]| Pause::of(resharded.iter().flat_map(of).copied().collect());
        Report {
            rows_loaded: facts.rows_loaded,
            input_digest: facts.input_digest.to_string(),
            acked,
            reads: facts.history.reads.len() as u64,
            deletes: counts.deletes,
            retries: counts.retries,
            lost: count(Finding::Lost),
            duplicated: count(Finding::Duplicated),
            resurrected: count(Finding::Resurrected),
            stale_reads: count(Finding::StaleRead),
            misplaced_rows: count(Finding::MisplacedRow),
            digest_mismatches: count(Finding::DigestMismatch),
            moves: ids().count() as u64,
            cutovers: attempts().count() as u64,
            aborted_cutovers: aborted.count() as u64,
            rows_moved,
            rows_moved_per_sec: rounded(rows_moved as f64 / job_seconds.max(f64::MIN_POSITIVE)),
            writes_per_sec: rounded(acked as f64 / facts.load_time.as_secs_f64().max(f64::MIN_POSITIVE)),
            write_pause_ms: pauses(|done| &done.write_pauses),
            read_pause_ms: pauses(|done| &done.read_pauses),
            client_errors: counts.errors + resharded.iter().map(|done| done.errors).sum::<u64>(),
            baseline_latency_ms: Latency::of(&facts.latencies.baseline),
            moving_latency_ms: MovingLatency {
                p50: Latency::of(&moving).p50,
                p99: Latency::of(&moving).p99,
                copying: Latency::of(&facts.latencies.copying),
                catching_up: Latency::of(&facts.latencies.catching_up),
                cutting_over: Latency::of(&facts.latencies.cutting_over),
            },
            rows_visible: compared.rows_visible,
            writes_accepted: compared.writes_accepted,
            writes_repeated: compared.writes_repeated,
            written_around: facts.cutovers.iter().filter(|cutover| cutover.is_written_around()).count(),
            switched: facts.cutovers,
            findings: facts.compared.findings,
        }
    }

    /// Tells whether something happened, and all of it rightly.
    pub fn is_good(&self) -> bool {
        let done = [self.rows_loaded, self.acked, self.reads, self.deletes, self.retries];
        done.iter().all(|&count| count > 0) && self.findings.is_clean()
    }

    /// Returns what disagreed, with examples.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Returns the figures as a table.
    pub fn table(&self) -> String {
        let pause = |pause: Pause| {
            format!("p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms ({} moves)", pause.p50, pause.p99, pause.max, pause.count)
        };
        let latency = |latency: Latency| format!("p50 {:.1} ms, p99 {:.1} ms", latency.p50, latency.p99);
        let moving = &self.moving_latency_ms;
        let rows = [
            ("rows loaded", format!("{} (digest {})", self.rows_loaded, self.input_digest)),
            ("writes acknowledged", format!("{} ({:.0}/s)", self.acked, self.writes_per_sec)),
            ("of these deletes, retries", format!("{}, {}", self.deletes, self.retries)),
            ("linearizable reads", self.reads.to_string()),
            ("moves, cutovers, aborted", format!("{}, {}, {}", self.moves, self.cutovers, self.aborted_cutovers)),
            ("with writes around them", self.written_around.to_string()),
            ("rows moved", format!("{} ({:.0}/s)", self.rows_moved, self.rows_moved_per_sec)),
            ("write pause", pause(self.write_pause_ms)),
            ("read pause", pause(self.read_pause_ms)),
            ("write latency, nothing moves", latency(self.baseline_latency_ms)),
            ("write latency, moving keys", latency(Latency { p50: moving.p50, p99: moving.p99 })),
            ("  while copying", latency(moving.copying)),
            ("  while catching up", latency(moving.catching_up)),
            ("  while cutting over", latency(moving.cutting_over)),
            ("client errors", self.client_errors.to_string()),
            ("lost", self.lost.to_string()),
            ("duplicated", self.duplicated.to_string()),
            ("resurrected", self.resurrected.to_string()),
            ("stale reads", self.stale_reads.to_string()),
            ("misplaced rows", self.misplaced_rows.to_string()),
            ("digest mismatches", self.digest_mismatches.to_string()),
        ];
        let mut table = comfy_table::Table::new();
        table.load_preset(comfy_table::presets::UTF8_BORDERS_ONLY);
        for (name, figure) in rows {
            table.add_row([name.to_owned(), figure]);
        }
        table.to_string()
    }
}

impl Pause {
    fn of(mut pauses_ns: Vec<u64>) -> Pause {
        pauses_ns.sort_unstable();
        let at = |share: f64| {
            let index = (pauses_ns.len() as f64 * share).ceil() as usize;
            pauses_ns.get(index.saturating_sub(1)).map_or(0.0, |pause| rounded(*pause as f64 / 1e6))
        };
        Pause { p50: at(0.5), p99: at(0.99), max: at(1.0), count: pauses_ns.len() as u64 }
    }
}

impl Latency {
    fn of(microseconds: &Histogram<u64>) -> Latency {
        let at = |share| rounded(microseconds.value_at_quantile(share) as f64 / 1e3);
        Latency { p50: at(0.5), p99: at(0.99) }
    }
}

/// Two digits after the point are more than these figures are good for.
fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_ranked() {
        let pauses = Pause::of((1..=100).map(|ms| ms * 1_000_000).rev().collect());
        assert_eq!(pauses, Pause { p50: 50.0, p99: 99.0, max: 100.0, count: 100 });
        assert_eq!(Pause::of(vec![]), Pause::default());
    }
}
