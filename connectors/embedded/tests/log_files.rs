//! Which write-ahead log files are on disk.

// In the helpers as in the tests themselves.
#![allow(clippy::unwrap_used)]

use rehome_embedded::{EmbeddedLog, Limits};
use rehome_ports::{Lane, Log};
use rehome_records::{Record, TopicPartition};
use std::path::Path;
use std::sync::mpsc::channel;

/// Bytes of the write-ahead log files that hold something.
fn log_files(dir: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.map(|path| path.metadata().unwrap().len()).filter(|bytes| *bytes > 0).collect()
}

/// A busy partition and an idle one share log files. If each were flushed by itself, files would pile up until the idle
/// one is flushed, and end at any length: then no full file is there to be written over, and syncs wait for the file
/// system's journal.
#[test]
fn log_files_end_full_and_do_not_pile_up_however_uneven_the_partitions_are() {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), Limits::default()).unwrap();
    log.ensure_topic("topic", 4).unwrap();
    let append = |partition: u32, records: usize| {
        let record = Record { value: Some(vec![7; 1 << 10]), ..Record::default() };
        let (told, answer) = channel();
        let done = Box::new(move |result| drop(told.send(result)));
        log.append(&TopicPartition::new("topic", partition), Lane::Data, vec![record; records], done);
        answer.recv().unwrap().unwrap();
    };
    let mut most = 0;
    for round in 0..160 {
        append(0, 512);
        append(1, if round % 2 == 0 { 100 } else { 1 });
        append(2, 1);
        most = most.max(log_files(dir.path()).len());
    }
    assert!(most <= 6, "{most} log files: 90 MiB were written, and each holds a tenth of that");
    let mut sizes = log_files(dir.path());
    sizes.sort_unstable();
    // The newest grows still; all others were written to their end.
    assert!(sizes.iter().skip(1).all(|bytes| *bytes > 8 << 20), "{sizes:?}");
}
