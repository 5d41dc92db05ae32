//! The long work beside the turns: export, ingest, wipe. Runs in a job of its own and tells the replica when it is done.

use crate::step::{Jobs, Step, StepHook};
use rehome_keyspace::{KeyRange, KeyspaceId, MoveId, Selector, ShardId};
use rehome_ports::{PortError, Reader, SnapshotStore, Store, around};
use rehome_records::store_value::{StateRegion, StoredApplied, StoredOutbound};
use rehome_records::{Digest, Manifest, SlotState, store_key};
use rehome_shard_core::digest_entry;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// Entries between two moments at which the copier gives way: less than one millisecond.
const ENTRIES_BETWEEN_YIELDS: u64 = 200;

/// Parts in which a selector is copied and counted. Reason: enough to share them evenly among a few processors; each of
/// each kind begins a run of its own, and a store takes in few large runs better than many small ones.
const PARTS: u32 = 4;

/// What a copier works with.
#[derive(Clone)]
pub struct Copier {
    pub keyspace: KeyspaceId,
    pub shard: ShardId,
    pub store: Arc<dyn Store>,
    pub snapshots: Arc<dyn SnapshotStore>,
    pub jobs: Arc<dyn Jobs>,
    pub hook: Option<StepHook>,
}

/// An export that is whole: its manifest, and the digest that the source counts on from.
#[derive(Clone, Debug)]
pub struct Exported {
    pub manifest: Manifest,
    /// Digest at the snapshot, less the change that the source had counted up to it.
    pub base: Digest,
}

/// Returns the name of a move's snapshot.
pub fn snapshot_name(keyspace: KeyspaceId, source: ShardId, move_id: MoveId, copy: u32) -> String {
    format!("{}{source}-move-{move_id}-copy-{copy}", snapshot_prefix(keyspace))
}

/// Returns how the names of all snapshots of a keyspace begin.
pub fn snapshot_prefix(keyspace: KeyspaceId) -> String {
    format!("keyspace-{keyspace}-shard-")
}

/// Reads back what [`snapshot_name`] made; nothing when it did not make it.
pub fn move_and_copy(name: &str) -> Option<(MoveId, u32)> {
    let (rest, copy) = name.strip_prefix("keyspace-")?.rsplit_once("-copy-")?;
    let (_, move_id) = rest.rsplit_once("-move-")?;
    Some((MoveId(move_id.parse().ok()?), copy.parse().ok()?))
}

impl Copier {
    /// Exports the selector at one moment X of the store, which the snapshot itself tells.
    ///
    /// Errors: `NotApplied` when the selector is not held whole at that moment; try again later.
    pub fn export(&self, move_id: MoveId, copy: u32) -> Result<Exported, PortError> {
        let name = snapshot_name(self.keyspace, self.shard, move_id, copy);
        let mut exported = None;
        let looked = self.store.snapshot(&mut |reader| {
            let applied = reader.get(&store_key::applied())?;
            let applied = applied.map(|applied| StoredApplied::decode(&applied)).transpose().map_err(unreadable)?;
            let outbound = outbound_of(reader, move_id)?;
            let states = states_of(reader, &outbound.selector)?;
            if let Some(region) = states.iter().find(|region| !matches!(region.state, SlotState::Owned { .. })) {
                return Err(PortError::not_applied(format!("{region:?} is not owned here at {applied:?}")));
            }
            let writer = self.snapshots.create(&name)?;
            let (digest, runs) = around(&self.hook, Step::ExportRuns, || {
                self.in_parts(&outbound.selector, &|number, ranges| {
                    let mut part = writer.part(number)?;
                    let mut give_way = || self.jobs.give_way();
                    let digest = each_entry(reader, ranges, &mut |key, value| part.add(key, value), &mut give_way)?;
                    Ok((digest, part.finish()?))
                })
            })?;
            let manifest = Manifest {
                keyspace: self.keyspace,
                source: self.shard,
                move_id,
                copy,
                selector: outbound.selector.clone(),
                position: applied.map(|applied| applied.offset),
                digest,
                states,
                fences: outbound.fences.clone(),
                runs: runs.concat(),
            };
            around(&self.hook, Step::SealSnapshot, || writer.seal(&manifest))?;
            exported = Some(Exported { manifest, base: digest.minus(outbound.change) });
            Ok(())
        });
        if let Err(error) = looked {
            // It takes room that somebody else may need until the next try.
            self.snapshots.remove(&name)?;
            return Err(error);
        }
        exported.ok_or_else(|| PortError::broken("the store's snapshot was never looked at"))
    }

