//! Measures how many records a second one core applies: `cargo run --release -p rehome-shard-core --example apply_rate`.
//!
//! Writes of 24-byte keys and 116-byte values with request ids, in batches of 1,000, over a store in memory.

use rehome_keyspace::{
    AttemptFacts, AttemptId, Attempts, Epoch, KeyRange, KeyspaceId, MoveId, Offset, Placement, RequestId, ShardId,
    SlotId,
};
use rehome_records::store_value::StoredIdentity;
use rehome_records::{Logged, Manifest, Operation, RowChange, Verdict, Write};
use rehome_shard_core::{Ground, Pending, ShardCore, View, ViewError, Visit, digest_of};
use std::collections::BTreeMap;

const RECORDS: u64 = 500_000;
const BATCH: usize = 1_000;
const IDENTITY: StoredIdentity = StoredIdentity { keyspace: KeyspaceId(1), shard: ShardId(0) };

#[derive(Default)]
struct Memory(BTreeMap<Vec<u8>, Vec<u8>>);

impl View for Memory {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, range: &KeyRange, visit: Visit<'_>) -> Result<(), ViewError> {
        for (key, value) in self.0.range(range.start.clone()..) {
            if !range.contains(key) || visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// A store in which nothing is found: what remains is the core itself.
struct Nothing;

impl View for Nothing {
    fn get(&self, _: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        Ok(None)
    }

    fn scan(&self, _: &KeyRange, _: Visit<'_>) -> Result<(), ViewError> {
        Ok(())
    }
}

struct NoAttempts;

impl Attempts for NoAttempts {
    fn folded_next(&self) -> Offset {
        Offset(0)
    }

    fn attempt(&self, _: AttemptId) -> Option<AttemptFacts> {
        None
    }
}

fn main() {
    let records: Vec<Logged> = (0..RECORDS).map(record).collect();
    let placement = Placement::buckets(4096).expect("in range");
    let everything = placement.selector((0..4096).map(SlotId));
    let granted = [(KeyRange::all(), Epoch(1))];
    let create = |pending: &mut Pending| ShardCore::create(IDENTITY, placement, 86_400_000, &granted, pending);

    let mut core = create(&mut Pending::new());
    report("live, nothing found in the store", &records, |batch| {
        run(&mut core, batch, &Nothing);
    });

    let (mut core, mut memory) = (create(&mut Pending::new()), Memory::default());
    report("live, store in memory, writing it included", &records, |batch| {
        let pending = run(&mut core, batch, &memory);
        memory.0.extend(pending.into_changes().filter_map(|(key, value)| Some((key, value?))));
    });

    let mut core = create(&mut Pending::new());
    core.start_outbound(MoveId(1), 0, everything.clone(), &mut Pending::new());
    report("live, every key moving out, nothing found", &records, |batch| {
        run(&mut core, batch, &Nothing);
    });

    let mut core = ShardCore::create(IDENTITY, placement, 86_400_000, &[], &mut Pending::new());
    let states = create(&mut Pending::new()).regions_of(&everything);
    let manifest = Manifest {
        keyspace: IDENTITY.keyspace,
        source: ShardId(1),
        move_id: MoveId(1),
        copy: 0,
        selector: everything.clone(),
        position: None,
        digest: Default::default(),
        states,
        fences: Vec::new(),
        runs: Vec::new(),
    };
    core.start_replay(&manifest, Default::default(), &mut Pending::new());
    report("replay, every key moving in, nothing found", &records, |batch| {
        let mut pending = Pending::new();
        let mut ground = Ground { view: &Nothing, attempts: &NoAttempts, pending: &mut pending };
        batch.iter().for_each(|logged| core.replay(MoveId(1), logged, &mut ground).expect("nothing to wait for"));
        core.seal(&mut pending);
    });

    let manifest = Manifest { selector: placement.selector([SlotId(7)]), move_id: MoveId(2), ..manifest };
    core.start_replay(&manifest, Default::default(), &mut Pending::new());
    report("replay, one slot of 4,096 moving in", &records, |batch| {
        let mut pending = Pending::new();
        let mut ground = Ground { view: &Nothing, attempts: &NoAttempts, pending: &mut pending };
        batch.iter().for_each(|logged| core.replay(MoveId(2), logged, &mut ground).expect("nothing to wait for"));
        core.seal(&mut pending);
    });

    let started = Spent::so_far();
    digest_of(&memory, &everything).expect("sound entries");
    rate("digest by scanning the store in memory", memory.0.len(), started);
}

fn record(number: u64) -> Logged {
    let change = RowChange {
        sort_key: format!("{:012}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000_000_000).into_bytes(),
        value: Some(vec![number as u8; 116]),
    };
    let write = Write {
        partition_key: format!("airport-{:04}", number % 1_000).into_bytes(),
        epoch: Epoch(1),
        request: Some(RequestId((u128::from(number) * 0x9E37_79B9_7F4A_7C15_F39C_0C45).to_be_bytes())),
        source: None,
        operation: Operation::Change(change),
    };
    Logged { offset: Offset(number), append_time_ms: number, record: write.into_record() }
}

fn run(core: &mut ShardCore, batch: &[Logged], view: &dyn View) -> Pending {
    let mut pending = Pending::new();
    let mut ground = Ground { view, attempts: &NoAttempts, pending: &mut pending };
    for logged in batch {
        let applied = core.apply(logged, &mut ground).expect("nothing to wait for");
        assert!(matches!(applied.verdict, Some(Verdict::Accepted { .. })), "each write is new");
    }
    core.seal(&mut pending);
    pending
}

fn report(what: &str, records: &[Logged], mut run: impl FnMut(&[Logged])) {
    let started = Spent::so_far();
    records.chunks(BATCH).for_each(&mut run);
    rate(what, records.len(), started);
}

fn rate(what: &str, records: usize, started: Spent) {
    let seconds = Spent::so_far().seconds - started.seconds;
    println!("{what}: {:.0} records per second of processor time", records as f64 / seconds);
}

/// Processor time of this thread, so that what else runs on the machine does not count. Linux only.
struct Spent {
    seconds: f64,
}

impl Spent {
    fn so_far() -> Spent {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("this is Linux");
        let nanoseconds: f64 = stat.split(' ').next().and_then(|first| first.parse().ok()).expect("the first number");
        Spent { seconds: nanoseconds / 1e9 }
    }
}
