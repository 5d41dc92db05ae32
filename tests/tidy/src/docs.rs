//! What the documents name exists, and what the project uses is named.

use crate::source::word_positions;

/// Documents that a visitor expects.
pub const EXPECTED: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE"];

/// Endings by which a name without a folder is taken for a file.
const FILE_ENDINGS: [&str; 4] = [".md", ".rs", ".sh", ".toml"];

/// Names that look like crates and are not: a folder, a binary.
const NOT_CRATES: [&str; 2] = ["rehome-data", "rehome-failpoints"];

/// What a word in backticks claims to exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// A file or folder from the root.
    Path(String),
    /// A file somewhere in the tree.
    FileName(String),
    Crate(String),
}

/// Returns what the text names in backticks as a path of this repository or a crate of ours.
pub fn claims(text: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            claims.extend(line.split('`').skip(1).step_by(2).filter_map(claim));
        }
    }
    claims
}

fn claim(word: &str) -> Option<Claim> {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "._-/*:".contains(sign);
    if word.is_empty() || !word.chars().all(plain) || word.starts_with(['/', '-']) || word.contains("::") {
        return None;
    }
    // `path:12` names a line, `folder/*` all that is in it.
    let word = word.split(':').next().unwrap_or_default().trim_end_matches('*').trim_end_matches('/');
    let is_file = FILE_ENDINGS.iter().any(|ending| word.ends_with(ending) && word.len() > ending.len());
    if word.contains('/') {
        Some(Claim::Path(word.to_string()))
    } else if is_file {
        Some(Claim::FileName(word.to_string()))
    } else if word.starts_with("rehome-") && !word.contains('.') && !NOT_CRATES.contains(&word) {
        Some(Claim::Crate(word.to_string()))
    } else {
        None
    }
}

/// Returns the claims that do not hold.
pub fn broken_claims(
    path: &str,
    text: &str,
    has_path: impl Fn(&str) -> bool,
    has_file_name: impl Fn(&str) -> bool,
    crates: &[String],
) -> Vec<String> {
    let broken = |claim: Claim| match claim {
        Claim::Path(name) => (!has_path(&name)).then(|| format!("{path} names {name}, which does not exist")),
        Claim::FileName(name) => (!has_file_name(&name)).then(|| format!("{path} names {name}, which does not exist")),
        Claim::Crate(name) => (!crates.contains(&name)).then(|| format!("{path} names {name}, which is no crate")),
    };
    claims(text).into_iter().filter_map(broken).collect()
}

/// Returns the packages that the text does not name.
pub fn unnamed(path: &str, text: &str, packages: &[String]) -> Vec<String> {
    let named = |package: &str| {
        word_positions(text, package).any(|at| {
            // `rand` is not named by `rand-core`.
            let around =
                [at.checked_sub(1).and_then(|at| text.as_bytes().get(at)), text.as_bytes().get(at + package.len())];
            !around.contains(&Some(&b'-'))
        })
    };
    let missing = packages.iter().filter(|package| !named(package));
    missing.map(|package| format!("{path} does not say why the project uses {package}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_files_and_crates_that_do_not_exist_are_found() {
        let text = "See `services/node/`, `services/gone:7`, `codec.rs`, `lost.rs`, `rehome-node`, `rehome-lost`.";
        let has_path = |path: &str| path == "services/node";
        let has_name = |name: &str| name == "codec.rs";
        assert_eq!(
            broken_claims("A.md", text, has_path, has_name, &["rehome-node".to_string()]),
            [
                "A.md names services/gone, which does not exist",
                "A.md names lost.rs, which does not exist",
                "A.md names rehome-lost, which is no crate",
            ]
        );
    }

    #[test]
    fn what_is_no_path_claims_nothing() {
        let text = "`/v1/keyspaces`, `rehome.control`, `--flag`, `std::fs`, `key -> slot`, `~/.cache/x`, `rehome-data`\n\
                    ```\n`not/there`\n```\n";
        assert_eq!(claims(text), []);
    }

    #[test]
    fn a_package_without_a_reason_is_found() {
        let packages = ["rand".to_string(), "csv".to_string()];
        assert_eq!(
            unnamed("A.md", "`csv` reads files; rand-core is another", &packages),
            ["A.md does not say why the project uses rand"]
        );
        assert_eq!(unnamed("A.md", "| `rand` | seeds |, csv", &packages), [""; 0]);
    }
}
