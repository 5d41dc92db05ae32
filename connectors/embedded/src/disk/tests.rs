//! The disk by itself.

use super::*;
use crate::families::Shares;
use crate::options::Limits;
use rehome_ports::Remedy;
use rehome_records::Record;
use rocksdb::{IteratorMode, WaitForCompactOptions};
use std::collections::BTreeMap;

#[test]
fn a_record_whose_bytes_were_altered_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    let partition = TopicPartition::new("topic", 0);
    let disk = Disk::open(dir.path(), 1 << 20).unwrap();
    disk.grow_topic("topic", 1).unwrap();
    let frames = Frames::encode(&[Record::default(), Record { value: Some(vec![7; 100]), ..Record::default() }], 1);
    disk.commit([(&partition, Offset(0), &frames)].into_iter(), true).unwrap();
    let limits = ReadLimits { records_max: 10, bytes_max: 1000 };
    assert_eq!(disk.read(&partition, Offset(0), Offset(2), limits).unwrap().records.len(), 2);
    let mut altered = frames.get(1).to_vec();
    altered[50] ^= 1;
    disk.db.put_cf(&disk.place(&partition).unwrap().1, 1u64.to_be_bytes(), altered).unwrap();
    let error = disk.read(&partition, Offset(0), Offset(2), limits).unwrap_err();
    assert_eq!((error.remedy, error.message.contains("topic/0@1")), (Remedy::Broken, true), "{error}");
    assert_eq!(disk.extent(&partition).unwrap_err().remedy, Remedy::Broken);
}

#[test]
fn a_trim_gives_back_whole_files_of_what_lies_below_and_the_end_stays() {
    let partition = TopicPartition::new("topic", 0);
    for (trimmed, left) in [(100, 101), (101, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), 1 << 20).unwrap();
        disk.grow_topic("topic", 1).unwrap();
        let frames = Frames::encode(&vec![Record::default(); 101], 5);
        disk.commit([(&partition, Offset(0), &frames)].into_iter(), true).unwrap();
        disk.flush().unwrap();
        // Files are given back below the first level only.
        disk.db.compact_range_cf(&disk.place(&partition).unwrap().1, None::<[u8; 8]>, None::<[u8; 8]>);
        let extent = Extent { start: Offset(trimmed), end: Offset(101), last_append_time_ms: 5 };
        disk.trim(&partition, extent).unwrap();
        let handle = disk.place(&partition).unwrap().1;
        let kept = disk.db.iterator_cf(&handle, IteratorMode::Start).count();
        assert_eq!(kept, left, "the only file holds offset 100, so it stays while that is kept");
        drop(handle);
        drop(disk);
        assert_eq!(Disk::open(dir.path(), 1 << 20).unwrap().extent(&partition).unwrap(), extent);
    }
}

