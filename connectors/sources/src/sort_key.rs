//! How a sort column and a row number become a sort key.
//!
//! ```text
//! no sort column          row number
//! sort column             text, byte 0, row number
//! sort column, unique     text
//! ```
//! The row number is twelve decimal digits, so that it sorts as text and a person can type it. A zero byte inside the
//! text is written as `00 ff`; the separator is followed by a digit, which is smaller: so sort keys order by the text's
//! bytes, then by row number, whatever the text holds. (A separator that one can type, such as `#`, would put the rows
//! of `a b` before those of `a`.) Numbers sort as the text they are; dates and times are ISO 8601, which sorts rightly.

/// Digits of a row number: enough for a million million rows, and short, since every sort key carries them.
const ROW_NUMBER_DIGITS: usize = 12;

/// Returns the row number as it stands in a sort key.
pub fn row_number_text(row: u64) -> String {
    format!("{row:0width$}", width = ROW_NUMBER_DIGITS)
}

/// Returns the sort key of a row. `text` is the sort column's; `unique` says that no two rows of a partition key share it.
pub(crate) fn sort_key(text: Option<&[u8]>, unique: bool, row: u64) -> Vec<u8> {
    let Some(text) = text else { return row_number_text(row).into_bytes() };
    let mut key = Vec::with_capacity(text.len() + 1 + ROW_NUMBER_DIGITS);
    if unique {
        key.extend_from_slice(text);
        return key;
    }
    for &byte in text {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
    key.push(0);
    push_padded(&mut key, row, ROW_NUMBER_DIGITS);
    key
}

/// Appends `value` in decimal, with zeros in front up to `width` digits.
pub(crate) fn push_padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let start = out.len();
    let mut rest = value;
    while rest > 0 || out.len() - start < width {
        out.push(b'0' + (rest % 10) as u8);
        rest /= 10;
    }
    out[start..].reverse();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sort_keys_order_by_text_then_by_row_number(
            a in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(b'0'), Just(255), any::<u8>()], 0..6),
            b in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(b'0'), Just(255), any::<u8>()], 0..6),
            row_a in 1u64..1_000_000_000_000,
            row_b in 1u64..1_000_000_000_000,
        ) {
            let by_key = sort_key(Some(&a), false, row_a).cmp(&sort_key(Some(&b), false, row_b));
            prop_assert_eq!(by_key, (a, row_a).cmp(&(b, row_b)));
        }
    }

    #[test]
    fn without_a_column_the_row_number_is_the_sort_key() {
        assert_eq!(sort_key(None, false, 42), b"000000000042");
    }

    #[test]
    fn a_unique_column_is_the_sort_key_as_it_stands() {
        assert_eq!(sort_key(Some(b"2001-01-01"), true, 42), b"2001-01-01");
    }
}
