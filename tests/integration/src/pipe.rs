//! Holds a thread of the process at a fail point, by a named pipe that the thread reads.

use anyhow::{Context, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

/// A named pipe that nobody writes yet.
pub struct Pipe {
    path: PathBuf,
}

/// A thread of the process that stands still until this is dropped.
pub struct Held {
    _open: File,
}

impl Pipe {
    pub fn make(path: PathBuf) -> anyhow::Result<Pipe> {
        let made = Command::new("mkfifo").arg(&path).status().context("mkfifo")?;
        ensure!(made.success(), "mkfifo {}: {made}", path.display());
        Ok(Pipe { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the process stands at its point.
    pub fn wait_held(&self, limit: Duration) -> anyhow::Result<Held> {
        let (tell, told) = mpsc::channel();
        let path = self.path.clone();
        // Opening for writing ends when somebody reads. If nobody ever does, this thread ends with the test.
        std::thread::spawn(move || tell.send(File::options().write(true).open(path)));
        let open = told.recv_timeout(limit).context("the point was never reached")?;
        Ok(Held { _open: open.context("cannot open the pipe")? })
    }
}
