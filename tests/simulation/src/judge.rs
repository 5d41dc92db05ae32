//! The comparison and the invariants, once everything is quiet.

use crate::observed::{accepted, granted};
use crate::operator::KEYSPACE;
use crate::pauses::nothing_begins_while_paused;
use crate::process::lock;
use crate::trace::Counts;
use crate::world::{Failure, World};
use rehome_invariants::{Visible, VisibleRow, violations};
use rehome_keyspace::{Epoch, KeyRange, Outcome, ShardId, Side, SlotId};
use rehome_memory::MemoryStore;
use rehome_oracle::history::WriteAnswered;
use rehome_oracle::{Comparison, ControlStory, KeyspaceStory, fold};
use rehome_ports::{Reader, SnapshotStore};
use rehome_records::control::data_topic;
use rehome_records::store_value::StoredRow;
use rehome_records::{
    ControlEvent, ControlRecord, DataRecord, Logged, Mark, SlotState, StateRegion, TopicPartition, store_key,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Compares what clients were answered, what lies in the stores, and an independent fold of the logs.
pub fn judge(world: &mut World) -> Result<(), Failure> {
    let control = world.site.broker.records(&rehome_control_log::control_partition());
    let story = ControlStory::of(&control);
    let keyspace = story.keyspace_named(KEYSPACE).ok_or_else(|| Failure("there is no keyspace".into()))?;
    let mut told: Vec<String> = tellings_agree(world, &story).err().map(|failure| failure.0).into_iter().collect();
    nothing_begins_while_paused(&control)?;
    let topic = data_topic(&keyspace.name, keyspace.id);
    let partitions: Vec<Vec<Logged>> =
        (0..keyspace.shards).map(|shard| world.site.broker.records(&TopicPartition::new(&*topic, shard))).collect();
    count_horizons(&mut world.counts, &control, &partitions);
    for logged in control.iter().chain(partitions.iter().flatten()) {
        world.trace.bytes(&Logged::encode(&logged.record, logged.offset.0));
    }
    let read = partitions.iter().map(|records| records.iter().cloned().map(Ok)).collect();
    let folded = fold(&story, keyspace.id, read).map_err(|error| {
        told.push(format!("the logs do not fold: {error}"));
        Failure(told.join("\n"))
    })?;
    if world.options.inbox_records > 0 {
        crate::inbox::judge(&world.site, keyspace, &partitions, &folded, &mut world.counts)?;
    }
    forget_lost_answers(world, &story, keyspace);
    let verdicts = world.site.network.verdicts();
    told.extend(verdicts.differing.clone());
    let mut history = granted(&control, &story, keyspace);
    history.accepted = accepted(keyspace, &partitions, &verdicts, &folded);
    for client in &world.clients {
        history.acks.extend(client.acks.iter().cloned());
        history.reads.extend(client.reads.iter().cloned());
        history.scans.extend(client.scans.iter().cloned());
    }
    let (states, compared) = world.witness.take(keyspace.id);
    history.replicas = states;
    world.counts.states_compared += compared;
    history.visible = Some(visible(world, &story, keyspace)?);
    let mut comparison = Comparison::new(&story, folded);
    for client in &world.clients {
        comparison.history(&client.history);
    }
    for ((_, owner, shard), store) in lock(&world.site.stores).iter() {
        if *owner == keyspace.id {
            let entry = |key: &[u8], value: &[u8]| {
                comparison.store_entry(*shard, key, value);
                ControlFlow::Continue(())
            };
            let mut entry = entry;
            store
                .scan(&rehome_keyspace::KeyRange::all(), false, &mut entry)
                .map_err(|error| Failure(error.to_string()))?;
        }
    }
    leaves_nothing_behind(world)?;
    dropped_keyspaces_are_gone(world, &story)?;
    let (findings, _) = comparison.finish();
    if !findings.is_clean() {
        told.push(format!("the comparison finds\n{findings}"));
    }
    told.extend(
        world.clients.iter().find_map(|client| client.doubled.as_ref()).map(|doubled| format!("R12: {doubled}")),
    );
    told.extend(violations(&history).iter().map(ToString::to_string));
    if told.is_empty() { Ok(()) } else { Err(Failure(told.join("\n"))) }
}

/// Returns every row that a store would show to a reader, by the store's own states, and who owns what by the log.
fn visible(world: &World, story: &ControlStory, keyspace: &KeyspaceStory) -> Result<Visible, Failure> {
    let placement = keyspace.placement;
    let owner = |(slot, (shard, _)): (u32, &(ShardId, Epoch))| (placement.slot_range(SlotId(slot)), *shard);
    let mut visible = Visible { owners: (0..).zip(&keyspace.routes).map(owner).collect(), rows: Vec::new() };
    let shows = |shard: ShardId, state: SlotState| match state {
        SlotState::Owned { .. } => true,
        SlotState::Contested { attempt, .. } => {
            story.attempts.get(&attempt).and_then(|attempt| attempt.winner()) == Some(shard)
        }
        SlotState::Closed { .. } => false,
    };
    for ((_, _, shard), store) in lock(&world.site.stores).iter().filter(|((_, owner, _), _)| *owner == keyspace.id) {
        let states = entries(store, &store_key::kind_range(store_key::KIND_STATE))?;
        for (_, state) in states {
            let region = StateRegion::decode(&state).map_err(|error| Failure(error.to_string()))?;
            if !shows(*shard, region.state) {
                continue;
            }
            for (key, value) in entries(store, &store_key::kind_of_range(store_key::KIND_ROW, &region.range))? {
                let stored = StoredRow::decode(&value).map_err(|error| Failure(error.to_string()))?;
                let name = placement.unplace(&key[1..]);
                let (partition_key, sort_key) = name.ok_or_else(|| Failure(format!("{key:02x?} names no row")))?;
                let Some(value) = stored.value else { continue };
                let placed = placement.place(&partition_key);
                let (sort_key, version) = (sort_key.to_vec(), stored.version);
                visible.rows.push(VisibleRow { shard: *shard, placed, sort_key, version, value });
            }
        }
    }
    Ok(visible)
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(store: &MemoryStore, range: &KeyRange) -> Result<Entries, Failure> {
    let mut entries = Entries::new();
    let looked = store.scan(range, false, &mut |key, value| {
        entries.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    looked.map(|()| entries).map_err(|error| Failure(error.to_string()))
}

/// Takes out the answers to writes that a power loss took: those, and no other, may be missing.
fn forget_lost_answers(world: &mut World, story: &ControlStory, keyspace: &rehome_oracle::KeyspaceStory) {
    let topic = data_topic(&keyspace.name, keyspace.id);
    let of_data = world.lost.iter().filter(|lost| lost.partition.topic == topic);
    let lost: BTreeSet<_> = of_data.map(|lost| (ShardId(lost.partition.partition), lost.offset)).collect();
    for client in &mut world.clients {
        let kept = |write: &WriteAnswered| {
            let shard = story.granted(keyspace, write.row.slot(), write.version.epoch);
            !shard.is_some_and(|shard| lost.contains(&(shard, write.version.offset)))
        };
        let kept: Vec<bool> = client.history.writes.iter().map(kept).collect();
        // Both lists tell of the same answers.
        let (mut of_writes, mut of_acks) = (kept.iter(), kept.iter());
        client.history.writes.retain(|_| of_writes.next() == Some(&true));
        client.acks.retain(|_| of_acks.next() == Some(&true));
        world.counts.acks_lost += kept.iter().filter(|kept| !**kept).count() as u64;
    }
}

fn count_horizons(counts: &mut Counts, control: &[Logged], partitions: &[Vec<Logged>]) {
    let starts = |logged: &&Logged| {
        matches!(ControlRecord::read(&logged.record), Ok(ControlRecord { event: ControlEvent::MoveStarted { .. }, .. }))
    };
    let last_start_ms = control.iter().rev().find(starts).map_or(0, |logged| logged.append_time_ms);
    for logged in partitions.iter().flatten() {
        if let Ok(DataRecord::Mark(Mark::Horizon { .. })) = DataRecord::read(&logged.record) {
            counts.horizons += 1;
            counts.horizons_before_moves += u64::from(logged.append_time_ms < last_start_ms);
        }
    }
}

/// Every move has ended: no store keeps anything for one, and no snapshot is left but what a crash left unremoved.
fn leaves_nothing_behind(world: &World) -> Result<(), Failure> {
    for ((node, _, shard), store) in lock(&world.site.stores).iter() {
        let mut kept = Vec::new();
        let range = store_key::kind_range(store_key::KIND_MOVE);
        let looked = store.scan(&range, false, &mut |key, _| {
            kept.push(key.to_vec());
            ControlFlow::Continue(())
        });
        looked.map_err(|error| Failure(error.to_string()))?;
        if !kept.is_empty() {
            return Err(Failure(format!(
                "shard {shard} at node {node} keeps what it had for ended moves: {kept:02x?}"
            )));
        }
    }
    let left = world.site.snapshots.names().map_err(|error| Failure(error.to_string()))?;
    if world.counts.crashes == 0 && !left.is_empty() {
        return Err(Failure(format!("snapshots of ended moves are left: {left:?}")));
    }
    Ok(())
}

/// Of a dropped keyspace nothing is left: no store, no snapshot, no partition; of the one made under its name all is.
/// And each is told once.
fn dropped_keyspaces_are_gone(world: &mut World, story: &ControlStory) -> Result<(), Failure> {
    let Some(desk) = world.processes.iter().find_map(|process| process.desk.clone()) else { return Ok(()) };
    let state = desk.state();
    let topics: Vec<String> = world.site.broker.topic_partitions().into_iter().map(|name| name.topic).collect();
    for dropped in state.dropped_keyspaces() {
        let (id, of_it) = (dropped.keyspace.id, dropped.keyspace.topics());
        let stores = lock(&world.site.stores).keys().filter(|(_, keyspace, _)| *keyspace == id).count();
        let left: Vec<&String> = of_it.iter().filter(|topic| topics.contains(topic)).collect();
        if stores > 0 || !left.is_empty() {
            return Err(Failure(format!("keyspace {id} was dropped, {stores} stores and topics {left:?} remain")));
        }
        if !story.dropped.get(&id).is_some_and(|told| told.topic_removed && told.name == dropped.keyspace.name) {
            return Err(Failure(format!("keyspace {id} is gone, the log by itself says {:?}", story.dropped.get(&id))));
        }
        world.counts.drops += 1;
    }
    let lacking = state.keyspaces().find(|keyspace| !topics.contains(&keyspace.data_topic()));
    match lacking {
        Some(keyspace) => Err(Failure(format!("keyspace {} has lost its partitions", keyspace.id))),
        None => Ok(()),
    }
}

/// The production fold and the oracle's must tell the same of every attempt.
fn tellings_agree(world: &World, story: &ControlStory) -> Result<(), Failure> {
    let Some(desk) = world.processes.iter().find_map(|process| process.desk.clone()) else { return Ok(()) };
    let state = desk.state();
    for attempt in state.attempts() {
        let told = story.attempts.get(&attempt.facts.attempt);
        let same = told.is_some_and(|told| {
            (told.winner(), told.epoch)
                == (attempt.facts.outcome.map(|outcome| side_of(&attempt.facts, outcome)), attempt.facts.epoch)
        });
        if !same {
            return Err(Failure(format!("R1: the fold tells {:?}, the oracle {told:?}", attempt.facts)));
        }
    }
    Ok(())
}

fn side_of(facts: &rehome_keyspace::AttemptFacts, outcome: Outcome) -> ShardId {
    match outcome.winner() {
        Side::Source => facts.source,
        Side::Destination => facts.destination,
    }
}
