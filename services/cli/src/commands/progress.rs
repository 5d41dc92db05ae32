//! How far an import or an export is: a bar on a terminal, elsewhere a plain line every few seconds.

use super::count;
use crate::exit::tell;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Steps of the bar. Reason: finer than anybody sees.
const STEPS: u64 = 1_000;

/// What is done so far.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub rows: u64,
    /// Of an import only.
    pub rejected: Option<u64>,
    pub bytes: u64,
    /// Where it is known.
    pub bytes_total: Option<u64>,
}

pub struct Progress {
    verb: &'static str,
    bar: ProgressBar,
    is_terminal: bool,
    begun: Instant,
    pace: Pace,
}

impl Progress {
    /// Starts; `every_s` seconds lie between two lines where there is no terminal.
    pub fn start(verb: &'static str, has_total: bool, every_s: u64) -> Progress {
        let style = |template| ProgressStyle::with_template(template).expect("a good template");
        let bar = match has_total {
            true => ProgressBar::new(STEPS).with_style(style("{bar:30} {percent:>3} %  {msg}  {eta} left")),
            false => ProgressBar::new_spinner().with_style(style("{spinner} {msg}  {elapsed}")),
        };
        let is_terminal = std::io::stderr().is_terminal();
        Progress { verb, bar, is_terminal, begun: Instant::now(), pace: Pace::every(Duration::from_secs(every_s)) }
    }

    /// Shows how far it is.
    pub fn show(&mut self, done: Done) {
        if !self.is_terminal {
            if let Some(line) = self.pace.line(self.begun.elapsed(), done) {
                tell(&format!("{}: {line}", self.verb));
            }
            return;
        }
        let rejected = done.rejected.filter(|rows| *rows > 0).map(|rows| format!(", {rows} rejected"));
        self.bar.set_message(count(done.rows, "row") + &rejected.unwrap_or_default());
        match done.bytes_total {
            Some(total) => self.bar.set_position(STEPS * done.bytes / total.max(1)),
            None => self.bar.tick(),
        }
    }

    /// Prints lines between, without harm to a bar.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// When the next line is due, and what it says.
struct Pace {
    every: Duration,
    told_at: Duration,
    told_rows: u64,
}

impl Pace {
    fn every(every: Duration) -> Pace {
        Pace { every, told_at: Duration::ZERO, told_rows: 0 }
    }

    /// Returns a line, if one is due: the speed is that since the line before, the time that is left follows from all.
    fn line(&mut self, elapsed: Duration, done: Done) -> Option<String> {
        let since = elapsed.saturating_sub(self.told_at);
        if since < self.every {
            return None;
        }
        let rows_per_sec = (done.rows - self.told_rows) as f64 / since.as_secs_f64().max(1e-3);
        (self.told_at, self.told_rows) = (elapsed, done.rows);
        let mut line = format!("{}, {rows_per_sec:.0} rows/s", count(done.rows, "row"));
        if let Some(rejected) = done.rejected {
            line += &format!(", {rejected} rejected");
        }
        line += &match done.bytes_total {
            Some(total) => format!(", {} of {total} bytes", done.bytes),
            None => format!(", {} bytes", done.bytes),
        };
        if let Some(total) = done.bytes_total.filter(|_| done.bytes > 0) {
            let left_s = elapsed.as_secs_f64() * total.saturating_sub(done.bytes) as f64 / done.bytes as f64;
            line += &format!(", about {left_s:.0} s left");
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_every_few_seconds_with_the_speed_since_the_last_one_and_what_is_left() {
        let mut pace = Pace::every(Duration::from_secs(5));
        let mut line = |ms, rows, bytes, bytes_total, rejected| {
            pace.line(Duration::from_millis(ms), Done { rows, rejected, bytes, bytes_total })
        };
        assert_eq!(line(4_999, 10, 10, Some(100), Some(0)), None);
        let first = line(5_000, 1_000, 25, Some(100), Some(3)).expect("it is due");
        assert_eq!(first, "1000 rows, 200 rows/s, 3 rejected, 25 of 100 bytes, about 15 s left");
        assert_eq!(line(9_999, 2_000, 50, None, None), None);
        assert_eq!(line(10_000, 2_000, 50, None, None).as_deref(), Some("2000 rows, 200 rows/s, 50 bytes"));
    }
}
