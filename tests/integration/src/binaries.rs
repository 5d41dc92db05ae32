//! Which programs are tested. The lane builds them and names them.

use std::path::PathBuf;
use std::process::Command;

/// Returns the program as it is shipped, but for optimisation.
pub fn plain() -> PathBuf {
    named_by("REHOME_BIN")
}

/// Returns the program with its fail points compiled in.
pub fn with_fail_points() -> PathBuf {
    named_by("REHOME_BIN_FAILPOINTS")
}

/// Returns the name of every fail point, as the program lists them.
pub fn fail_points() -> Vec<String> {
    let listed = Command::new(with_fail_points()).arg("fail-points").output().expect("the program starts");
    assert!(listed.status.success(), "fail-points: {}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect()
}

fn named_by(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable);
    let path = path.unwrap_or_else(|| panic!("{variable} names no program; run: make test LANES=integration"));
    PathBuf::from(path)
}
