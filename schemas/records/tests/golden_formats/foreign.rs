//! What belongs to foreign producers: progress of forwarders, and rejected records.

use crate::Sample;
use rehome_keyspace::Offset;
use rehome_records::Record;
use rehome_records::inbox::InboxProgress;
use rehome_records::rejects::{Rejected, RejectedAt, RejectedFrom};

pub fn samples() -> Vec<Sample> {
    let progress = InboxProgress {
        forwarder: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
        term: 300,
        next: vec![Offset(0), Offset(70_000)],
    };
    let bytes = progress.clone().into_record().value.expect("progress has a value");
    let progress = Sample::framed("inbox_progress", progress, bytes, |bytes| {
        InboxProgress::read(&Record { value: Some(bytes.to_vec()), ..Record::default() })
    });
    let record = Record { key: Some(b"ORD".to_vec()), value: Some(b"the bytes".to_vec()), headers: Vec::new() }
        .with_header("rh-epoch", *b"short");
    let at = RejectedAt { from: RejectedFrom::Data, partition: 3, offset: Offset(70_000) };
    let kept = Rejected::new(at, "because ä", record);
    let cut = Rejected { at: RejectedAt { from: RejectedFrom::Inbox, ..at }, ..kept.clone().fit(1) };
    let retried = Rejected::retried(at);
    vec![progress, rejected("rejected", kept), rejected("rejected_cut", cut), rejected("rejected_retried", retried)]
}

fn rejected(name: &str, rejected: Rejected) -> Sample {
    let record = rejected.clone().into_record();
    let read = move |record| assert_eq!(Rejected::read(record).as_ref(), Ok(&rejected));
    Sample::record(name, record, |_| false, read)
}
