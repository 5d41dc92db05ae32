//! A small keyspace with one move, told by hand: logs, stores and answers that agree until a test spoils one.

use crate::*;
use rehome_keyspace::*;
use rehome_records::control::{JobOptions, JobSubmitted, MoveWanted, SlotSpan};
use rehome_records::data::AttemptMark;
use rehome_records::store_value::{StoredRequest, StoredRow};
use rehome_records::*;
use std::collections::BTreeMap;

pub const KEYSPACE: KeyspaceId = KeyspaceId(2);
pub const BUCKETS: u32 = 4;

/// Slots 0 and 1 are shard 0's under epoch 1, slots 2 and 3 shard 1's under epoch 2; slot 0 moves to shard 2.
pub struct World {
    pub control: Vec<Logged>,
    pub data: Vec<Vec<Logged>>,
    pub stores: BTreeMap<(ShardId, Vec<u8>), Vec<u8>>,
    pub history: ClientHistory,
    pub placement: Placement,
    command: u128,
}

pub struct Mark0 {
    pub open: Mark,
    pub fence: Mark,
}

impl World {
    pub fn new() -> World {
        let mut world = World {
            control: Vec::new(),
            data: vec![Vec::new(); 3],
            stores: BTreeMap::new(),
            history: ClientHistory::new(),
            placement: Placement::buckets(BUCKETS).unwrap(),
            command: 0,
        };
        let placement = world.placement;
        world.tell(0, ControlEvent::NodeRegistered { node: NodeId(1), address: "here".into() });
        world
            .tell(2, ControlEvent::KeyspaceCreated { name: "k".into(), placement, shards: 2, request_retention_ms: 1 });
        world
    }

    pub fn tell(&mut self, offset: u64, event: ControlEvent) {
        self.command += 1;
        let record = ControlRecord { command: self.command, event }.into_record();
        self.control.push(Logged { offset: Offset(offset), append_time_ms: 0, record });
    }

    /// Submits the move of slot 0 from shard 0 to shard 2, up to catching up.
    pub fn move_begins(&mut self, at: u64, complete: bool) {
        let slots = vec![SlotSpan { first: SlotId(0), last: SlotId(0) }];
        let moves = vec![MoveWanted { source: ShardId(0), destination: ShardId(2), slots }];
        let options = JobOptions { complete, ..JobOptions::STANDARD };
        let job = JobSubmitted { keyspace: KEYSPACE, shards: 3, moves, options, requested_by: "test".into() };
        let (move_id, copy, node, digest) = (MoveId(1), 1, NodeId(1), Digest::default());
        self.tell(at, ControlEvent::JobSubmitted(job));
        self.tell(at + 1, ControlEvent::MoveStarted { move_id });
        let position = Some(Offset(0));
        self.tell(at + 2, ControlEvent::SnapshotTaken { move_id, copy, node, position, digest, bytes: 0 });
        self.tell(at + 3, ControlEvent::CopyIngested { move_id, copy, node, digest });
    }

    /// Starts an attempt, and returns its marks.
    pub fn cutover(&mut self, at: u64, attempt: u64, epoch: u64) -> Mark0 {
        self.tell(at, ControlEvent::CutoverStarted { move_id: MoveId(1), nonce: Nonce(at), predicted_pause_us: 1 });
        let mark = AttemptMark {
            move_id: MoveId(1),
            attempt: AttemptId(attempt),
            epoch: Epoch(epoch),
            selector: self.placement.selector([SlotId(0)]),
            control_offset: Offset(at),
            nonce: Nonce(at),
        };
        Mark0 { open: Mark::Open(mark.clone()), fence: Mark::Fence(mark) }
    }

    pub fn ready(&mut self, at: u64, attempt: u64, side: Side, fence: u64, rows: u64) {
        let digest = Digest { row_count: rows, ..Digest::default() };
        let (attempt, fence) = (AttemptId(attempt), Offset(fence));
        self.tell(at, ControlEvent::Ready { attempt, node: NodeId(1), side, fence, open: Some(Offset(0)), digest });
    }

