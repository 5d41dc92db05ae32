//! The stores of one node, which share memory and threads.

use crate::errors::{not_read, not_written, rocks};
use crate::guard::Guard;
use crate::options::Shared;
use crate::store::RocksStore;
use rehome_keyspace::{KeyspaceId, ShardId};
use rehome_ports::{BeforeFlush, PortError, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How much memory the stores of a node take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of blocks, filters, indexes and write buffers: all of them are charged here.
    pub cache_bytes: usize,
    /// Bytes of write buffers, out of the above. Passing it flushes; it stalls nobody.
    pub write_buffers_bytes: usize,
    /// Bytes of one store's write buffer.
    pub write_buffer_bytes: usize,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { cache_bytes: 160 << 20, write_buffers_bytes: 80 << 20, write_buffer_bytes: 32 << 20 }
    }
}

/// The stores of one node, a folder each: `KEYSPACE-SHARD`.
pub struct RocksNode {
    dir: PathBuf,
    shared: Shared,
    memory: Memory,
    before_flush: Option<BeforeFlush>,
    /// Bytes in write buffers of guarded stores.
    unflushed_bytes: Arc<AtomicUsize>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    stores: BTreeMap<(KeyspaceId, ShardId), Weak<RocksStore>>,
    /// Keyspaces whose stores were removed: none is ever made again.
    removed: BTreeSet<KeyspaceId>,
}

impl RocksNode {
    /// Opens the folder, which is made if it does not exist.
    pub fn open(dir: &Path) -> Result<RocksNode, PortError> {
        RocksNode::with_memory(dir, Memory::default())
    }

    /// Opens the folder, with so much memory for all stores together.
    pub fn with_memory(dir: &Path, memory: Memory) -> Result<RocksNode, PortError> {
        RocksNode::make(dir, memory, None)
    }

    /// Opens the folder; its stores call that before anything in them becomes durable.
    pub fn guarded(dir: &Path, memory: Memory, before_flush: BeforeFlush) -> Result<RocksNode, PortError> {
        RocksNode::make(dir, memory, Some(before_flush))
    }

    fn make(dir: &Path, memory: Memory, before_flush: Option<BeforeFlush>) -> Result<RocksNode, PortError> {
        std::fs::create_dir_all(dir).map_err(|error| not_written(dir, &error))?;
        let shared =
            Shared::new(memory, before_flush.is_some()).map_err(|error| rocks("opening the stores", &error))?;
        let (unflushed_bytes, open) = (Arc::default(), Mutex::default());
        Ok(RocksNode { dir: dir.to_path_buf(), shared, memory, before_flush, unflushed_bytes, open })
    }

    /// Returns the store of that shard, opened or made. While it is open, everybody gets the same one.
    pub fn store(&self, keyspace: KeyspaceId, shard: ShardId) -> Result<Arc<dyn Store>, PortError> {
        self.stores(keyspace, &[shard]).pop().expect("there is an answer for each shard")
    }

    /// Returns the stores of those shards, as `store` does. Those that are to be opened are at the same time: making one
    /// takes a dozen syncs, and syncs that wait together end together.
    pub fn stores(&self, keyspace: KeyspaceId, shards: &[ShardId]) -> Vec<Result<Arc<dyn Store>, PortError>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.removed.contains(&keyspace) {
            let removed = || PortError::not_applied(format!("keyspace {keyspace} was removed"));
            return shards.iter().map(|_| Err(removed())).collect();
        }
        let stores_open = open.stores.len() + shards.len();
        let known = |shard: &ShardId| open.stores.get(&(keyspace, *shard)).and_then(Weak::upgrade);
        let stores: Vec<_> = std::thread::scope(|scope| {
            let opening = |shard: &ShardId| match known(shard) {
                Some(store) => Ok(store),
                None => Err(scope.spawn({
                    let shard = *shard;
                    move || self.open_store(keyspace, shard, stores_open)
                })),
            };
            let opening: Vec<_> = shards.iter().map(opening).collect();
            let opened = opening.into_iter().map(|one| match one {
                Ok(store) => Ok(store),
                Err(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            });
            opened.collect()
        });
        for (shard, store) in shards.iter().zip(&stores) {
            if let Ok(store) = store {
                open.stores.insert((keyspace, *shard), Arc::downgrade(store));
            }
        }
        stores.into_iter().map(|store| store.map(|store| store as Arc<dyn Store>)).collect()
    }

    fn open_store(&self, keyspace: KeyspaceId, shard: ShardId, stores: usize) -> Result<Arc<RocksStore>, PortError> {
        let write_buffer_bytes = self.shared.write_buffer_bytes(stores);
        let memory = Memory { write_buffer_bytes, ..self.memory };
        let guard = self.before_flush.clone().map(|call| Guard::new(call, memory, self.unflushed_bytes.clone()));
        let dir = self.dir.join(format!("{keyspace}-{shard}"));
        Ok(Arc::new(RocksStore::open(&dir, &self.shared.store(write_buffer_bytes), guard)?))
    }

    /// Removes every store of the keyspace; none is ever made again by this node. Nothing there is no error.
    ///
    /// Errors: `NotApplied` while one is open.
    pub fn remove(&self, keyspace: KeyspaceId) -> Result<(), PortError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (of, shard) in self.shards()?.into_iter().filter(|(of, _)| *of == keyspace) {
            if open.stores.get(&(of, shard)).is_some_and(|store| store.strong_count() > 0) {
                return Err(PortError::not_applied(format!("the store of shard {shard} is still open")));
            }
            let dir = self.dir.join(format!("{of}-{shard}"));
            std::fs::remove_dir_all(&dir).map_err(|error| not_written(&dir, &error))?;
        }
        open.stores.retain(|(of, _), _| *of != keyspace);
        open.removed.insert(keyspace);
        Ok(())
    }

    /// Waits until no store has work left to do in the background, so that its files stay as they are. It never
    /// returns while somebody keeps writing.
    pub fn settle(&self) -> Result<(), PortError> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let stores: Vec<_> = open.stores.values().filter_map(Weak::upgrade).collect();
        drop(open);
        stores.iter().try_for_each(|store| store.settle())
    }

    /// Returns the shards that have a store here, opened or not, in order.
    pub fn shards(&self) -> Result<Vec<(KeyspaceId, ShardId)>, PortError> {
        let mut shards = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(|error| not_read(&self.dir, &error))? {
            let name = entry.map_err(|error| not_read(&self.dir, &error))?.file_name();
            shards.extend(name.to_str().and_then(shard_of_folder));
        }
        shards.sort_unstable();
        Ok(shards)
    }
}

fn shard_of_folder(name: &str) -> Option<(KeyspaceId, ShardId)> {
    let (keyspace, shard) = name.split_once('-')?;
    Some((KeyspaceId(keyspace.parse().ok()?), ShardId(shard.parse().ok()?)))
}
