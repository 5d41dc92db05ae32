//! Rules on the tree itself. Each is a pure function on text; `tests/tree.rs` runs them on this repository.
//!
//! - [`arrows`]: which crate may depend on which, and what a pure crate may use
//! - [`members`]: every crate is a member, listed one by one
//! - [`purity`]: what pure crates, and all crates but one, must not name
//! - [`sizes`]: lengths of files and functions
//! - [`habits`]: headers, ignored tests, sleeps, words that do not belong here
//! - [`docs`]: what the documents name exists
//! - [`manifest`], [`source`], [`tree`]: reading manifests, Rust text and the folder

pub mod arrows;
pub mod docs;
pub mod habits;
pub mod manifest;
pub mod members;
pub mod purity;
pub mod sizes;
pub mod source;
pub mod tree;
