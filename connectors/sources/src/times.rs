//! Dates and times as ISO 8601 text of a fixed width per unit, so that they sort as text (years 0000 to 9999).

use crate::sort_key::push_padded;

/// The unit of a time of day or a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Millis,
    Micros,
    Nanos,
}

impl TimeUnit {
    fn per_second(self) -> i64 {
        match self {
            TimeUnit::Millis => 1_000,
            TimeUnit::Micros => 1_000_000,
            TimeUnit::Nanos => 1_000_000_000,
        }
    }

    fn digits(self) -> usize {
        match self {
            TimeUnit::Millis => 3,
            TimeUnit::Micros => 6,
            TimeUnit::Nanos => 9,
        }
    }
}

const SECONDS_PER_DAY: i64 = 86_400;

/// Appends `2001-01-31`, given days since 1970-01-01.
pub(crate) fn push_date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil_from_days(days);
    if year < 0 {
        out.push(b'-');
    } else if year > 9999 {
        out.push(b'+');
    }
    push_padded(out, year.unsigned_abs(), 4);
    out.push(b'-');
    push_padded(out, month, 2);
    out.push(b'-');
    push_padded(out, day, 2);
}

/// Appends `23:59:59.999`, given a count of `unit` since midnight; always with all digits of the unit.
pub(crate) fn push_time(out: &mut Vec<u8>, count: i64, unit: TimeUnit) {
    let (seconds, fraction) = (count.div_euclid(unit.per_second()), count.rem_euclid(unit.per_second()));
    push_clock(out, seconds);
    out.push(b'.');
    push_padded(out, fraction.unsigned_abs(), unit.digits());
}

/// Appends `2001-01-31T23:59:59.999`, and `Z` if it is in UTC, given a count of `unit` since 1970-01-01T00:00:00.
pub(crate) fn push_timestamp(out: &mut Vec<u8>, count: i64, unit: TimeUnit, utc: bool) {
    let per_day = SECONDS_PER_DAY * unit.per_second();
    push_date(out, count.div_euclid(per_day));
    out.push(b'T');
    push_time(out, count.rem_euclid(per_day), unit);
    if utc {
        out.push(b'Z');
    }
}

fn push_clock(out: &mut Vec<u8>, seconds: i64) {
    let seconds = seconds.unsigned_abs();
    push_padded(out, seconds / 3_600, 2);
    out.push(b':');
    push_padded(out, seconds / 60 % 60, 2);
    out.push(b':');
    push_padded(out, seconds % 60, 2);
}

/// Returns year, month and day in the Gregorian calendar.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil_from_days(days: i64) -> (i64, u64, u64) {
    let shifted = days + 719_468; // days since 0000-03-01
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month.unsigned_abs(), day.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn dates_around_the_epoch_and_leap_days() {
        assert_eq!(text(|out| push_date(out, 0)), "1970-01-01");
        assert_eq!(text(|out| push_date(out, -1)), "1969-12-31");
        assert_eq!(text(|out| push_date(out, 11_016)), "2000-02-29");
        assert_eq!(text(|out| push_date(out, 11_323)), "2001-01-01");
        assert_eq!(text(|out| push_date(out, 2_932_897)), "+10000-01-01");
    }

    #[test]
    fn every_unit_has_its_own_fixed_width() {
        assert_eq!(
            text(|out| push_timestamp(out, 978_307_200_000, TimeUnit::Millis, false)),
            "2001-01-01T00:00:00.000"
        );
        assert_eq!(text(|out| push_timestamp(out, 1, TimeUnit::Micros, true)), "1970-01-01T00:00:00.000001Z");
        assert_eq!(text(|out| push_timestamp(out, -1, TimeUnit::Nanos, true)), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(text(|out| push_time(out, 86_399_999, TimeUnit::Millis)), "23:59:59.999");
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        for unit in [TimeUnit::Millis, TimeUnit::Micros, TimeUnit::Nanos] {
            text(|out| push_timestamp(out, i64::MIN, unit, true));
            text(|out| push_timestamp(out, i64::MAX, unit, true));
        }
    }
}
