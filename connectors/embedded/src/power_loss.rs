//! A log as a power loss leaves it at worst. For tests: what the operating system holds cannot be taken from it, but a
//! copy can be made that lacks it.

use crate::log::EmbeddedLog;
use crate::{tear, wal};
use std::io;
use std::path::Path;

impl EmbeddedLog {
    /// Copies the log into an empty folder, less everything in its write-ahead log that no sync has covered; `torn`
    /// bytes of what follows are kept, as a disk may. Requires that nobody appends meanwhile.
    pub fn copy_after_power_loss(&self, to: &Path, torn: usize) -> io::Result<()> {
        let synced = self.disk().synced_sequence();
        let dir = self.disk().path();
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_file() && path.extension().is_none_or(|extension| extension != "log") {
                std::fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
            }
        }
        for (number, path) in tear::log_files(&dir)? {
            let mut bytes = std::fs::read(&path)?;
            let contents = wal::read(&bytes, number);
            let kept = contents.writes.iter().take_while(|write| write.sequence <= synced).last();
            let kept = kept.map_or(0, |write| write.bytes.end);
            if contents.end() > kept {
                bytes.truncate((kept + torn).min(contents.end()));
            }
            std::fs::write(to.join(path.file_name().unwrap_or_default()), bytes)?;
        }
        Ok(())
    }
}
