//! Whatever is written is read back, and nothing damaged is ever taken for something else.

// What helpers of a test do not expect ends the test.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rehome_keyspace::{Epoch, Offset, RequestId, Version};
use rehome_records::data::{KEY_BYTES_MAX, SOURCE_BYTES_MAX};
use rehome_records::store_value::{RowView, StoredApplied, StoredRow};
use rehome_records::{
    Condition, DataRecord, DecodeError, Kind, Logged, Operation, Record, RowChange, SourcePosition, Write, decode,
    encode,
};

fn version() -> impl Strategy<Value = Version> {
    (any::<u64>(), any::<u64>()).prop_map(|(epoch, offset)| Version { epoch: Epoch(epoch), offset: Offset(offset) })
}

fn change() -> impl Strategy<Value = RowChange> {
    (any::<Vec<u8>>(), any::<Option<Vec<u8>>>()).prop_map(|(sort_key, value)| RowChange { sort_key, value })
}

fn operation() -> impl Strategy<Value = Operation> {
    let condition =
        prop_oneof![Just(Condition::Absent), Just(Condition::Present), version().prop_map(Condition::VersionIs)];
    prop_oneof![
        change().prop_map(Operation::Change),
        (change(), condition).prop_map(|(change, condition)| Operation::ChangeIf { change, condition }),
        prop::collection::vec(change(), 0..4).prop_map(Operation::Batch),
    ]
}

fn write() -> impl Strategy<Value = Write> {
    let source = prop::option::of(("[a-zä]{1,20}", any::<u64>()));
    (prop::collection::vec(any::<u8>(), 1..40), any::<u64>(), any::<Option<[u8; 16]>>(), source, operation()).prop_map(
        |(partition_key, epoch, request, source, operation)| Write {
            partition_key,
            epoch: Epoch(epoch),
            request: request.map(RequestId),
            source: source.map(|(source, position)| SourcePosition { source, position }),
            operation,
        },
    )
}

proptest! {
    #[test]
    fn a_write_is_read_as_it_was_written(write in write(), offset: u64, append_time_ms: u64) {
        let record = write.clone().into_record();
        prop_assert_eq!(DataRecord::read(&record), Ok(DataRecord::Write(write)));
        let bytes = Logged::encode(&record, append_time_ms);
        let logged = Logged { offset: Offset(offset), append_time_ms, record };
        prop_assert_eq!(Logged::decode(Offset(offset), &bytes), Ok(logged));
    }

    #[test]
    fn a_retry_has_the_same_content_whatever_its_epoch(write in write(), epoch: u64) {
        let again = Write { epoch: Epoch(epoch), request: None, source: None, ..write.clone() };
        prop_assert_eq!(write.content_hash(), again.content_hash());
    }

    #[test]
    fn other_content_has_another_hash(a in operation(), b in operation()) {
        let write = |operation| Write { partition_key: Vec::new(), epoch: Epoch(1), request: None, source: None, operation };
        prop_assert_eq!(a == b, write(a).content_hash() == write(b).content_hash());
    }

    #[test]
    fn any_damaged_bit_is_noticed(value: Option<Vec<u8>>, version in version(), at: prop::sample::Index, bit in 0u8..8) {
        let mut bytes = StoredRow { version, value: value.clone() }.encode();
        prop_assert_eq!(RowView::decode(&bytes), Ok(RowView { version, value: value.as_deref() }));
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(StoredRow::decode(&bytes).is_err());
        prop_assert!(RowView::decode(&bytes).is_err());
        bytes[at] ^= 1 << bit;
        prop_assert!(StoredRow::decode(&bytes).is_ok());
        bytes.truncate(at);
        prop_assert!(StoredRow::decode(&bytes).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_refused_and_never_end_the_process(
        headers in prop::collection::vec((0usize..6, any::<Vec<u8>>()), 0..4),
        key: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) {
        let names = ["rh-epoch", "rh-sort", "rh-request", "rh-source", "rh-op", "rh-mark"];
        let record = headers.into_iter().fold(Record { key, value, headers: Vec::new() }, |record, (name, bytes)| {
            record.with_header(names[name], bytes)
        });
        if let Ok(DataRecord::Write(write)) = DataRecord::read(&record) {
            prop_assert!(record.header("rh-mark").is_none());
            prop_assert_eq!(Some(write.partition_key), record.key);
        }
    }

    #[test]
    fn a_body_of_arbitrary_bytes_is_refused_or_read(body: Vec<u8>) {
        // A frame with a right checksum around anything at all.
        let framed = encode(Kind::Control, &body);
        let _ = decode::<rehome_records::ControlRecord>(Kind::Control, &framed);
    }
}

#[test]
fn a_frame_of_another_kind_format_or_length_is_refused() {
    let applied = StoredApplied { offset: Offset(1), record_hash: 2, time_ms: 3 };
    let bytes = applied.encode();
    assert_eq!(StoredApplied::decode(&bytes), Ok(applied));
    assert!(matches!(StoredRow::decode(&bytes), Err(DecodeError::OtherKind { found: 19, .. })));
    let mut newer = bytes.clone();
    newer[0] += 1;
    assert!(matches!(StoredApplied::decode(&newer), Err(DecodeError::Format { format: 2, .. })));
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(StoredApplied::decode(&longer), Err(DecodeError::Short { .. })));
    assert!(matches!(StoredApplied::decode(&bytes[..5]), Err(DecodeError::Short { .. })));
    // Two values in one frame.
    assert!(matches!(decode::<u8>(Kind::Applied, &encode(Kind::Applied, &(1u8, 2u8))), Err(DecodeError::Body { .. })));
}

#[test]
fn headers_and_keys_of_a_wrong_size_are_refused_with_a_reason() {
    let write = Record { key: Some(b"k".to_vec()), ..Record::default() };
    let epoch = |record: Record| record.with_header("rh-epoch", [0; 8]);
    let bad = [
        write.clone(),
        write.clone().with_header("rh-epoch", [0; 7]),
        epoch(write.clone()).with_header("rh-request", [0; 15]),
        epoch(write.clone()).with_header("rh-source", [0; 7]),
        epoch(write.clone()).with_header("rh-source", [0, 0, 0, 0, 0, 0, 0, 0, 0xFF]),
        epoch(write.clone()).with_header("rh-source", [0; 8]),
        epoch(write.clone()).with_header("rh-source", [b'n'; 8 + SOURCE_BYTES_MAX + 1]),
        epoch(write.clone()).with_header("rh-op", [1, 2, 3]),
        epoch(write.clone()).with_header("rh-sort", [1; KEY_BYTES_MAX + 1]),
        epoch(Record { key: Some(Vec::new()), ..Record::default() }),
        epoch(Record { key: Some(vec![1; KEY_BYTES_MAX + 1]), ..Record::default() }),
        epoch(Record::default()),
        write.with_header("rh-mark", [1]),
    ];
    for record in bad {
        let invalid = DataRecord::read(&record).unwrap_err();
        assert!(!invalid.0.is_empty());
    }
}