    /// Returns a partition key of the slot.
    pub fn key(&self, slot: u32) -> Vec<u8> {
        let keys = (0u32..).map(|n| format!("key-{n}").into_bytes());
        keys.into_iter().find(|key| self.placement.slot(key) == SlotId(slot)).expect("some key falls there")
    }

    pub fn write(&mut self, shard: u32, offset: u64, epoch: u64, slot: u32, request: u8, value: Option<&str>) {
        let change = RowChange { sort_key: b"row".to_vec(), value: value.map(|value| value.as_bytes().to_vec()) };
        self.append(shard, offset, epoch, slot, request, Operation::Change(change));
    }

    pub fn append(&mut self, shard: u32, offset: u64, epoch: u64, slot: u32, request: u8, operation: Operation) {
        let partition_key = self.key(slot);
        let request = Some(RequestId([request; 16]));
        let write = Write { partition_key, epoch: Epoch(epoch), request, source: None, operation };
        self.log(shard, offset, write.into_record());
    }

    pub fn log(&mut self, shard: u32, offset: u64, record: Record) {
        self.data[shard as usize].push(Logged { offset: Offset(offset), append_time_ms: 0, record });
    }

    /// Tells a client that the write of the slot's row was accepted.
    pub fn answer(&mut self, slot: u32, request: u8, version: (u64, u64), value: Option<&str>, times: (u64, u64)) {
        let key = self.key(slot);
        self.history.writes.push(WriteAnswered {
            row: Fingerprint::row(&self.placement, &key, b"row"),
            request: Some(Fingerprint::request(&self.placement, &key, RequestId([request; 16]))),
            version: at(version),
            value: value.map(|value| ValueHash::of(value.as_bytes())),
            issued_at: times.0,
            answered_at: times.1,
        });
    }

    pub fn read(&mut self, slot: u32, found: Option<((u64, u64), &str)>, times: (u64, u64)) {
        let key = self.key(slot);
        self.history.reads.push(ReadSeen {
            row: Fingerprint::row(&self.placement, &key, b"row"),
            found: found.map(|(version, value)| (at(version), ValueHash::of(value.as_bytes()))),
            issued_at: times.0,
            answered_at: times.1,
        });
    }

    pub fn state(&mut self, shard: u32, slot: u32, state: SlotState) {
        let region = StateRegion { range: self.placement.slot_range(SlotId(slot)), state };
        self.stores.insert((ShardId(shard), store_key::state(&region.range.start)), region.encode());
    }

    pub fn store_row(&mut self, shard: u32, slot: u32, version: (u64, u64), value: Option<&str>) {
        let row = StoredRow { version: at(version), value: value.map(|value| value.as_bytes().to_vec()) };
        let key = store_key::row(&self.placement.place(&self.key(slot)), b"row");
        self.stores.insert((ShardId(shard), key), row.encode());
    }

    pub fn store_request(&mut self, shard: u32, slot: u32, request: u8, version: (u64, u64), value: Option<&str>) {
        let change = RowChange { sort_key: b"row".to_vec(), value: value.map(|value| value.as_bytes().to_vec()) };
        let write = Write {
            partition_key: Vec::new(),
            epoch: Epoch(0),
            request: None,
            source: None,
            operation: Operation::Change(change),
        };
        let stored = StoredRequest {
            content_hash: write.content_hash(),
            answer: FirstAnswer::Accepted { version: at(version) },
            version: at(version),
        };
        let key = store_key::request(&self.placement.place(&self.key(slot)), RequestId([request; 16]));
        self.stores.insert((ShardId(shard), key), stored.encode());
    }

    pub fn story(&self) -> ControlStory {
        ControlStory::of(&self.control)
    }

    pub fn fold(&self) -> Folded {
        self.try_fold().expect("the logs of this world can be folded")
    }

