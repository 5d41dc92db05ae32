//! Random logs with duplicates, late and forged records, against a plain oracle and the invariants of the fold.

use super::world::*;
use crate::{ControlState, Decision, Keyspace, first_slot};
use proptest::prelude::*;
use rehome_keyspace::{AttemptFacts, AttemptId, MoveId, NodeId, Offset, Outcome, ShardId, Side, SlotId};
use rehome_records::control::JobOptions;
use rehome_records::{ControlEvent, ControlRecord};
use std::collections::{BTreeMap, BTreeSet};

/// What a random step does; numbers are reduced to what there is.
#[derive(Clone, Debug)]
enum Step {
    /// The event that brings some open move on.
    Advance(usize),
    Submit {
        from: u32,
        to: u32,
        first: u32,
        count: u32,
        complete: bool,
    },
    Forge(u8, Numbers),
    /// An earlier record again, with the same command.
    Repeat(usize),
    /// Bytes that were damaged on their way.
    Damage(usize, usize),
}

#[derive(Clone, Copy, Debug)]
struct Numbers {
    id: u64,
    node: u64,
    copy: u32,
    fence: u64,
    content: u64,
    destination: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let numbers = (0u64..9, 0u64..5, 0u32..4, 48u64..52, 6u64..9, any::<bool>()).prop_map(
        |(id, node, copy, fence, content, destination)| Numbers { id, node, copy, fence, content, destination },
    );
    let step = prop_oneof![
        6 => (0usize..8).prop_map(Step::Advance),
        2 => (0u32..5, 0u32..5, 0u32..17, 1u32..6, any::<bool>())
            .prop_map(|(from, to, first, count, complete)| Step::Submit { from, to, first, count, complete }),
        4 => (0u8..16, numbers).prop_map(|(kind, numbers)| Step::Forge(kind, numbers)),
        2 => (0usize..200).prop_map(Step::Repeat),
        1 => (0usize..200, 0usize..60).prop_map(|(record, byte)| Step::Damage(record, byte)),
    ];
    proptest::collection::vec(step, 1..160)
}

fn forged(kind: u8, n: Numbers, world: &World) -> ControlEvent {
    let (move_id, attempt, node) = (MoveId(n.id), AttemptId(n.id), NodeId(n.node));
    let side = if n.destination { Side::Destination } else { Side::Source };
    let job = world.state.jobs().nth(n.id as usize).map_or(rehome_keyspace::JobId(n.id), |job| job.id);
    match kind {
        0 => ControlEvent::MoveStarted { move_id },
        1 => snapshot(move_id, n.copy, node, n.content),
        2 => ControlEvent::CopyIngested { move_id, copy: n.copy, node, digest: digest(n.content) },
        3 => ControlEvent::CopyFailed { move_id, copy: n.copy, node, reason: "forged".into() },
        4 => ControlEvent::CutoverStarted { move_id, nonce: rehome_keyspace::Nonce(n.fence), predicted_pause_us: 1 },
        5 | 6 => ready(attempt, node, side, n.fence, n.content),
        7 => aborted(attempt, n.fence),
        8 => ControlEvent::CompleteRequested { job },
        9 => cancel(job),
        10 => ControlEvent::CleanupDone { move_id, node },
        11 => pause(job),
        12 => ControlEvent::ResumeRequested { job },
        13 => {
            let dropped = world.state.dropped_keyspaces().last().map(|dropped| dropped.keyspace.id);
            let keyspace = dropped.unwrap_or(world.keyspace().id);
            match n.destination {
                true => ControlEvent::KeyspaceRemoved { keyspace, node },
                false => ControlEvent::TopicRemoved { keyspace },
            }
        }
        // Never the one with the moves, which is looked at.
        14 => match world.state.keyspace_named("spare") {
            Some(spare) => ControlEvent::KeyspaceDropped { keyspace: spare.id },
            None => create("spare", 16, 2),
        },
        _ => ControlEvent::MoveFailed { move_id, reason: "forged".into() },
    }
}

fn take(world: &mut World, step: &Step) {
    match step {
        Step::Advance(which) => {
            let open: Vec<MoveId> = world.state.open_moves().map(|one| one.id).collect();
            let event = open.get(which % open.len().max(1)).and_then(|id| world.next_event(*id));
            if let Some(event) = event {
                tell(world, event);
            }
        }
        Step::Submit { from, to, first, count, complete } => {
            let options = JobOptions { complete: *complete, ..JobOptions::STANDARD };
            let spans = [(*first, first + count - 1)];
            let event = job(world.keyspace().id, vec![wanted(*from, *to, &spans)], options);
            tell(world, event);
        }
        Step::Forge(kind, numbers) => {
            let event = forged(*kind, *numbers, world);
            tell(world, event);
        }
        Step::Repeat(which) => {
            let record = ControlRecord::read(&world.log[which % world.log.len()].record);
            if let Ok(ControlRecord { command, event }) = record {
                check_step(world, |world| world.tell_as(command, event));
            }
        }
        Step::Damage(which, byte) => {
            let mut logged = world.log[which % world.log.len()].clone();
            if ControlRecord::read(&logged.record).is_err() {
                // Damaged twice, it might be whole again.
                return;
            }
            logged.offset = world.state.folded_next();
            let value = logged.record.value.as_mut().expect("every control record has a value");
            let at = byte % value.len();
            value[at] ^= 0x40;
            check_step(world, |world| {
                let decision = world.state.fold(&logged);
                world.log.push(logged.clone());
                assert_eq!(word(&decision), "record-unreadable");
                decision
            });
        }
    }
}

