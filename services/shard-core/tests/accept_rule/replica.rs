//! One replica that can crash, over a store in memory that keeps every batch boundary since it was last durable.

use crate::world::{Copy, RETENTION_MS, World};
use rehome_keyspace::{AttemptId, KeyRange, MoveId, Offset, Selector, ShardId};
use rehome_records::{Logged, Manifest, SlotState, Verdict, store_key};
use rehome_shard_core::{
    Applied, Ground, MarkEffect, Pending, ReadyFacts, ShardCore, Stop, View, ViewError, Visit, WaitFor, digest_of,
};
use std::collections::BTreeMap;

#[derive(Clone, Default, PartialEq, Eq)]
pub struct MemoryView(pub BTreeMap<Vec<u8>, Vec<u8>>);

impl View for MemoryView {
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

/// A view with changes laid over it.
pub struct Laid<'a>(pub &'a MemoryView, pub &'a Pending);

impl View for Laid<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        self.1.get(self.0, key)
    }

    fn scan(&self, range: &KeyRange, visit: Visit<'_>) -> Result<(), ViewError> {
        self.1.scan(self.0, range, visit)
    }
}

pub struct Replica {
    pub shard: ShardId,
    pub core: ShardCore,
    pub view: MemoryView,
    /// How far it has folded the control log.
    pub folded: Offset,
    /// The store at its durable point, and after each batch since.
    boundaries: Vec<MemoryView>,
}

impl Replica {
    /// An empty replica that has folded the whole control log.
    pub fn new(world: &World, shard: u32) -> Replica {
        let shard = ShardId(shard);
        let mut pending = Pending::new();
        let core = ShardCore::create(
            world.identity(shard),
            world.placement,
            RETENTION_MS,
            &world.granted(shard),
            &mut pending,
        );
        let mut view = MemoryView::default();
        write(&mut view, pending);
        Replica { shard, core, boundaries: vec![view.clone()], view, folded: world.control.next }
    }

    pub fn fold(&mut self, world: &World) {
        self.folded = world.control.next;
    }

