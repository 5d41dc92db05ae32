//! What can go wrong, and what the caller may do then.

use rehome_ports::{PortError, Remedy};
use rocksdb::ErrorKind;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a log does not open.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("{} is held by {}", dir.display(), holder_name(*holder))]
    Held { dir: PathBuf, holder: Option<u32> },
    #[error("cannot use {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "cannot open the log in {}: {source}; if it is damaged, bring back the whole folder from a copy of one moment, \
         then `rehome up`",
        dir.display()
    )]
    Rocks { dir: PathBuf, source: rocksdb::Error },
    #[error(
        "the log in {} is damaged: {reason}; nothing was changed: bring back the whole folder from a copy of one moment, \
         then `rehome up`",
        dir.display()
    )]
    Damaged { dir: PathBuf, reason: String },
}

impl From<OpenError> for PortError {
    fn from(error: OpenError) -> PortError {
        match error {
            OpenError::Held { .. } => PortError { remedy: Remedy::Fenced, message: error.to_string() },
            OpenError::Io { .. } | OpenError::Rocks { .. } | OpenError::Damaged { .. } => {
                PortError::broken(error.to_string())
            }
        }
    }
}

fn holder_name(holder: Option<u32>) -> String {
    holder.map_or_else(|| "a process that is just starting".to_string(), |pid| format!("process {pid}"))
}

/// Says what may be done after a read, or a change that was refused before it began.
pub fn port_error(doing: &str, error: &rocksdb::Error) -> PortError {
    let message = format!("{doing}: {error}");
    match error.kind() {
        ErrorKind::Busy
        | ErrorKind::TryAgain
        | ErrorKind::TimedOut
        | ErrorKind::Incomplete
        | ErrorKind::Aborted
        | ErrorKind::ShutdownInProgress => PortError::not_applied(message),
        // Somebody makes room, and it is asked for again.
        ErrorKind::IOError if message.contains("No space left on device") => PortError::not_applied(message),
        _ => PortError::broken(message),
    }
}
