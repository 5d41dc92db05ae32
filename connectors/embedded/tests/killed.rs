//! A log whose process is killed has everything that it acknowledged.

// In the helpers as in the tests themselves.
#![allow(clippy::unwrap_used)]

use rehome_embedded::{EmbeddedLog, Limits, OpenError};
use rehome_keyspace::Offset;
use rehome_ports::{Log, ReadLimits, Signal};
use rehome_records::TopicPartition;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ROUNDS: usize = 10;

/// The example lies beside the folder of this test.
fn example() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.ancestors().nth(2).expect("tests lie in deps").join("examples/appends")
}

fn start(dir: &Path) -> Child {
    let started = Command::new(example()).arg(dir).stdout(Stdio::piped()).spawn();
    started.expect("cargo builds the examples before it runs the tests")
}

#[test]
fn everything_acknowledged_survives_sigkill() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged: BTreeMap<u64, String> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut child = start(dir.path());
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        // Killed after a number of answers that differs each time, in the middle of what follows.
        for _ in 0..50 + 37 * round {
            let line = lines.next().expect("it appends until killed").unwrap();
            note(&mut acknowledged, &line);
        }
        if round == 0 {
            let refused = EmbeddedLog::open(dir.path(), Limits::default()).err().expect("it is held");
            assert!(matches!(refused, OpenError::Held { holder: Some(pid), .. } if pid == child.id()), "{refused}");
        }
        child.kill().expect("it is running");
        child.wait().expect("it was killed");
        // What it had printed before it died was acknowledged, too.
        lines.map_while(Result::ok).filter(|line| line.contains('-')).for_each(|line| note(&mut acknowledged, &line));
        check(dir.path(), &acknowledged);
    }
}

fn note(acknowledged: &mut BTreeMap<u64, String>, line: &str) {
    let (offset, text) = line.split_once(' ').expect("offset and text");
    let before = acknowledged.insert(offset.parse().unwrap(), text.to_string());
    assert_eq!(before, None, "offset {offset} was given twice");
}

fn check(dir: &Path, acknowledged: &BTreeMap<u64, String>) {
    let log = EmbeddedLog::open(dir, Limits::default()).expect("a killed log opens");
    let partition = TopicPartition::new("killed", 0);
    let mut tail = log.tail(&partition, Offset(0), Signal::new().waker()).unwrap();
    let batch = tail.poll(ReadLimits { records_max: usize::MAX, bytes_max: usize::MAX }).unwrap();
    let text = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap_or_default()).unwrap();
    let found: BTreeMap<u64, String> =
        batch.records.into_iter().map(|logged| (logged.offset.0, text(logged.record.value))).collect();
    for (offset, text) in acknowledged {
        assert_eq!(found.get(offset), Some(text), "offset {offset}");
    }
}
