//! Which crate may depend on which: cli -> services -> connectors/ports -> schemas, and adapters named by cli alone.

use std::collections::BTreeMap;

use crate::manifest::Manifest;

/// Pure crates: no clock, no randomness, no I/O. What they decide, a shell carries out.
pub const PURE: [&str; 7] = [
    "schemas/keyspace",
    "schemas/records",
    "services/invariants",
    "services/shard-core",
    "services/control-core",
    "services/planner",
    "services/oracle",
];

/// Services that see ports.
const SHELLS: [&str; 4] = ["services/control-log", "services/node", "services/router", "services/controller"];

/// Edges between services that no rule gives, from and to.
const SERVICE_EDGES: [(&str, &str); 4] = [
    ("services/shard-core", "services/invariants"),
    ("services/node", "services/control-log"),
    ("services/router", "services/control-log"),
    ("services/controller", "services/control-log"),
];

/// What pure crates may use of others' work: formats, hashes, error types.
const PURE_THIRD_PARTY: [&str; 6] = ["bincode", "bytes", "crc32fast", "serde", "thiserror", "xxhash-rust"];

/// Returns what the manifests may not say.
pub fn forbidden_edges(manifests: &[Manifest]) -> Vec<String> {
    let dir_of: BTreeMap<&str, &str> =
        manifests.iter().map(|manifest| (manifest.name.as_str(), manifest.dir.as_str())).collect();
    let mut found = Vec::new();
    for manifest in manifests {
        let from = manifest.dir.as_str();
        if from.starts_with("services/") && layer(from).is_none() {
            found.push(format!("{from} is in no layer: name it in tests/tidy/src/arrows.rs"));
        }
        for (dependencies, for_tests) in [(&manifest.dependencies, false), (&manifest.dev_dependencies, true)] {
            for dependency in dependencies {
                match dir_of.get(dependency.as_str()) {
                    Some(to) if !(allowed(from, to) || for_tests && allowed_in_tests(from, to)) => {
                        found.push(format!("{from} may not depend on {to}"));
                    }
                    Some(_) => {}
                    None if !for_tests && PURE.contains(&from) && !PURE_THIRD_PARTY.contains(&dependency.as_str()) => {
                        found.push(format!("{from} is pure and may not depend on {dependency}"));
                    }
                    None => {}
                }
            }
        }
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Schema,
    Ports,
    Adapter,
    PureService,
    Shell,
    Cli,
    Test,
}

fn layer(dir: &str) -> Option<Layer> {
    Some(match dir {
        "connectors/ports" => Layer::Ports,
        "services/cli" => Layer::Cli,
        _ if dir.starts_with("schemas/") => Layer::Schema,
        _ if dir.starts_with("connectors/") => Layer::Adapter,
        _ if dir.starts_with("tests/") => Layer::Test,
        _ if PURE.contains(&dir) => Layer::PureService,
        _ if SHELLS.contains(&dir) => Layer::Shell,
        _ => return None,
    })
}

fn allowed(from: &str, to: &str) -> bool {
    let (Some(from_layer), Some(to_layer)) = (layer(from), layer(to)) else { return false };
    match (from_layer, to_layer) {
        (Layer::Test, _) => true,
        (_, Layer::Test | Layer::Cli) => false,
        (Layer::Cli, _) | (_, Layer::Schema) => true,
        (Layer::Schema | Layer::Ports, _) => false,
        (Layer::Adapter, to) => to == Layer::Ports,
        (Layer::Shell, Layer::PureService | Layer::Ports) => true,
        _ => SERVICE_EDGES.contains(&(from, to)),
    }
}

/// Tests of a service may run it on the memory connectors.
fn allowed_in_tests(from: &str, to: &str) -> bool {
    from.starts_with("services/") && to == "connectors/memory"
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRS: [&str; 12] = [
        "schemas/keyspace",
        "schemas/records",
        "services/shard-core",
        "services/oracle",
        "services/node",
        "services/router",
        "services/cli",
        "connectors/ports",
        "connectors/memory",
        "connectors/rocks",
        "tests/simulation",
        "services/invariants",
    ];

    fn check(from: &str, to: &str, for_tests: bool) -> Vec<String> {
        let mut manifests: Vec<Manifest> = DIRS
            .iter()
            .map(|dir| Manifest { dir: (*dir).to_string(), name: (*dir).to_string(), ..Manifest::default() })
            .collect();
        let manifest = manifests.iter_mut().find(|manifest| manifest.dir == from).expect("a listed crate");
        let table = if for_tests { &mut manifest.dev_dependencies } else { &mut manifest.dependencies };
        table.push(to.to_string());
        forbidden_edges(&manifests)
    }

    #[test]
    fn arrows_that_point_up_or_sideways_are_found() {
        for (from, to) in [
            ("schemas/keyspace", "services/shard-core"),
            ("schemas/records", "connectors/ports"),
            ("connectors/ports", "connectors/memory"),
            ("connectors/rocks", "connectors/memory"),
            ("connectors/memory", "services/shard-core"),
            ("services/shard-core", "connectors/ports"),
            ("services/oracle", "services/shard-core"),
            ("services/invariants", "services/shard-core"),
            ("services/node", "connectors/rocks"),
            ("services/node", "connectors/memory"),
            ("services/node", "services/router"),
            ("services/router", "services/cli"),
            ("services/cli", "tests/simulation"),
        ] {
            assert_eq!(check(from, to, false), [format!("{from} may not depend on {to}")]);
        }
    }

    #[test]
    fn arrows_that_point_down_are_fine() {
        for (from, to) in [
            ("schemas/records", "schemas/keyspace"),
            ("connectors/ports", "schemas/records"),
            ("connectors/rocks", "connectors/ports"),
            ("services/shard-core", "services/invariants"),
            ("services/node", "connectors/ports"),
            ("services/node", "services/shard-core"),
            ("services/cli", "connectors/rocks"),
            ("tests/simulation", "connectors/memory"),
        ] {
            assert_eq!(check(from, to, false), [""; 0]);
        }
    }

    #[test]
    fn memory_connectors_serve_the_tests_of_services_and_no_one_else() {
        assert_eq!(check("services/node", "connectors/memory", true), [""; 0]);
        assert_eq!(check("services/node", "connectors/rocks", true).len(), 1);
        assert_eq!(check("connectors/rocks", "connectors/memory", true).len(), 1);
    }

    #[test]
    fn a_pure_crate_uses_no_runtime_and_a_new_service_needs_a_layer() {
        assert_eq!(
            check("services/shard-core", "tokio", false),
            ["services/shard-core is pure and may not depend on tokio"]
        );
        assert_eq!(check("services/shard-core", "proptest", true), [""; 0]);
        let unknown = Manifest { dir: "services/new".into(), name: "new".into(), ..Manifest::default() };
        assert_eq!(forbidden_edges(&[unknown]).len(), 1);
    }
}