fn tell(world: &mut World, event: ControlEvent) {
    check_step(world, |world| world.tell(event));
}

/// Folds one record and checks what must hold between the state before and after.
fn check_step(world: &mut World, fold: impl FnOnce(&mut World) -> Decision) {
    let before = world.state.clone();
    let decision = fold(world);
    let after = &world.state;
    if !matches!(decision, Decision::Accepted(_)) {
        let folded_next = after.folded_next;
        let same = ControlState { folded_next, decided: after.decided.clone(), ..before.clone() };
        assert_eq!(*after, same, "{decision:?} changes nothing");
    }
    for attempt in before.attempts() {
        let now = after.attempt_record(attempt.facts.attempt).expect("no attempt is ever forgotten");
        if attempt.outcome().is_some() {
            assert_eq!(attempt, now, "the first outcome stays");
        }
    }
    for keyspace in before.keyspaces() {
        let Some(now) = after.keyspace(keyspace.id) else {
            assert!(after.dropped_keyspace(keyspace.id).is_some(), "a keyspace only ends by a drop");
            assert!(after.open_moves().all(|one| one.keyspace != keyspace.id));
            continue;
        };
        assert!(now.epoch_next >= keyspace.epoch_next && now.shards >= keyspace.shards);
        for (old, new) in keyspace.routes.iter().zip(now.routes.iter()) {
            assert!(new.epoch > old.epoch || new == old, "epochs of a slot grow: {old:?}, {new:?}");
        }
    }
    for keyspace in after.keyspaces() {
        check_routes(after, keyspace);
    }
    check_moves(after);
}

/// R1, and: every slot has one owner, under an epoch that was granted to it.
fn check_routes(state: &ControlState, keyspace: &Keyspace) {
    let slots = keyspace.placement.slot_count();
    assert_eq!(keyspace.routes.len(), slots as usize, "routes are total");
    let of_keyspace = |facts: &&AttemptFacts| facts.keyspace == keyspace.id;
    let attempts: Vec<&AttemptFacts> = state.attempts().map(|attempt| &attempt.facts).filter(of_keyspace).collect();
    let mut epochs: Vec<u64> = (1..=u64::from(keyspace.shards_created)).collect();
    epochs.extend(attempts.iter().map(|facts| facts.epoch.0));
    let distinct: BTreeSet<u64> = epochs.iter().copied().collect();
    assert_eq!(distinct.len(), epochs.len(), "R1: an epoch is granted at most once");
    assert!(epochs.iter().all(|epoch| *epoch < keyspace.epoch_next.0));
    for (slot, route) in (0..slots).map(SlotId).zip(keyspace.routes.iter()) {
        assert!(route.shard.0 < keyspace.shards, "the owner has a partition");
        match attempts.iter().find(|facts| facts.epoch == route.epoch) {
            Some(facts) => {
                let winner = match facts.outcome.expect("an epoch is routed only once its attempt is decided") {
                    Outcome::Switched { .. } => facts.destination,
                    Outcome::Aborted { .. } => facts.source,
                };
                let moved = state.move_(facts.move_id).expect("its move").slot_ids().any(|moved| moved == slot);
                assert!(route.shard == winner && moved);
            }
            None => {
                assert_eq!(u64::from(route.shard.0) + 1, route.epoch.0);
                let first = |shard| first_slot(slots, keyspace.shards_created, shard);
                assert!(first(route.shard.0) <= slot && slot < first(route.shard.0 + 1));
            }
        }
    }
}

fn check_moves(state: &ControlState) {
    let open: Vec<_> = state.open_moves().collect();
    assert_eq!(open.len(), state.moves().filter(|one| one.is_open()).count());
    for (i, one) in open.iter().enumerate() {
        for other in &open[i + 1..] {
            assert!(one.keyspace != other.keyspace || !one.selector.overlaps(&other.selector));
        }
        let owner =
            |slot: SlotId| state.keyspace(one.keyspace).expect("its keyspace").route(slot).map(|route| route.shard);
        let expected = match one.phase.name() {
            "switched" | "completing" => one.destination,
            _ => one.source,
        };
        assert!(one.slot_ids().all(|slot| owner(slot) == Some(expected)), "{} {}", one.id, one.phase);
        let undecided = |id: &&AttemptId| state.attempt_record(**id).is_some_and(|attempt| attempt.outcome().is_none());
        let open_attempts: Vec<&AttemptId> = one.attempts.iter().filter(undecided).collect();
        assert_eq!(open_attempts, one.attempt_open().iter().collect::<Vec<_>>());
    }
}

