//! The rule once more, key by key, in the plainest way: no states, no marks that arrive, only what the logs say when
//! everything is known.
//!
//! A write is accepted under its epoch if that epoch was granted to its shard for its key, it lies behind the mark that
//! brought the epoch to the partition, and before every fence of a later epoch. Those writes, in the order of (epoch,
//! offset), are then taken one by one.

use crate::world::World;
use rehome_keyspace::{Epoch, Offset, Outcome, Selector, ShardId, Version};
use rehome_records::{Condition, DataRecord, FirstAnswer, Mark, Operation, Verdict, Write};
use std::collections::BTreeMap;

/// A row's version and value; nothing for a tombstone.
pub type Row = (Version, Option<Vec<u8>>);

/// What the logs say.
pub struct Told {
    pub verdicts: BTreeMap<(ShardId, Offset), Verdict>,
    /// Rows by key number and sort key, tombstones included.
    pub rows: BTreeMap<(usize, Vec<u8>), Row>,
}

struct Grant {
    epoch: Epoch,
    shard: ShardId,
    selector: Selector,
    /// Where the epoch came into the partition; nothing at the keyspace's creation.
    from: Option<Offset>,
}

enum Event<'a> {
    Write(&'a Write),
    Horizon(Version),
}

pub fn tell(world: &World) -> Told {
    let records = read(world);
    let grants = grants(world, &records);
    let mut fences: Vec<(ShardId, Offset, Epoch, Selector)> = Vec::new();
    for facts in world.control.all() {
        let wanted = DataRecord::Mark(Mark::Fence(world.mark(facts.attempt)));
        let found = records.iter().filter(|(shard, _, record)| *shard == facts.source && *record == wanted);
        fences.extend(found.map(|(shard, offset, _)| (*shard, *offset, facts.epoch, (*facts.selector).clone())));
    }
    let holds = |shard: ShardId, offset: Offset, epoch: Epoch, placed: &[u8]| {
        let granted = grants.iter().any(|grant| {
            (grant.epoch, grant.shard) == (epoch, shard)
                && grant.selector.contains(placed)
                && grant.from.is_none_or(|from| from < offset)
        });
        granted
            && !fences.iter().any(|(fenced, at, later, selector)| {
                *fenced == shard && *at < offset && *later > epoch && selector.contains(placed)
            })
    };
    let mut told = Told { verdicts: BTreeMap::new(), rows: BTreeMap::new() };
    for key in 0..crate::world::KEYS {
        let placed = world.placed(key).0;
        let mut events: BTreeMap<Version, (ShardId, Event<'_>)> = BTreeMap::new();
        for (shard, offset, record) in &records {
            match record {
                DataRecord::Write(write) if write.partition_key == world.key(key) => {
                    if holds(*shard, *offset, write.epoch, &placed) {
                        let version = Version { epoch: write.epoch, offset: *offset };
                        events.insert(version, (*shard, Event::Write(write)));
                    } else {
                        told.verdicts.insert((*shard, *offset), Verdict::StaleRoute);
                    }
                }
                DataRecord::Mark(Mark::Horizon { regions, version }) => {
                    for (_, epoch) in regions.iter().filter(|(range, _)| range.contains(&placed)) {
                        if holds(*shard, *offset, *epoch, &placed) {
                            let at = Version { epoch: *epoch, offset: *offset };
                            events.insert(at, (*shard, Event::Horizon(*version)));
                        }
                    }
                }
                _ => {}
            }
        }
        tell_key(key, events, &mut told);
    }
    told
}

fn tell_key(key: usize, events: BTreeMap<Version, (ShardId, Event<'_>)>, told: &mut Told) {
    let mut rows: BTreeMap<Vec<u8>, Row> = BTreeMap::new();
    let mut requests = BTreeMap::new();
    let mut sources: BTreeMap<String, u64> = BTreeMap::new();
    for (at, (shard, event)) in events {
        let write = match event {
            Event::Write(write) => write,
            Event::Horizon(version) => {
                rows.retain(|_, (written, value)| value.is_some() || *written > version);
                requests.retain(|_, (_, _, judged)| *judged > version);
                continue;
            }
        };
        let content = write.operation.clone();
        let verdict = if let Some((before, first, _)) = write.request.and_then(|id| requests.get(&id)) {
            if *before == content { Verdict::Repeated { first: *first } } else { Verdict::RequestConflict }
        } else if write.source.as_ref().is_some_and(|s| sources.get(&s.source).is_some_and(|p| *p >= s.position)) {
            Verdict::SourceDone
        } else {
            let failed = match &write.operation {
                Operation::ChangeIf { change, condition } => {
                    let live = rows.get(&change.sort_key).filter(|(_, value)| value.is_some()).map(|row| row.0);
                    let holds = match condition {
                        Condition::Absent => live.is_none(),
                        Condition::Present => live.is_some(),
                        Condition::VersionIs(version) => live == Some(*version),
                    };
                    (!holds).then_some(FirstAnswer::ConditionFailed { current: live })
                }
                _ => None,
            };
            let answer = failed.unwrap_or(FirstAnswer::Accepted { version: at });
            if failed.is_none() {
                for change in write.changes() {
                    rows.insert(change.sort_key.clone(), (at, change.value.clone()));
                }
                if let Some(source) = &write.source {
                    sources.insert(source.source.clone(), source.position);
                }
            }
            if let Some(id) = write.request {
                requests.insert(id, (content, answer, at));
            }
            match answer {
                FirstAnswer::Accepted { version } => Verdict::Accepted { version },
                FirstAnswer::ConditionFailed { current } => Verdict::ConditionFailed { current },
            }
        };
        told.verdicts.insert((shard, at.offset), verdict);
    }
    told.rows.extend(rows.into_iter().map(|(sort_key, row)| ((key, sort_key), row)));
}

pub fn read(world: &World) -> Vec<(ShardId, Offset, DataRecord)> {
    let all = world.partitions.iter().flat_map(|(shard, records)| records.iter().map(|logged| (*shard, logged)));
    all.filter_map(|(shard, logged)| Some((shard, logged.offset, DataRecord::read(&logged.record).ok()?))).collect()
}

fn grants(world: &World, records: &[(ShardId, Offset, DataRecord)]) -> Vec<Grant> {
    let first = world.partitions.keys().filter(|shard| !world.granted(**shard).is_empty()).map(|shard| Grant {
        epoch: Epoch(u64::from(shard.0) + 1),
        shard: *shard,
        selector: Selector::new(world.granted(*shard).into_iter().map(|(range, _)| range).collect()),
        from: None,
    });
    let later = world.control.all().filter_map(|facts| {
        let (shard, wanted) = match facts.outcome? {
            Outcome::Switched { .. } => (facts.destination, Mark::Open(world.mark(facts.attempt))),
            Outcome::Aborted { .. } => (facts.source, Mark::Fence(world.mark(facts.attempt))),
        };
        let mark = records.iter().find(|(at, _, record)| *at == shard && *record == DataRecord::Mark(wanted.clone()));
        let from = Some(mark?.1);
        Some(Grant { epoch: facts.epoch, shard, selector: (*facts.selector).clone(), from })
    });
    first.chain(later).collect()
}
