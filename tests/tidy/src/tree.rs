//! The files of the repository.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What holds no sources of ours.
const SKIPPED: [&str; 5] = [".git", "target", "node_modules", "rehome-data", "proptest-regressions"];

/// The text files of a folder, by path relative to it with `/` between parts; files that are not UTF-8 have no text.
#[derive(Debug, Default)]
pub struct Tree {
    pub texts: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the repository that this crate lies in.
    pub fn of_this_repository() -> io::Result<Tree> {
        // Asked when it runs: two checkouts that share a target folder share what was built in it.
        let here = std::env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
        Tree::read(&PathBuf::from(here).join("../..").canonicalize()?)
    }

    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut texts = BTreeMap::new();
        let mut folders = vec![(root.to_path_buf(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = format!("{prefix}{name}");
                let kind = entry.file_type()?;
                // In a second checkout of the same repository, `.git` is a file that says where that is.
                if SKIPPED.contains(&name.as_str()) {
                    continue;
                }
                if kind.is_dir() {
                    folders.push((entry.path(), format!("{path}/")));
                } else if kind.is_file() {
                    match fs::read(entry.path()) {
                        Ok(bytes) => drop(texts.insert(path, String::from_utf8(bytes).ok())),
                        // An editor's scratch file may be gone by now.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(Tree { texts })
    }

    /// Returns each text file, path and text.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Returns each Rust file.
    pub fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Returns a file's text, or nothing if there is none.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path)?.as_deref()
    }

    /// Says whether there is such a file or folder.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.texts.contains_key(path)
            || self.texts.range(folder.clone()..).next().is_some_and(|(at, _)| at.starts_with(&folder))
    }
}
