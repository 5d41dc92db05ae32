//! The one binary, `rehome`: configuration, adapters, run.
fn main() {}
