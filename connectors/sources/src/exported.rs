//! Rows as an export writes them and an import reads them back, byte for byte.
//!
//! ```text
//! CSV         columns key, sort, value, encoding
//! JSON lines  {"key":"ORD","sort":"2001-01-01","value":"delayed","encoding":"utf8"}
//! Parquet     required binary columns key, sort, value: the bytes themselves
//! ```
//! `encoding` is `utf8` (key, sort and value stand as they are) or `base64` (all three are standard base64 with padding,
//! RFC 4648): one for the whole row, and `base64` exactly where one of the three is not UTF-8.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub(crate) const KEY: &str = "key";
pub(crate) const SORT: &str = "sort";
pub(crate) const VALUE: &str = "value";
pub(crate) const ENCODING: &str = "encoding";

pub(crate) const UTF8: &str = "utf8";
const BASE64: &str = "base64";

/// The bytes of one exported row.
pub(crate) struct Decoded {
    pub(crate) partition_key: Vec<u8>,
    pub(crate) sort_key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// Returns the bytes that the texts of a row stand for. Errors: what is wrong with the row.
pub(crate) fn decode(key: &str, sort: &str, value: &str, encoding: &str) -> Result<Decoded, String> {
    let read = |what: &str, text: &str| match encoding {
        UTF8 => Ok(text.as_bytes().to_vec()),
        BASE64 => STANDARD.decode(text).map_err(|error| format!("column {what:?} is not base64: {error}")),
        other => Err(format!("encoding {other:?} is neither {UTF8} nor {BASE64}")),
    };
    let partition_key = read(KEY, key)?;
    if partition_key.is_empty() {
        return Err(no_key(KEY));
    }
    Ok(Decoded { partition_key, sort_key: read(SORT, sort)?, value: read(VALUE, value)? })
}

/// Writes the three parts into the buffers, and returns their encoding.
pub(crate) fn encode(parts: [&[u8]; 3], texts: &mut [String; 3]) -> &'static str {
    texts.iter_mut().for_each(String::clear);
    if let [Ok(key), Ok(sort), Ok(value)] = parts.map(std::str::from_utf8) {
        texts.iter_mut().zip([key, sort, value]).for_each(|(text, part)| text.push_str(part));
        return UTF8;
    }
    texts.iter_mut().zip(parts).for_each(|(text, part)| STANDARD.encode_string(part, text));
    BASE64
}

/// Says that a row has no partition key.
pub(crate) fn no_key(column: &str) -> String {
    format!("column {column:?}, the partition key, is empty")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_row_reads_back_as_itself(key in prop::collection::vec(any::<u8>(), 1..9), sort: Vec<u8>, value: Vec<u8>) {
            let mut texts = Default::default();
            let encoding = encode([&key, &sort, &value], &mut texts);
            let back = decode(&texts[0], &texts[1], &texts[2], encoding).expect("a good row");
            prop_assert_eq!((back.partition_key, back.sort_key, back.value), (key, sort, value));
        }
    }

    #[test]
    fn wrong_rows_are_refused_with_their_column() {
        let reason = |key, value, encoding| decode(key, "", value, encoding).err().expect("a wrong row");
        assert_eq!(reason("", "v", "utf8"), "column \"key\", the partition key, is empty");
        assert!(reason("a2V5", "*", "base64").starts_with("column \"value\" is not base64: "));
        assert_eq!(reason("k", "v", "hex"), "encoding \"hex\" is neither utf8 nor base64");
    }
}
