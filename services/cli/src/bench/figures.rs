//! Figures of one run, and their spread over several.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    PerSecond,
    Milliseconds,
    Mebibytes,
    Count,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Unit::PerSecond => format!("{}/s", indicatif::HumanCount(value.round() as u64)),
            Unit::Milliseconds => format!("{value:.2} ms"),
            Unit::Mebibytes => format!("{value:.0} MiB"),
            Unit::Count => format!("{value:.0}"),
        }
    }
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    pub unit: Unit,
    pub value: f64,
}

/// The figures of one run, in the order in which they were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures(pub Vec<Figure>);

impl Figures {
    pub fn note(&mut self, name: impl Into<String>, unit: Unit, value: f64) {
        self.0.push(Figure { name: name.into(), unit, value });
    }

    pub fn rate(&mut self, name: impl Into<String>, count: u64, took: Duration) {
        self.note(name, Unit::PerSecond, count as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE));
    }

    /// Notes p50, p99 and the longest of a histogram of microseconds.
    pub fn latency(&mut self, name: &str, microseconds: &Histogram<u64>) {
        for (rank, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let value = microseconds.value_at_quantile(share) as f64 / 1e3;
            self.note(format!("{name}_{rank}_ms"), Unit::Milliseconds, value);
        }
    }
}

/// A figure over all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub name: String,
    pub unit: Unit,
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

/// Returns the spread of each figure, in the order of the first run.
///
/// Requires that every run has the same figures.
pub fn spreads(runs: &[Figures]) -> Vec<Spread> {
    let Some(first) = runs.first() else { return Vec::new() };
    let spread = |figure: &Figure| {
        let of_run = |run: &Figures| run.0.iter().find(|other| other.name == figure.name).map(|other| other.value);
        let mut values: Vec<f64> = runs.iter().filter_map(of_run).collect();
        values.sort_by(f64::total_cmp);
        let (min, median, max) = (values[0], values[values.len() / 2], values[values.len() - 1]);
        Spread { name: figure.name.clone(), unit: figure.unit, min, median, max }
    };
    first.0.iter().map(spread).collect()
}

/// Returns the figures as a table.
pub fn table(spreads: &[Spread]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::UTF8_BORDERS_ONLY).set_header(["", "median", "min", "max"]);
    for one in spreads {
        let text = |value| one.unit.text(value);
        table.add_row([one.name.replace('_', " "), text(one.median), text(one.min), text(one.max)]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_over_runs_and_in_the_order_of_the_first() {
        let run = |b: f64, a: f64| {
            let mut figures = Figures::default();
            figures.note("b_per_sec", Unit::PerSecond, b);
            figures.note("a_p99_ms", Unit::Milliseconds, a);
            figures
        };
        let spreads = spreads(&[run(3.0, 1.0), run(1.0, 1.5), run(2_000.0, 9.0)]);
        let all: Vec<_> = spreads.iter().map(|one| (one.name.as_str(), one.min, one.median, one.max)).collect();
        assert_eq!(all, [("b_per_sec", 1.0, 3.0, 2_000.0), ("a_p99_ms", 1.0, 1.5, 9.0)]);
        assert!(table(&spreads).contains("2,000/s"));
    }
}
