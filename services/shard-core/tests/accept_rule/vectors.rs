//! The published test vectors of the accept rule: `schemas/vectors/accept-rule.json`.
//!
//! They are made here, by the shard core, and compared with the file; `REHOME_BLESS=1` writes it. Then a reader that
//! shares nothing with this code, `schemas/vectors/judge.py`, judges every record of the file by the documented rule.

use crate::traces::Trace;
use crate::world::{forged_nonce, from_source, only_if, with_request};
use rehome_keyspace::{Epoch, Offset, Version};
use rehome_records::{Condition, Mark, Operation, Record, RowChange};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/vectors")
}

fn put(trace: &mut Trace, shard: u32, key: usize, epoch: u64, value: &str) -> Offset {
    let write = trace.world.put(key, epoch, value);
    trace.write(shard, write)
}

fn delete(trace: &mut Trace, shard: u32, key: usize, epoch: u64) -> Offset {
    let write = trace.world.change(key, epoch, None);
    trace.write(shard, write)
}

fn epochs() -> Value {
    let mut trace = Trace::new(2);
    for epoch in [0, 1, 2, 9] {
        put(&mut trace, 0, 0, epoch, "v");
    }
    put(&mut trace, 1, 0, 1, "misrouted");
    put(&mut trace, 1, 3, 2, "of the other shard");
    delete(&mut trace, 0, 0, 1);
    trace.published("epochs", "A write is accepted under the epoch that is current for its slot in that partition.")
}

fn requests() -> Value {
    let mut trace = Trace::new(2);
    let first = with_request(trace.world.put(0, 1, "a"), 1);
    let stale = with_request(trace.world.put(0, 9, "c"), 2);
    let other = with_request(trace.world.put(0, 1, "b"), 1);
    let elsewhere = with_request(trace.world.put(1, 1, "b"), 1);
    let renewed = with_request(trace.world.put(0, 1, "c"), 2);
    for write in [first.clone(), stale, first, other, elsewhere, renewed] {
        trace.write(0, write);
    }
    trace.published(
        "requests",
        "The epoch is judged first: a stale verdict is not remembered. The same request again gets its first answer; the \
         same id with other content is a conflict. An id is unique within its partition key.",
    )
}

fn sources() -> Value {
    let mut trace = Trace::new(2);
    for (key, epoch, position, value) in [
        (0, 1, 5, "a"),
        (0, 1, 5, "a"),
        (0, 1, 4, "late"),
        (1, 1, 4, "another key"),
        (0, 9, 6, "stale"),
        (0, 1, 6, "b"),
    ] {
        let write = from_source(trace.world.put(key, epoch, value), position);
        trace.write(0, write);
    }
    trace.moved(0, 1, &[0]);
    for (position, value) in [(6, "again"), (7, "c")] {
        let write = from_source(trace.world.put(0, 3, value), position);
        trace.write(1, write);
    }
    trace.published(
        "sources",
        "Of an ordered source a partition key takes only positions above the highest accepted one, also after a move.",
    )
}

fn conditions() -> Value {
    let mut trace = Trace::new(2);
    let world = &trace.world;
    let writes = [
        only_if(world.put(0, 1, "no row yet"), Condition::Present),
        with_request(only_if(world.put(0, 1, "new"), Condition::Absent), 1),
        with_request(only_if(world.put(0, 1, "new"), Condition::Absent), 1),
        with_request(only_if(world.put(0, 1, "late"), Condition::Absent), 2),
        only_if(world.put(0, 1, "next"), Condition::VersionIs(Version { epoch: Epoch(1), offset: Offset(3) })),
        world.change(0, 1, None),
        only_if(world.put(0, 1, "born again"), Condition::Absent),
        with_request(only_if(world.put(0, 1, "late"), Condition::Absent), 2),
    ];
    for write in writes {
        trace.write(0, write);
    }
    trace.published("conditions", "A condition is about the live row; its failure is an answer and is remembered.")
}

