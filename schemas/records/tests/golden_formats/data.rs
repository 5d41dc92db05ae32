//! Records of data topics: headers, operations and marks, and how a local log keeps them.

use crate::Sample;
use rehome_keyspace::{AttemptId, Epoch, KeyRange, MoveId, Nonce, Offset, RequestId, Selector, Version};
use rehome_records::data::AttemptMark;
use rehome_records::{Condition, DataRecord, Logged, Mark, Operation, Record, RowChange, SourcePosition, Write};

/// A line of a write that is no part of its record.
const CONTENT_HASH: &str = "content-hash";

pub fn selector() -> Selector {
    Selector::new(vec![KeyRange::new(vec![0, 0, 0, 7], Some(vec![0, 0, 0, 8])), KeyRange::new(vec![0, 0, 4, 0], None)])
}

pub fn samples() -> Vec<Sample> {
    let writes = writes().into_iter().map(|(name, write)| {
        let mut sample = record(name, DataRecord::Write(write.clone()), write.clone().into_record());
        // Stored beside request ids and compared with those of later retries.
        sample.lines.push((CONTENT_HASH.into(), write.content_hash().to_be_bytes().to_vec()));
        sample
    });
    let marks =
        marks().into_iter().map(|(name, mark)| record(name, DataRecord::Mark(mark.clone()), mark.into_record()));
    writes.chain(marks).chain([logged()]).collect()
}

/// A sample of a record's key, headers and value, which is read back as what it means.
fn record(name: &str, meaning: DataRecord, record: Record) -> Sample {
    let read = move |record| assert_eq!(DataRecord::read(&record).as_ref(), Ok(&meaning));
    Sample::record(name, record, |line| line == CONTENT_HASH, read)
}

fn writes() -> Vec<(&'static str, Write)> {
    let change =
        |value: Option<&[u8]>| RowChange { sort_key: b"2024-01-01".to_vec(), value: value.map(<[u8]>::to_vec) };
    let write = |operation| Write {
        partition_key: b"ORD".to_vec(),
        epoch: Epoch(0x0102_0304_0506_0708),
        request: None,
        source: None,
        operation,
    };
    let version = Version { epoch: Epoch(3), offset: Offset(70_000) };
    let if_ = |condition| write(Operation::ChangeIf { change: change(Some(b"v")), condition });
    let plain = Operation::Change(RowChange { sort_key: Vec::new(), value: Some(b"the bytes".to_vec()) });
    vec![
        ("write_put", write(plain)),
        ("write_delete", write(Operation::Change(change(None)))),
        (
            "write_with_request",
            Write { request: Some(RequestId(*b"0123456789abcdef")), ..write(Operation::Change(change(Some(b"v")))) },
        ),
        (
            "write_from_source",
            Write {
                source: Some(SourcePosition { source: "flights".into(), position: 9 }),
                ..write(Operation::Change(change(Some(b""))))
            },
        ),
        ("write_if_absent", if_(Condition::Absent)),
        ("write_if_present", if_(Condition::Present)),
        ("write_if_version", if_(Condition::VersionIs(version))),
        ("write_batch", write(Operation::Batch(vec![change(Some(b"v")), change(None)]))),
    ]
}

fn marks() -> Vec<(&'static str, Mark)> {
    let mark = AttemptMark {
        move_id: MoveId(300),
        attempt: AttemptId(5),
        epoch: Epoch(9),
        selector: selector(),
        control_offset: Offset(1 << 20),
        nonce: Nonce(0x0bad_cafe_0bad_cafe),
    };
    let regions = vec![(selector().ranges()[0].clone(), Epoch(9))];
    let version = Version { epoch: Epoch(3), offset: Offset(70_000) };
    vec![
        ("mark_open", Mark::Open(mark.clone())),
        ("mark_fence", Mark::Fence(mark)),
        ("mark_horizon", Mark::Horizon { regions, version }),
    ]
}

fn logged() -> Sample {
    let record = Record { key: Some(b"k".to_vec()), value: None, headers: Vec::new() }.with_header("rh-epoch", [0; 8]);
    let logged = Logged { offset: Offset(8), append_time_ms: 1_700_000_000_000, record };
    let bytes = Logged::encode(&logged.record, logged.append_time_ms);
    // Stored with the applied offset and compared when a replica starts again.
    let hash = logged.hash().to_be_bytes().to_vec();
    let mut sample = Sample::framed("logged", logged, bytes, |bytes| Logged::decode(Offset(8), bytes));
    sample.lines.push(("hash".into(), hash));
    sample
}
