//! What a crash leaves of the store in memory.

// In the helpers as in the tests themselves.
#![allow(clippy::unwrap_used)]

use rand::SeedableRng;
use rand::rngs::StdRng;
use rehome_keyspace::KeyRange;
use rehome_memory::{MemorySnapshots, MemoryStore};
use rehome_ports::conformance::snapshots::{entries, take};
use rehome_ports::{Change, Reader, Remedy, Store};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

fn count(store: &MemoryStore) -> usize {
    let mut count = 0;
    let scanned = store.scan(&KeyRange::all(), false, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    });
    scanned.unwrap();
    count
}

fn put(store: &MemoryStore, number: u32) {
    store.write(vec![Change::Put { key: number.to_be_bytes().to_vec(), value: b"v".to_vec() }]).unwrap();
}

#[test]
fn crashes_lose_any_number_of_unflushed_batches_and_none_that_were_flushed() {
    let mut chance = StdRng::seed_from_u64(1);
    let mut left = BTreeSet::new();
    for _ in 0..100 {
        let store = MemoryStore::new();
        (0..3).for_each(|number| put(&store, number));
        store.flush().unwrap();
        (3..7).for_each(|number| put(&store, number));
        assert_eq!((store.unflushed(), count(&store)), (4, 7));
        store.crash(&mut chance);
        assert_eq!(store.unflushed(), 0);
        left.insert(count(&store));
    }
    assert_eq!(left, BTreeSet::from([3, 4, 5, 6, 7]));
}

#[test]
fn a_wipe_or_an_ingest_cut_short_is_done_in_part_and_says_unknown() {
    let (store, snapshots) = (MemoryStore::new(), MemorySnapshots::new());
    let manifest = take(&*snapshots, "s", &entries(0..100, "v"));
    store.cut_short_next(30);
    assert_eq!(store.ingest(&*snapshots, "s", &manifest).unwrap_err().remedy, Remedy::Unknown);
    store.crash(&mut StdRng::seed_from_u64(1));
    assert_eq!(count(&store), 30);
    store.cut_short_next(10);
    assert_eq!(store.wipe(&[KeyRange::all()]).unwrap_err().remedy, Remedy::Unknown);
    assert_eq!(count(&store), 20);
    store.wipe(&[KeyRange::all()]).unwrap();
    store.ingest(&*snapshots, "s", &manifest).unwrap();
    assert_eq!(count(&store), 100);
}
