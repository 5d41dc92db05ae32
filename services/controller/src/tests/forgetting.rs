//! When request ids are forgotten.

use super::fixture::*;
use crate::{ControllerEffect, Memory, Observed, Step};
use rehome_control_core::{ControlState, Phase};
use rehome_keyspace::{Epoch, Offset, ShardId, Side, SlotId};
use rehome_ports::PortError;
use rehome_records::control::JobOptions;
use rehome_records::{ControlEvent, TopicPartition};

const RETENTION_MS: u64 = 60_000;

/// A keyspace of 3 shards that was created just now, with a job of those moves or without any.
fn created(moves: &[(u32, u32, u32)]) -> Fixture {
    let mut fixture = Fixture {
        state: ControlState::new(),
        observed: Observed::default(),
        memory: Memory::default(),
        now_ms: 10_000,
    };
    for mut event in events(moves, JobOptions::STANDARD) {
        if let ControlEvent::KeyspaceCreated { request_retention_ms, .. } = &mut event {
            *request_retention_ms = RETENTION_MS;
        }
        if !moves.is_empty() || !matches!(event, ControlEvent::JobSubmitted(_)) {
            fixture.tell(event);
        }
    }
    fixture.observed.note_partitions(KEYSPACE, 5);
    fixture
}

/// A keyspace whose routes have not changed for as long as request ids are kept.
fn settled() -> Fixture {
    let mut fixture = created(&[]);
    fixture.now_ms += RETENTION_MS;
    fixture
}

fn report(fixture: &mut Fixture, shard: u32, horizon: Option<u64>) {
    let report = rehome_ports::ReplicaProgress { horizon: horizon.map(Offset), ..progress(shard, 0, None) };
    fixture.observed.note_progress(report, fixture.now_ms);
}

/// Returns shard, offset and epochs of each `Horizon` that is decided.
fn decided(fixture: &Fixture) -> Vec<(u32, u64, Vec<u64>)> {
    let horizons = fixture.decide().into_iter().filter_map(|effect| match effect {
        ControllerEffect::AppendHorizon { shard, up_to, owned, .. } => {
            Some((shard.0, up_to.0, owned.iter().map(|(epoch, _)| epoch.0).collect()))
        }
        _ => None,
    });
    horizons.collect()
}

fn step(shard: u32, up_to: u64) -> Step {
    Step::Horizon { keyspace: KEYSPACE, shard: ShardId(shard), up_to: Offset(up_to) }
}

#[test]
fn a_shard_forgets_what_every_replica_knows_to_be_old() {
    let mut fixture = settled();
    assert_eq!(fixture.names(), [""; 0], "nobody has reported");
    report(&mut fixture, 1, None);
    assert_eq!(fixture.names(), [""; 0], "nothing is old");
    report(&mut fixture, 1, Some(40));
    let keyspace = fixture.state.keyspace(KEYSPACE).expect("created").clone();
    let horizon = ControllerEffect::AppendHorizon {
        keyspace: KEYSPACE,
        shard: ShardId(1),
        up_to: Offset(40),
        owned: vec![(Epoch(2), keyspace.placement.selector((4..8).map(SlotId)))],
        partition: TopicPartition::new("rehome.flights-1.data", 1),
    };
    assert_eq!(fixture.decide(), [horizon]);
    report(&mut fixture, 4, Some(7));
    assert_eq!(decided(&fixture), [(1, 40, vec![2])], "shard 4 owns nothing");
    let mut broken = rehome_ports::ReplicaProgress { horizon: Some(Offset(40)), ..progress(1, 0, None) };
    broken.broken = Some("another record lies at its position".into());
    fixture.observed.note_progress(broken, fixture.now_ms);
    assert_eq!(fixture.names(), [""; 0], "a replica has stopped");
    report(&mut fixture, 1, Some(40));
    fixture.now_ms += 1_001;
    assert_eq!(fixture.names(), [""; 0], "the report is old");
}