fn batches() -> Value {
    let mut trace = Trace::new(2);
    let row = |sort: &str, value: Option<&str>| RowChange {
        sort_key: sort.as_bytes().to_vec(),
        value: value.map(|value| value.as_bytes().to_vec()),
    };
    let mut write = trace.world.put(0, 1, "");
    write.operation = Operation::Batch(vec![row("a", Some("1")), row("b", None), row("a", Some("2"))]);
    trace.write(0, write.clone());
    write.epoch = Epoch(7);
    trace.write(0, write);
    trace.published("batches", "All rows of a batch or none; of a row that is named twice the last change wins.")
}

fn unreadable() -> Value {
    let mut trace = Trace::new(2);
    let key = trace.world.key(0);
    let write = Record { key: Some(key), value: Some(b"v".to_vec()), headers: Vec::new() };
    let epoch = |record: &Record, epoch: u64| record.clone().with_header("rh-epoch", epoch.to_be_bytes());
    let bad = [
        write.clone(),
        write.clone().with_header("rh-epoch", *b"1"),
        epoch(&write, 1).with_header("rh-request", *b"short"),
        epoch(&write, 1).with_header("rh-source", [0; 8]),
        epoch(&write, 1).with_header("rh-source", [0, 0, 0, 0, 0, 0, 0, 0, 0xFF]),
        epoch(&write, 1).with_header("rh-op", *b"no frame"),
        epoch(&Record { key: None, ..write.clone() }, 1),
        epoch(&Record { key: Some(Vec::new()), ..write.clone() }, 1),
        epoch(&Record { key: Some(vec![b'k'; 4097]), ..write.clone() }, 1),
        write.clone().with_header("rh-mark", [1]),
    ];
    for record in bad {
        trace.append(0, record);
    }
    // The first of two headers counts; unknown ones are passed over.
    trace.append(0, epoch(&epoch(&write, 1), 9).with_header("traceparent", *b"00"));
    trace.published("unreadable", "What cannot be read as a write is answered `invalid`, and changes nothing.")
}

fn a_switch() -> Value {
    let mut trace = Trace::new(2);
    put(&mut trace, 0, 0, 1, "before");
    put(&mut trace, 0, 1, 1, "stays");
    let attempt = trace.attempt(0, 1, &[0]);
    put(&mut trace, 0, 0, 1, "after the copy");
    trace.open(attempt);
    put(&mut trace, 1, 0, 1, "too early");
    put(&mut trace, 0, 0, 1, "still the old owner");
    trace.fence(attempt);
    put(&mut trace, 0, 0, 1, "behind the fence");
    put(&mut trace, 0, 1, 1, "another key goes on");
    put(&mut trace, 1, 0, 3, "a guess, answered at the outcome");
    put(&mut trace, 0, 0, 3, "the same guess at the loser");
    trace.switch(attempt);
    put(&mut trace, 1, 0, 3, "the new owner");
    trace.open(attempt);
    trace.fence(attempt);
    put(&mut trace, 1, 0, 3, "late marks change nothing");
    delete(&mut trace, 1, 0, 3);
    trace.published(
        "a switch",
        "Before F the old epoch, after it none, until the outcome gives the new one to the destination.",
    )
}

fn an_abort() -> Value {
    let mut trace = Trace::new(2);
    put(&mut trace, 0, 0, 1, "before");
    let attempt = trace.attempt(0, 1, &[0]);
    trace.open(attempt);
    put(&mut trace, 1, 0, 3, "a guess");
    trace.abort(attempt);
    put(&mut trace, 0, 0, 1, "delayed, of the old epoch");
    put(&mut trace, 0, 0, 3, "the source under the new epoch");
    let move_id = trace.world.control.facts(attempt).move_id;
    let second = trace.attempt_of(move_id);
    trace.fence(second);
    trace.open(second);
    trace.fence(attempt);
    trace.open(attempt);
    trace.switch(second);
    put(&mut trace, 1, 0, 4, "moved by the second attempt");
    put(&mut trace, 1, 0, 3, "an epoch of the source");
    trace.published(
        "an abort",
        "An aborted attempt gives its epoch to the source; its fence has closed the epoch before.",
    )
}