    /// Counts the digest of a move's selector anew; returns it less the change that was counted up to the same moment.
    pub fn count(&self, move_id: MoveId) -> Result<Digest, PortError> {
        let mut base = None;
        self.store.snapshot(&mut |reader| {
            let outbound = outbound_of(reader, move_id)?;
            // It never gives way: a cutover may be waiting for it.
            let digest = around(&self.hook, Step::Count, || self.digest(reader, &outbound.selector, &|| {}))?;
            base = Some(digest.minus(outbound.change));
            Ok(())
        })?;
        base.ok_or_else(|| PortError::broken("the store's snapshot was never looked at"))
    }

    /// Takes the snapshot in: empties the range, ingests, reads it back.
    ///
    /// Errors: `Broken` when the snapshot is missing or altered, or does not read back as its manifest says.
    pub fn ingest(&self, name: &str, selector: &Selector) -> Result<Manifest, PortError> {
        let manifest = self.snapshots.manifest(name)?;
        let manifest = manifest.ok_or_else(|| PortError::broken(format!("snapshot {name} is missing")))?;
        if manifest.selector != *selector || manifest.keyspace != self.keyspace {
            return Err(PortError::broken(format!("snapshot {name} is of other keys")));
        }
        self.jobs.give_way();
        around(&self.hook, Step::WipeForIngest, || self.store.wipe(&store_key::selector_ranges(selector)))?;
        self.jobs.give_way();
        around(&self.hook, Step::Ingest, || self.store.ingest(&*self.snapshots, name, &manifest))?;
        let digest = around(&self.hook, Step::ReadBack, || {
            let mut digest = Digest::default();
            self.store.snapshot(&mut |reader| {
                digest = self.digest(reader, selector, &|| self.jobs.give_way())?;
                Ok(())
            })?;
            Ok::<_, PortError>(digest)
        })?;
        if digest != manifest.digest {
            return Err(PortError::broken(format!(
                "snapshot {name} reads back as {digest:?}, its manifest says {:?}",
                manifest.digest
            )));
        }
        Ok(manifest)
    }

    /// Counts the digest of the selector.
    fn digest(
        &self,
        reader: &dyn Reader,
        selector: &Selector,
        give_way: &(dyn Fn() + Sync),
    ) -> Result<Digest, PortError> {
        let count =
            |_, ranges: &[KeyRange]| Ok((each_entry(reader, ranges, &mut |_, _| Ok(()), &mut || give_way())?, ()));
        self.in_parts(selector, &count).map(|(digest, _)| digest)
    }

    /// Works on the selector's entries in parts, at the same time where processors are idle. Each part is some ranges of
    /// store keys, and is told its number in key order; returns the digest of all and what each part made, in that order.
    fn in_parts<T: Send + Sync>(
        &self,
        selector: &Selector,
        work: &PartWork<'_, T>,
    ) -> Result<(Digest, Vec<T>), PortError> {
        let selectors = selector.parts(PARTS);
        let parts = store_key::KINDS_OF_KEYS
            .iter()
            .flat_map(|&kind| selectors.iter().map(move |part| store_key::kind_ranges(kind, part)));
        let parts: Vec<Vec<KeyRange>> = parts.collect();
        let made: Vec<OnceLock<Result<(Digest, T), PortError>>> = parts.iter().map(|_| OnceLock::new()).collect();
        let numbered = |number: usize| {
            if made.iter().all(|made| !matches!(made.get(), Some(Err(_)))) {
                let done = work(u32::try_from(number).unwrap_or(u32::MAX), &parts[number]);
                drop(made[number].set(done));
            }
        };
        self.jobs.together(parts.len(), &numbered);
        let (mut digest, mut all, mut whole) = (Digest::default(), Vec::with_capacity(parts.len()), true);
        for made in made.into_iter().map(OnceLock::into_inner) {
            match made {
                Some(Ok((part, made))) => {
                    digest = digest.plus(part);
                    all.push(made);
                }
                Some(Err(error)) => return Err(error),
                // Not begun, since another had failed.
                None => whole = false,
            }
        }
        if whole { Ok((digest, all)) } else { Err(PortError::broken("a part of the selector was left out")) }
    }

