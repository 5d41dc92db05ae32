//! Stores and snapshots on RocksDB keep the promises of their ports.

use rehome_keyspace::{KeyspaceId, ShardId};
use rehome_ports::conformance::snapshots::SnapshotBed;
use rehome_ports::conformance::store::StoreBed;
use rehome_ports::{BeforeFlush, SnapshotStore, Store};
use rehome_records::RunInfo;
use rehome_rocks::{Memory, RocksNode, SnapshotFolder};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const STORE: (KeyspaceId, ShardId) = (KeyspaceId(7), ShardId(1));

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

fn snapshots_in(dir: &Path) -> Arc<dyn SnapshotStore> {
    Arc::new(SnapshotFolder::open(&dir.join("snapshots")).expect("a folder opens").with_run_bytes(16 << 10))
}

fn alter(dir: &Path, name: &str, run: &RunInfo) {
    let path = dir.join("snapshots").join(name).join(&run.name);
    let mut bytes = std::fs::read(&path).expect("the run is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("the run can be written");
}

mod store {
    use super::*;

    /// What is open, and the folders of what was open before its crash.
    struct Bed {
        dirs: Vec<TempDir>,
        node: Option<RocksNode>,
    }

    impl Bed {
        fn new() -> Bed {
            Bed { dirs: vec![folder()], node: None }
        }

        fn dir(&self) -> &Path {
            self.dirs.last().expect("there is always one").path()
        }
    }

    impl StoreBed for Bed {
        fn open(&mut self) -> Arc<dyn Store> {
            let node = RocksNode::open(&self.dir().join("stores")).expect("a node opens");
            let store = node.store(STORE.0, STORE.1).expect("a store opens");
            self.node = Some(node);
            store
        }

        fn open_guarded(&mut self, before_flush: BeforeFlush) -> Arc<dyn Store> {
            let memory = Memory { write_buffers_bytes: 4 << 20, write_buffer_bytes: 2 << 20, ..Memory::default() };
            self.node = None;
            let node = RocksNode::guarded(&self.dir().join("stores"), memory, before_flush).expect("a node opens");
            let store = node.store(STORE.0, STORE.1).expect("a store opens");
            self.node = Some(node);
            store
        }

        /// Goes on with a copy of the files as they are: just what a killed process leaves. They must not change while
        /// they are copied: a kill stops everything at one moment, a copy takes longer.
        fn crash(&mut self) -> Arc<dyn Store> {
            self.node.take().expect("it was opened").settle().expect("the stores come to rest");
            let copy = folder();
            copy_folder(&self.dir().join("stores"), &copy.path().join("stores"));
            self.dirs.push(copy);
            self.open()
        }

        fn snapshots(&mut self) -> Arc<dyn SnapshotStore> {
            snapshots_in(self.dir())
        }

        fn alter(&mut self, name: &str, run: &RunInfo) {
            alter(self.dir(), name, run);
        }
    }

    fn copy_folder(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("a folder can be made");
        for entry in std::fs::read_dir(from).expect("a folder can be read") {
            let path = entry.expect("a folder can be read").path();
            let target = to.join(path.file_name().expect("an entry has a name"));
            match path.is_dir() {
                true => copy_folder(&path, &target),
                false => drop(std::fs::copy(&path, &target).expect("a file can be copied")),
            }
        }
    }

    rehome_ports::store_conformance!(Bed::new());
}

mod snapshots {
    use super::*;

    struct Bed(TempDir);

    impl SnapshotBed for Bed {
        fn open(&mut self) -> Arc<dyn SnapshotStore> {
            snapshots_in(self.0.path())
        }

        fn alter(&mut self, name: &str, run: &RunInfo) {
            alter(self.0.path(), name, run);
        }

        fn lose(&mut self, name: &str, run: &RunInfo) {
            let path = self.0.path().join("snapshots").join(name).join(&run.name);
            std::fs::remove_file(path).expect("the run is there");
        }
    }

    rehome_ports::snapshots_conformance!(Bed(folder()));
}
