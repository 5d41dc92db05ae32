//! When what was appended is made durable.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest pause between two syncs. Reason: what a power loss takes shall stay small.
const EVERY_MAX: Duration = Duration::from_secs(10);

/// When what was appended is made durable. Whatever is set, a killed process loses nothing: what it wrote is with the
/// operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before it is acknowledged and read. A power loss loses nothing that was acknowledged.
    #[default]
    Always,
    /// At most this long after it was acknowledged. A power loss loses at most what was acknowledged in the last so
    /// many milliseconds, and while the last sync lasted: the newest writes, never one in between. What is appended in
    /// the protocol lane is durable before it is acknowledged all the same, with everything before it.
    Every(Duration),
}

impl FromStr for Fsync {
    type Err = String;

    fn from_str(text: &str) -> Result<Fsync, String> {
        if text == "always" {
            return Ok(Fsync::Always);
        }
        let wrong = || format!("write `always`, or `every-100ms` with 1 to {} ms", EVERY_MAX.as_millis());
        let number = text.strip_prefix("every-").and_then(|rest| rest.strip_suffix("ms")).ok_or_else(wrong)?;
        let every = Duration::from_millis(number.parse().map_err(|_| wrong())?);
        if every.is_zero() || every > EVERY_MAX { Err(wrong()) } else { Ok(Fsync::Every(every)) }
    }
}

impl fmt::Display for Fsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fsync::Always => f.write_str("always"),
            Fsync::Every(every) => write!(f, "every-{}ms", every.as_millis()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_reads_back_as_it_is_written() {
        for (text, fsync) in [("always", Fsync::Always), ("every-100ms", Fsync::Every(Duration::from_millis(100)))] {
            assert_eq!((text.parse(), fsync.to_string().as_str()), (Ok(fsync), text));
        }
        for wrong in ["", "never", "every-0ms", "every-10001ms", "every-1s", "every--1ms", "100ms", "every-ms"] {
            assert!(wrong.parse::<Fsync>().is_err(), "{wrong}");
        }
    }
}