#[test]
fn a_sample_is_sent_once_and_again_only_if_it_may_have_been_lost() {
    let mut fixture = settled();
    report(&mut fixture, 0, Some(40));
    fixture.memory.begin(step(0, 40), fixture.now_ms);
    assert_eq!(decided(&fixture), []);
    fixture.memory.ended(step(0, 40), &Err(PortError::unknown("no answer")), fixture.now_ms);
    assert_eq!(decided(&fixture), [], "after a pause");
    fixture.now_ms += 50;
    assert_eq!(decided(&fixture), [(0, 40, vec![1])]);
    fixture.memory.begin(step(0, 40), fixture.now_ms);
    fixture.memory.ended(step(0, 40), &Ok(Offset(90)), fixture.now_ms);
    fixture.memory.look(&fixture.state, fixture.now_ms);
    assert_eq!(decided(&fixture), []);
    report(&mut fixture, 0, Some(39));
    assert_eq!(decided(&fixture), [], "a replica that starts again reports less for a while");
    report(&mut fixture, 0, Some(60));
    assert_eq!(decided(&fixture), [(0, 60, vec![1])]);
    fixture.memory.begin(step(0, 60), fixture.now_ms);
    fixture.memory.ended(step(0, 60), &Ok(Offset(95)), fixture.now_ms);
    fixture.memory.look(&fixture.state, fixture.now_ms);
    assert_eq!(fixture.memory.mark_offset(step(0, 40)), None, "only the newest is remembered");
    assert_eq!(fixture.memory.mark_offset(step(0, 60)), Some(Offset(95)));
}

#[test]
fn nothing_is_forgotten_before_the_routes_were_the_same_for_the_retention() {
    let mut fixture = created(&[]);
    fixture.now_ms += RETENTION_MS - 1;
    report(&mut fixture, 0, Some(40));
    assert_eq!(decided(&fixture), []);
    fixture.now_ms += 1;
    assert_eq!(decided(&fixture), [(0, 40, vec![1])]);
    // A controller whose clock is another than the log's forgets nothing.
    fixture.now_ms = 5;
    report(&mut fixture, 0, Some(40));
    assert_eq!(decided(&fixture), []);
}

#[test]
fn nothing_is_forgotten_while_a_move_of_the_keyspace_is_open_or_lately_switched() {
    let mut fixture = created(&[(0, 1, 0)]);
    let quiet = |fixture: &mut Fixture| {
        fixture.now_ms += RETENTION_MS;
        for shard in 0..3 {
            report(fixture, shard, Some(40));
        }
        assert_eq!(decided(fixture), [], "{}", fixture.first().phase);
    };
    quiet(&mut fixture);
    let mut fixture = fixture.copied();
    quiet(&mut fixture);
    fixture.start_attempt();
    quiet(&mut fixture);
    fixture.tell(ready(fixture.attempt(), Side::Source, Offset(70), None));
    fixture.tell(ready(fixture.attempt(), Side::Destination, Offset(70), Some(Offset(30))));
    let switched_ms = fixture.now_ms;
    quiet(&mut fixture);
    fixture.now_ms = switched_ms;
    fixture.tell(ControlEvent::CleanupDone { move_id: FIRST, node: NODE });
    assert_eq!(fixture.first().phase, Phase::Completed);
    fixture.now_ms += RETENTION_MS - 1;
    for shard in 0..3 {
        report(&mut fixture, shard, Some(40));
    }
    assert_eq!(decided(&fixture), [], "the routes changed with the switch");
    fixture.now_ms += 1;
    let new = fixture.state.keyspace(KEYSPACE).and_then(|keyspace| keyspace.route(SlotId(0))).expect("a slot").epoch;
    assert_eq!(
        decided(&fixture),
        [(0, 40, vec![1]), (1, 40, vec![2, new.0]), (2, 40, vec![3])],
        "one for each epoch that a shard owns"
    );
}
