//! What a new replica of a shard begins from: everything that another replica holds, as one snapshot of its store.
//!
//! Rows, tombstones, request ids, slot states, applied position, and what is kept for moves: all of it is as it was between
//! two batches, so a replica that goes on from there is at each position what the other one was (R9). Where a copy or a
//! wipe of a move is under way at that moment, its rows are there in part; the bookkeeping that goes before each says so,
//! and the new replica owes the same work. The entry that says whose store it is stays out: it is written last, so a store
//! without it holds nothing that counts.

use crate::copy::{Copier, snapshot_prefix};
use crate::moves::AGAIN_AFTER_MS;
use crate::replica::{Message, Replica};
use crate::step::Step;
use rehome_keyspace::{KeyRange, KeyspaceId, MoveId, NodeId, Offset, Selector, ShardId};
use rehome_ports::{Change, PortError, SnapshotStore, Store, around};
use rehome_records::store_value::{StoredApplied, StoredIdentity};
use rehome_records::{Digest, Manifest, store_key};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Entries between two moments at which an export gives way.
const ENTRIES_BETWEEN_YIELDS: u64 = 200;

/// A seed by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    pub keyspace: KeyspaceId,
    pub shard: ShardId,
    /// The hosting that it is for.
    pub hosting: Offset,
    /// The node that gives it.
    pub from: NodeId,
}

impl Seed {
    /// Returns the name of its snapshot.
    pub fn name(&self) -> String {
        let Seed { keyspace, shard, hosting, from } = self;
        format!("{}{shard}-seed-{hosting}-at-{from}", snapshot_prefix(*keyspace))
    }

    /// Reads back what [`Seed::name`] made; nothing when it did not make it.
    pub fn of_name(name: &str) -> Option<Seed> {
        let (shard, rest) = name.split_once("-seed-")?;
        let (keyspace, shard) = shard.strip_prefix("keyspace-")?.split_once("-shard-")?;
        let (hosting, from) = rest.split_once("-at-")?;
        Some(Seed {
            keyspace: KeyspaceId(keyspace.parse().ok()?),
            shard: ShardId(shard.parse().ok()?),
            hosting: Offset(hosting.parse().ok()?),
            from: NodeId(from.parse().ok()?),
        })
    }

    /// Takes the seed into a store, which is emptied first; then the store is this shard's.
    ///
    /// Errors: `NotApplied` when the seed is not there yet; `Broken` when it is altered.
    pub(crate) fn take(&self, store: &dyn Store, snapshots: &dyn SnapshotStore) -> Result<(), PortError> {
        let name = self.name();
        let manifest = snapshots.manifest(&name)?;
        let manifest = manifest.ok_or_else(|| PortError::not_applied(format!("seed {name} is not there yet")))?;
        if (manifest.keyspace, manifest.source) != (self.keyspace, self.shard) {
            return Err(PortError::broken(format!("seed {name} is of another shard")));
        }
        store.wipe(&[KeyRange::all()])?;
        store.ingest(snapshots, &name, &manifest)?;
        let identity = StoredIdentity { keyspace: self.keyspace, shard: self.shard };
        store.write(vec![Change::Put { key: store_key::identity(), value: identity.encode() }])?;
        store.flush()?;
        snapshots.remove(&name)
    }
}

impl Copier {
    /// Exports everything of the store at one moment, but for the entry that says whose it is.
    fn export_seed(&self, seed: &Seed) -> Result<(), PortError> {
        let name = seed.name();
        let exported = self.store.snapshot(&mut |reader| {
            let applied = reader.get(&store_key::applied())?;
            let applied = applied.map(|applied| StoredApplied::decode(&applied)).transpose();
            let applied = applied.map_err(|error| PortError::broken(format!("the applied position: {error}")))?;
            let writer = self.snapshots.create(&name)?;
            let mut part = writer.part(0)?;
            let (mut entries, mut failed) = (0u64, None);
            reader.scan(&KeyRange::all(), false, &mut |key, value| {
                entries += 1;
                if entries.is_multiple_of(ENTRIES_BETWEEN_YIELDS) {
                    self.jobs.give_way();
                }
                if key == store_key::identity() {
                    return ControlFlow::Continue(());
                }
                match part.add(key, value) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                }
            })?;
            failed.map_or(Ok(()), Err)?;
            // The log holds everything that the seed follows from, or a power loss could leave a replica beyond it.
            self.store.flush()?;
            let manifest = Manifest {
                keyspace: self.keyspace,
                source: self.shard,
                // No move is numbered zero.
                move_id: MoveId(0),
                copy: 0,
                selector: Selector::new(vec![KeyRange::all()]),
                position: applied.map(|applied| applied.offset),
                digest: Digest::default(),
                states: Vec::new(),
                fences: Vec::new(),
                runs: part.finish()?,
            };
            around(&self.hook, Step::SealSeed, || writer.seal(&manifest))
        });
        if exported.is_err() {
            self.snapshots.remove(&name)?;
        }
        exported
    }
}

/// How far a seed is that this replica gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Giving {
    Working,
    Given,
    Again { at_ms: u64 },
}

