//! Three shards with two replicas each, and everything that is seen of them.

use crate::random::Step;
use crate::replica::{Laid, Replica};
use crate::world::{KEYS, World};
use rehome_invariants as seen;
use rehome_keyspace::{AttemptId, MoveId, Offset, ShardId};
use rehome_records::store_value::StoredRow;
use rehome_records::{DataRecord, Digest, SlotState, Verdict, Write, store_key};
use rehome_shard_core::{MarkEffect, ReadyFacts, Stop, digest_of};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

mod check;
mod moves;
mod writes;

pub use check::Reached;

pub struct Sim {
    pub world: World,
    pub replicas: Vec<Replica>,
    /// The first verdict on each write; every later one must be the same.
    pub verdicts: BTreeMap<(ShardId, Offset), Verdict>,
    effects: BTreeMap<(ShardId, Offset), MarkEffect>,
    /// The state of a move's selector in the source's partition, by position, whoever had it first.
    digests: BTreeMap<(MoveId, Offset), Digest>,
    asked: BTreeMap<(ShardId, Offset), seen::Moment>,
    now: u64,
    pub history: seen::History,
    /// Writes with a request id that may be sent again, by key.
    requests: BTreeMap<usize, Vec<Write>>,
    sources: BTreeMap<usize, u64>,
    values: u64,
    readies: BTreeMap<AttemptId, (Option<ReadyFacts>, Vec<ReadyFacts>)>,
    cleaned: BTreeSet<(MoveId, usize)>,
    waits: u64,
    replayed: u64,
}

impl Sim {
    pub const SHARDS: u32 = 3;
    const COPIES: usize = 2;
    pub const REPLICAS: usize = Self::SHARDS as usize * Self::COPIES;

