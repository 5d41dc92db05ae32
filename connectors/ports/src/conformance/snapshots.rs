//! The promises of the SnapshotStore port.

use super::reading::assert_remedy;
use crate::Remedy;
use crate::snapshots::{Run, SnapshotStore};
use rehome_keyspace::{KeyRange, KeyspaceId, MoveId, Offset, Selector, ShardId};
use rehome_records::{Digest, Manifest, RunInfo};
use std::sync::Arc;

/// Opens the snapshot store that is tested. It ends runs early enough for 1,000 entries of 100 bytes to fill several.
pub trait SnapshotBed {
    /// Opens the store, the first time an empty one, later the same one again.
    fn open(&mut self) -> Arc<dyn SnapshotStore>;

    /// Alters some bytes of that run, leaving its length.
    fn alter(&mut self, name: &str, run: &RunInfo);

    /// Takes the run away.
    fn lose(&mut self, name: &str, run: &RunInfo);
}

/// Entries in key order.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns entries with ascending keys.
pub fn entries(range: std::ops::Range<u32>, value: &str) -> Entries {
    let entry = |number: u32| (format!("key {number:06}").into_bytes(), format!("{value} {number:092}").into_bytes());
    range.map(entry).collect()
}

/// Writes the entries as a sealed snapshot.
pub fn take(store: &dyn SnapshotStore, name: &str, entries: &Entries) -> Manifest {
    let writer = store.create(name).expect("a snapshot can be started");
    let mut part = writer.part(0).expect("a part can be started");
    for (key, value) in entries {
        part.add(key, value).expect("ascending keys are taken");
    }
    let manifest = manifest(part.finish().expect("runs can be ended"));
    writer.seal(&manifest).expect("a snapshot can be sealed");
    manifest
}

/// Returns a manifest of those runs; what else it says does not matter here.
pub fn manifest(runs: Vec<RunInfo>) -> Manifest {
    Manifest {
        keyspace: KeyspaceId(7),
        source: ShardId(1),
        move_id: MoveId(3),
        copy: 1,
        selector: Selector::new(vec![KeyRange::all()]),
        position: Some(Offset(41)),
        digest: Digest::default(),
        states: Vec::new(),
        fences: Vec::new(),
        runs,
    }
}

pub fn a_snapshot_is_absent_until_its_manifest_is_sealed(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    assert_eq!(store.manifest("s"), Ok(None));
    let writer = store.create("s").expect("a snapshot can be started");
    assert_eq!(store.manifest("s"), Ok(None));
    let mut part = writer.part(0).expect("a part can be started");
    part.add(b"k", b"v").expect("a key is taken");
    part.finish().expect("runs can be ended");
    assert_eq!(store.manifest("s"), Ok(None));
    drop((writer, store));
    let store = bed.open();
    assert_eq!(store.manifest("s"), Ok(None), "a crash before the seal leaves no snapshot");
    let manifest = take(&*store, "s", &entries(0..1, "v"));
    assert_eq!(store.manifest("s"), Ok(Some(manifest)));
}

pub fn an_altered_run_is_broken(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    let manifest = take(&*store, "s", &entries(0..1000, "v"));
    let run = manifest.runs.last().expect("there are runs");
    assert!(store.run("s", run).is_ok());
    bed.alter("s", run);
    assert_remedy(store.run("s", run), Remedy::Broken);
    assert!(store.run("s", &manifest.runs[0]).is_ok(), "the others are as they were");
}

pub fn a_missing_run_is_broken(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    let manifest = take(&*store, "s", &entries(0..1000, "v"));
    bed.lose("s", &manifest.runs[1]);
    assert_remedy(store.run("s", &manifest.runs[1]), Remedy::Broken);
    assert_remedy(store.run("other", &manifest.runs[0]), Remedy::Broken);
}

pub fn runs_name_every_entry_in_order(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    let entries = entries(0..1000, "v");
    let manifest = take(&*store, "s", &entries);
    assert!(manifest.runs.len() > 1, "the bed ends runs early");
    assert_eq!(manifest.runs.iter().map(|run| run.entries).sum::<u64>(), 1000);
    assert!(manifest.runs.iter().all(|run| run.bytes > 0));
    let mut found = Entries::new();
    for run in &manifest.runs {
        match store.run("s", run).expect("the run is whole") {
            Run::Entries(more) => found.extend(more),
            // What lies in a file is for a store to read: its suite ingests.
            Run::SortedFile(path) => {
                assert_eq!(std::fs::metadata(path).expect("the file is there").len(), run.bytes);
            }
        }
    }
    assert!(found.is_empty() || found == entries);
}

