//! Partitions, keys and moves: everything that is not one replica's.

use crate::control::{Control, KEYSPACE};
use rehome_keyspace::{
    AttemptId, Epoch, KeyRange, MoveId, Nonce, Offset, Outcome, PlacedKey, Placement, RequestId, Selector, ShardId,
    SlotId,
};
use rehome_records::data::AttemptMark;
use rehome_records::{Condition, Logged, Manifest, Mark, Operation, Record, RowChange, SourcePosition, Write};
use rehome_records::{store_key, store_value::StoredIdentity};
use std::collections::BTreeMap;

/// How long request ids are kept, in milliseconds of the log's time.
pub const RETENTION_MS: u64 = 2_400;
pub const SLOTS: u32 = 3;
/// Per slot: two keys that can be pinned, and one more in what is left of the slot.
pub const KEYS_PER_SLOT: usize = 3;
pub const KEYS: usize = SLOTS as usize * KEYS_PER_SLOT;

/// A snapshot of a selector, as it lies in a snapshot store.
#[derive(Clone)]
pub struct Copy {
    pub manifest: Manifest,
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

pub struct Move {
    pub source: ShardId,
    pub destination: ShardId,
    pub selector: Selector,
    /// Which keys it moves, by number.
    pub keys: Vec<usize>,
    pub copy: Option<Copy>,
    pub attempts: Vec<AttemptId>,
    pub switched: bool,
    pub cancelled: bool,
    /// Cleaned up by every replica: its keys may move again.
    pub ended: bool,
}

pub struct World {
    pub placement: Placement,
    pub control: Control,
    pub partitions: BTreeMap<ShardId, Vec<Logged>>,
    pub moves: BTreeMap<MoveId, Move>,
    /// Partition keys, by number.
    keys: Vec<Vec<u8>>,
    /// What moves with each key alone: its own range, or what is left of its slot.
    atoms: Vec<Vec<KeyRange>>,
    /// Who owns each key, by the control log.
    pub routes: Vec<(ShardId, Epoch)>,
}

impl World {
    /// Shard i has slot i, as far as there are slots.
    pub fn new(shards: u32) -> World {
        let placement = Placement::buckets(SLOTS).unwrap();
        let keys: Vec<Vec<u8>> = (0..SLOTS).flat_map(|slot| keys_of(placement, slot)).collect();
        let atoms = (0..KEYS).map(|key| atom(placement, &keys, key)).collect();
        let route = |key: usize| {
            let shard = key as u32 / KEYS_PER_SLOT as u32 % shards;
            (ShardId(shard), Epoch(u64::from(shard) + 1))
        };
        World {
            placement,
            control: Control::new(shards),
            partitions: (0..shards).map(|shard| (ShardId(shard), Vec::new())).collect(),
            moves: BTreeMap::new(),
            keys,
            atoms,
            routes: (0..KEYS).map(route).collect(),
        }
    }

    pub fn identity(&self, shard: ShardId) -> StoredIdentity {
        StoredIdentity { keyspace: KEYSPACE, shard }
    }

    /// What the shard owns at the keyspace's creation.
    pub fn granted(&self, shard: ShardId) -> Vec<(KeyRange, Epoch)> {
        (0..SLOTS)
            .filter(|slot| slot % self.partitions.len() as u32 == shard.0)
            .map(|slot| (self.placement.slot_range(SlotId(slot)), Epoch(u64::from(shard.0) + 1)))
            .collect()
    }

    pub fn key(&self, key: usize) -> Vec<u8> {
        self.keys[key].clone()
    }

    pub fn placed(&self, key: usize) -> PlacedKey {
        self.placement.place(&self.keys[key])
    }

    pub fn selector(&self, keys: &[usize]) -> Selector {
        Selector::new(keys.iter().flat_map(|key| self.atoms[*key].clone()).collect())
    }

    /// Appends a record at that time.
    pub fn append_at(&mut self, shard: ShardId, record: Record, append_time_ms: u64) -> Offset {
        let offset = self.append(shard, record, 1);
        let partition = self.partitions.get_mut(&shard).expect("a shard of the world");
        partition.last_mut().expect("just appended").append_time_ms = append_time_ms;
        offset
    }

    /// Appends a record some way behind the last one: offsets have gaps.
    pub fn append(&mut self, shard: ShardId, record: Record, gap: u64) -> Offset {
        let partition = self.partitions.get_mut(&shard).expect("a shard of the world");
        let offset = partition.last().map_or(Offset(gap), |last| Offset(last.offset.0 + 1 + gap));
        partition.push(Logged { offset, append_time_ms: 1_000 + offset.0 % 5, record });
        offset
    }

    pub fn write(&mut self, shard: u32, write: Write) -> Offset {
        self.append(ShardId(shard), write.into_record(), 0)
    }

    /// A put of the row `r` of the key, without a request id.
    pub fn put(&self, key: usize, epoch: u64, value: &str) -> Write {
        self.change(key, epoch, Some(value))
    }

    pub fn change(&self, key: usize, epoch: u64, value: Option<&str>) -> Write {
        let change = RowChange { sort_key: b"r".to_vec(), value: value.map(|value| value.as_bytes().to_vec()) };
        Write {
            partition_key: self.key(key),
            epoch: Epoch(epoch),
            request: None,
            source: None,
            operation: Operation::Change(change),
        }
    }

