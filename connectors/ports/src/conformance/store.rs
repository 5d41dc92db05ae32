//! The promises of the Store port.

use super::reading::assert_remedy;
use super::snapshots::{Entries, entries, take};
use crate::Remedy;
use crate::snapshots::SnapshotStore;
use crate::store::{BeforeFlush, Change, Reader, Store, WriteBatch};
use rehome_keyspace::KeyRange;
use rehome_records::RunInfo;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Opens the store that is tested.
pub trait StoreBed {
    /// Opens the store, the first time an empty one.
    fn open(&mut self) -> Arc<dyn Store>;

    /// Opens a store as `open`, which calls that before anything becomes durable. It holds a few MiB in memory at most.
    fn open_guarded(&mut self, before_flush: BeforeFlush) -> Arc<dyn Store>;

    /// Crashes, and opens what is left. What was opened before is not used any more.
    fn crash(&mut self) -> Arc<dyn Store>;

    /// Returns snapshots whose runs the store can take in.
    fn snapshots(&mut self) -> Arc<dyn SnapshotStore>;

    /// Alters some bytes of that run, leaving its length.
    fn alter(&mut self, name: &str, run: &RunInfo);
}

fn put(key: &str, value: &str) -> Change {
    Change::Put { key: key.into(), value: value.into() }
}

fn remove(key: &str) -> Change {
    Change::Remove { key: key.into() }
}

fn range(start: &str, end: &str) -> KeyRange {
    KeyRange::new(start.into(), Some(end.into()))
}

fn write(store: &dyn Store, batch: WriteBatch) {
    store.write(batch).expect("a batch is taken");
}

