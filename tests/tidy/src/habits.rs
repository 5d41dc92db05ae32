//! Headers, ignored tests, sleeps, and words that do not belong here.

use crate::source::{code_only, is_excused, is_word, line_of, word_positions};

/// Returns the file if it does not start with what it is for.
pub fn missing_header(path: &str, text: &str) -> Option<String> {
    let first = text.lines().next().unwrap_or_default();
    let says = first.strip_prefix("//!").is_some_and(|header| !header.trim().is_empty());
    (!says).then(|| format!("{path} does not start with `//!` and what it is for"))
}

/// Returns tests that are switched off.
pub fn ignored_tests(path: &str, text: &str) -> Vec<String> {
    let code = code_only(text);
    let hits = word_positions(&code, "ignore").filter(|&at| code[..at].trim_end().ends_with("#["));
    hits.map(|at| format!("{path}:{}: no test is ignored: mend or delete it", line_of(&code, at))).collect()
}

/// Returns sleeps, unless the line before says why: `// tidy: sleep because ...`. Tests wait on an event with a deadline.
pub fn sleeps(path: &str, text: &str) -> Vec<String> {
    let code = code_only(text);
    let called = word_positions(&code, "sleep").filter(|&at| {
        let before = code[..at].trim_end();
        let after = code[at + "sleep".len()..].trim_start();
        let method = before.ends_with('.') || before.ends_with("fn");
        let imported = before.ends_with("::") && !after.starts_with('(');
        (after.starts_with('(') && !method) || imported
    });
    let lines = called.map(|at| line_of(&code, at)).filter(|&line| !is_excused(text, line, "sleep"));
    lines.map(|line| format!("{path}:{line}: a sleep; wait on an event with a deadline")).collect()
}

/// Where the project is built is nobody's business; package clients know where packages come from.
/// Written in halves, so that this file does not hold the words itself.
const FOREIGN: [&str; 12] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("../sha", "red"),
    concat!("tool", "box.md"),
    concat!("field-rep", "orts.md"),
    concat!("protocol-evid", "ence.md"),
    concat!("kafka-im", "age.md"),
    concat!("registry.np", "mjs.org"),
    concat!("repo.maven.ap", "ache.org"),
    concat!("index.cra", "tes.io"),
    concat!("static.cra", "tes.io"),
    concat!("deb.deb", "ian.org"),
];

/// Files that a package client writes.
const WRITTEN_BY_CLIENTS: [&str; 2] = ["Cargo.lock", "package-lock.json"];

/// Returns words of the place where the project happens to be built.
pub fn foreign_words(path: &str, text: &str) -> Vec<String> {
    if WRITTEN_BY_CLIENTS.iter().any(|name| path == *name || path.ends_with(&format!("/{name}"))) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for word in FOREIGN {
        for (at, _) in text.match_indices(word) {
            // `some/work/` is another path.
            let longer = word.starts_with('/') && at > 0 && {
                let before = text.as_bytes()[at - 1];
                is_word(before) || matches!(before, b'.' | b'-' | b'}')
            };
            if !longer {
                found.push(format!("{path}:{}: {word:?} does not belong here", line_of(text, at)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_found() {
        assert_eq!(missing_header("a.rs", "//! What it is for.\n"), None);
        for bad in ["", "use x;\n", "//!\nuse x;\n", "\n//! Late.\n"] {
            assert!(missing_header("a.rs", bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn ignored_tests_are_found() {
        for bad in ["#[ignore]\nfn f() {}", "#[ignore = \"slow\"]", "#[ ignore]"] {
            assert_eq!(ignored_tests("a.rs", bad).len(), 1, "{bad}");
        }
        assert_eq!(ignored_tests("a.rs", "// #[ignore]\nlet ignore = \"#[ignore]\";"), [""; 0]);
    }

    #[test]
    fn sleeps_are_found_unless_they_say_why() {
        for bad in ["std::thread::sleep(d);", "tokio::time::sleep(d).await;", "use std::thread::sleep;", "sleep (d);"] {
            assert_eq!(
                sleeps("a.rs", &format!("\n{bad}")),
                ["a.rs:2: a sleep; wait on an event with a deadline"],
                "{bad}"
            );
            assert_eq!(sleeps("a.rs", &format!("// tidy: sleep because a person watches\n{bad}")), [""; 0]);
        }
        for good in ["clock.sleep(d);", "fn sleep(&self);", "// thread::sleep(d)", "let sleep = 1;"] {
            assert_eq!(sleeps("a.rs", good), [""; 0], "{good}");
        }
    }

    #[test]
    fn words_of_another_place_are_found() {
        for word in FOREIGN {
            assert_eq!(foreign_words("README.md", &format!("a\n see {word}x")).len(), 1, "{word}");
            assert_eq!(foreign_words("Cargo.lock", word), [""; 0]);
        }
        assert_eq!(foreign_words("a.md", concat!("$HOME/wo", "rk/ and some/wo", "rk/")), [""; 0]);
    }
}
