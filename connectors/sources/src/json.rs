//! JSON text, written by hand: an import writes millions of small objects of known columns.

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

/// Returns, for each column, what stands before its value in an object: `{"first":`, `,"second":` and so on.
pub(crate) fn member_prefixes<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Vec<u8>> {
    let prefix = |(at, name): (usize, &str)| {
        let mut prefix = vec![if at == 0 { b'{' } else { b',' }];
        push_string(&mut prefix, name);
        prefix.push(b':');
        prefix
    };
    names.into_iter().enumerate().map(prefix).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_string_reads_back_as_itself(text in any::<String>()) {
            let mut out = Vec::new();
            push_string(&mut out, &text);
            let back: String = serde_json::from_slice(&out).expect("valid JSON");
            prop_assert_eq!(back, text);
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        let mut out = Vec::new();
        push_string(&mut out, "a\u{1}\n\"\\");
        assert_eq!(out, br#""a\u0001\n\"\\""#);
    }
}
