//! What the caller may do after an error of RocksDB or of the file system.

use rehome_ports::PortError;
use rocksdb::ErrorKind;
use std::io;
use std::path::Path;

/// How the system says that a disk is full. RocksDB gives its text and no code.
const NO_SPACE: &str = "No space left on device";

/// How RocksDB says that a database is still open in this process.
const LOCKED_HERE: &str = "lock hold by current process";

/// Says what may be done after an operation that either happened whole or not at all.
pub fn rocks(doing: &str, error: &rocksdb::Error) -> PortError {
    let message = format!("{doing}: {error}");
    match error.kind() {
        // What was begun is not there, or is thrown away by the next try; there may be room by then.
        ErrorKind::IOError if message.contains(NO_SPACE) => PortError::not_applied(message),
        // This process is just closing it.
        ErrorKind::IOError if message.contains(LOCKED_HERE) => PortError::not_applied(message),
        ErrorKind::Busy
        | ErrorKind::TryAgain
        | ErrorKind::TimedOut
        | ErrorKind::Incomplete
        | ErrorKind::Aborted
        | ErrorKind::ShutdownInProgress => PortError::not_applied(message),
        _ => PortError::broken(message),
    }
}

/// Says what may be done when a file cannot be written: what it was for does not exist, so it can be tried again.
pub fn not_written(path: &Path, error: &io::Error) -> PortError {
    PortError::not_applied(format!("cannot write {}: {error}", path.display()))
}

/// Says what may be done when a file cannot be read.
pub fn not_read(path: &Path, error: &io::Error) -> PortError {
    PortError::broken(format!("cannot read {}: {error}", path.display()))
}