    pub fn start_move(&mut self, source: u32, destination: u32, keys: &[usize]) -> MoveId {
        let move_id = MoveId(self.moves.len() as u64 + 1);
        let selector = self.selector(keys);
        self.control.append();
        let (source, destination) = (ShardId(source), ShardId(destination));
        let keys = keys.to_vec();
        self.moves.insert(
            move_id,
            Move {
                source,
                destination,
                selector,
                keys,
                copy: None,
                attempts: Vec::new(),
                switched: false,
                cancelled: false,
                ended: false,
            },
        );
        move_id
    }

    pub fn start_attempt(&mut self, move_id: MoveId) -> AttemptId {
        let a_move = self.moves.get_mut(&move_id).expect("a move of the world");
        let attempt = self.control.start(move_id, a_move.source, a_move.destination, &a_move.selector);
        a_move.attempts.push(attempt);
        attempt
    }

    pub fn mark(&self, attempt: AttemptId) -> AttemptMark {
        let facts = self.control.facts(attempt);
        AttemptMark {
            move_id: facts.move_id,
            attempt,
            epoch: facts.epoch,
            selector: (*facts.selector).clone(),
            control_offset: facts.control_offset,
            nonce: facts.nonce,
        }
    }

    pub fn open(&mut self, attempt: AttemptId) -> Offset {
        let mark = Mark::Open(self.mark(attempt)).into_record();
        self.append(self.control.facts(attempt).destination, mark, 0)
    }

    pub fn fence(&mut self, attempt: AttemptId) -> Offset {
        let mark = Mark::Fence(self.mark(attempt)).into_record();
        self.append(self.control.facts(attempt).source, mark, 0)
    }

    /// Returns where the attempt's fence lies in the source's partition.
    pub fn fenced_at(&self, attempt: AttemptId) -> Option<Offset> {
        let wanted = Mark::Fence(self.mark(attempt)).into_record();
        let partition = &self.partitions[&self.control.facts(attempt).source];
        partition.iter().find(|logged| logged.record == wanted).map(|logged| logged.offset)
    }

    /// Aborts the attempt, once its fence is in the source's partition.
    pub fn abort(&mut self, attempt: AttemptId) {
        let fence = self.fenced_at(attempt).unwrap_or_else(|| self.fence(attempt));
        self.decide(attempt, Outcome::Aborted { fence });
    }

    pub fn switch(&mut self, attempt: AttemptId) {
        let fence = self.fenced_at(attempt).expect("a switched attempt has its fence");
        self.decide(attempt, Outcome::Switched { fence });
    }

    fn decide(&mut self, attempt: AttemptId, outcome: Outcome) {
        self.control.decide(attempt, outcome);
        let facts = self.control.facts(attempt);
        let a_move = self.moves.get_mut(&facts.move_id).expect("a move of the world");
        a_move.switched = matches!(facts.outcome, Some(Outcome::Switched { .. }));
        let owner = if a_move.switched { facts.destination } else { facts.source };
        for key in &a_move.keys {
            self.routes[*key] = (owner, facts.epoch);
        }
    }

    /// The newest attempt, if it has no outcome yet.
    pub fn undecided(&self, move_id: MoveId) -> Option<AttemptId> {
        let attempt = *self.moves[&move_id].attempts.last()?;
        self.control.facts(attempt).outcome.is_none().then_some(attempt)
    }
}

pub fn with_request(mut write: Write, id: u8) -> Write {
    write.request = Some(RequestId([id; 16]));
    write
}

pub fn from_source(mut write: Write, position: u64) -> Write {
    write.source = Some(SourcePosition { source: "import".into(), position });
    write
}

pub fn only_if(mut write: Write, condition: Condition) -> Write {
    let change = write.changes()[0].clone();
    write.operation = Operation::ChangeIf { change, condition };
    write
}

pub fn forged_nonce(mut mark: AttemptMark) -> AttemptMark {
    mark.nonce = Nonce(mark.nonce.0 + 1);
    mark
}

fn keys_of(placement: Placement, slot: u32) -> Vec<Vec<u8>> {
    let candidates = (0..).map(|number| format!("k{number}").into_bytes());
    candidates.filter(|key| placement.slot(key) == SlotId(slot)).take(KEYS_PER_SLOT).collect()
}

fn atom(placement: Placement, keys: &[Vec<u8>], key: usize) -> Vec<KeyRange> {
    let pinned = |key: usize| store_key::placed_range(&placement.place(&keys[key]));
    let (slot, within) = (key / KEYS_PER_SLOT, key % KEYS_PER_SLOT);
    if within < KEYS_PER_SLOT - 1 {
        return vec![pinned(key)];
    }
    let mut pins: Vec<KeyRange> = (0..KEYS_PER_SLOT - 1).map(|pin| pinned(slot * KEYS_PER_SLOT + pin)).collect();
    pins.sort();
    let whole = placement.slot_range(SlotId(slot as u32));
    let mut rest = Vec::new();
    let mut start = whole.start.clone();
    for pin in pins {
        rest.push(KeyRange::new(start, Some(pin.start)));
        start = pin.end.expect("a pinned key has an end");
    }
    rest.push(KeyRange::new(start, whole.end));
    rest
}
