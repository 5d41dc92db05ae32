//! Runs scenarios two at a time, and prints a table of how each went.

use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Scenarios at once. Reason: one waits for the disk or a process while the other works.
const AT_ONCE: usize = 2;

struct Outcome {
    seconds: f64,
    result: Result<String, String>,
}

/// Runs every scenario, whatever becomes of the others; each returns a remark for the table. With `REHOME_ONLY=TEXT` only
/// those run whose name contains the text.
///
/// Panics when one failed, with what went wrong in each that did.
pub fn run<S: Sync>(title: &str, scenarios: &[(String, S)], one: impl Fn(&S) -> anyhow::Result<String> + Sync) {
    let only = std::env::var("REHOME_ONLY").unwrap_or_default();
    let scenarios: Vec<_> = scenarios.iter().filter(|(name, _)| name.contains(&only)).collect();
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(scenarios.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((at, (_, scenario))) = take(&next, &scenarios) {
                    let began = Instant::now();
                    let result = match catch_unwind(AssertUnwindSafe(|| one(scenario))) {
                        Ok(result) => result.map_err(|error| format!("{error:#}")),
                        Err(_) => Err("it panicked".into()),
                    };
                    let outcome = Outcome { seconds: began.elapsed().as_secs_f64(), result };
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(outcome);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let names = scenarios.iter().map(|(name, _)| name.as_str());
    report(title, names.zip(outcomes.into_iter().flatten()).collect());
}

fn take<'a, S>(next: &AtomicUsize, scenarios: &'a [S]) -> Option<(usize, &'a S)> {
    let at = next.fetch_add(1, Ordering::SeqCst);
    scenarios.get(at).map(|scenario| (at, scenario))
}

fn report(title: &str, outcomes: Vec<(&str, Outcome)>) {
    let width = outcomes.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut table = format!("\n{title}\n");
    let mut wrong = String::new();
    for (name, Outcome { seconds, result }) in &outcomes {
        let (how, remark) = match result {
            Ok(remark) => ("ok", remark.as_str()),
            Err(_) => ("FAILED", ""),
        };
        let _ = writeln!(table, "  {name:width$}  {how:6}  {seconds:5.1} s  {remark}");
        if let Err(error) = result {
            let _ = writeln!(wrong, "{name}: {error}\n");
        }
    }
    let total: Duration = outcomes.iter().map(|(_, outcome)| Duration::from_secs_f64(outcome.seconds)).sum();
    let _ =
        writeln!(table, "  {} in {:.1} s, {AT_ONCE} at a time", outcomes.len(), total.as_secs_f64() / AT_ONCE as f64);
    // Past the test's capture: a table that nobody sees guards nothing.
    let _ = std::io::stderr().write_all(table.as_bytes());
    assert!(wrong.is_empty(), "\n{wrong}");
}
