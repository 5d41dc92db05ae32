//! Finds the quote that a CSV record opens and never closes. The parser itself takes the end of the file as its end.

/// Where in a field the reading is, as the parser sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    FieldStart,
    Plain,
    Quoted,
    /// After a quote inside quotes: it ends them, unless another follows.
    QuoteInQuotes,
}

/// Returns the line of the quote that is open at the end of the record, which starts at that line.
pub(crate) fn open_quote_line(record: &[u8], mut line: u64) -> Option<u64> {
    let (mut place, mut opened) = (Place::FieldStart, line);
    for byte in record {
        place = match (place, byte) {
            (Place::FieldStart, b'"') => {
                opened = line;
                Place::Quoted
            }
            (Place::Quoted, b'"') => Place::QuoteInQuotes,
            (Place::Quoted, _) | (Place::QuoteInQuotes, b'"') => Place::Quoted,
            (_, b',' | b'\r' | b'\n') => Place::FieldStart,
            (Place::FieldStart | Place::Plain | Place::QuoteInQuotes, _) => Place::Plain,
        };
        line += u64::from(*byte == b'\n');
    }
    (place == Place::Quoted).then_some(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_quote_that_is_open_at_the_end_counts() {
        for closed in ["a,b", "a,\"b\"", "a,5\" pipe", "\"a\"\"b\",c", "\"a\"b\"", "\"a\n,\""] {
            assert_eq!(open_quote_line(closed.as_bytes(), 3), None, "{closed}");
        }
        assert_eq!(open_quote_line(b"a,\"b\nc\n", 3), Some(3));
        assert_eq!(open_quote_line(b"\"a\nb\",\"c\"\"\n", 3), Some(4));
        assert_eq!(open_quote_line(b"\n\"a\"\"", 3), Some(4));
    }
}
