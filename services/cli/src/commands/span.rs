//! Spans of time as they are typed and shown: `90s`, `30m`, `24h`, `7d`.

/// Milliseconds of each unit, the longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("ms", 1), ("s", 1_000)];

/// Reads a span, in milliseconds. Errors: it is none.
pub fn parse(text: &str) -> Result<u64, String> {
    let read = |(unit, ms): (&str, u64)| {
        let number = text.strip_suffix(unit)?;
        // Digits alone: a sign or a blank is a slip.
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<u64>().ok().filter(|_| digits)?.checked_mul(ms)
    };
    UNITS.into_iter().find_map(read).ok_or_else(|| "a span of time is wanted, for example 90s, 30m, 24h or 7d".into())
}

/// Returns a span in the longest unit of which it is a whole number; days from two on.
pub fn text(ms: u64) -> String {
    let fits = |(unit, of_unit): &(&str, u64)| ms > 0 && ms.is_multiple_of(*of_unit) && (*unit != "d" || ms > *of_unit);
    let mut units = UNITS;
    units.sort_by_key(|(_, ms)| std::cmp::Reverse(*ms));
    let (unit, of_unit) = units.into_iter().find(fits).unwrap_or(("ms", 1));
    format!("{}{unit}", ms / of_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_shown_alike() {
        for (written, ms) in [("24h", 86_400_000), ("90s", 90_000), ("30m", 1_800_000), ("7d", 604_800_000), ("5ms", 5)]
        {
            assert_eq!((parse(written), text(ms)), (Ok(ms), written.to_owned()));
        }
        assert_eq!((parse("1d"), text(0)), (Ok(86_400_000), "0ms".into()));
        for wrong in ["", "h", "24", "-1h", "+1h", "1.5h", " 1h", "1 h", "99999999999999d", "1w"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
