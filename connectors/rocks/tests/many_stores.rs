//! Stores of one node share memory and threads, and do not hold each other up.

// In the helpers as in the tests themselves.
#![allow(clippy::unwrap_used)]

use rehome_keyspace::{KeyspaceId, ShardId};
use rehome_ports::{Change, Store};
use rehome_rocks::{Memory, RocksNode};
use std::path::Path;
use std::sync::Arc;

const KEYSPACE: KeyspaceId = KeyspaceId(7);

fn put(store: &dyn Store, key: u32) {
    store.write(vec![Change::Put { key: key.to_be_bytes().to_vec(), value: vec![1; 20] }]).unwrap();
}

fn tables(dir: &Path, shard: u32) -> usize {
    let entries = std::fs::read_dir(dir.join(format!("{KEYSPACE}-{shard}"))).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).count()
}

/// Each write buffer begins with blocks and a filter. Those of idle stores must not count as if they were full.
#[test]
fn many_idle_stores_make_nobody_flush() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory { write_buffers_bytes: 8 << 20, write_buffer_bytes: 4 << 20, ..Memory::default() };
    let node = RocksNode::with_memory(dir.path(), memory).unwrap();
    let shards: Vec<ShardId> = (0..200).map(ShardId).collect();
    let few = |shards: &[ShardId]| node.stores(KEYSPACE, shards).into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let stores: Vec<Arc<dyn Store>> = shards.chunks(4).flat_map(few).collect();
    stores.iter().for_each(|store| put(&**store, 0));
    (1..500).for_each(|key| put(&*stores[199], key));
    node.settle().unwrap();
    assert_eq!((0..200).map(|shard| tables(dir.path(), shard)).sum::<usize>(), 0, "a few KiB were written");
}

#[test]
fn a_store_that_is_closed_has_made_nothing_durable_that_was_not() {
    let dir = tempfile::tempdir().unwrap();
    let node = RocksNode::open(dir.path()).unwrap();
    let store = node.store(KEYSPACE, ShardId(0)).unwrap();
    put(&*store, 1);
    store.flush().unwrap();
    put(&*store, 2);
    drop(store);
    let store = node.store(KEYSPACE, ShardId(0)).unwrap();
    let there = |key: u32| store.get(&key.to_be_bytes()).unwrap().is_some();
    assert_eq!((there(1), there(2)), (true, false), "the log has the rest");
}

#[test]
fn stores_opened_together_are_the_same_ones_that_are_opened_alone() {
    let dir = tempfile::tempdir().unwrap();
    let node = RocksNode::open(dir.path()).unwrap();
    let alone = node.store(KEYSPACE, ShardId(1)).unwrap();
    let together: Vec<_> = node.stores(KEYSPACE, &[0, 1, 2].map(ShardId)).into_iter().map(Result::unwrap).collect();
    put(&*together[1], 5);
    assert!(alone.get(&5u32.to_be_bytes()).unwrap().is_some());
    assert!(together[0].get(&5u32.to_be_bytes()).unwrap().is_none());
    assert_eq!(node.shards().unwrap(), [0, 1, 2].map(|shard| (KEYSPACE, ShardId(shard))));
    drop((alone, together));
    node.remove(KEYSPACE).unwrap();
    assert!(node.stores(KEYSPACE, &[ShardId(0), ShardId(1)]).iter().all(Result::is_err), "it was removed");
}