pub fn parts_that_are_written_at_the_same_time_come_by_number(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    let writer = store.create("s").expect("a snapshot can be started");
    let writer_of_parts = &*writer;
    let write = |number: u32| {
        let mut part = writer_of_parts.part(number).expect("a part can be started");
        for (key, value) in entries(1000 * number..1000 * (number + 1), "v") {
            part.add(&key, &value).expect("ascending keys are taken");
        }
        part.finish().expect("runs can be ended")
    };
    let parts: Vec<Vec<RunInfo>> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..3).map(|number| scope.spawn(move || write(number))).collect();
        parts.into_iter().map(|part| part.join().expect("no panic")).collect()
    });
    assert!(parts.iter().all(|runs| runs.len() > 1), "the bed ends runs early");
    let backwards = parts.iter().rev().flatten().cloned().collect();
    assert!(store.create("t").expect("another can be started").seal(&manifest(backwards)).is_err());
    let manifest = manifest(parts.concat());
    writer.seal(&manifest).expect("a snapshot can be sealed");
    assert_eq!(manifest.runs.iter().map(|run| run.entries).sum::<u64>(), 3_000);
    assert!(manifest.runs.iter().all(|run| store.run("s", run).is_ok()));
}

pub fn a_snapshot_of_nothing_has_no_runs(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    let manifest = take(&*store, "s", &Entries::new());
    assert_eq!(manifest.runs, []);
    assert_eq!(store.manifest("s"), Ok(Some(manifest)));
}

pub fn keys_that_do_not_ascend_are_refused(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    let writer = store.create("s").expect("a snapshot can be started");
    let mut part = writer.part(0).expect("a part can be started");
    part.add(b"", b"v").expect("the empty key comes first");
    part.add(b"k", b"v").expect("a later key is taken");
    assert!(part.add(b"k", b"v").is_err());
    assert!(part.add(b"j", b"v").is_err());
}

pub fn a_manifest_that_names_other_runs_is_refused(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    let writer = store.create("s").expect("a snapshot can be started");
    let mut part = writer.part(0).expect("a part can be started");
    part.add(b"k", b"v").expect("a key is taken");
    let mut runs = part.finish().expect("runs can be ended");
    runs[0].checksum ^= 1;
    assert!(writer.seal(&manifest(runs)).is_err());
    assert_eq!(store.manifest("s"), Ok(None));
}

pub fn a_removed_snapshot_is_absent_and_removing_again_is_no_error(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    let manifest = take(&*store, "s", &entries(0..10, "v"));
    for _ in 0..2 {
        store.remove("s").expect("a snapshot can be removed");
        assert_eq!(store.manifest("s"), Ok(None));
        assert_remedy(store.run("s", &manifest.runs[0]), Remedy::Broken);
    }
    let unfinished = store.create("s").expect("a snapshot can be started");
    let mut part = unfinished.part(0).expect("a part can be started");
    part.add(b"k", b"v").expect("a key is taken");
    drop((part, unfinished));
    store.remove("s").expect("an unfinished snapshot can be removed");
}

pub fn creating_again_throws_away_what_was_there(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    let old = take(&*store, "s", &entries(0..1000, "old"));
    let writer = store.create("s").expect("a snapshot can be started again");
    assert_eq!(store.manifest("s"), Ok(None));
    drop(writer);
    let new = take(&*store, "s", &entries(0..10, "new"));
    assert_eq!(store.manifest("s"), Ok(Some(new.clone())));
    assert!(store.run("s", &new.runs[0]).is_ok());
    assert_remedy(store.run("s", &old.runs[0]), Remedy::Broken);
    assert_remedy(store.run("s", &old.runs[1]), Remedy::Broken);
}

pub fn names_tell_every_snapshot_whole_or_not(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    assert_eq!(store.names(), Ok(Vec::new()));
    take(&*store, "whole", &entries(0..10, "v"));
    let unfinished = store.create("begun").expect("a snapshot can be started");
    let mut part = unfinished.part(0).expect("a part can be started");
    part.add(b"k", b"v").expect("a key is taken");
    drop((part, unfinished, store));
    let store = bed.open();
    assert_eq!(store.names(), Ok(vec!["begun".to_owned(), "whole".to_owned()]));
    store.remove("begun").expect("a snapshot can be removed");
    assert_eq!(store.names(), Ok(vec!["whole".to_owned()]));
}

pub fn snapshots_of_different_names_do_not_mix(bed: &mut dyn SnapshotBed) {
    let store = bed.open();
    let a = take(&*store, "m1-c1", &entries(0..10, "a"));
    let b = take(&*store, "m1-c2", &entries(0..10, "b"));
    store.remove("m1-c1").expect("a snapshot can be removed");
    assert_ne!(a.runs, b.runs);
    assert_eq!(store.manifest("m1-c2"), Ok(Some(b)));
}

pub fn a_sealed_snapshot_is_there_after_opening_again(bed: &mut dyn SnapshotBed) {
    let manifest = take(&*bed.open(), "s", &entries(0..1000, "v"));
    let store = bed.open();
    assert_eq!(store.manifest("s"), Ok(Some(manifest.clone())));
    for run in &manifest.runs {
        assert!(store.run("s", run).is_ok());
    }
}
