//! A simulated log with replicas: partitions that judge by the accept rule, appends that fail in every way, marks that
//! move slots, verdicts that come late, twice or not at all. One seed decides everything.

#![allow(dead_code)] // Each test binary uses its own part.

use rehome_control_core::Route;
use rehome_keyspace::{Epoch, KeyspaceId, Offset, Placement, RequestId, ShardId, SlotId, Version};
use rehome_ports::{PortError, VerdictBatch};
use rehome_records::{DataRecord, FirstAnswer, Operation, Record, RowChange, Verdict, data::Write};
use rehome_router::{AppendId, Routes, WriteAsk};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub const KEYSPACE: KeyspaceId = KeyspaceId(7);
pub const SLOTS: u32 = 4;
pub const SHARDS: u32 = 3;

/// A small generator, so that a seed is all that a failing case needs.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn chance(&mut self, of_1000: u64) -> bool {
        self.below(1000) < of_1000
    }
}

pub fn placement() -> Placement {
    Placement::buckets(SLOTS).expect("a valid count")
}

/// Returns routes that spread the slots over the shards, slot s to shard s mod SHARDS under epoch shard + 1.
pub fn first_routes() -> Vec<Route> {
    let owner = |slot: u32| Route { shard: ShardId(slot % SHARDS), epoch: Epoch(u64::from(slot % SHARDS) + 1) };
    (0..SLOTS).map(owner).collect()
}

pub fn routes(position: u64, routes: Vec<Route>) -> Routes {
    Routes {
        keyspace: KEYSPACE,
        topic: "rehome.k-7.data".into(),
        placement: placement(),
        position: Offset(position),
        routes: Arc::new(routes),
    }
}

/// Returns a key of that slot; equal numbers give equal keys.
pub fn key_in(slot: SlotId, number: u32) -> Vec<u8> {
    let keys = (0u32..).map(|n| format!("key-{n}").into_bytes());
    keys.filter(|key| placement().slot(key) == slot).nth(number as usize).expect("there are endless keys")
}

/// Returns a put of one row whose value is the number.
pub fn put(key: &[u8], number: u64, deadline_ms: u64) -> WriteAsk {
    WriteAsk {
        keyspace: KEYSPACE,
        partition_key: key.to_vec(),
        operation: Operation::Change(RowChange { sort_key: b"s".to_vec(), value: Some(number.to_be_bytes().to_vec()) }),
        request: Some(RequestId(u128::from(number).to_be_bytes())),
        source: None,
        deadline_ms,
    }
}

/// Returns the number that [`put`] gave the write.
pub fn number_of(write: &Write) -> u64 {
    let Operation::Change(change) = &write.operation else { panic!("only puts are used") };
    let value = change.value.as_deref().expect("puts have a value");
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

/// Reads the writes of an append.
pub fn writes_of(records: &[Record]) -> Vec<Write> {
    let read = |record: &Record| match DataRecord::read(record).expect("a router appends what can be read") {
        DataRecord::Write(write) => write,
        DataRecord::Mark(_) => panic!("a router appends no marks"),
    };
    records.iter().map(read).collect()
}

#[derive(Clone, Debug)]
enum Entry {
    Write(Write),
    Fence(SlotId),
}

/// What a partition remembers of a slot; it moves with the slot.
#[derive(Clone, Debug, Default)]
struct Memory {
    requests: BTreeMap<(Vec<u8>, RequestId), Version>,
    sources: BTreeMap<(Vec<u8>, String), u64>,
}

#[derive(Default)]
struct Partition {
    log: Vec<(Offset, Entry)>,
    next: u64,
    /// Entries applied so far.
    applied: usize,
    owned: BTreeMap<SlotId, Epoch>,
    memory: BTreeMap<SlotId, Memory>,
    verdicts: Vec<(Offset, Verdict)>,
    /// Entries that verdicts were told up to.
    told: usize,
    /// Appends on their way, in order; one without an id is nobody's any more.
    line: VecDeque<(Option<AppendId>, Vec<Write>)>,
}

/// How an append on its way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Acknowledged,
    NotApplied,
    UnknownAppended,
    UnknownInPart,
    UnknownLater,
    UnknownLost,
}

pub struct World {
    partitions: Vec<Partition>,
    pub routes: Vec<Route>,
    control: u64,
    epoch_last: u64,
    /// Slots on their way, with their destination; the fence is in the log.
    cutovers: BTreeMap<SlotId, ShardId>,
    /// Results of appends that the router has not heard yet.
    pub acks: Vec<(AppendId, Result<Vec<Offset>, PortError>)>,
    /// Routes that the router has not folded yet.
    pub told: VecDeque<Routes>,
    /// Accepted writes of each slot, in order.
    pub accepted: BTreeMap<SlotId, Vec<Write>>,
    /// What reached the log, in order.
    pub reached: Vec<(ShardId, Write)>,
}

impl World {
    pub fn new() -> World {
        let mut partitions: Vec<Partition> = (0..SHARDS).map(|_| Partition::default()).collect();
        let routes = first_routes();
        for (slot, route) in routes.iter().enumerate() {
            partitions[route.shard.0 as usize].owned.insert(SlotId(slot as u32), route.epoch);
        }
        World {
            partitions,
            routes: routes.clone(),
            control: 1,
            epoch_last: u64::from(SHARDS),
            cutovers: BTreeMap::new(),
            acks: Vec::new(),
            told: VecDeque::from([self::routes(1, routes)]),
            accepted: BTreeMap::new(),
            reached: Vec::new(),
        }
    }