    /// Runs one batch and writes it.
    pub fn batch<R>(&mut self, world: &World, run: impl FnOnce(&mut ShardCore, &mut Ground<'_>) -> R) -> R {
        let mut pending = Pending::new();
        let attempts = world.control.seen(self.folded);
        let result = run(&mut self.core, &mut Ground { view: &self.view, attempts: &attempts, pending: &mut pending });
        self.core.seal(&mut pending);
        if !pending.is_empty() {
            write(&mut self.view, pending);
            self.boundaries.push(self.view.clone());
        }
        result
    }

    /// Applies up to that many records in one batch, and shows each to `watch` with the store as it is then. Stops
    /// where it has to wait.
    pub fn apply_batch(
        &mut self,
        world: &World,
        records: usize,
        watch: &mut dyn FnMut(&ShardCore, &Laid<'_>, &Logged, &Applied),
    ) -> Result<usize, Stop> {
        let applied = self.core.applied().map(|applied| applied.offset);
        let partition = &world.partitions[&self.shard];
        let first = partition.partition_point(|logged| Some(logged.offset) <= applied);
        let view = self.view.clone();
        self.batch(world, |core, ground| {
            for (count, logged) in partition[first..].iter().take(records).enumerate() {
                match found(
                    world,
                    |core| core.apply(logged, ground),
                    |core| core.refuse_unfounded(None, logged.offset),
                    core,
                ) {
                    Ok(applied) => watch(core, &Laid(&view, ground.pending), logged, &applied),
                    Err(stop) if count == 0 => return Err(stop),
                    Err(_) => return Ok(count),
                }
            }
            Ok(partition[first..].len().min(records))
        })
    }

    /// Applies the next record; nothing at the end of the partition.
    pub fn step(&mut self, world: &World) -> Result<Option<Applied>, Stop> {
        let mut seen = None;
        self.apply_batch(world, 1, &mut |_, _, _, applied| seen = Some(applied.clone()))?;
        Ok(seen)
    }

    /// Applies everything that is left, and returns what became of the last record.
    pub fn drain(&mut self, world: &World) -> Result<Applied, Stop> {
        let mut last = Applied::default();
        while let Some(applied) = self.step(world)? {
            last = applied;
        }
        Ok(last)
    }

    #[track_caller]
    pub fn verdict(&mut self, world: &World) -> Verdict {
        self.drain(world).unwrap().verdict.expect("the last record is a write")
    }

    #[track_caller]
    pub fn effect(&mut self, world: &World) -> MarkEffect {
        self.drain(world).unwrap().mark.expect("the last record is a mark").effect
    }

    /// Replays up to that many records of the source's partition in one batch.
    pub fn replay_batch(
        &mut self,
        world: &World,
        move_id: MoveId,
        records: usize,
        watch: &mut dyn FnMut(&ShardCore, &Laid<'_>, &Logged),
    ) -> Result<usize, Stop> {
        let inbound = self.core.inbound(move_id).expect("a move on its way in");
        let position = inbound.replay.as_ref().expect("a copy").position;
        let partition = &world.partitions[&inbound.source];
        let first = partition.partition_point(|logged| Some(logged.offset) <= position);
        let view = self.view.clone();
        self.batch(world, |core, ground| {
            for (count, logged) in partition[first..].iter().take(records).enumerate() {
                match found(
                    world,
                    |core| core.replay(move_id, logged, ground),
                    |core| core.refuse_unfounded(Some(move_id), logged.offset),
                    core,
                ) {
                    Ok(()) => watch(core, &Laid(&view, ground.pending), logged),
                    Err(stop) if count == 0 => return Err(stop),
                    Err(_) => return Ok(count),
                }
            }
            Ok(partition[first..].len().min(records))
        })
    }

    /// Replays everything that is left of the source's partition.
    pub fn replay(&mut self, world: &World, move_id: MoveId) -> Result<(), Stop> {
        while self.replay_batch(world, move_id, 1, &mut |_, _, _| {})? > 0 {}
        Ok(())
    }

    pub fn settle(&mut self, world: &World) -> bool {
        self.batch(world, |core, ground| core.settle(ground)).expect("nothing is broken")
    }

    /// Starts the running digest and takes a snapshot of the selector; nothing when this replica may not.
    pub fn export(&mut self, world: &World, move_id: MoveId) -> Option<Copy> {
        let selector = world.moves[&move_id].selector.clone();
        let position = self.core.applied().map(|applied| applied.offset);
        if !self.core.holds_whole(&selector) {
            return None;
        }
        let copy = world.moves[&move_id].copy.as_ref().map_or(0, |copy| copy.manifest.copy + 1);
        self.batch(world, |core, ground| core.start_outbound(move_id, copy, selector.clone(), ground.pending));
        let digest = digest_of(&self.view, &selector).expect("sound entries");
        let outbound = self.core.outbound(move_id).expect("just started");
        let (base, fences) = (digest.minus(outbound.change), outbound.fences.clone());
        self.batch(world, |core, ground| core.set_outbound_base(move_id, copy, base, ground.pending));
        let entries = self.view.0.iter().filter(|(key, _)| moves_with(&selector, key));
        let entries = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
        let states = self.core.regions_of(&selector);
        let manifest = Manifest {
            keyspace: world.identity(self.shard).keyspace,
            source: self.shard,
            move_id,
            copy,
            selector,
            position,
            digest,
            states,
            fences,
            runs: Vec::new(),
        };
        Some(Copy { manifest, entries })
    }

    /// Wipes, ingests, reads back, and starts the replay. Durable up to the last step.
    pub fn ingest(&mut self, world: &World, copy: &Copy) {
        let manifest = &copy.manifest;
        let attempts = world.control.seen(self.folded);
        let may = self.core.may_ingest(manifest.move_id, &manifest.selector, &attempts);
        assert!(may, "a wipe waits for what ended the ownership before");
        self.batch(world, |core, ground| {
            let selector = manifest.selector.clone();
            core.start_inbound(manifest.move_id, manifest.copy, manifest.source, selector, ground.pending);
        });
        self.wipe(&manifest.selector);
        self.view.0.extend(copy.entries.clone());
        self.flush();
        let digest = digest_of(&self.view, &manifest.selector).expect("sound entries");
        assert_eq!(digest, manifest.digest, "what was read back is what was exported");
        self.batch(world, |core, ground| core.start_replay(manifest, digest, ground.pending));
    }

    pub fn wipe(&mut self, selector: &Selector) {
        self.view.0.retain(|key, _| !moves_with(selector, key));
        self.flush();
    }

    pub fn forget(&mut self, world: &World, move_id: MoveId) {
        self.batch(world, |core, ground| core.forget_move(move_id, ground.pending));
    }

    pub fn ready(&self, world: &World, attempt: AttemptId) -> Option<ReadyFacts> {
        self.core.ready(&world.control.facts(attempt))
    }

    pub fn flush(&mut self) {
        self.boundaries = vec![self.view.clone()];
    }

    /// Loses up to that many of the batches since the last flush, and starts again from what is left.
    pub fn crash(&mut self, world: &World, batches: usize) {
        let kept = self.boundaries.len() - batches.min(self.boundaries.len() - 1);
        self.boundaries.truncate(kept);
        self.view = self.boundaries[kept - 1].clone();
        self.core = ShardCore::recover(world.identity(self.shard), world.placement, RETENTION_MS, &self.view)
            .expect("a sound store")
            .expect("a store with an owner");
        self.folded = Offset(0);
    }

    pub fn state(&self, world: &World, key: usize) -> SlotState {
        self.core.state(&world.placed(key).0)
    }
}

/// Gives a record; and again, as refused, when it cites a control record that does not exist.
fn found<R>(
    world: &World,
    mut give: impl FnMut(&mut ShardCore) -> Result<R, Stop>,
    refuse: impl FnOnce(&mut ShardCore),
    core: &mut ShardCore,
) -> Result<R, Stop> {
    match give(core) {
        Err(Stop::Wait(WaitFor::Control(cited))) if cited >= world.control.next => {
            refuse(core);
            give(core)
        }
        other => other,
    }
}

fn write(view: &mut MemoryView, pending: Pending) {
    for (key, value) in pending.into_changes() {
        match value {
            Some(value) => view.0.insert(key, value),
            None => view.0.remove(&key),
        };
    }
}

fn moves_with(selector: &Selector, key: &[u8]) -> bool {
    store_key::KINDS_OF_KEYS.contains(&key[0]) && selector.contains(&key[1..])
}

/// Lets the replicas fold the whole control log.
pub fn fold<const N: usize>(world: &World, replicas: [&mut Replica; N]) {
    replicas.into_iter().for_each(|replica| replica.fold(world));
}

/// Starts a move and copies it: the destination has replayed all that the source's partition holds.
pub fn copied(world: &mut World, source: &mut Replica, destination: &mut Replica, keys: &[usize]) -> MoveId {
    let move_id = world.start_move(source.shard.0, destination.shard.0, keys);
    fold(world, [&mut *source, &mut *destination]);
    source.drain(world).unwrap();
    let copy = source.export(world, move_id).expect("the source holds it whole");
    destination.ingest(world, &copy);
    world.moves.get_mut(&move_id).expect("just started").copy = Some(copy);
    destination.replay(world, move_id).unwrap();
    move_id
}

/// Opens and fences, and lets both sides apply that.
pub fn fenced(world: &mut World, source: &mut Replica, destination: &mut Replica, move_id: MoveId) -> AttemptId {
    let attempt = world.start_attempt(move_id);
    world.open(attempt);
    world.fence(attempt);
    for replica in [&mut *source, &mut *destination] {
        replica.fold(world);
        replica.drain(world).unwrap();
    }
    destination.replay(world, move_id).unwrap();
    attempt
}

/// Moves the keys: copied, fenced, found equal, switched and settled.
pub fn moved(world: &mut World, source: &mut Replica, destination: &mut Replica, keys: &[usize]) -> AttemptId {
    let move_id = copied(world, source, destination, keys);
    let attempt = fenced(world, source, destination, move_id);
    let (ours, theirs) = (source.ready(world, attempt).unwrap(), destination.ready(world, attempt).unwrap());
    assert_eq!((ours.fence, ours.digest), (theirs.fence, theirs.digest));
    world.switch(attempt);
    for replica in [source, destination] {
        replica.fold(world);
        assert!(replica.settle(world));
    }
    attempt
}
