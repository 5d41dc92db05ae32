//! Damage where a file begins, so that nothing before it tells what comes.

use super::*;
use crate::disk::Disk;
use crate::frames::Frames;

/// Some bytes of a write: all of its header and of its number, and others.
fn first_bytes_of(write: &Write) -> impl Iterator<Item = usize> {
    write.bytes.clone().take(19).chain(write.bytes.clone().skip(19).step_by(7))
}

#[test]
fn a_flipped_bit_in_the_first_write_of_the_first_log_file_is_refused() {
    // What follows tells in the first; in the others it is known how far was synced.
    let killed = [Killed::torn(), Killed::new(), Killed::weak(SYNCED)];
    for (what, killed) in ["not known", "synced at once", "synced later"].iter().zip(&killed) {
        let first = &killed.all[0];
        assert_eq!(first.bytes.start, 0);
        assert!(killed.all.len() > RECORDS, "{:?}", killed.all);
        for at in first_bytes_of(first) {
            damaged(killed.with(&flipped(killed, at)).path(), &format!("{what}, byte {at}"));
        }
    }
}

#[test]
fn a_flipped_bit_in_the_first_write_of_many_blocks_is_refused() {
    // Opened again, so that records come first in the file.
    let dir = tempfile::tempdir().unwrap();
    drop(Killed::topic(dir.path()));
    let log = EmbeddedLog::open(dir.path(), limits()).unwrap();
    (0..2).for_each(|_| {
        append(&log, value(LONG));
    });
    let mut killed = Killed::copy(dir.path(), 2);
    killed.others.remove("synced");
    let [first, second] = &killed.all[..] else { panic!("{:?}", killed.all) };
    assert!(first.bytes.start == 0 && first.bytes.len() > 2 * (32 << 10));
    for at in first.bytes.clone().take(30).chain(first.bytes.clone().step_by(1511)) {
        let dir = killed.with(&flipped(&killed, at));
        assert!(look(dir.path()).is_err(), "byte {at}, {second:?}");
    }
}

#[test]
fn the_only_write_of_a_file_is_refused_when_it_was_synced_and_cut_when_not() {
    for synced in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        drop(Killed::topic(dir.path()));
        let disk = Disk::open(dir.path(), 0).unwrap();
        let frames = Frames::encode(&[Record { value: Some(value(0)), ..Record::default() }], 1);
        disk.commit([(&partition(), Offset(0), &frames)].into_iter(), false).unwrap();
        if synced {
            disk.sync().unwrap();
        }
        let mut killed = Killed::copy(dir.path(), 1);
        assert_eq!(killed.all.len(), 1, "{:?}", killed.all);
        killed.others.insert(MARK.into(), Vec::new());
        for at in killed.all[0].bytes.clone() {
            let dir = killed.with(&flipped(&killed, at));
            match synced {
                true => damaged(dir.path(), &format!("byte {at}")),
                false => assert_eq!(values(&EmbeddedLog::open(dir.path(), limits()).unwrap()), [], "byte {at}"),
            }
        }
    }
}

#[test]
fn the_first_write_of_a_file_is_cut_when_it_was_not_synced_whatever_an_older_file_holds() {
    let dir = tempfile::tempdir().unwrap();
    let log = Killed::topic(dir.path());
    // As one that waits to be written over: what came after it lies in tables by now.
    let older = Killed::copy(dir.path(), 0);
    append(&log, value(0));
    drop(log);
    let disk = Disk::open(dir.path(), 0).unwrap();
    disk.sync().unwrap();
    let frames = Frames::encode(&[Record { value: Some(value(1)), ..Record::default() }], 1);
    disk.commit([(&partition(), Offset(1), &frames)].into_iter(), false).unwrap();
    let mut killed = Killed::copy(dir.path(), 1);
    assert!(synced_end::read(dir.path()).unwrap() >= older.all.last().unwrap().end());
    killed.others.extend([(older.name, older.bytes), (MARK.into(), Vec::new())]);
    for at in killed.all[0].bytes.clone().step_by(5) {
        opens_with(killed.with(&flipped(&killed, at)).path(), 1, at);
    }
}