/// Tells the outcome of an attempt again, by reading every record after its start in order, and nothing else.
fn outcome_by_reading(world: &World, facts: &AttemptFacts) -> Option<Outcome> {
    let hosts = |shard: ShardId| world.keyspace().replicas_of(shard).to_vec();
    let mut said: BTreeMap<(NodeId, Side), (Offset, rehome_records::Digest)> = BTreeMap::new();
    for logged in world.log.iter().filter(|logged| logged.offset > facts.control_offset) {
        match ControlRecord::read(&logged.record).map(|record| record.event) {
            Ok(ControlEvent::Ready { attempt, node, side, fence, open, digest }) if attempt == facts.attempt => {
                let shard = if side == Side::Source { facts.source } else { facts.destination };
                if hosts(shard).contains(&node) && (side == Side::Source || open.is_some()) {
                    said.entry((node, side)).or_insert((fence, digest));
                }
            }
            Ok(ControlEvent::CutoverAborted { attempt, fence, .. }) if attempt == facts.attempt => {
                let source = said.iter().find(|((_, side), _)| *side == Side::Source);
                return Some(Outcome::Aborted { fence: source.map_or(fence, |(_, (fence, _))| *fence) });
            }
            _ => continue,
        }
        // One replica a side here: both have spoken, or the attempt is open.
        let of = |side| said.iter().find(move |((_, of), _)| *of == side).map(|(_, what)| *what);
        if let (Some(source), Some(destination)) = (of(Side::Source), of(Side::Destination)) {
            let fence = source.0;
            return Some(if source == destination { Outcome::Switched { fence } } else { Outcome::Aborted { fence } });
        }
    }
    None
}

/// Tells the routes again, from the attempts in the order in which they were decided.
fn routes_by_reading(world: &World) -> Vec<(u32, u64)> {
    let keyspace = world.keyspace();
    let mut routes: Vec<(u32, u64)> = (0..SLOTS).map(|slot| (slot / 8, u64::from(slot / 8) + 1)).collect();
    let mut decided: Vec<_> = world.state.attempts().filter(|attempt| attempt.outcome().is_some()).collect();
    decided.sort_by_key(|attempt| attempt.decided);
    for attempt in decided.into_iter().filter(|attempt| attempt.facts.keyspace == keyspace.id) {
        let owner = match outcome_by_reading(world, &attempt.facts) {
            Some(Outcome::Switched { .. }) => attempt.facts.destination,
            _ => attempt.facts.source,
        };
        for slot in world.state.move_(attempt.facts.move_id).expect("its move").slot_ids() {
            routes[slot.0 as usize] = (owner.0, attempt.facts.epoch.0);
        }
    }
    routes
}

/// From here on nobody fails: what nodes, controller and operator owe is done, until nothing is open.
fn finish(world: &mut World) {
    for _ in 0..2_000 {
        let Some(event) = world.state.open_moves().find_map(|one| world.next_event(one.id)) else {
            break;
        };
        let before = world.log.len();
        let event = match event {
            // Some of the job's moves may still be on their way.
            ControlEvent::CompleteRequested { job } if has_unswitched(world, job) => cancel(job),
            event => event,
        };
        tell(world, event);
        assert!(world.log.len() > before);
    }
    assert_eq!(world.state.open_moves().count(), 0, "R11");
    for job in world.state.jobs() {
        assert!(world.state.job_state(job.id).expect("a job").is_final(), "R11: every job ends");
    }
}

fn has_unswitched(world: &World, job: rehome_keyspace::JobId) -> bool {
    world.state.moves().any(|one| one.job == job && one.phase.is_before_switch())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn random_logs_keep_every_invariant_and_every_job_ends(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            take(&mut world, step);
        }
        for attempt in world.state.attempts() {
            prop_assert_eq!(attempt.outcome(), outcome_by_reading(&world, &attempt.facts));
        }
        let routes: Vec<(u32, u64)> = (0..SLOTS).map(|slot| world.route(slot)).collect();
        prop_assert_eq!(routes, routes_by_reading(&world));
        finish(&mut world);
    }

    #[test]
    fn two_folds_of_one_log_are_equal_wherever_one_was_cloned(steps in steps(), cut in 0usize..160) {
        let mut world = World::new();
        for step in &steps {
            take(&mut world, step);
        }
        let cut = cut % world.log.len();
        let mut other = ControlState::new();
        let mut decisions = Vec::new();
        for logged in &world.log[..cut] {
            decisions.push(other.fold(logged));
        }
        let (kept, mut clone) = (other.clone(), other.clone());
        for logged in &world.log[cut..] {
            decisions.push(other.fold(logged));
            prop_assert_eq!(decisions.last(), Some(&clone.fold(logged)));
        }
        prop_assert_eq!(&other, &world.state);
        prop_assert_eq!(&clone, &world.state);
        let mut again = ControlState::new();
        for (logged, decision) in world.log[..cut].iter().zip(&decisions) {
            prop_assert_eq!(&again.fold(logged), decision);
        }
        prop_assert_eq!(kept, again, "a clone is not touched by what its original folds");
    }
}
