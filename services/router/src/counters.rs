//! What the router has done so far.

use crate::pauses::Pauses;

/// Totals since the router started, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Writes that were given a verdict.
    pub writes_answered: u64,
    /// Writes that were refused: limits, deadlines, order of a source.
    pub writes_refused: u64,
    /// Verdicts `stale route`.
    pub stale_verdicts: u64,
    /// Copies of writes sent after the first one.
    pub writes_resent: u64,
    /// Copies whose verdict the replica had passed without telling it.
    pub verdicts_missed: u64,
    pub appends: u64,
    pub appends_failed: u64,
    pub reads_answered: u64,
    pub reads_refused: u64,
    pub reads_retried: u64,
    pub scans_answered: u64,
    pub scans_refused: u64,
    /// How often a slot was held, and for how long, where that has ended.
    pub holds: u64,
    pub write_pauses: Pauses,
    /// From the first answer `not owner` to the last word, of each read that was given one.
    pub read_pauses: Pauses,
    /// Now: writes without an answer, and their bytes.
    pub writes_waiting: u64,
    pub write_bytes_waiting: u64,
}