fn scan(reader: &dyn Reader, range: &KeyRange, reverse: bool) -> Entries {
    let mut found = Entries::new();
    let scanned = reader.scan(range, reverse, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    scanned.expect("a scan works");
    found
}

fn all(reader: &dyn Reader) -> Entries {
    scan(reader, &KeyRange::all(), false)
}

fn keys(reader: &dyn Reader, range: &KeyRange, reverse: bool) -> Vec<String> {
    let text = |(key, _): (Vec<u8>, _)| String::from_utf8(key).expect("keys here are text");
    scan(reader, range, reverse).into_iter().map(text).collect()
}

fn get(reader: &dyn Reader, key: &str) -> Option<String> {
    let value = reader.get(key.as_bytes()).expect("a read works");
    value.map(|value| String::from_utf8(value).expect("values here are text"))
}

pub fn a_batch_is_seen_whole_and_its_last_change_of_a_key_wins(bed: &mut dyn StoreBed) {
    let store = bed.open();
    write(&*store, vec![put("a", "1"), put("b", "1"), remove("b"), remove("a"), put("a", "2"), put("", "empty")]);
    assert_eq!(
        (get(&*store, "a"), get(&*store, "b"), get(&*store, "")),
        (Some("2".into()), None, Some("empty".into()))
    );
    write(&*store, Vec::new());
    write(&*store, vec![put("a", ""), remove("never there")]);
    assert_eq!(get(&*store, "a"), Some(String::new()), "an empty value is a value");
}

pub fn a_batch_survives_a_crash_whole_or_not_at_all(bed: &mut dyn StoreBed) {
    let store = bed.open();
    for number in 0..200 {
        let value = number.to_string();
        write(&*store, vec![put("first", &value), put("middle", &value), put("zlast", &value)]);
        if number == 100 {
            store.flush().expect("a flush works");
        }
    }
    let store = bed.crash();
    let first = get(&*store, "first").expect("it was flushed");
    assert_eq!((get(&*store, "middle"), get(&*store, "zlast")), (Some(first.clone()), Some(first)));
}

pub fn a_scan_visits_its_range_in_order_both_ways(bed: &mut dyn StoreBed) {
    let store = bed.open();
    write(&*store, ["c", "a", "b", "ab", "d", ""].map(|key| put(key, "v")).to_vec());
    store.flush().expect("a flush works");
    write(&*store, vec![put("bb", "v"), remove("d")]);
    let cases: [(KeyRange, &[&str]); 6] = [
        (KeyRange::all(), &["", "a", "ab", "b", "bb", "c"]),
        (range("a", "c"), &["a", "ab", "b", "bb"]),
        (range("aa", "bba"), &["ab", "b", "bb"]),
        (KeyRange::new("b".into(), None), &["b", "bb", "c"]),
        (range("d", "e"), &[]),
        (range("", "a"), &[""]),
    ];
    for (range, expected) in cases {
        assert_eq!(keys(&*store, &range, false), expected, "{range:?}");
        let backwards: Vec<_> = expected.iter().rev().copied().collect();
        assert_eq!(keys(&*store, &range, true), backwards, "{range:?} backwards");
        let looked = store.snapshot(&mut |reader| {
            assert_eq!(keys(reader, &range, false), expected, "{range:?} in a snapshot");
            assert_eq!(keys(reader, &range, true), backwards, "{range:?} in a snapshot, backwards");
            Ok(())
        });
        looked.expect("a snapshot works");
    }
}

pub fn a_scan_stops_when_its_visitor_breaks(bed: &mut dyn StoreBed) {
    let store = bed.open();
    write(&*store, ["a", "b", "c"].map(|key| put(key, "v")).to_vec());
    let mut visited = 0;
    let scanned = store.scan(&KeyRange::all(), false, &mut |_, _| {
        visited += 1;
        if visited == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((scanned, visited), (Ok(()), 2));
}

pub fn a_snapshot_shows_one_moment_whatever_happens_meanwhile(bed: &mut dyn StoreBed) {
    let store = bed.open();
    write(&*store, vec![put("a", "old"), put("b", "old")]);
    let before = all(&*store);
    let looked = store.snapshot(&mut |reader| {
        write(&*store, vec![put("a", "new"), remove("b"), put("c", "new")]);
        store.flush()?;
        assert_eq!((all(reader), get(reader, "b"), get(reader, "c")), (before.clone(), Some("old".into()), None));
        store.wipe(&[KeyRange::all()])?;
        assert_eq!((all(reader), get(reader, "a")), (before.clone(), Some("old".into())));
        Ok(())
    });
    looked.expect("a snapshot works");
    assert_eq!(all(&*store), []);
    let failed = store.snapshot(&mut |_| Err(crate::PortError::not_applied("the looker's own")));
    assert_remedy(failed, Remedy::NotApplied);
}

pub fn everything_flushed_survives_a_crash(bed: &mut dyn StoreBed) {
    let store = bed.open();
    write(&*store, vec![put("a", "1"), put("b", "1")]);
    store.flush().expect("a flush works");
    write(&*store, vec![remove("a"), put("c", "1")]);
    store.flush().expect("a flush works");
    store.flush().expect("a flush of nothing works");
    let store = bed.crash();
    assert_eq!(keys(&*store, &KeyRange::all(), false), ["b", "c"]);
}

pub fn a_crash_loses_nothing_but_the_newest_batches(bed: &mut dyn StoreBed) {
    let mut store = bed.open();
    let mut written = 0;
    for round in 0..10 {
        let flushed = written + round;
        for number in written..written + 2 * round + 1 {
            write(&*store, vec![put(&format!("{number:04}"), "v"), put("newest", &number.to_string())]);
            if number == flushed {
                store.flush().expect("a flush works");
            }
        }
        store = bed.crash();
        let newest: usize = get(&*store, "newest").expect("it was flushed").parse().expect("it is a number");
        assert!(newest >= flushed, "what was flushed is kept: {newest} >= {flushed}");
        let expected: Vec<_> = (0..=newest).map(|number| format!("{number:04}")).collect();
        assert_eq!(keys(&*store, &range("0", "9"), false), expected, "a prefix of the batches is kept");
        written = newest + 1;
    }
}

pub fn a_wipe_removes_its_ranges_and_nothing_else(bed: &mut dyn StoreBed) {
    let store = bed.open();
    write(&*store, ["a", "b", "c", "d", "e", "f"].map(|key| put(key, "old")).to_vec());
    store.flush().expect("a flush works");
    write(&*store, vec![put("c", "new"), put("ee", "new")]);
    store.wipe(&[range("b", "d"), range("dd", "de"), KeyRange::new("e".into(), None)]).expect("a wipe works");
    assert_eq!(keys(&*store, &KeyRange::all(), false), ["a", "d"]);
    let store = bed.crash();
    assert_eq!(keys(&*store, &KeyRange::all(), false), ["a", "d"], "a wipe is durable when it returns");
}

pub fn a_wipe_is_durable_also_where_unflushed_removals_came_first(bed: &mut dyn StoreBed) {
    let store = bed.open();
    write(&*store, vec![put("b", "old")]);
    store.flush().expect("a flush works");
    write(&*store, vec![remove("b")]);
    store.wipe(&[range("a", "c")]).expect("a wipe of what looks empty works");
    let store = bed.crash();
    assert_eq!(get(&*store, "b"), None);
}

pub fn an_ingest_takes_in_every_entry_durably(bed: &mut dyn StoreBed) {
    let (store, snapshots) = (bed.open(), bed.snapshots());
    let entries = entries(0..1000, "ingested");
    let manifest = take(&*snapshots, "s", &entries);
    store.ingest(&*snapshots, "s", &manifest).expect("an ingest works");
    assert_eq!(all(&*store), entries);
    assert_eq!(store.get(&entries[500].0), Ok(Some(entries[500].1.clone())));
    let store = bed.crash();
    assert_eq!(all(&*store), entries);
    let empty = take(&*snapshots, "empty", &Entries::new());
    store.ingest(&*snapshots, "empty", &empty).expect("an ingest of nothing works");
}

pub fn an_ingest_over_unflushed_neighbours_changes_none_of_them(bed: &mut dyn StoreBed) {
    let (store, snapshots) = (bed.open(), bed.snapshots());
    let mut expected = entries(0..1000, "ingested");
    // Another slot's row lies between the first and the last key of the runs.
    let neighbour = (b"key 000500 and more".to_vec(), b"neighbour".to_vec());
    write(&*store, vec![Change::Put { key: neighbour.0.clone(), value: neighbour.1.clone() }]);
    let manifest = take(&*snapshots, "s", &expected);
    store.ingest(&*snapshots, "s", &manifest).expect("an ingest works");
    expected.push(neighbour);
    expected.sort();
    assert_eq!(all(&*store), expected);
}

pub fn wiped_entries_do_not_come_back_after_an_ingest(bed: &mut dyn StoreBed) {
    let (store, snapshots) = (bed.open(), bed.snapshots());
    for (key, value) in entries(0..1000, "earlier copy") {
        write(&*store, vec![Change::Put { key, value }]);
    }
    write(&*store, vec![put("z outside", "stays")]);
    let manifest = take(&*snapshots, "s", &entries(100..200, "ingested"));
    store.wipe(&[range("key", "kez")]).expect("a wipe works");
    store.ingest(&*snapshots, "s", &manifest).expect("an ingest works");
    let mut expected = entries(100..200, "ingested");
    expected.push((b"z outside".to_vec(), b"stays".to_vec()));
    assert_eq!(all(&*store), expected);
    assert_eq!(all(&*bed.crash()), expected);
}

pub fn an_ingest_of_an_altered_run_is_broken(bed: &mut dyn StoreBed) {
    let (store, snapshots) = (bed.open(), bed.snapshots());
    let manifest = take(&*snapshots, "s", &entries(0..1000, "ingested"));
    bed.alter("s", manifest.runs.last().expect("there are runs"));
    assert_remedy(store.ingest(&*snapshots, "s", &manifest), Remedy::Broken);
    assert_eq!(all(&*store), [], "no run is taken in before every run was checked");
}

pub fn writes_after_an_ingest_win(bed: &mut dyn StoreBed) {
    let (store, snapshots) = (bed.open(), bed.snapshots());
    let taken = entries(0..3, "ingested");
    let manifest = take(&*snapshots, "s", &taken);
    store.ingest(&*snapshots, "s", &manifest).expect("an ingest works");
    let newer = Change::Put { key: taken[0].0.clone(), value: b"newer".to_vec() };
    write(&*store, vec![newer, Change::Remove { key: taken[1].0.clone() }]);
    let expected = vec![(taken[0].0.clone(), b"newer".to_vec()), taken[2].clone()];
    assert_eq!(all(&*store), expected);
    store.flush().expect("a flush works");
    assert_eq!(all(&*bed.crash()), expected);
}

/// Written together by the guarded tests. Several hundred pass what the store may hold in memory.
const GUARDED_BYTES: usize = 64 << 10;
const GUARDED_BATCHES: usize = 400;

fn write_guarded(store: &dyn Store, written: &AtomicUsize) -> Result<(), crate::PortError> {
    let number = written.load(Ordering::SeqCst);
    let value = vec![number as u8; GUARDED_BYTES];
    store.write(vec![Change::Put { key: format!("{number:06}").into_bytes(), value }])?;
    written.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

pub fn nothing_becomes_durable_before_what_guards_it_was_called(bed: &mut dyn StoreBed) {
    let (written, allowed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let before_flush: BeforeFlush = {
        let (written, allowed) = (Arc::clone(&written), Arc::clone(&allowed));
        Arc::new(move || {
            allowed.fetch_max(written.load(Ordering::SeqCst), Ordering::SeqCst);
            Ok(())
        })
    };
    for end in [
        (|_: &dyn Store| Ok(())) as fn(&dyn Store) -> Result<(), crate::PortError>,
        |store| store.flush(),
        |store| store.wipe(&[range("a", "b")]),
    ] {
        let store = bed.open_guarded(Arc::clone(&before_flush));
        for _ in 0..GUARDED_BATCHES {
            write_guarded(&*store, &written).expect("a batch is taken");
        }
        end(&*store).expect("it works");
        let store = bed.crash();
        let kept = keys(&*store, &range("0", "9"), false).len();
        let allowed = allowed.load(Ordering::SeqCst);
        assert!(kept <= allowed, "{kept} batches are durable, {allowed} may be");
        written.store(kept, Ordering::SeqCst);
    }
}

pub fn where_the_guard_fails_nothing_becomes_durable(bed: &mut dyn StoreBed) {
    let fails = Arc::new(AtomicBool::new(false));
    let before_flush: BeforeFlush = {
        let fails = Arc::clone(&fails);
        Arc::new(move || match fails.load(Ordering::SeqCst) {
            true => Err(crate::PortError::broken("the log has stopped")),
            false => Ok(()),
        })
    };
    let store = bed.open_guarded(before_flush);
    let written = AtomicUsize::new(0);
    write_guarded(&*store, &written).expect("a batch is taken");
    store.flush().expect("the guard lets it through");
    fails.store(true, Ordering::SeqCst);
    write_guarded(&*store, &written).expect("a batch is taken");
    assert_remedy(store.flush(), Remedy::Broken);
    assert_remedy(store.wipe(&[range("0", "9")]), Remedy::Broken);
    let store = bed.crash();
    assert_eq!(keys(&*store, &range("0", "9"), false), ["000000"]);
}
