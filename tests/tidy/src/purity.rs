//! What pure crates must not name, and what only one file may.

use toml::{Table, Value};

use crate::source::{code_only, line_of, word_positions};

/// A pure crate takes time, randomness and ids as inputs, and its collections have one order.
const IMPURE: [&str; 16] = [
    "tokio",
    "rdkafka",
    "rocksdb",
    "rand::",
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "RandomState",
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::env",
    "println!",
    "eprintln!",
];

/// What clippy must refuse in a pure crate; it knows types behind any name, but only those it is told.
const DISALLOWED_TYPES: [&str; 4] =
    ["std::collections::HashMap", "std::collections::HashSet", "std::time::Instant", "std::time::SystemTime"];

/// The only file that calls bincode; derives are fine everywhere.
pub const CODEC: &str = "schemas/records/src/codec.rs";

/// Returns impure names in a source file of a pure crate.
pub fn impure_names(path: &str, text: &str) -> Vec<String> {
    let code = code_only(text);
    let hits = |name: &'static str| {
        let code = code.as_str();
        word_positions(code, name).map(move |at| format!("{path}:{}: {name} in a pure crate", line_of(code, at)))
    };
    IMPURE.iter().flat_map(|name| hits(name).collect::<Vec<_>>()).collect()
}

/// Returns uses of bincode other than its derives, outside the codec.
pub fn bincode_calls(path: &str, text: &str) -> Vec<String> {
    if path == CODEC {
        return Vec::new();
    }
    let code = code_only(text);
    let mut found = Vec::new();
    for at in word_positions(&code, "bincode") {
        let after = code[at + "bincode".len()..].trim_start();
        let Some(after) = after.strip_prefix("::") else {
            found.push(format!("{path}:{}: bincode under another name", line_of(&code, at)));
            continue;
        };
        let names = match after.trim_start().strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => after.split(|sign: char| !sign.is_alphanumeric() && sign != '_').next().unwrap_or_default(),
        };
        let derives = |name: &str| matches!(name.trim(), "" | "Encode" | "Decode" | "BorrowDecode");
        if names.is_empty() || !names.split(',').all(derives) {
            found.push(format!("{path}:{}: only {CODEC} calls bincode", line_of(&code, at)));
        }
    }
    found
}

/// Returns what a pure crate's `clippy.toml` lacks: it replaces the root's, so it repeats the root's lines.
pub fn clippy_gaps(path: &str, text: &str, root: &str) -> Result<Vec<String>, toml::de::Error> {
    let (own, root): (Table, Table) = (toml::from_str(text)?, toml::from_str(root)?);
    let mut found = Vec::new();
    for (key, value) in &root {
        if own.get(key) != Some(value) {
            found.push(format!("{path}: repeat the root's `{key}` as it stands there"));
        }
    }
    let refused = own.get("disallowed-types").and_then(Value::as_array).into_iter().flatten();
    let refused: Vec<&str> =
        refused.filter_map(|entry| entry.as_str().or_else(|| entry.get("path").and_then(Value::as_str))).collect();
    for name in DISALLOWED_TYPES {
        if !refused.contains(&name) {
            found.push(format!("{path}: disallowed-types lacks {name}"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impure_names_are_found_in_code_and_not_in_comments() {
        for name in IMPURE {
            let found = impure_names("a.rs", &format!("//! {name} is only told of\nuse x::{name}y;\nuse {name};\n"));
            assert!(found.contains(&format!("a.rs:3: {name} in a pure crate")), "{found:?}");
            assert!(!found.iter().any(|line| line.starts_with("a.rs:1")), "{found:?}");
        }
        assert_eq!(impure_names("a.rs", "use std::collections::BTreeMap; struct InstantReplay;"), [""; 0]);
    }

    #[test]
    fn bincode_is_called_in_one_file_only() {
        for bad in [
            "bincode::encode_to_vec(x, y)",
            "use bincode::{Decode, config};",
            "use bincode::*;",
            "use bincode as codec;",
            "impl bincode::enc::Encode for X {}",
        ] {
            assert_eq!(bincode_calls("a.rs", bad).len(), 1, "{bad}");
            assert_eq!(bincode_calls(CODEC, bad), [""; 0]);
        }
        for good in
            ["use bincode::{BorrowDecode, Decode, Encode};", "#[derive(bincode::Encode)]", "// bincode::encode_to_vec"]
        {
            assert_eq!(bincode_calls("a.rs", good), [""; 0], "{good}");
        }
    }

    #[test]
    fn a_clippy_file_that_forgets_a_line_is_found() {
        let root = "allow-unwrap-in-tests = true";
        assert_eq!(clippy_gaps("clippy.toml", "", root).expect("it parses").len(), 1 + DISALLOWED_TYPES.len());
        let types = DISALLOWED_TYPES.map(|name| format!("{{ path = '{name}', reason = 'x' }}")).join(", ");
        let whole = format!("{root}\ndisallowed-types = [{types}]");
        assert_eq!(clippy_gaps("clippy.toml", &whole, root).expect("it parses"), [""; 0]);
    }
}
