//! Latencies of writes: while nothing moves, and for keys that are moving, by phase.

use crate::workload::Moving;
use hdrhistogram::Histogram;

/// Histograms of one or more writers, in microseconds.
#[derive(Clone)]
pub struct Latencies {
    pub baseline: Histogram<u64>,
    pub copying: Histogram<u64>,
    pub catching_up: Histogram<u64>,
    pub cutting_over: Histogram<u64>,
}

impl Latencies {
    pub fn new() -> Latencies {
        let empty = || Histogram::new(3).expect("three digits are possible");
        Latencies { baseline: empty(), copying: empty(), catching_up: empty(), cutting_over: empty() }
    }

    /// Notes a write of a key that was in this phase; one that did not move while others did is of no interest.
    pub fn note(&mut self, phase: Moving, any_moves: bool, latency_ns: u64) {
        let histogram = match phase {
            Moving::Not if any_moves => return,
            Moving::Not => &mut self.baseline,
            Moving::Copying => &mut self.copying,
            Moving::CatchingUp => &mut self.catching_up,
            Moving::CuttingOver => &mut self.cutting_over,
        };
        histogram.record(latency_ns / 1_000).expect("an auto-resizing histogram takes any value");
    }

    pub fn add(&mut self, other: &Latencies) {
        let pairs = [
            (&mut self.baseline, &other.baseline),
            (&mut self.copying, &other.copying),
            (&mut self.catching_up, &other.catching_up),
            (&mut self.cutting_over, &other.cutting_over),
        ];
        for (mine, theirs) in pairs {
            mine.add(theirs).expect("an auto-resizing histogram takes any value");
        }
    }

    /// Returns all keys that were moving, whatever their phase.
    pub fn moving(&self) -> Histogram<u64> {
        let mut all = self.copying.clone();
        all.add(&self.catching_up).expect("an auto-resizing histogram takes any value");
        all.add(&self.cutting_over).expect("an auto-resizing histogram takes any value");
        all
    }
}
