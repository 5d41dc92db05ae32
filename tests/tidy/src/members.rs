//! Every crate is a member of the workspace, listed one by one.

use toml::{Table, Value};

/// Returns the members that the root manifest lists.
pub fn listed(root: &str) -> Result<Vec<String>, toml::de::Error> {
    let table: Table = toml::from_str(root)?;
    let members = table.get("workspace").and_then(|workspace| workspace.get("members")).and_then(Value::as_array);
    Ok(members.into_iter().flatten().filter_map(Value::as_str).map(str::to_string).collect())
}

/// Returns what is wrong with the list, given the folders that have a manifest.
pub fn wrong_members(listed: &[String], folders: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, member) in listed.iter().enumerate() {
        if member.contains('*') {
            found.push(format!("member {member:?} stands for several crates: list them one by one"));
        } else if !folders.contains(member) {
            found.push(format!("member {member:?} has no Cargo.toml"));
        }
        if listed[..at].contains(member) {
            found.push(format!("member {member:?} is listed twice"));
        }
    }
    let missing = folders.iter().filter(|folder| !listed.contains(folder));
    found.extend(missing.map(|folder| format!("{folder:?} is a crate but no member")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_strangers_doubles_and_forgotten_crates_are_found() {
        let listed = listed("[workspace]\nmembers = ['services/*', 'gone', 'a', 'a']").expect("it parses");
        let found = wrong_members(&listed, &["a".to_string(), "forgotten".to_string()]);
        assert_eq!(
            found,
            [
                "member \"services/*\" stands for several crates: list them one by one",
                "member \"gone\" has no Cargo.toml",
                "member \"a\" is listed twice",
                "\"forgotten\" is a crate but no member",
            ]
        );
        assert_eq!(wrong_members(&["a".to_string()], &["a".to_string()]), [""; 0]);
    }
}
