//! How a row is read whose sort key nobody can type: as a list from its column on.

use crate::commands::quoted;
use rehome_sources::{SourceRow, row_number_text};

/// A row by what can be typed of it.
pub struct Example {
    key: String,
    sort: String,
}

impl Example {
    /// Returns the row with the sort column's text alone; nothing where that cannot be typed.
    pub fn of(row: &SourceRow) -> Option<Example> {
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).ok()?;
            (!text.chars().any(char::is_control)).then(|| text.to_owned())
        };
        let (column, number) =
            row.sort_key.split_at_checked(row.sort_key.len().checked_sub(row_number_text(0).len())?)?;
        debug_assert!(number.iter().all(u8::is_ascii_digit), "a row number ends the sort key");
        Some(Example { key: text(&row.partition_key)?, sort: text(column.strip_suffix(&[0])?)? })
    }

    /// Returns the command that reads it.
    pub fn line(&self, keyspace: &str) -> String {
        let [keyspace, key, sort] = [keyspace, &self.key, &self.sort].map(quoted);
        format!("rehome get {keyspace} {key} --list --from {sort} --limit 1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_named_by_what_can_be_typed_of_it() {
        let of = |key: &[u8], sort: &str| {
            let sort_key = format!("{sort}\0{}", row_number_text(1)).into_bytes();
            Example::of(&SourceRow { partition_key: key.into(), sort_key, value: Vec::new() })
        };
        let line = |key: &str, sort: &str| of(key.as_bytes(), sort).map(|example| example.line("flights"));
        assert_eq!(
            line("ORD", "2001-01-01").as_deref(),
            Some("rehome get flights ORD --list --from 2001-01-01 --limit 1")
        );
        assert_eq!(line("O R", "").as_deref(), Some("rehome get flights 'O R' --list --from '' --limit 1"));
        assert!(of(b"\xff", "a").is_none() && line("ORD", "a\u{7}").is_none());
    }
}
