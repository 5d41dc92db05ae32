//! One typed Parquet cell as text (for keys) and as JSON (for values).

use std::io::Write;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit as ParquetUnit, Type as Physical};
use parquet::data_type::Int96;
use parquet::schema::types::ColumnDescriptor;

use crate::json;
use crate::times::{TimeUnit, push_date, push_time, push_timestamp};

/// What the values of a column mean, told from its physical and logical type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Signed,
    Unsigned,
    Float,
    Float16,
    Date,
    Time(TimeUnit),
    Timestamp {
        unit: TimeUnit,
        utc: bool,
    },
    Decimal {
        scale: usize,
    },
    Uuid,
    /// Text, or bytes that are shown as text where they are UTF-8.
    Text,
}

/// One value as it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell<'a> {
    Boolean(bool),
    Int32(i32),
    Int64(i64),
    Int96(&'a Int96),
    Float(f32),
    Double(f64),
    Bytes(&'a [u8]),
}

impl Kind {
    pub(crate) fn of(column: &ColumnDescriptor) -> Kind {
        let physical = column.physical_type();
        let meant = match column.logical_type_ref() {
            Some(logical) => Kind::of_logical(logical),
            None => Kind::of_converted(column.converted_type(), column.type_scale()),
        };
        meant.filter(|kind| kind.fits(physical)).unwrap_or(match physical {
            Physical::BOOLEAN => Kind::Boolean,
            Physical::INT32 | Physical::INT64 => Kind::Signed,
            Physical::INT96 => Kind::Timestamp { unit: TimeUnit::Nanos, utc: false },
            Physical::FLOAT | Physical::DOUBLE => Kind::Float,
            Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => Kind::Text,
        })
    }

    fn of_logical(logical: &LogicalType) -> Option<Kind> {
        Some(match logical {
            LogicalType::Date => Kind::Date,
            LogicalType::Time(time) => Kind::Time(unit(&time.unit)),
            LogicalType::Timestamp(time) => Kind::Timestamp { unit: unit(&time.unit), utc: time.is_adjusted_to_u_t_c },
            LogicalType::Decimal(decimal) => Kind::Decimal { scale: usize::try_from(decimal.scale).ok()? },
            LogicalType::Integer(integer) if !integer.is_signed => Kind::Unsigned,
            LogicalType::Uuid => Kind::Uuid,
            LogicalType::Float16 => Kind::Float16,
            _ => return None,
        })
    }

    /// Reads the annotation of files written before logical types.
    fn of_converted(converted: ConvertedType, scale: i32) -> Option<Kind> {
        Some(match converted {
            ConvertedType::DATE => Kind::Date,
            ConvertedType::TIME_MILLIS => Kind::Time(TimeUnit::Millis),
            ConvertedType::TIME_MICROS => Kind::Time(TimeUnit::Micros),
            ConvertedType::TIMESTAMP_MILLIS => Kind::Timestamp { unit: TimeUnit::Millis, utc: true },
            ConvertedType::TIMESTAMP_MICROS => Kind::Timestamp { unit: TimeUnit::Micros, utc: true },
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64 => {
                Kind::Unsigned
            }
            ConvertedType::DECIMAL => Kind::Decimal { scale: usize::try_from(scale).ok()? },
            _ => return None,
        })
    }

    /// Says whether the meaning can stand on the physical type; a file may claim anything.
    fn fits(self, physical: Physical) -> bool {
        let integer = matches!(physical, Physical::INT32 | Physical::INT64);
        let bytes = matches!(physical, Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY);
        match self {
            Kind::Signed | Kind::Unsigned | Kind::Date | Kind::Time(_) | Kind::Timestamp { .. } => integer,
            Kind::Decimal { .. } => integer || bytes,
            Kind::Uuid | Kind::Float16 | Kind::Text => bytes,
            Kind::Boolean => physical == Physical::BOOLEAN,
            Kind::Float => matches!(physical, Physical::FLOAT | Physical::DOUBLE),
        }
    }

    /// Appends the cell as JSON.
    pub(crate) fn push_json(self, out: &mut Vec<u8>, cell: Cell<'_>) {
        match (self, cell) {
            (Kind::Text, Cell::Bytes(bytes)) if let Ok(text) = std::str::from_utf8(bytes) => {
                json::push_string(out, text);
            }
            _ if self.is_bare(cell) => self.push_text(out, cell),
            _ => {
                out.push(b'"');
                self.push_text(out, cell); // nothing in it needs escaping: digits, letters, signs
                out.push(b'"');
            }
        }
    }

    /// Says whether JSON has the value itself, without quotes.
    fn is_bare(self, cell: Cell<'_>) -> bool {
        match (self, cell) {
            (Kind::Boolean | Kind::Signed | Kind::Unsigned, _) => true,
            (Kind::Decimal { .. }, Cell::Bytes(bytes)) => int_from_bytes(bytes).is_some(),
            (Kind::Decimal { .. }, _) => true,
            (Kind::Float, Cell::Float(value)) => value.is_finite(),
            (Kind::Float, Cell::Double(value)) => value.is_finite(),
            (Kind::Float16, Cell::Bytes(bytes)) => half(bytes).is_some_and(f32::is_finite),
            _ => false,
        }
    }

    /// Appends the cell as plain text. Bytes that are no text are hex with `0x` in front.
    pub(crate) fn push_text(self, out: &mut Vec<u8>, cell: Cell<'_>) {
        match (self, cell) {
            (_, Cell::Boolean(value)) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            (Kind::Unsigned, Cell::Int32(value)) => push_number(out, value.cast_unsigned()),
            (Kind::Unsigned, Cell::Int64(value)) => push_number(out, value.cast_unsigned()),
            (_, Cell::Int32(value)) => self.push_int(out, i64::from(value)),
            (_, Cell::Int64(value)) => self.push_int(out, value),
            (_, Cell::Int96(value)) => push_timestamp(out, value.to_nanos(), TimeUnit::Nanos, false),
            (_, Cell::Float(value)) => push_debug(out, value),
            (_, Cell::Double(value)) => push_debug(out, value),
            (Kind::Float16, Cell::Bytes(bytes)) if let Some(value) = half(bytes) => push_debug(out, value),
            (Kind::Decimal { scale }, Cell::Bytes(bytes)) if let Some(value) = int_from_bytes(bytes) => {
                push_decimal(out, value, scale);
            }
            (Kind::Uuid, Cell::Bytes(bytes)) if bytes.len() == 16 => {
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        out.push(b'-');
                    }
                    push_hex(out, *byte);
                }
            }
            (Kind::Text, Cell::Bytes(bytes)) if std::str::from_utf8(bytes).is_ok() => out.extend_from_slice(bytes),
            (_, Cell::Bytes(bytes)) => {
                out.extend_from_slice(b"0x");
                bytes.iter().for_each(|byte| push_hex(out, *byte));
            }
        }
    }

    fn push_int(self, out: &mut Vec<u8>, value: i64) {
        match self {
            Kind::Date => push_date(out, value),
            Kind::Time(unit) => push_time(out, value, unit),
            Kind::Timestamp { unit, utc } => push_timestamp(out, value, unit, utc),
            Kind::Decimal { scale } => push_decimal(out, i128::from(value), scale),
            _ => push_number(out, value),
        }
    }
}

