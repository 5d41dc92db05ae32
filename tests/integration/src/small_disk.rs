//! A file system of its own with a given size, so that a test can fill it.

use anyhow::{Context, ensure};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A mounted file system in memory; unmounted when dropped.
pub struct SmallDisk {
    mounted_at: TempDir,
}

/// A file that takes room until it is removed.
pub struct Ballast {
    path: PathBuf,
}

impl SmallDisk {
    /// Errors: this process may not mount; the test that needs it cannot run.
    pub fn mount(mib: u64) -> anyhow::Result<SmallDisk> {
        let mounted_at = tempfile::Builder::new().prefix("rehome-small-disk-").tempdir()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]).arg(mounted_at.path());
        let done = mount.output().context("there is no `mount`")?;
        ensure!(
            done.status.success(),
            "a test that fills a disk mounts one of its own: run it as root, in a container with --cap-add SYS_ADMIN; mount: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        Ok(SmallDisk { mounted_at })
    }

    pub fn path(&self) -> &Path {
        self.mounted_at.path()
    }

    /// Takes room until only so much is left.
    pub fn fill(&self, left_bytes: u64) -> anyhow::Result<Ballast> {
        let path = self.path().join("ballast");
        let mut file = File::create(&path)?;
        let chunk = vec![7; 64 << 10];
        while self.free_bytes()? > left_bytes {
            match file.write_all(&chunk) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error).context("cannot fill the disk"),
            }
        }
        Ok(Ballast { path })
    }

    pub fn free_bytes(&self) -> anyhow::Result<u64> {
        let room = rustix::fs::statvfs(self.path()).context("statvfs")?;
        Ok(room.f_bavail * room.f_frsize)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whatever still has a file open there keeps it until it ends.
        let _ = Command::new("umount").arg("-l").arg(self.mounted_at.path()).status();
    }
}

impl Ballast {
    /// Gives the room back.
    pub fn remove(self) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(self.path)?)
    }
}