    pub fn append(&mut self, shard: ShardId, append: AppendId, records: &[Record]) {
        self.partitions[shard.0 as usize].line.push_back((Some(append), writes_of(records)));
    }

    pub fn waiting(&self, shard: ShardId) -> usize {
        self.partitions[shard.0 as usize].line.len()
    }

    /// Ends the first append on its way to that shard.
    pub fn deliver(&mut self, rng: &mut Rng, shard: ShardId, end: End) {
        let Some((append, writes)) = self.partitions[shard.0 as usize].line.pop_front() else { return };
        let count = writes.len() as u64;
        let land = match end {
            End::Acknowledged | End::UnknownAppended => count,
            End::UnknownInPart => rng.below(count + 1),
            _ if append.is_none() => count,
            End::NotApplied | End::UnknownLater | End::UnknownLost => 0,
        };
        let offsets = writes.iter().take(land as usize).map(|write| self.land(rng, shard, write)).collect();
        if end == End::UnknownLater && append.is_some() {
            self.partitions[shard.0 as usize].line.push_front((None, writes));
        }
        let Some(append) = append else { return };
        let result = match end {
            End::Acknowledged => Ok(offsets),
            End::NotApplied => Err(PortError::not_applied("not now")),
            _ => Err(PortError::unknown("no answer")),
        };
        self.acks.push((append, result));
    }

    fn land(&mut self, rng: &mut Rng, shard: ShardId, write: &Write) -> Offset {
        self.reached.push((shard, write.clone()));
        self.log(rng, shard, Entry::Write(write.clone()))
    }

    fn log(&mut self, rng: &mut Rng, shard: ShardId, entry: Entry) -> Offset {
        let partition = &mut self.partitions[shard.0 as usize];
        let offset = Offset(partition.next + rng.below(3));
        partition.next = offset.0 + 1;
        partition.log.push((offset, entry));
        offset
    }

    /// Fences the slot at its owner, on its way to the destination; the same shard stands for an abort.
    pub fn start_cutover(&mut self, rng: &mut Rng, slot: SlotId, destination: ShardId) {
        if self.cutovers.contains_key(&slot) {
            return;
        }
        self.cutovers.insert(slot, destination);
        let source = self.routes[slot.0 as usize].shard;
        self.log(rng, source, Entry::Fence(slot));
    }

    /// The replica of the shard applies one record; tells whether there was one.
    pub fn apply(&mut self, shard: ShardId) -> bool {
        let partition = &mut self.partitions[shard.0 as usize];
        let Some((offset, entry)) = partition.log.get(partition.applied).cloned() else { return false };
        partition.applied += 1;
        match entry {
            Entry::Write(write) => {
                let verdict = self.judge(shard, offset, write);
                self.partitions[shard.0 as usize].verdicts.push((offset, verdict));
            }
            Entry::Fence(slot) => self.fenced(shard, slot),
        }
        true
    }

    fn judge(&mut self, shard: ShardId, offset: Offset, write: Write) -> Verdict {
        let slot = placement().slot(&write.partition_key);
        let partition = &mut self.partitions[shard.0 as usize];
        if partition.owned.get(&slot) != Some(&write.epoch) {
            return Verdict::StaleRoute;
        }
        let memory = partition.memory.entry(slot).or_default();
        let version = Version { epoch: write.epoch, offset };
        if let Some(request) = write.request {
            if let Some(version) = memory.requests.get(&(write.partition_key.clone(), request)) {
                return Verdict::Repeated { first: FirstAnswer::Accepted { version: *version } };
            }
            memory.requests.insert((write.partition_key.clone(), request), version);
        }
        if let Some(source) = &write.source {
            let highest = memory.sources.entry((write.partition_key.clone(), source.source.clone())).or_default();
            if *highest >= source.position {
                return Verdict::SourceDone;
            }
            *highest = source.position;
        }
        self.accepted.entry(slot).or_default().push(write);
        Verdict::Accepted { version }
    }

    /// The source has applied the fence: the outcome follows, and the slot's memory moves.
    fn fenced(&mut self, source: ShardId, slot: SlotId) {
        let destination = self.cutovers.remove(&slot).expect("a fence belongs to a cutover");
        let source = &mut self.partitions[source.0 as usize];
        source.owned.remove(&slot);
        let memory = source.memory.remove(&slot).unwrap_or_default();
        self.epoch_last += 1;
        let route = Route { shard: destination, epoch: Epoch(self.epoch_last) };
        let destination = &mut self.partitions[destination.0 as usize];
        destination.owned.insert(slot, route.epoch);
        destination.memory.insert(slot, memory);
        self.routes[slot.0 as usize] = route;
        self.control += 2;
        self.told.push_back(routes(self.control, self.routes.clone()));
    }

    /// Takes what the replica of the shard has to tell; nothing when it has applied nothing since.
    pub fn verdicts(&mut self, shard: ShardId) -> Option<VerdictBatch> {
        let partition = &mut self.partitions[shard.0 as usize];
        if partition.told == partition.applied {
            return None;
        }
        partition.told = partition.applied;
        let applied = partition.log[..partition.applied].last()?.0;
        let verdicts = std::mem::take(&mut partition.verdicts);
        Some(VerdictBatch { keyspace: KEYSPACE, shard, verdicts, applied })
    }
}