#[test]
fn partitions_that_share_a_family_are_read_trimmed_and_removed_apart() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path(), 1 << 20).unwrap();
    disk.grow_topic("topic", 100).unwrap();
    disk.grow_topic("kept", 40).unwrap();
    let name = |number| TopicPartition::new("topic", number);
    let frames = |count: u32| Frames::encode(&vec![Record::default(); count as usize], 5);
    // Neighbours in one family, the first and the last of it, and one with a family of its own.
    let counts = [(31, 4), (32, 1), (50, 9), (51, 2), (99, 6)];
    for (number, count) in counts {
        disk.commit([(&name(number), Offset(0), &frames(count))].into_iter(), true).unwrap();
    }
    disk.commit([(&TopicPartition::new("kept", 39), Offset(0), &frames(3))].into_iter(), true).unwrap();
    let trimmed = Extent { start: Offset(7), end: Offset(9), last_append_time_ms: 5 };
    disk.trim(&name(50), trimmed).unwrap();
    disk.reserve([(&name(51), Offset(70))].into_iter()).unwrap();
    let look = |disk: &Disk| {
        let ends = counts.map(|(number, _)| disk.extent(&name(number)).unwrap().end.0);
        assert_eq!(ends, [4, 1, 9, 70, 6]);
        assert_eq!(disk.extent(&name(50)).unwrap(), trimmed);
        assert_eq!(disk.extent(&name(49)).unwrap(), Extent::default());
        let limits = ReadLimits { records_max: 100, bytes_max: 1 << 20 };
        let read = |number, from, end| {
            let batch = disk.read(&name(number), Offset(from), Offset(end), limits).unwrap();
            batch.records.iter().map(|logged| logged.offset.0).collect::<Vec<_>>()
        };
        assert_eq!(read(50, 0, 9), [7, 8], "what was trimmed is gone");
        assert_eq!((read(31, 0, 4), read(32, 0, 1)), (vec![0, 1, 2, 3], vec![0]));
        assert_eq!((read(51, 1, 70), read(99, 4, 6)), (vec![1], vec![4, 5]));
    };
    look(&disk);
    disk.flush().unwrap();
    look(&disk);
    drop(disk);
    let disk = Disk::open(dir.path(), 1 << 20).unwrap();
    assert_eq!(disk.topics(), BTreeMap::from([("kept".into(), 40), ("topic".into(), 100)]));
    disk.drop_strays().unwrap();
    look(&disk);
    disk.remove_topic("topic").unwrap();
    let left = |disk: &Disk| disk.topics().into_keys().collect::<Vec<_>>();
    assert_eq!((left(&disk), disk.families.all().len()), (vec!["kept".to_owned()], 33));
    disk.grow_topic("topic", 100).unwrap();
    assert!([31, 32, 51].iter().all(|number| disk.extent(&name(*number)).unwrap() == Extent::default()));
    drop(disk);
    let disk = Disk::open(dir.path(), 1 << 20).unwrap();
    assert_eq!(disk.extent(&TopicPartition::new("kept", 39)).unwrap().end, Offset(3));
}

#[test]
fn families_that_belong_to_no_topic_are_dropped_at_a_start_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path(), 1 << 20).unwrap();
    disk.grow_topic("topic", 40).unwrap();
    for stray in ["topic/32", "gone/0", "gone/others"] {
        disk.db.create_cf(stray, &options::partition(&disk.cache)).unwrap();
    }
    drop(disk);
    let disk = Disk::open(dir.path(), 1 << 20).unwrap();
    disk.drop_strays().unwrap();
    drop(disk);
    let mut left = DB::list_cf(&options::database(), dir.path()).unwrap();
    left.sort();
    let mut expected =
        [vec!["default".to_owned()], Shares::decode(&[0, 0, 0, 40, 0, 0, 0, 32]).unwrap().families("topic").collect()]
            .concat();
    expected.sort();
    assert_eq!(left, expected);
}

/// Bytes of the write-ahead log files that hold something.
fn log_files(dir: &Path) -> Vec<u64> {
    let files = tear::log_files(dir).unwrap().into_iter();
    files.map(|(_, path)| path.metadata().unwrap().len()).filter(|bytes| *bytes > 0).collect()
}

/// A busy partition and an idle one share log files. If each were flushed by itself, files would pile up until the idle
/// one is flushed, and end at any length: then no full file is there to be written over, and syncs wait for the file
/// system's journal.
#[test]
fn log_files_end_full_and_do_not_pile_up_however_uneven_the_partitions_are() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path(), Limits::default().log_file_bytes).unwrap();
    disk.grow_topic("topic", 4).unwrap();
    let mut ends = [0; 3];
    let mut append = |number: u32, records: usize| {
        let record = Record { value: Some(vec![7; 1 << 10]), ..Record::default() };
        let frames = Frames::encode(&vec![record; records], 5);
        let end = &mut ends[number as usize];
        disk.commit([(&TopicPartition::new("topic", number), Offset(*end), &frames)].into_iter(), true).unwrap();
        *end += records as u64;
    };
    let mut most = 0;
    for round in 0..160 {
        append(0, 512);
        append(1, if round % 2 == 0 { 100 } else { 1 });
        append(2, 1);
        // Whatever is being flushed, is: what then lies there does not depend on who was faster.
        disk.db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        most = most.max(log_files(dir.path()).len());
    }
    assert!(most <= 4, "{most} log files: 90 MiB were written, and each holds a tenth of that");
    let mut sizes = log_files(dir.path());
    sizes.sort_unstable();
    // The newest grows still; all others were written to their end.
    assert!(sizes.iter().skip(1).all(|bytes| *bytes > 8 << 20), "{sizes:?}");
}