    pub fn new() -> Sim {
        let world = World::new(Self::SHARDS);
        let replicas = (0..Self::REPLICAS).map(|index| Replica::new(&world, index as u32 % Self::SHARDS)).collect();
        let mut history = seen::History::default();
        for shard in (0..Self::SHARDS).map(ShardId) {
            for (range, epoch) in world.granted(shard) {
                let selector = rehome_keyspace::Selector::new(vec![range]);
                history.grants.push(seen::Grant { epoch, shard, selector });
            }
        }
        Sim {
            world,
            replicas,
            verdicts: BTreeMap::new(),
            effects: BTreeMap::new(),
            digests: BTreeMap::new(),
            asked: BTreeMap::new(),
            now: 0,
            history,
            requests: BTreeMap::new(),
            sources: BTreeMap::new(),
            values: 0,
            readies: BTreeMap::new(),
            cleaned: BTreeSet::new(),
            waits: 0,
            replayed: 0,
        }
    }

    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Write(write) => self.write(write),
            Step::Horizon { key, pick } => self.horizon(*key, *pick),
            Step::StartMove { key, more, destination } => self.start_move(*key, more, *destination),
            Step::Export { replica } => self.export(*replica),
            Step::Ingest { replica } => _ = self.ingest(*replica),
            Step::StartAttempt { pick } => self.start_attempt(*pick),
            Step::Open { pick } => self.mark(*pick, World::open),
            Step::Fence { pick } => self.mark(*pick, World::fence),
            Step::ForgedMark { pick, shard, how, open } => self.forge(*pick, *shard, *how, *open),
            Step::Ready { replica } => self.ready(*replica),
            Step::Abort { pick } => self.abort(*pick),
            Step::Cancel { pick } => self.cancel(*pick),
            Step::CleanUp { replica } => self.clean_up(*replica),
            Step::Apply { replica, records } => _ = self.apply(*replica, *records),
            Step::Replay { replica, records } => _ = self.replay(*replica, *records),
            Step::Fold { replica, back } => {
                let folded = Offset(self.world.control.next.0.saturating_sub(*back));
                self.replicas[*replica].folded = folded.max(self.replicas[*replica].folded);
            }
            Step::Settle { replica } => _ = self.replicas[*replica].settle(&self.world),
            Step::Flush { replica } => self.replicas[*replica].flush(),
            Step::Crash { replica, batches } => self.replicas[*replica].crash(&self.world, *batches),
            Step::Read { replica, key } => self.read(*replica, *key),
            Step::Hurry { pick, finish } => self.hurry(*pick, *finish),
        }
    }

    fn moment(&mut self) -> seen::Moment {
        self.now += 1;
        seen::Moment(self.now)
    }

    /// Applies some records at a replica, and returns whether there was one.
    fn apply(&mut self, index: usize, records: usize) -> bool {
        let world = &self.world;
        let replica = &mut self.replicas[index];
        let shard = replica.shard;
        let mut judged = Vec::new();
        let mut digests = Vec::new();
        let count = replica.apply_batch(world, records, &mut |core, laid: &Laid<'_>, logged, applied| {
            judged.push((logged.offset, applied.clone()));
            for (move_id, a_move) in world.moves.iter().filter(|(_, a_move)| a_move.source == shard && !a_move.ended) {
                // A destination that has not replayed all of an earlier move does not have the rows yet.
                let holds = |state| match state {
                    SlotState::Owned { .. } => true,
                    SlotState::Contested { attempt, .. } => world.control.facts(attempt).source == shard,
                    SlotState::Closed { .. } => false,
                };
                if !core.regions_of(&a_move.selector).iter().all(|region| holds(region.state)) {
                    continue;
                }
                let digest = digest_of(laid, &a_move.selector).expect("sound entries");
                if let Some(running) = core.outbound(*move_id).and_then(|outbound| outbound.digest()) {
                    assert_eq!(running, digest, "the running digest of move {move_id} at {}", logged.offset);
                }
                digests.push((*move_id, logged.offset, digest));
            }
        });
        let count = self.progress(count);
        for (offset, applied) in judged {
            self.observe(shard, offset, applied);
        }
        self.compare_digests(digests);
        count > 0
    }

    /// Replays some records of every move on its way in to a replica, and returns whether there was one.
    fn replay(&mut self, index: usize, records: usize) -> bool {
        let moves: Vec<MoveId> = {
            let inbounds = self.replicas[index].core.inbounds();
            inbounds.filter(|inbound| inbound.replay.is_some()).map(|inbound| inbound.move_id).collect()
        };
        let mut any = false;
        for move_id in moves {
            let world = &self.world;
            let a_move = &world.moves[&move_id];
            let fence = a_move.attempts.last().filter(|_| a_move.switched).map(|attempt| world.fenced_at(*attempt));
            let replica = &mut self.replicas[index];
            let mut digests = Vec::new();
            let count = replica.replay_batch(world, move_id, records, &mut |core, laid, logged| {
                if fence.is_some_and(|fence| Some(logged.offset) > fence) || a_move.ended {
                    return;
                }
                let digest = core.inbound(move_id).and_then(|inbound| inbound.replay.as_ref()).expect("a copy").digest;
                let states = core.regions_of(&a_move.selector);
                if !states.iter().any(|region| matches!(region.state, SlotState::Owned { .. })) {
                    assert_eq!(digest_of(laid, &a_move.selector).expect("sound entries"), digest);
                }
                digests.push((move_id, logged.offset, digest));
            });
            let count = self.progress(count);
            self.replayed += count as u64;
            any |= count > 0;
            self.compare_digests(digests);
        }
        any
    }

    fn progress(&mut self, count: Result<usize, Stop>) -> usize {
        match count {
            Ok(count) => count,
            Err(Stop::Wait(_)) => {
                self.waits += 1;
                0
            }
            Err(broken) => panic!("{broken}"),
        }
    }

    fn compare_digests(&mut self, digests: Vec<(MoveId, Offset, Digest)>) {
        for (move_id, offset, digest) in digests {
            let first = *self.digests.entry((move_id, offset)).or_insert(digest);
            assert_eq!(first, digest, "the state of move {move_id} at {offset}");
        }
    }

    fn observe(&mut self, shard: ShardId, offset: Offset, applied: rehome_shard_core::Applied) {
        let answered = self.moment();
        if let Some(verdict) = applied.verdict {
            let accepted = matches!(verdict, Verdict::Accepted { .. });
            match self.verdicts.insert((shard, offset), verdict.clone()) {
                Some(first) => assert_eq!(first, verdict, "the verdict on {offset} of shard {shard}"),
                None if accepted => self.acknowledge(shard, offset, answered),
                None => {}
            }
        }
        if let Some(mark) = applied.mark {
            if let Some(first) = self.effects.insert((shard, offset), mark.effect.clone()) {
                assert_eq!(discriminant(&first), discriminant(&mark.effect), "the mark at {offset} of shard {shard}");
            } else if mark.effect == MarkEffect::Fenced {
                let facts = self.world.control.facts(mark.attempt.expect("a fence names its attempt"));
                let (attempt, epoch, selector) = (facts.attempt, facts.epoch, (*facts.selector).clone());
                self.history.fences.push(seen::Fence { attempt, shard, selector, epoch, offset });
            }
        }
    }

    fn acknowledge(&mut self, shard: ShardId, offset: Offset, answered: seen::Moment) {
        let write = self.written(shard, offset);
        let accepted = seen::Accepted::of(shard, offset, &self.world.placement, &write);
        self.history.acks.push(seen::Ack {
            placed: accepted.placed.clone(),
            sort_keys: accepted.rows.iter().map(|(sort_key, _)| sort_key.clone()).collect(),
            version: accepted.version,
            asked: self.asked[&(shard, offset)],
            answered,
        });
        self.history.accepted.push(accepted);
    }

    fn written(&self, shard: ShardId, offset: Offset) -> Write {
        let logged =
            self.world.partitions[&shard].iter().find(|logged| logged.offset == offset).expect("it was judged");
        match DataRecord::read(&logged.record) {
            Ok(DataRecord::Write(write)) => write,
            other => panic!("only writes have verdicts here: {other:?}"),
        }
    }

    /// A linearizable read, where the replica may answer it.
    fn read(&mut self, index: usize, key: usize) {
        let asked = self.moment();
        let replica = &self.replicas[index];
        let (shard, epoch) = self.world.routes[key];
        let end = self.world.partitions[&replica.shard].last().map(|logged| logged.offset);
        let whole = replica.core.applied().map(|applied| applied.offset) == end;
        if shard != replica.shard || !whole || replica.state(&self.world, key) != (SlotState::Owned { epoch }) {
            return;
        }
        for sort_key in 0..3u8 {
            let placed = self.world.placed(key);
            let stored = replica.view.0.get(&store_key::row(&placed, &[sort_key]));
            let row = stored.map(|stored| StoredRow::decode(stored).expect("sound entries"));
            let found = row.and_then(|row| Some((row.version, row.value?)));
            let (sort_key, served_by) = (vec![sort_key], vec![(shard, epoch)]);
            self.history.reads.push(seen::Read { placed, sort_key, asked, found, served_by });
        }
    }

    fn keys() -> impl Iterator<Item = usize> {
        0..KEYS
    }
}

/// Picks one of what there is.
fn pick<T>(pick: u16, from: impl IntoIterator<Item = T>) -> Option<T> {
    let mut from: Vec<T> = from.into_iter().collect();
    (!from.is_empty()).then(|| from.swap_remove(usize::from(pick) % from.len()))
}