fn unit(unit: &ParquetUnit) -> TimeUnit {
    match unit {
        ParquetUnit::MILLIS => TimeUnit::Millis,
        ParquetUnit::MICROS => TimeUnit::Micros,
        ParquetUnit::NANOS => TimeUnit::Nanos,
    }
}

fn push_number(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("writing to memory");
}

/// The shortest text that reads back as the same number, with an exponent where that is shorter.
fn push_debug(out: &mut Vec<u8>, value: impl std::fmt::Debug) {
    write!(out, "{value:?}").expect("writing to memory");
}

fn push_hex(out: &mut Vec<u8>, byte: u8) {
    write!(out, "{byte:02x}").expect("writing to memory");
}

fn push_decimal(out: &mut Vec<u8>, value: i128, scale: usize) {
    if value < 0 {
        out.push(b'-');
    }
    let digits = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    out.extend_from_slice(whole.as_bytes());
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
}

/// Reads a big-endian two's complement number of at most 16 bytes.
fn int_from_bytes(bytes: &[u8]) -> Option<i128> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
    let mut wide = [sign; 16];
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

/// Reads a 16-bit IEEE number.
fn half(bytes: &[u8]) -> Option<f32> {
    let bits = u16::from_le_bytes(bytes.try_into().ok()?);
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 0x3ff));
    Some(match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, cell: Cell<'_>, text_expected: &str, json_expected: &str) {
        let (mut text, mut json) = (Vec::new(), Vec::new());
        kind.push_text(&mut text, cell);
        kind.push_json(&mut json, cell);
        assert_eq!(String::from_utf8(text).expect("text"), text_expected);
        assert_eq!(String::from_utf8(json.clone()).expect("text"), json_expected);
        serde_json::from_slice::<serde_json::Value>(&json).expect("valid JSON");
    }

    #[test]
    fn numbers_and_booleans_are_bare() {
        check(Kind::Boolean, Cell::Boolean(true), "true", "true");
        check(Kind::Signed, Cell::Int32(-7), "-7", "-7");
        check(Kind::Unsigned, Cell::Int32(-1), "4294967295", "4294967295");
        check(Kind::Unsigned, Cell::Int64(-1), "18446744073709551615", "18446744073709551615");
        check(Kind::Float, Cell::Double(1e300), "1e300", "1e300");
        check(Kind::Float, Cell::Float(0.5), "0.5", "0.5");
        check(Kind::Float16, Cell::Bytes(&[0x00, 0xc0]), "-2.0", "-2.0");
    }

    #[test]
    fn what_json_has_no_number_for_is_quoted() {
        check(Kind::Float, Cell::Double(f64::NAN), "NaN", "\"NaN\"");
        check(Kind::Float, Cell::Float(f32::NEG_INFINITY), "-inf", "\"-inf\"");
        check(Kind::Float16, Cell::Bytes(&[0x00, 0x7c]), "inf", "\"inf\"");
    }

    #[test]
    fn decimals_keep_every_digit() {
        check(Kind::Decimal { scale: 2 }, Cell::Int32(-5), "-0.05", "-0.05");
        check(Kind::Decimal { scale: 0 }, Cell::Int64(5), "5", "5");
        check(Kind::Decimal { scale: 3 }, Cell::Bytes(&[0xff, 0x00]), "-0.256", "-0.256");
        check(
            Kind::Decimal { scale: 3 },
            Cell::Bytes(&[1; 17]),
            "0x0101010101010101010101010101010101",
            "\"0x0101010101010101010101010101010101\"",
        );
    }

    #[test]
    fn text_is_escaped_in_json_only_and_other_bytes_are_hex() {
        check(Kind::Text, Cell::Bytes(b"a\"b"), "a\"b", r#""a\"b""#);
        check(Kind::Text, Cell::Bytes(&[0xff, 0x01]), "0xff01", "\"0xff01\"");
        let uuid: Vec<u8> = (0..16).collect();
        check(
            Kind::Uuid,
            Cell::Bytes(&uuid),
            "00010203-0405-0607-0809-0a0b0c0d0e0f",
            "\"00010203-0405-0607-0809-0a0b0c0d0e0f\"",
        );
    }

    #[test]
    fn times_are_quoted() {
        check(Kind::Date, Cell::Int32(11_323), "2001-01-01", "\"2001-01-01\"");
        check(Kind::Time(TimeUnit::Millis), Cell::Int32(1), "00:00:00.001", "\"00:00:00.001\"");
        let utc = Kind::Timestamp { unit: TimeUnit::Millis, utc: true };
        check(utc, Cell::Int64(0), "1970-01-01T00:00:00.000Z", "\"1970-01-01T00:00:00.000Z\"");
    }
}
