//! Ends that a crash tore, and damage that is told by what lies behind it.

use super::*;

#[test]
fn a_log_cut_at_any_byte_of_its_last_two_records_opens_with_everything_before() {
    let killed = Killed::torn();
    let (from, to) = (killed.writes[RECORDS - 2].bytes.start, killed.writes[RECORDS - 1].bytes.end);
    for length in from..=to {
        let whole = killed.writes.iter().filter(|write| write.bytes.end <= length).count();
        let dir = killed.with(&killed.bytes[..length]);
        let cut = look(dir.path()).unwrap();
        let at = if whole == RECORDS { to } else { killed.writes[whole].bytes.start };
        // A checksum may begin with a zero, which alone looks like room that was made ahead: nothing is torn then.
        let is_torn = killed.bytes[at..length].iter().any(|byte| *byte != 0);
        assert_eq!(cut.map(|cut| (cut.at, cut.torn_bytes)), is_torn.then(|| (at, length - at)), "cut at {length}");
        opens_with(dir.path(), whole, length);
    }
}

#[test]
fn a_log_with_any_byte_of_its_last_record_altered_opens_with_everything_before() {
    let killed = Killed::torn();
    let last = killed.writes[RECORDS - 1].bytes.clone();
    for at in last.clone() {
        let mut bytes = killed.bytes.clone();
        bytes[at] ^= 0x5a;
        let dir = killed.with(&bytes);
        // A header of another type or file looks as what an earlier life of the file left behind the end.
        let told = !(6..11).contains(&(at - last.start));
        assert_eq!(look(dir.path()).unwrap().map(|cut| cut.at), told.then_some(last.start), "byte {at}");
        if told.then_some(at).is_none_or(|at| at.is_multiple_of(4)) {
            opens_with(dir.path(), RECORDS - 1, at);
        }
    }
}

#[test]
fn a_log_with_any_byte_altered_before_its_last_record_is_refused_and_nothing_is_changed() {
    let killed = Killed::torn();
    let long = killed.writes[LONG].bytes.clone();
    let short = killed.writes[RECORDS - 2].bytes.clone();
    for at in short.chain(long.step_by(1511)) {
        let mut bytes = killed.bytes.clone();
        bytes[at] ^= 0x5a;
        damaged(killed.with(&bytes).path(), &format!("byte {at}"));
    }
}

#[test]
fn a_log_that_acknowledged_before_it_synced_may_be_torn_before_its_last_record() {
    let killed = Killed::torn();
    let torn = killed.writes[RECORDS - 3].bytes.clone();
    for at in torn.step_by(9) {
        let mut bytes = killed.bytes.clone();
        bytes[at] ^= 0x5a;
        let dir = killed.with(&bytes);
        mark(dir.path(), true).unwrap();
        let cut = look(dir.path()).unwrap().unwrap();
        assert_eq!(cut.beyond_records, 2, "byte {at}");
        opens_with(dir.path(), RECORDS - 3, at);
        assert!(!is_marked(dir.path()), "whoever syncs first is never torn there");
    }
}

#[test]
fn a_file_that_is_written_over_ends_where_its_present_life_does() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), Limits { log_file_bytes: 1 << 20, ..limits() }).unwrap();
    log.ensure_topic(&partition().topic, 1).unwrap();
    (0..RECORDS).for_each(|number| assert_eq!(append(&log, value(number)), Offset(number as u64)));
    let (number, path) = log_files(dir.path()).unwrap().pop().unwrap();
    let bytes = std::fs::read(path).unwrap();
    let contents = wal::read(&bytes, number);
    assert!(contents.end() + 900_000 < bytes.len(), "the rest is of an earlier life");
    assert_eq!((contents.torn, contents.beyond), (None, Vec::new()));
    assert_eq!(look(dir.path()).unwrap(), None);
}

