//! The SnapshotStore port over this node's snapshots and those of other nodes.
//!
//! A run of another node is fetched into a folder of its own, from where an earlier fetch stopped, and handed on only
//! when its length and checksum are those of the manifest.

use crate::pb;
use crate::peers::{client, connect};
use rehome_keyspace::NodeId;
use rehome_ports::{PortError, Run, SnapshotStore, SnapshotWriter, plain_name, run_checksum};
use rehome_records::{Manifest, RunInfo};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tonic::{Code, Status};

/// Longest time without a byte.
const SILENT_MAX: Duration = Duration::from_secs(10);

/// Tells which node took the snapshot of that name, and where it is reached; nothing when nobody knows.
pub type SnapshotPlace = Arc<dyn Fn(&str) -> Option<(NodeId, String)> + Send + Sync>;

/// This node's snapshots, and those of others. Calls block, and not on a thread of the runtime.
pub struct FetchedSnapshots {
    node: NodeId,
    own: Arc<dyn SnapshotStore>,
    dir: PathBuf,
    place: SnapshotPlace,
    runtime: Handle,
}

impl FetchedSnapshots {
    /// Keeps what it fetches in the folder, which is made if it does not exist. Keep it on the stores' file system.
    pub fn open(
        node: NodeId,
        own: Arc<dyn SnapshotStore>,
        dir: &Path,
        place: SnapshotPlace,
        runtime: Handle,
    ) -> Result<FetchedSnapshots, PortError> {
        std::fs::create_dir_all(dir).map_err(|error| at(dir, &error))?;
        Ok(FetchedSnapshots { node, own, dir: dir.to_path_buf(), place, runtime })
    }

    /// Returns where another node that took the snapshot is reached; nothing when it was this one.
    ///
    /// Errors: `NotApplied` when nobody is known to have taken it, yet.
    fn elsewhere(&self, name: &str) -> Result<Option<String>, PortError> {
        let place = (self.place)(name);
        let (node, address) =
            place.ok_or_else(|| PortError::not_applied(format!("it is not known yet who took snapshot {name}")))?;
        Ok((node != self.node).then_some(address))
    }

    fn fetch(&self, address: &str, name: &str, run: &RunInfo) -> Result<PathBuf, PortError> {
        let folder = self.dir.join(plain_name(name)?);
        std::fs::create_dir_all(&folder).map_err(|error| at(&folder, &error))?;
        let path = folder.join(plain_name(&run.name)?);
        let have = match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() <= run.bytes => metadata.len(),
            Ok(_) => {
                std::fs::remove_file(&path).map_err(|error| at(&path, &error))?;
                0
            }
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(at(&path, &error)),
        };
        if have < run.bytes {
            let mut file =
                OpenOptions::new().create(true).append(true).open(&path).map_err(|error| at(&path, &error))?;
            self.runtime.block_on(fetch_run(address, name, run, have, &mut file))?;
            file.sync_data().map_err(|error| at(&path, &error))?;
        }
        let found = run_checksum(&path).map_err(|error| at(&path, &error))?;
        if found == (run.checksum, run.bytes) {
            return Ok(path);
        }
        std::fs::remove_file(&path).map_err(|error| at(&path, &error))?;
        Err(PortError::broken(format!("run {} of {name} from {address} is not what its manifest says", run.name)))
    }
}

impl SnapshotStore for FetchedSnapshots {
    fn create(&self, name: &str) -> Result<Box<dyn SnapshotWriter>, PortError> {
        self.own.create(name)
    }

    fn manifest(&self, name: &str) -> Result<Option<Manifest>, PortError> {
        if let Some(own) = self.own.manifest(name)? {
            return Ok(Some(own));
        }
        match self.elsewhere(name)? {
            None => Ok(None),
            Some(address) => self.runtime.block_on(fetch_manifest(&address, name)),
        }
    }

    fn run(&self, name: &str, run: &RunInfo) -> Result<Run, PortError> {
        match self.elsewhere(name)? {
            None => self.own.run(name, run),
            Some(address) => Ok(Run::SortedFile(self.fetch(&address, name, run)?)),
        }
    }

    fn names(&self) -> Result<Vec<String>, PortError> {
        let mut names: BTreeSet<String> = self.own.names()?.into_iter().collect();
        for entry in std::fs::read_dir(&self.dir).map_err(|error| at(&self.dir, &error))? {
            let name = entry.map_err(|error| at(&self.dir, &error))?.file_name().into_string();
            names.extend(name.ok().filter(|name| plain_name(name).is_ok()));
        }
        Ok(names.into_iter().collect())
    }

    /// Removes what is here of it; the node that took it removes its own when the move needs it no more.
    fn remove(&self, name: &str) -> Result<(), PortError> {
        let folder = self.dir.join(plain_name(name)?);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(&folder, &error)),
            _ => {}
        }
        self.own.remove(name)
    }
}

async fn fetch_manifest(address: &str, name: &str) -> Result<Option<Manifest>, PortError> {
    let ask = async {
        let request = pb::ManifestRequest { name: name.to_owned() };
        client(connect(address).await?).get_manifest(request).await
    };
    match in_time(ask).await {
        Ok(reply) => {
            let manifest = Manifest::decode(&reply.into_inner().manifest);
            manifest.map(Some).map_err(|error| PortError::broken(format!("{name} of {address}: {error}")))
        }
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => Err(not_fetched(address, name, &status)),
    }
}

async fn fetch_run(address: &str, name: &str, run: &RunInfo, have: u64, file: &mut File) -> Result<(), PortError> {
    let request = pb::RunRequest { name: name.to_owned(), run: run.name.clone(), offset: have };
    let ask = async { client(connect(address).await?).get_run(request).await };
    let failed = |status: Status| not_fetched(address, name, &status);
    let mut chunks = in_time(ask).await.map_err(failed)?.into_inner();
    let mut left = run.bytes - have;
    while let Some(chunk) = in_time(chunks.message()).await.map_err(failed)? {
        left = left.checked_sub(chunk.bytes.len() as u64).ok_or_else(|| {
            PortError::broken(format!("run {} of {name} from {address} is longer than its manifest says", run.name))
        })?;
        file.write_all(&chunk.bytes).map_err(|error| PortError::not_applied(format!("{name}: {error}")))?;
    }
    if left > 0 {
        return Err(PortError::broken(format!("run {} of {name} from {address} lacks {left} bytes", run.name)));
    }
    Ok(())
}

async fn in_time<T>(ask: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    timeout(SILENT_MAX, ask).await.unwrap_or_else(|_| Err(Status::unavailable(format!("silent for {SILENT_MAX:?}"))))
}

fn not_fetched(address: &str, name: &str, status: &Status) -> PortError {
    let message = format!("snapshot {name} cannot be fetched from {address}: {}", status.message());
    match status.code() {
        Code::DataLoss | Code::NotFound | Code::Unimplemented => PortError::broken(message),
        _ => PortError::not_applied(message),
    }
}

fn at(path: &Path, error: &std::io::Error) -> PortError {
    PortError::not_applied(format!("{}: {error}", path.display()))
}
