//! Runs the rules on this repository.

use rehome_tidy::arrows::{PURE, forbidden_edges};
use rehome_tidy::manifest::{Manifest, third_party};
use rehome_tidy::tree::Tree;
use rehome_tidy::{docs, habits, members, purity, sizes};

fn tree() -> Tree {
    Tree::of_this_repository().expect("the repository is readable")
}

fn check(found: impl IntoIterator<Item = String>) {
    let found: Vec<String> = found.into_iter().collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// The folders with a manifest, less the root.
fn manifests(tree: &Tree) -> Vec<Manifest> {
    let dirs = tree.files().filter_map(|(path, text)| Some((path.strip_suffix("/Cargo.toml")?, text)));
    dirs.map(|(dir, text)| Manifest::parse(dir, text).unwrap_or_else(|error| panic!("{dir}/Cargo.toml: {error}")))
        .collect()
}

fn root_manifest(tree: &Tree) -> &str {
    tree.text("Cargo.toml").expect("there is a root manifest")
}

fn in_pure_crate(path: &str) -> bool {
    PURE.iter().any(|dir| path.strip_prefix(dir).is_some_and(|rest| rest.starts_with("/src/")))
}

#[test]
fn arrows_between_crates_point_down_only() {
    check(forbidden_edges(&manifests(&tree())));
}

#[test]
fn every_crate_is_a_member_listed_by_name() {
    let tree = tree();
    let listed = members::listed(root_manifest(&tree)).expect("the root manifest parses");
    let folders: Vec<String> = manifests(&tree).into_iter().map(|manifest| manifest.dir).collect();
    assert!(!folders.is_empty());
    check(members::wrong_members(&listed, &folders));
}

#[test]
fn pure_crates_name_nothing_impure() {
    let tree = tree();
    let files: Vec<_> = tree.rust_files().filter(|(path, _)| in_pure_crate(path)).collect();
    for dir in PURE {
        assert!(files.iter().any(|(path, _)| path.starts_with(dir)), "{dir} has no source");
    }
    check(files.into_iter().flat_map(|(path, text)| purity::impure_names(path, text)));
}

#[test]
fn pure_crates_have_their_own_clippy_file() {
    let tree = tree();
    let root = tree.text("clippy.toml").expect("there is a clippy.toml");
    check(PURE.iter().flat_map(|dir| {
        let path = format!("{dir}/clippy.toml");
        match tree.text(&path) {
            Some(text) => {
                purity::clippy_gaps(&path, text, root).unwrap_or_else(|error| vec![format!("{path}: {error}")])
            }
            None => vec![format!("{path} is missing")],
        }
    }));
}

#[test]
fn one_file_alone_calls_bincode() {
    let tree = tree();
    assert!(tree.has(purity::CODEC));
    check(tree.rust_files().flat_map(|(path, text)| purity::bincode_calls(path, text)));
}

#[test]
fn files_are_short() {
    check(tree().rust_files().filter_map(|(path, text)| sizes::long_file(path, text)));
}

#[test]
fn functions_are_short_or_say_why_not() {
    check(tree().rust_files().flat_map(|(path, text)| sizes::long_functions(path, text)));
}

#[test]
fn every_file_says_what_it_is_for() {
    check(tree().rust_files().filter_map(|(path, text)| habits::missing_header(path, text)));
}

#[test]
fn no_test_is_ignored() {
    check(tree().rust_files().flat_map(|(path, text)| habits::ignored_tests(path, text)));
}

#[test]
fn nothing_sleeps_without_a_reason() {
    check(tree().rust_files().flat_map(|(path, text)| habits::sleeps(path, text)));
}

#[test]
fn nothing_names_the_place_where_it_was_built() {
    check(tree().files().flat_map(|(path, text)| habits::foreign_words(path, text)));
}

#[test]
fn the_documents_that_a_visitor_expects_are_there() {
    let tree = tree();
    check(docs::EXPECTED.iter().filter(|name| !tree.has(name)).map(|name| format!("{name} is missing")));
}

#[test]
fn what_the_architecture_page_names_exists() {
    let tree = tree();
    let text = tree.text("ARCHITECTURE.md").expect("there is an ARCHITECTURE.md");
    let crates: Vec<String> = manifests(&tree).into_iter().map(|manifest| manifest.name).collect();
    let has_name = |name: &str| tree.files().any(|(path, _)| path == name || path.ends_with(&format!("/{name}")));
    check(docs::broken_claims("ARCHITECTURE.md", text, |path| tree.has(path), has_name, &crates));
}

#[test]
fn the_architecture_page_names_every_package_that_is_used() {
    let tree = tree();
    let text = tree.text("ARCHITECTURE.md").expect("there is an ARCHITECTURE.md");
    let mut packages = third_party(root_manifest(&tree)).expect("the root manifest parses");
    let manifests = manifests(&tree);
    let used = manifests.iter().flat_map(|manifest| manifest.dependencies.iter().chain(&manifest.dev_dependencies));
    packages.extend(used.filter(|name| !manifests.iter().any(|manifest| manifest.name == **name)).cloned());
    packages.sort();
    packages.dedup();
    check(docs::unnamed("ARCHITECTURE.md", text, &packages));
}