impl Replica {
    /// Gives the seeds that are asked of this replica, and removes those that nobody needs any more.
    pub(crate) fn give_seeds(&mut self, now_ms: u64) -> bool {
        let (keyspace, shard, from) = (self.keyspace, self.shard, self.config.node);
        let state = self.follower.state();
        let coming = state.keyspace(keyspace).into_iter().flat_map(|of| of.coming_of(shard));
        let asked = coming.filter(|(_, coming)| coming.from == Some(from)).map(|(_, coming)| coming.hosting);
        let asked: Vec<Offset> = if self.coming { Vec::new() } else { asked.collect() };
        let is_needless =
            |(hosting, giving): &(&Offset, &Giving)| !asked.contains(hosting) && **giving != Giving::Working;
        let needless: Vec<Offset> = self.seeds.iter().filter(is_needless).map(|(hosting, _)| *hosting).collect();
        let mut acted = false;
        for hosting in needless {
            self.seeds.remove(&hosting);
            self.spawn_seed(Seed { keyspace, shard, hosting, from }, |copier, seed| {
                copier.snapshots.remove(&seed.name())
            });
            acted = true;
        }
        for hosting in asked {
            let due = match self.seeds.get(&hosting) {
                None => true,
                Some(Giving::Again { at_ms }) => *at_ms <= now_ms,
                Some(Giving::Working | Giving::Given) => false,
            };
            if due && self.live.is_confirmed() {
                self.seeds.insert(hosting, Giving::Working);
                let seed = Seed { keyspace, shard, hosting, from };
                let inbox = self.inbox.clone();
                self.spawn_seed(seed, move |copier, seed| {
                    let is_there = copier.snapshots.manifest(&seed.name())?.is_some();
                    let given = if is_there { Ok(()) } else { copier.export_seed(seed) };
                    inbox.push(Message::SeedGiven(hosting, given.clone()));
                    given
                });
                acted = true;
            }
        }
        acted
    }

    fn spawn_seed(&self, seed: Seed, work: impl FnOnce(&Copier, &Seed) -> Result<(), PortError> + Send + 'static) {
        let copier = self.copier.clone();
        let job = move || {
            if let Err(error) = work(&copier, &seed) {
                tracing::warn!(shard = %seed.shard, hosting = %seed.hosting, %error, "work on a seed failed");
            }
        };
        self.config.jobs.spawn(format!("seed-shard-{}", seed.shard), Box::new(job));
    }

    pub(crate) fn seed_given(&mut self, hosting: Offset, given: &Result<(), PortError>, now_ms: u64) {
        let giving = match given {
            Ok(()) => Giving::Given,
            Err(_) => Giving::Again { at_ms: now_ms + AGAIN_AFTER_MS },
        };
        self.seeds.insert(hosting, giving);
    }

    /// Returns when a seed that could not be given is tried again.
    pub(crate) fn seed_wake_at_ms(&self) -> Option<u64> {
        let again = |giving: &Giving| match giving {
            Giving::Again { at_ms } => Some(*at_ms),
            Giving::Working | Giving::Given => None,
        };
        self.seeds.values().filter_map(again).min()
    }
}

/// The seeds that a replica gives, by the hosting that each is for.
pub(crate) type Seeds = BTreeMap<Offset, Giving>;

#[cfg(test)]
mod tests {
    use super::*;
    use rehome_memory::{MemorySnapshots, MemoryStore};
    use rehome_ports::Reader;

    const SEED: Seed = Seed { keyspace: KeyspaceId(7), shard: ShardId(2), hosting: Offset(31), from: NodeId(4) };

    #[test]
    fn a_seeds_name_tells_whose_it_is() {
        assert_eq!(SEED.name(), "keyspace-7-shard-2-seed-31-at-4");
        assert_eq!(Seed::of_name(&SEED.name()), Some(SEED));
        assert_eq!(Seed::of_name("keyspace-7-shard-2-move-31-copy-4-at-1"), None);
    }

    #[test]
    fn a_store_is_a_shards_only_once_the_whole_seed_is_in_it() {
        let (store, snapshots) = (MemoryStore::new(), MemorySnapshots::new());
        store.write(vec![Change::Put { key: b"\x10left".to_vec(), value: vec![1] }]).expect("memory takes it");
        let missing = SEED.take(&*store, &*snapshots).expect_err("nobody gave it");
        assert_eq!(missing.remedy, rehome_ports::Remedy::NotApplied);
        let writer = snapshots.create(&SEED.name()).expect("memory takes it");
        let mut part = writer.part(0).expect("the first one");
        for key in [store_key::applied(), b"\x10new".to_vec()] {
            part.add(&key, b"x").expect("keys ascend");
        }
        let runs = part.finish().expect("it has entries");
        let manifest = Manifest {
            keyspace: SEED.keyspace,
            source: SEED.shard,
            move_id: MoveId(0),
            copy: 0,
            selector: Selector::new(vec![KeyRange::all()]),
            position: None,
            digest: Digest::default(),
            states: Vec::new(),
            fences: Vec::new(),
            runs,
        };
        writer.seal(&manifest).expect("memory takes it");
        store.cut_short_next(0);
        SEED.take(&*store, &*snapshots).expect_err("cut short");
        assert_eq!(store.get(&store_key::identity()).expect("readable"), None);
        SEED.take(&*store, &*snapshots).expect("it is whole");
        assert!(store.get(&store_key::identity()).expect("readable").is_some());
        assert_eq!(store.get(b"\x10left").expect("readable"), None, "nothing of before is left");
        assert_eq!(store.get(b"\x10new").expect("readable").as_deref(), Some(&b"x"[..]));
        assert_eq!(snapshots.names().expect("readable"), [""; 0]);
    }
}
