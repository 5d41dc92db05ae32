//! Every port error answers one question: what may the caller do now?

use thiserror::Error;

/// What the caller may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// It certainly did not happen: retry freely.
    NotApplied,
    /// It may have happened: retry only what is idempotent.
    Unknown,
    /// Somebody newer has taken over: refresh.
    Fenced,
    /// Stop; a human must look.
    Broken,
}

/// An error of a port, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct PortError {
    pub remedy: Remedy,
    pub message: String,
}

impl PortError {
    pub fn not_applied(message: impl Into<String>) -> PortError {
        PortError { remedy: Remedy::NotApplied, message: message.into() }
    }

    pub fn unknown(message: impl Into<String>) -> PortError {
        PortError { remedy: Remedy::Unknown, message: message.into() }
    }

    pub fn broken(message: impl Into<String>) -> PortError {
        PortError { remedy: Remedy::Broken, message: message.into() }
    }
}