    pub fn try_fold(&self) -> Result<Folded, FoldError> {
        let partitions = self.data.iter().map(|records| records.iter().cloned().map(Ok)).collect();
        fold(&self.story(), KEYSPACE, partitions)
    }

    pub fn compare(&self) -> Findings {
        let story = self.story();
        let mut comparison = Comparison::new(&story, self.fold());
        comparison.history(&self.history);
        for ((shard, key), value) in &self.stores {
            comparison.store_entry(*shard, key, value);
        }
        comparison.finish().0
    }

    pub fn expect_only(&self, finding: Finding) {
        let findings = self.compare();
        assert!(findings.count(finding) > 0, "{} did not go up: {findings}", finding.name());
        assert!(!findings.examples(finding).is_empty());
        for other in Finding::ALL {
            // A store that differs from the fold also has another sum.
            assert!(
                other == finding || other == Finding::DigestMismatch || findings.count(other) == 0,
                "{} went up too: {findings}",
                other.name()
            );
        }
    }
}

pub fn at((epoch, offset): (u64, u64)) -> Version {
    Version { epoch: Epoch(epoch), offset: Offset(offset) }
}

/// One move, switched and completed, with writes before and after it, a delete, a retry across the cutover, and stores
/// and answers that agree with all that.
pub fn agreeing() -> World {
    let mut world = World::new();
    world.write(0, 0, 1, 0, 1, Some("old"));
    world.write(0, 1, 1, 1, 2, Some("stays"));
    world.write(1, 0, 2, 2, 3, Some("there"));
    world.write(1, 4, 2, 2, 4, None);
    world.move_begins(4, true);
    let marks = world.cutover(10, 1, 3);
    world.log(2, 0, marks.open.into_record());
    world.log(0, 5, marks.fence.into_record());
    world.write(0, 6, 1, 0, 5, Some("too late"));
    world.ready(11, 1, Side::Source, 5, 1);
    world.ready(12, 1, Side::Destination, 5, 1);
    world.tell(13, ControlEvent::CleanupDone { move_id: MoveId(1), node: NodeId(1) });
    world.write(2, 7, 3, 0, 1, Some("old"));
    world.write(2, 8, 3, 0, 5, Some("new"));
    world.answer(0, 1, (1, 0), Some("old"), (1, 2));
    world.answer(0, 1, (1, 0), Some("old"), (50, 51));
    world.answer(1, 2, (1, 1), Some("stays"), (3, 4));
    world.answer(2, 3, (2, 0), Some("there"), (5, 6));
    world.answer(2, 4, (2, 4), None, (7, 8));
    world.answer(0, 5, (3, 8), Some("new"), (60, 61));
    world.read(0, Some(((1, 0), "old")), (30, 31));
    world.read(0, Some(((3, 8), "new")), (70, 71));
    world.read(2, None, (9, 10));
    world.history.acknowledge(ShardId(0), Offset(1));
    world.state(0, 0, SlotState::Closed { highest: Epoch(3) });
    world.state(0, 1, SlotState::Owned { epoch: Epoch(1) });
    world.state(1, 2, SlotState::Owned { epoch: Epoch(2) });
    world.state(2, 0, SlotState::Contested { attempt: AttemptId(1), epoch: Epoch(3) });
    world.store_row(2, 0, (3, 8), Some("new"));
    world.store_row(0, 1, (1, 1), Some("stays"));
    world.store_row(1, 2, (2, 4), None);
    for (shard, slot, request, version, value) in [
        (2, 0, 1, (1, 0), Some("old")),
        (2, 0, 5, (3, 8), Some("new")),
        (0, 1, 2, (1, 1), Some("stays")),
        (1, 2, 3, (2, 0), Some("there")),
        (1, 2, 4, (2, 4), None),
    ] {
        world.store_request(shard, slot, request, version, value);
    }
    world
}
