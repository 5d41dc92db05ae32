//! Store keys and values, manifests, and the digest over them.

use crate::Sample;
use crate::control::digest;
use crate::data::selector;
use rehome_keyspace::{AttemptId, Epoch, KeyspaceId, MoveId, Offset, Placement, RequestId, ShardId, Version};
use rehome_records::rejects::StoredReject;
use rehome_records::store_value::{
    StoredApplied, StoredIdentity, StoredInbound, StoredOutbound, StoredReplay, StoredRequest, StoredRow, StoredSource,
    StoredTimes, TimeSample,
};
use rehome_records::{Digest, FirstAnswer, Manifest, RunInfo, SlotState, StateRegion, store_key};

macro_rules! stored {
    ($name:literal, $kind:ident, $value:expr) => {{
        let value = $value;
        let bytes = value.encode();
        Sample::framed($name, value, bytes, $kind::decode)
    }};
}

const VERSION: Version = Version { epoch: Epoch(3), offset: Offset(70_000) };

pub fn samples() -> Vec<Sample> {
    let times_key = Sample::written("store_key_times", [("times", store_key::times())]);
    let reject_key = Sample::written("store_key_reject", [("reject", store_key::reject(Offset(70_000)))]);
    let mut samples = vec![keys(), times_key, reject_key, digest_of_entries()];
    samples.extend(values());
    samples.extend(states());
    samples
}

fn keys() -> Sample {
    let placed = Placement::buckets(4096).expect("in range").place(b"a\0b");
    let placed_range = store_key::placed_range(&placed);
    let lines = [
        ("identity", store_key::identity()),
        ("applied", store_key::applied()),
        ("state", store_key::state(&[0, 0, 0, 7])),
        ("outbound", store_key::outbound(MoveId(300))),
        ("inbound", store_key::inbound(MoveId(300))),
        ("row", store_key::row(&placed, b"s\0rt")),
        ("request", store_key::request(&placed, RequestId(*b"0123456789abcdef"))),
        ("source", store_key::source(&placed, "flights")),
        ("rows-start", store_key::rows_of(&placed).start),
        ("rows-end", store_key::rows_of(&placed).end.expect("bounded")),
        ("placed-start", placed_range.start),
        ("placed-end", placed_range.end.expect("bounded")),
    ];
    Sample::written("store_keys", lines)
}

fn digest_of_entries() -> Sample {
    let mut digest = Digest::default();
    digest.add_row(b"row", b"stored", false);
    digest.add_row(b"gone", b"tombstone", true);
    digest.add_request(b"request", b"answer");
    let lines = [
        ("rows", digest.rows.to_be_bytes().to_vec()),
        ("requests", digest.requests.to_be_bytes().to_vec()),
        ("row-count", digest.row_count.to_be_bytes().to_vec()),
        ("tombstone-count", digest.tombstone_count.to_be_bytes().to_vec()),
    ];
    Sample::written("digest", lines)
}

fn values() -> Vec<Sample> {
    let request = |answer| StoredRequest { content_hash: u64::MAX / 3, answer, version: VERSION };
    vec![
        stored!("store_row", StoredRow, StoredRow { version: VERSION, value: Some(b"the bytes".to_vec()) }),
        stored!("store_tombstone", StoredRow, StoredRow { version: VERSION, value: None }),
        stored!("store_request_accepted", StoredRequest, request(FirstAnswer::Accepted { version: VERSION })),
        stored!(
            "store_request_condition_failed",
            StoredRequest,
            request(FirstAnswer::ConditionFailed { current: None })
        ),
        stored!("store_source", StoredSource, StoredSource { position: 300, version: VERSION }),
        stored!(
            "store_applied",
            StoredApplied,
            StoredApplied { offset: Offset(70_000), record_hash: u64::MAX / 5, time_ms: 1_700_000_000_000 }
        ),
        stored!(
            "store_times",
            StoredTimes,
            StoredTimes {
                samples: vec![
                    TimeSample { time_ms: 1_700_000_000_000, offset: Offset(7) },
                    TimeSample { time_ms: 1_700_003_600_000, offset: Offset(70_000) },
                ],
            }
        ),
        stored!(
            "store_reject",
            StoredReject,
            StoredReject {
                reason: "because ä".into(),
                key: Some(b"ORD".to_vec()),
                value: None,
                headers: vec![("rh-epoch".into(), vec![0, 1]), ("traceparent".into(), vec![])],
            }
        ),
        stored!("store_identity", StoredIdentity, StoredIdentity { keyspace: KeyspaceId(2), shard: ShardId(300) }),
    ]
}

fn states() -> Vec<Sample> {
    let region = |state| StateRegion { range: selector().ranges()[0].clone(), state };
    let closed = region(SlotState::Closed { highest: Epoch(4) });
    let owned = region(SlotState::Owned { epoch: Epoch(5) });
    let contested = region(SlotState::Contested { attempt: AttemptId(5), epoch: Epoch(9) });
    let fences = vec![(AttemptId(5), Offset(70_000))];
    let outbound = StoredOutbound {
        move_id: MoveId(300),
        copy: 1,
        selector: selector(),
        base: Some(digest()),
        change: Digest::default(),
        fences: fences.clone(),
    };
    let inbound = StoredInbound {
        move_id: MoveId(300),
        copy: 1,
        source: ShardId(2),
        selector: selector(),
        replay: None,
        opens: vec![(AttemptId(5), Offset(4))],
    };
    let replay = StoredReplay {
        snapshot: Some(Offset(60_000)),
        position: Some(Offset(70_001)),
        digest: digest(),
        states: vec![contested.clone()],
        fences: fences.clone(),
    };
    let manifest = Manifest {
        keyspace: KeyspaceId(2),
        source: ShardId(2),
        move_id: MoveId(300),
        copy: 1,
        selector: selector(),
        position: Some(Offset(60_000)),
        digest: digest(),
        states: vec![owned.clone()],
        fences,
        runs: vec![RunInfo { name: "000.run".into(), entries: 3, bytes: 1 << 20, checksum: u64::MAX / 7 }],
    };
    vec![
        stored!("store_state_closed", StateRegion, closed),
        stored!("store_state_owned", StateRegion, owned),
        stored!("store_state_contested", StateRegion, contested),
        stored!("store_outbound", StoredOutbound, outbound),
        stored!("store_inbound", StoredInbound, inbound.clone()),
        stored!("store_inbound_replaying", StoredInbound, StoredInbound { replay: Some(replay), ..inbound }),
        stored!("manifest", Manifest, manifest.clone()),
        stored!("manifest_of_an_empty_partition", Manifest, Manifest { position: None, ..manifest }),
    ]
}