#[test]
fn a_folder_is_marked_until_a_log_that_acknowledges_early_ends_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let open = |fsync| EmbeddedLog::open_with(dir.path(), limits(), fsync).unwrap();
    let log: Arc<EmbeddedLog> = open(Fsync::Every(std::time::Duration::from_secs(3600)));
    assert!(is_marked(dir.path()));
    drop(log);
    assert!(!is_marked(dir.path()));
    drop(open(Fsync::Always));
    assert!(!is_marked(dir.path()));
}

#[test]
fn a_write_is_read_wherever_in_a_block_the_one_before_it_ends() {
    const BLOCK: usize = 32 << 10;
    let ends = |value: usize| {
        let dir = tempfile::tempdir().unwrap();
        let log = EmbeddedLog::open(dir.path(), limits()).unwrap();
        log.ensure_topic(&partition().topic, 1).unwrap();
        append(&log, vec![7; value]);
        append(&log, vec![8; 100]);
        assert_eq!(look(dir.path()).unwrap(), None, "{value} bytes");
        let (number, path) = log_files(dir.path()).unwrap().pop().unwrap();
        let writes = wal::read(&std::fs::read(path).unwrap(), number).writes;
        writes[writes.len() - 2].bytes.end
    };
    let around = BLOCK - 1000;
    let rest = around + BLOCK - ends(around);
    // Headers take 11 bytes: where just that is left, the next write begins with a piece that holds nothing.
    for left in 0..=24 {
        assert_eq!(ends(rest - left), BLOCK - left);
    }
}

/// Whole pieces of whole writes, for every file and about every sequence number that may come next.
fn forged() -> Vec<u8> {
    let piece = |number: u32, sequence: u64| {
        let mut body = vec![5];
        body.extend(number.to_le_bytes());
        body.extend(sequence.to_le_bytes());
        body.extend(1u32.to_le_bytes());
        let checksum = crc32c::crc32c(&body).rotate_right(15).wrapping_add(0xa282_ead8);
        [&checksum.to_le_bytes()[..], &12u16.to_le_bytes()[..], &body].concat()
    };
    (1..40).flat_map(|number| (1..30).map(move |sequence| (number, sequence))).flat_map(|(n, s)| piece(n, s)).collect()
}

#[test]
fn values_that_look_like_parts_of_a_log_are_taken_for_none() {
    let values = [vec![1; 40], forged(), forged()];
    let mut killed =
        Killed::of(values.iter().map(|v| Record { value: Some(v.clone()), ..Record::default() }).collect());
    killed.others.remove("synced");
    let [_, _, last] = &killed.writes[..] else { panic!("{:?}", killed.writes) };
    // The last write is torn in its middle, as what was not synced may be.
    for at in last.bytes.clone().skip(30).step_by(601) {
        let mut bytes = killed.bytes.clone();
        let end = last.bytes.end.min(at + 64);
        bytes[at..end].fill(0xee);
        let dir = killed.with(&bytes);
        let cut = look(dir.path()).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        assert_eq!(cut.map(|cut| (cut.at, cut.beyond_records)), Some((last.bytes.start, 0)), "byte {at}");
    }
    // An earlier life of the file left values behind the end of this one, cut anywhere.
    for skipped in 0..40 {
        let behind = [&killed.bytes[..last.bytes.end], &forged()[skipped..]].concat();
        // Where the next block begins, RocksDB has always written a header.
        let length = behind.len().min(last.bytes.end.next_multiple_of(32 << 10));
        assert_eq!(look(killed.with(&behind[..length]).path()).unwrap(), None, "{skipped} bytes skipped");
    }
}

#[test]
fn damage_is_told_whatever_the_records_behind_it_end_in() {
    let ending = |number: u8| {
        let sort = [&[number][..], &crate::disk::FILLING[..]].concat();
        Record { value: Some(vec![number; 200]), ..Record::default() }.with_header("rh-sort", sort)
    };
    let mut killed = Killed::of((0..4).map(ending).collect());
    killed.others.remove("synced");
    for write in &killed.writes[..3] {
        let mut bytes = killed.bytes.clone();
        bytes[write.bytes.start + 60] ^= 1;
        damaged(killed.with(&bytes).path(), &format!("{write:?}"));
    }
}
