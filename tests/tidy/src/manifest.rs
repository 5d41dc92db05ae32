//! What a `Cargo.toml` says about dependencies.

use toml::{Table, Value};

/// One crate's manifest.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The crate's folder, relative to the root.
    pub dir: String,
    pub name: String,
    pub dependencies: Vec<String>,
    pub dev_dependencies: Vec<String>,
}

impl Manifest {
    /// Reads a manifest; build dependencies and those of single targets count as dependencies.
    pub fn parse(dir: &str, text: &str) -> Result<Manifest, toml::de::Error> {
        let table: Table = toml::from_str(text)?;
        let mut manifest = Manifest { dir: dir.to_string(), ..Manifest::default() };
        if let Some(name) = table.get("package").and_then(|package| package.get("name")).and_then(Value::as_str) {
            manifest.name = name.to_string();
        }
        manifest.take(&table);
        for target in table.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values) {
            if let Some(target) = target.as_table() {
                manifest.take(target);
            }
        }
        Ok(manifest)
    }

    fn take(&mut self, table: &Table) {
        self.dependencies.extend(names(table, "dependencies"));
        self.dependencies.extend(names(table, "build-dependencies"));
        self.dev_dependencies.extend(names(table, "dev-dependencies"));
    }
}

/// Returns the real names of the packages in a dependency table.
fn names(table: &Table, key: &str) -> Vec<String> {
    let Some(table) = table.get(key).and_then(Value::as_table) else { return Vec::new() };
    let real =
        |(name, value): (&String, &Value)| value.get("package").and_then(Value::as_str).unwrap_or(name).to_string();
    table.iter().map(real).collect()
}

/// Returns the packages of `[workspace.dependencies]` that are not ours.
pub fn third_party(root: &str) -> Result<Vec<String>, toml::de::Error> {
    let table: Table = toml::from_str(root)?;
    let shared = table.get("workspace").and_then(|workspace| workspace.get("dependencies")).and_then(Value::as_table);
    let theirs = shared.into_iter().flatten().filter(|(_, value)| value.get("path").is_none());
    Ok(theirs.map(|(name, _)| name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_counts_and_renamed_packages_are_known_by_their_own_name() {
        let text = "[package]\nname = 'x'\n[dependencies]\na.workspace = true\nb = { package = 'tokio', version = '1' }\n\
                    [build-dependencies]\nc = '1'\n[dev-dependencies]\nd = '1'\n[target.'cfg(unix)'.dependencies]\ne = '1'";
        let manifest = Manifest::parse("services/x", text).expect("it parses");
        assert_eq!(manifest.name, "x");
        assert_eq!(manifest.dependencies, ["a", "tokio", "c", "e"]);
        assert_eq!(manifest.dev_dependencies, ["d"]);
    }

    #[test]
    fn our_own_crates_are_not_third_party() {
        let root = "[workspace.dependencies]\nours = { path = 'x' }\ntheirs = '1'";
        assert_eq!(third_party(root).expect("it parses"), ["theirs"]);
    }
}
