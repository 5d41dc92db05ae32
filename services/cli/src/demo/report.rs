//! The figures of a demo, as a table and as one JSON object.

use super::compare::Compared;
use super::cutovers::CutoverSeen;
use super::latency::Latencies;
use super::reshard::Resharded;
use super::writers::Counts;
use crate::commands::count;
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
        let found = |finding| compared.findings.count(finding);
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
            lost: found(Finding::Lost),
            duplicated: found(Finding::Duplicated),
            resurrected: found(Finding::Resurrected),
            stale_reads: found(Finding::StaleRead),
            misplaced_rows: found(Finding::MisplacedRow),
            digest_mismatches: found(Finding::DigestMismatch),
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

    /// Returns what was shown, in one sentence; only of a good one.
    pub fn closing(&self, plan: &[u32]) -> String {
        let (moves, writes) = (count(self.moves, "move"), count(self.acked, "acknowledged write"));
        let plan: Vec<String> = plan.iter().map(u32::to_string).collect();
        format!(
            "Shown: while clients wrote, the shards went {} in {moves}; each of {writes} is there exactly once, as the answers, \
             the stores and the logs all say, and no write was held back longer than {:.1} ms.",
            plan.join(" -> "),
            self.write_pause_ms.max
        )
    }

    /// Returns the figures as a table.
    pub fn table(&self) -> String {
        let pause = |pause: Pause| {
            let Pause { p50, p99, max, count: moves } = pause;
            format!("median {p50:.1} ms, p99 {p99:.1} ms, longest {max:.1} ms ({})", count(moves, "move"))
        };
        let latency = |latency: Latency| match latency == Latency::default() {
            true => "no write fell into this".to_owned(),
            false => format!("median {:.1} ms, p99 {:.1} ms", latency.p50, latency.p99),
        };
        let moving = &self.moving_latency_ms;
        let rows = [
            ("rows loaded at the start", format!("{} (digest {})", self.rows_loaded, self.input_digest)),
            ("writes acknowledged meanwhile", format!("{} ({:.0}/s)", self.acked, self.writes_per_sec)),
            ("  of these, deletes", self.deletes.to_string()),
            ("  of these, sent again on purpose", self.retries.to_string()),
            ("reads that must see the newest write", self.reads.to_string()),
            ("moves of slots between shards", self.moves.to_string()),
            ("  changes of owner begun", self.cutovers.to_string()),
            ("  of these, given up and tried again", self.aborted_cutovers.to_string()),
            ("  with a write right before and after", self.written_around.to_string()),
            ("rows moved", format!("{} ({:.0}/s)", self.rows_moved, self.rows_moved_per_sec)),
            ("writes held back by a change of owner", pause(self.write_pause_ms)),
            ("reads held back by a change of owner", pause(self.read_pause_ms)),
            ("a write takes, while nothing moves", latency(self.baseline_latency_ms)),
            ("a write takes, to keys that move", latency(Latency { p50: moving.p50, p99: moving.p99 })),
            ("  while they are copied", latency(moving.copying)),
            ("  while the copy catches up", latency(moving.catching_up)),
            ("  while the owner changes", latency(moving.cutting_over)),
            ("requests that failed", self.client_errors.to_string()),
            ("acknowledged writes that are lost", self.lost.to_string()),
            ("writes done twice", self.duplicated.to_string()),
            ("deleted rows that came back", self.resurrected.to_string()),
            ("reads of old data", self.stale_reads.to_string()),
            ("rows in a wrong shard", self.misplaced_rows.to_string()),
            ("copies that differ from their source", self.digest_mismatches.to_string()),
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