    /// Removes every entry of the selector, durably.
    pub fn wipe(&self, selector: &Selector) -> Result<(), PortError> {
        self.jobs.give_way();
        around(&self.hook, Step::WipeForCleanup, || self.store.wipe(&store_key::selector_ranges(selector)))
    }

    /// Forgets the snapshot of a copy.
    pub fn remove_snapshot(&self, source: ShardId, move_id: MoveId, copy: u32) -> Result<(), PortError> {
        let name = snapshot_name(self.keyspace, source, move_id, copy);
        self.jobs.give_way();
        around(&self.hook, Step::RemoveSnapshot, || self.snapshots.remove(&name))
    }
}

fn outbound_of(reader: &dyn Reader, move_id: MoveId) -> Result<StoredOutbound, PortError> {
    let outbound = reader.get(&store_key::outbound(move_id))?;
    let outbound = outbound.ok_or_else(|| PortError::not_applied(format!("move {move_id} is gone")))?;
    StoredOutbound::decode(&outbound).map_err(unreadable)
}

/// Works on one part; returns its digest and what it made.
type PartWork<'a, T> = dyn Fn(u32, &[KeyRange]) -> Result<(Digest, T), PortError> + Sync + 'a;

/// Takes one entry.
type Take<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), PortError> + 'a;

/// Visits every entry of the ranges, which hold what moves with keys, and gives way now and then; returns their digest.
fn each_entry(
    reader: &dyn Reader,
    ranges: &[KeyRange],
    visit: &mut Take<'_>,
    give_way: &mut dyn FnMut(),
) -> Result<Digest, PortError> {
    let mut digest = Digest::default();
    let mut entries = 0u64;
    for range in ranges {
        let mut failed = None;
        reader.scan(range, false, &mut |key, value| {
            let added = digest_entry(&mut digest, key, value).map_err(unreadable).and_then(|()| visit(key, value));
            entries += 1;
            if entries.is_multiple_of(ENTRIES_BETWEEN_YIELDS) {
                give_way();
            }
            match added {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(digest)
}

/// Returns the slot states of the selector's keys, cut to it.
fn states_of(reader: &dyn Reader, selector: &Selector) -> Result<Vec<StateRegion>, PortError> {
    let mut states = Vec::new();
    let mut failed = None;
    reader.scan(
        &store_key::kind_range(store_key::KIND_STATE),
        false,
        &mut |_, value| match StateRegion::decode(value) {
            Ok(region) => {
                let parts = selector.ranges().iter().filter_map(|range| range.intersection(&region.range));
                states.extend(parts.map(|range| StateRegion { range, state: region.state }));
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(unreadable(error));
                ControlFlow::Break(())
            }
        },
    )?;
    failed.map_or(Ok(states), Err)
}

fn unreadable(error: impl std::fmt::Display) -> PortError {
    PortError::broken(format!("the store holds what cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshots_name_tells_its_move_and_copy() {
        let name = snapshot_name(KeyspaceId(7), ShardId(2), MoveId(31), 4);
        assert_eq!(move_and_copy(&name), Some((MoveId(31), 4)));
        assert_eq!(move_and_copy("keyspace-7-shard-2-move-31"), None);
        assert_eq!(move_and_copy("of-somebody-else"), None);
    }
}