fn two_aborts() -> Value {
    let mut trace = Trace::new(2);
    put(&mut trace, 0, 0, 1, "before");
    let first = trace.attempt(0, 1, &[0]);
    trace.fence(first);
    trace.abort(first);
    let move_id = trace.world.control.facts(first).move_id;
    let second = trace.attempt_of(move_id);
    trace.fence(second);
    trace.abort(second);
    put(&mut trace, 0, 0, 4, "under the newest epoch");
    trace.fence(first);
    put(&mut trace, 0, 0, 3, "late, of the first attempt's epoch");
    put(&mut trace, 0, 0, 4, "goes on");
    trace.published(
        "two aborts",
        "A fence takes effect below its epoch only: one of an earlier attempt changes nothing.",
    )
}

fn there_and_back() -> Value {
    let mut trace = Trace::new(3);
    put(&mut trace, 0, 0, 1, "one");
    trace.moved(0, 1, &[0]);
    put(&mut trace, 1, 0, 4, "two");
    trace.moved(1, 2, &[0]);
    put(&mut trace, 2, 0, 5, "three");
    trace.moved(2, 0, &[0]);
    put(&mut trace, 0, 0, 6, "four");
    for (shard, epoch) in [(0, 1), (1, 4), (2, 5), (0, 5), (1, 6)] {
        put(&mut trace, shard, 0, epoch, "late");
    }
    trace.published("there and back", "Every grant has its own epoch, so nothing late is ever accepted.")
}

fn forged() -> Value {
    let mut trace = Trace::new(2);
    put(&mut trace, 0, 0, 1, "before");
    let attempt = trace.attempt(0, 1, &[0]);
    let mark = trace.world.mark(attempt);
    let never = rehome_records::data::AttemptMark { attempt: rehome_keyspace::AttemptId(77), ..mark.clone() };
    for mark in [Mark::Fence(forged_nonce(mark.clone())), Mark::Open(mark.clone()), Mark::Fence(never)] {
        trace.append(0, mark.into_record());
    }
    put(&mut trace, 0, 0, 1, "nothing was fenced");
    trace.fence(attempt);
    trace.open(attempt);
    trace.switch(attempt);
    put(&mut trace, 1, 0, 3, "after the true one");
    trace.published("forged marks", "A mark that does not match the control record it cites is refused.")
}

fn horizons() -> Value {
    let mut trace = Trace::new(2);
    let gone = with_request(trace.world.put(0, 1, "a"), 1);
    trace.write(0, gone.clone());
    let deleted = delete(&mut trace, 0, 0, 1);
    let range = trace.world.placement.slot_range(rehome_keyspace::SlotId(0));
    let horizon = |epoch: u64| Mark::Horizon {
        regions: vec![(range.clone(), Epoch(epoch))],
        version: Version { epoch: Epoch(1), offset: deleted },
    };
    trace.append(0, horizon(9).into_record());
    trace.write(0, gone.clone());
    trace.append(0, horizon(1).into_record());
    trace.write(0, gone);
    trace.published(
        "horizons",
        "A `Horizon` is judged like a write of its epoch; it forgets tombstones and request ids up to its version.",
    )
}

fn all() -> String {
    let vectors = [
        epochs(),
        requests(),
        sources(),
        conditions(),
        batches(),
        unreadable(),
        a_switch(),
        an_abort(),
        two_aborts(),
        there_and_back(),
        forged(),
        horizons(),
    ];
    let mut text = serde_json::to_string_pretty(&json!({ "format": 1, "vectors": vectors })).unwrap();
    text.push('\n');
    text
}

#[test]
fn the_published_vectors_are_what_the_shard_core_says() {
    let path = folder().join("accept-rule.json");
    let made = all();
    if std::env::var_os("REHOME_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "{} is not what the core says: REHOME_BLESS=1 writes it anew", path.display());
}

#[test]
fn an_independent_reader_judges_every_published_record_alike() {
    let judged = Command::new("python3").arg(folder().join("judge.py")).arg(folder().join("accept-rule.json")).output();
    let judged = judged.expect("python3 is installed");
    let (said, errors) = (String::from_utf8_lossy(&judged.stdout), String::from_utf8_lossy(&judged.stderr));
    assert!(judged.status.success(), "{said}{errors}");
    let told = said.trim().rsplit(' ').next().and_then(|count| count.parse::<u32>().ok());
    assert!(told.is_some_and(|count| count > 80), "it says how many records it judged: {said}");
}
