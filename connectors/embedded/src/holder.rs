//! One process per folder.
//!
//! The lock is the kernel's, on the open file, and goes with the process: a file left behind by a dead one locks
//! nothing. The process id in the file is only there to be shown.

use crate::errors::OpenError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

const FILE: &str = "pid";

/// Holds the folder until dropped.
#[derive(Debug)]
pub struct Holder {
    _locked: File,
}

impl Holder {
    /// Takes the folder for this process.
    ///
    /// Errors: `Held`, with the process that holds it.
    pub fn take(dir: &Path) -> Result<Holder, OpenError> {
        let path = dir.join(FILE);
        let io = |source| OpenError::Io { path: path.clone(), source };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut written = String::new();
                file.read_to_string(&mut written).map_err(io)?;
                return Err(OpenError::Held { dir: dir.to_path_buf(), holder: written.trim().parse().ok() });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        file.set_len(0).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        file.write_all(format!("{}\n", std::process::id()).as_bytes()).map_err(io)?;
        Ok(Holder { _locked: file })
    }
}

/// Returns the process that holds the folder now; nothing if none does.
///
/// Errors: `Held` without a process when the one that holds it has just started.
pub fn holder(dir: &Path) -> Result<Option<u32>, OpenError> {
    let path = dir.join(FILE);
    let io = |source| OpenError::Io { path: path.clone(), source };
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(io(source)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let mut written = String::new();
            file.read_to_string(&mut written).map_err(io)?;
            let pid = written.trim().parse();
            pid.map(Some).map_err(|_| OpenError::Held { dir: dir.to_path_buf(), holder: None })
        }
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

/// Waits until nobody holds the folder any more; tells whether that came in time.
pub fn wait_until_free(dir: &Path, limit: Duration) -> Result<bool, OpenError> {
    let path = dir.join(FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(source) => return Err(OpenError::Io { path, source }),
    };
    // Taking the lock blocks without a limit. It is given back before anybody is told, so that they can take it.
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let locked = file.lock_shared();
        drop(file);
        tell.send(locked)
    });
    let Ok(locked) = told.recv_timeout(limit) else { return Ok(false) };
    locked.map(|()| true).map_err(|source| OpenError::Io { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_told_while_it_holds_and_a_wait_ends_when_it_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path()).unwrap(), None);
        let limit = Duration::from_secs(30);
        assert!(wait_until_free(dir.path(), limit).unwrap());
        let held = Holder::take(dir.path()).unwrap();
        assert_eq!(holder(dir.path()).unwrap(), Some(std::process::id()));
        assert!(!wait_until_free(dir.path(), Duration::from_millis(10)).unwrap(), "it is held");
        let (tell, told) = mpsc::channel();
        let waited = dir.path().to_owned();
        std::thread::spawn(move || tell.send(wait_until_free(&waited, limit)));
        assert!(told.try_recv().is_err(), "it is held");
        drop(held);
        assert!(told.recv().unwrap().unwrap());
        assert_eq!(holder(dir.path()).unwrap(), None);
        Holder::take(dir.path()).unwrap();
    }

    #[test]
    fn a_held_folder_is_refused_with_the_holders_process_id() {
        let dir = tempfile::tempdir().unwrap();
        let held = Holder::take(dir.path()).unwrap();
        let refused = Holder::take(dir.path()).unwrap_err();
        assert!(matches!(refused, OpenError::Held { holder: Some(pid), .. } if pid == std::process::id()), "{refused}");
        assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
        drop(held);
        Holder::take(dir.path()).unwrap();
    }

    #[test]
    fn a_file_left_by_a_dead_process_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        // Process 1 is always alive: a check of the written id alone would be fooled.
        std::fs::write(dir.path().join(FILE), "1\n").unwrap();
        let _held = Holder::take(dir.path()).unwrap();
        let written = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(written.trim(), std::process::id().to_string());
    }
}
