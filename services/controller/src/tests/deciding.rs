//! What is decided in each phase.

use super::fixture::*;
use crate::{ATTEMPTS_MAX, ControllerEffect, EffectKind, Memory, Observed, Step, wake_at_ms};
use rehome_keyspace::{MoveId, Offset, Side};
use rehome_records::control::JobOptions;
use rehome_records::{ControlEvent, TopicPartition};
use std::collections::BTreeSet;
use std::time::Duration;

fn started(fixture: &Fixture) -> Vec<u64> {
    let ids = fixture.decide().into_iter().filter_map(|effect| match effect {
        ControllerEffect::StartMove { move_id } => Some(move_id.0),
        _ => None,
    });
    ids.collect()
}

#[test]
fn partitions_come_before_anything_that_uses_them() {
    let mut fixture = Fixture::new(&[(0, 4, 0), (1, 2, 4)], JobOptions::STANDARD);
    fixture.observed = Observed::default();
    let topic = "rehome.flights-1.data".to_owned();
    let ensure = ControllerEffect::EnsurePartitions { keyspace: KEYSPACE, topic, count: 5 };
    assert_eq!(fixture.decide(), [ensure], "no move starts before its destination has a partition");
    fixture.observed.note_partitions(KEYSPACE, 3);
    assert_eq!(fixture.names(), ["ensure-partitions", "start-move"]);
    assert_eq!(started(&fixture), [2]);
    fixture.observed.note_partitions(KEYSPACE, 5);
    assert_eq!(started(&fixture), [1, 2]);
}

#[test]
fn as_many_moves_run_at_once_as_the_job_allows_from_different_sources_first() {
    let moves = [(0, 3, 0), (0, 4, 1), (1, 4, 4), (2, 4, 8)];
    let mut fixture = Fixture::new(&moves, JobOptions::STANDARD);
    assert_eq!(started(&fixture), [1, 3]);
    fixture.memory.begin(Step::Start(MoveId(1)), 0);
    assert_eq!(started(&fixture), [3], "a start on its way counts");
    fixture.tell(ControlEvent::MoveStarted { move_id: MoveId(1) });
    fixture.tell(ControlEvent::MoveStarted { move_id: MoveId(3) });
    assert_eq!(started(&fixture), [0u64; 0]);
    fixture.tell(ControlEvent::MoveFailed { move_id: MoveId(3), reason: "no room".into() });
    assert_eq!(started(&fixture), [4], "shard 0 is being read by move 1");
    let all = Fixture::new(&moves, JobOptions { moves_at_once: 9, ..JobOptions::STANDARD });
    assert_eq!(started(&all), [1, 3, 4, 2]);
    let none = Fixture::new(&moves, JobOptions { moves_at_once: 0, ..JobOptions::STANDARD });
    assert_eq!(started(&none), [1], "a job that allows none would never end");
}

#[test]
fn a_cutover_starts_once_fresh_reports_predict_a_small_pause() {
    let mut fixture = Fixture::one().copied();
    assert_eq!(fixture.names(), [""; 0], "nobody has reported");
    fixture.observed.note_progress(progress(0, 0, None), fixture.now_ms);
    fixture.observed.note_progress(progress(1, 0, None), fixture.now_ms);
    assert_eq!(fixture.names(), [""; 0], "the destination says nothing of this move");
    fixture.report(0, 10_000);
    assert_eq!(fixture.names(), [""; 0], "200 ms are predicted, 100 are allowed");
    fixture.report(10_000, 0);
    assert_eq!(fixture.names(), [""; 0]);
    fixture.report(0, 50);
    let predicted_pause = Duration::from_millis(1 + 5 + 5);
    assert_eq!(fixture.decide(), [ControllerEffect::StartCutover { move_id: FIRST, predicted_pause }]);
    fixture.now_ms += 1_001;
    assert_eq!(fixture.names(), [""; 0], "the reports are old");
}

#[test]
fn a_replay_that_still_catches_up_is_waited_for_but_not_for_ever() {
    let mut fixture = Fixture::one().copied();
    fixture.report(0, 500);
    assert_eq!(fixture.names(), [""; 0], "10 ms of lag would be added to the pause");
    fixture.now_ms += 2_000;
    fixture.report(0, 500);
    let predicted_pause = Duration::from_millis(10 + 5 + 5);
    assert_eq!(fixture.decide(), [ControllerEffect::StartCutover { move_id: FIRST, predicted_pause }]);
}

#[test]
fn a_replica_that_stopped_for_good_starts_no_cutover() {
    for shard in [0, 1] {
        let mut fixture = Fixture::one().copied();
        fixture.report(0, 0);
        let mut broken = progress(shard, 0, Some(0));
        broken.broken = Some("another record lies at its position".into());
        fixture.observed.note_progress(broken, fixture.now_ms);
        assert_eq!(fixture.names(), [""; 0]);
    }
}

#[test]
fn the_open_is_acknowledged_before_the_fence_is_sent() {
    let mut fixture = Fixture::one().cutting_over();
    let facts = fixture.state.attempt_record(fixture.attempt()).unwrap().facts.clone();
    let id = facts.attempt;
    let partition = |shard| TopicPartition::new("rehome.flights-1.data", shard);
    let open = ControllerEffect::AppendOpen { facts: facts.clone(), partition: partition(1) };
    assert_eq!(fixture.decide(), [open]);
    fixture.memory.begin(Step::Open(id), fixture.now_ms);
    assert_eq!(fixture.names(), [""; 0]);
    fixture.memory.ended(Step::Open(id), &Ok(Offset(30)), fixture.now_ms);
    assert_eq!(fixture.decide(), [ControllerEffect::AppendFence { facts, partition: partition(0) }]);
    fixture.memory.begin(Step::Fence(id), fixture.now_ms);
    fixture.memory.ended(Step::Fence(id), &Ok(Offset(70)), fixture.now_ms);
    assert_eq!(fixture.names(), [""; 0], "now the replicas and the fold");
    assert_eq!(wake_at_ms(&fixture.state, &fixture.memory, fixture.now_ms), Some(fixture.now_ms + 2_000));
}

#[test]
fn a_cutover_without_an_outcome_is_aborted_after_its_time_with_its_fence() {
    let mut fixture = Fixture::one().cutting_over();
    let id = fixture.attempt();
    fixture.memory.begin(Step::Fence(id), fixture.now_ms);
    fixture.memory.ended(Step::Fence(id), &Ok(Offset(70)), fixture.now_ms);
    fixture.now_ms += 1_999;
    assert_eq!(fixture.names(), ["append-open"]);
    fixture.now_ms += 1;
    let reason = "no outcome after 2000 ms".to_owned();
    assert_eq!(fixture.decide(), [ControllerEffect::AbortCutover { attempt: id, fence: Offset(70), reason }]);
}

#[test]
fn nothing_is_aborted_before_the_fence_is_known_to_be_there() {
    let mut fixture = Fixture::one().cutting_over();
    let id = fixture.attempt();
    fixture.now_ms += 2_000;
    assert_eq!(fixture.names(), ["append-fence"], "not even its open is there: the fence alone closes the old epoch");
    fixture.memory.begin(Step::Fence(id), fixture.now_ms);
    assert_eq!(fixture.names(), [""; 0]);
    let unknown = Err(rehome_ports::PortError::unknown("no answer"));
    fixture.memory.ended(Step::Fence(id), &unknown, fixture.now_ms);
    fixture.now_ms += 50;
    assert_eq!(fixture.names(), ["append-fence"], "it may be there or not: again");
    // A source replica that has seen it is as good.
    let mut fixture = Fixture::one().cutting_over();
    fixture.tell(ready(fixture.attempt(), Side::Source, Offset(66), None));
    fixture.now_ms += 2_000;
    let ControllerEffect::AbortCutover { fence, .. } = fixture.decide().remove(0) else { panic!("no abort") };
    assert_eq!(fence, Offset(66));
}

#[test]
fn a_cancelled_cutover_is_aborted_at_once() {
    let mut fixture = Fixture::one().cutting_over();
    let id = fixture.attempt();
    let job = fixture.first().job;
    fixture.tell(ControlEvent::CancelRequested { job, reason: "ann said so".into() });
    assert_eq!(fixture.names(), ["append-fence"]);
    fixture.memory.begin(Step::Fence(id), fixture.now_ms);
    fixture.memory.ended(Step::Fence(id), &Ok(Offset(70)), fixture.now_ms);
    let reason = "cancelled: ann said so".to_owned();
    assert_eq!(fixture.decide(), [ControllerEffect::AbortCutover { attempt: id, fence: Offset(70), reason }]);
}

#[test]
fn a_paused_job_gets_no_further_step_and_goes_on_when_it_is_resumed() {
    for (mut fixture, step) in [(Fixture::one(), "start-move"), (Fixture::one().copied(), "start-cutover")] {
        let job = fixture.first().job;
        fixture.report(0, 0);
        assert_eq!(fixture.names(), [step]);
        fixture.tell(ControlEvent::PauseRequested { job, reason: "ann has to think".into() });
        assert_eq!(fixture.names(), [""; 0]);
        fixture.tell(ControlEvent::ResumeRequested { job });
        assert_eq!(fixture.names(), [step]);
    }
    // A cutover that is under way goes on to its outcome: writers wait for it.
    let mut fixture = Fixture::one().cutting_over();
    let job = fixture.first().job;
    fixture.tell(ControlEvent::PauseRequested { job, reason: "ann has to think".into() });
    assert_eq!(fixture.names(), ["append-open"]);
    fixture.abort_attempt();
    fixture.now_ms += 10_000;
    fixture.report(0, 0);
    assert_eq!(fixture.names(), [""; 0]);
}

#[test]
fn aborted_attempts_are_followed_by_others_after_growing_pauses_and_then_the_move_fails() {
    let mut fixture = Fixture::one().cutting_over();
    let mut pauses = Vec::new();
    for _ in 1..ATTEMPTS_MAX {
        fixture.abort_attempt();
        fixture.report(0, 0);
        assert_eq!(fixture.names(), [""; 0]);
        let at_ms = wake_at_ms(&fixture.state, &fixture.memory, fixture.now_ms).expect("the pause ends");
        pauses.push(at_ms - fixture.now_ms);
        fixture.now_ms = at_ms;
        fixture.report(0, 0);
        assert_eq!(fixture.names(), ["start-cutover"]);
        fixture.start_attempt();
    }
    assert_eq!(pauses[..8], [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000]);
    fixture.abort_attempt();
    let reason = "16 attempts to cut over were aborted, the last one because: no outcome".to_owned();
    assert_eq!(fixture.decide(), [ControllerEffect::FailMove { move_id: FIRST, reason }]);
}

#[test]
fn after_a_restart_each_phase_is_taken_up_where_the_log_left_it() {
    let restarted = |mut fixture: Fixture| {
        fixture.memory = Memory::default();
        fixture.memory.look(&fixture.state, fixture.now_ms);
        fixture.report(0, 0);
        fixture
    };
    assert_eq!(restarted(Fixture::one()).names(), ["start-move"]);
    assert_eq!(restarted(Fixture::one().copied()).names(), ["start-cutover"]);
    let mut cutting = restarted(Fixture::one().cutting_over());
    assert_eq!(cutting.names(), ["append-open"]);
    let id = cutting.attempt();
    cutting.memory.begin(Step::Open(id), cutting.now_ms);
    cutting.memory.ended(Step::Open(id), &Ok(Offset(31)), cutting.now_ms);
    assert_eq!(cutting.names(), ["append-fence"]);
    // Its time counts from the start of the cutover, not of the controller.
    let mut late = Fixture::one().cutting_over();
    late.now_ms += 1_500;
    let mut late = restarted(late);
    late.now_ms += 500;
    assert_eq!(late.names(), ["append-fence"], "on the way to the abort");
    let mut switched = Fixture::one().cutting_over();
    switched.tell(ready(switched.attempt(), Side::Source, Offset(70), None));
    switched.tell(ready(switched.attempt(), Side::Destination, Offset(70), Some(Offset(30))));
    assert_eq!(restarted(switched).names(), [""; 0], "completing is the nodes' business");
}

#[test]
fn a_clock_of_another_kind_than_the_logs_only_prolongs_the_first_cutover_after_a_restart() {
    let mut fixture = Fixture::one().cutting_over();
    fixture.memory = Memory::default();
    fixture.now_ms = 5;
    fixture.memory.look(&fixture.state, fixture.now_ms);
    assert_eq!(fixture.names(), ["append-open"]);
    fixture.now_ms += 2_000;
    assert_eq!(fixture.names(), ["append-fence"]);
}

#[test]
fn a_move_that_stands_still_tells_why() {
    let waits = |fixture: &Fixture| {
        let told = crate::waits(&fixture.state, &fixture.observed, &fixture.memory, fixture.now_ms);
        told.get(&FIRST).cloned().unwrap_or_default()
    };
    let mut fixture = Fixture::one().copied();
    assert_eq!(waits(&fixture), "no sound replica of shard 0 or of shard 1 has reported lately");
    fixture.report(0, 0);
    assert_eq!(waits(&fixture), "", "it cuts over now");
    fixture.report(0, u64::MAX);
    assert_eq!(waits(&fixture), "it is not known yet how far its replay is behind");
    fixture.report(0, 50_000);
    let slow = waits(&fixture);
    assert!(slow.ends_with("ms, above 100 ms: 50000 records are not applied on both sides yet"), "{slow}");
    fixture.start_attempt();
    assert_eq!(waits(&fixture), "");
    fixture.abort_attempt();
    fixture.report(0, 0);
    assert_eq!(waits(&fixture), "attempt 1 was aborted: no outcome; another follows after a rest");
    let job = fixture.first().job;
    fixture.tell(ControlEvent::PauseRequested { job, reason: "ann".into() });
    assert_eq!(waits(&fixture), "", "that it is paused is told by its job");
}

#[test]
fn the_topic_of_a_dropped_keyspace_is_removed_once_no_node_has_anything_left() {
    let mut fixture = Fixture::one();
    let (job, keyspace, node) = (fixture.first().job, KEYSPACE, NODE);
    fixture.tell(ControlEvent::CancelRequested { job, reason: "ann said so".into() });
    fixture.report(0, 0);
    fixture.observed.look(&fixture.state);
    assert_eq!(fixture.observed.kept(), (2, 0));
    fixture.tell(ControlEvent::KeyspaceDropped { keyspace });
    assert_eq!(fixture.names(), [""; 0]);
    fixture.tell(ControlEvent::KeyspaceRemoved { keyspace, node });
    fixture.observed.look(&fixture.state);
    assert_eq!(fixture.observed.kept(), (0, 0), "its reports are forgotten");
    assert_eq!(fixture.names(), ["remove-topic"]);
    fixture.observed.note_topic_removed(keyspace);
    assert_eq!(fixture.names(), ["propose-topic-removed"]);
    // A controller that starts here knows nothing of it.
    let restarted = |fixture: &Fixture| crate::decide(&fixture.state, &Observed::default(), &Memory::default(), 0);
    assert_eq!(restarted(&fixture).len(), 1);
    fixture.tell(ControlEvent::TopicRemoved { keyspace });
    fixture.observed.look(&fixture.state);
    assert_eq!((fixture.observed.kept(), fixture.names()), ((0, 0), vec![]));
    assert_eq!(restarted(&fixture), [], "no start does old work");
}

#[test]
fn effects_have_names_that_differ() {
    let names: BTreeSet<&str> = EffectKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), EffectKind::ALL.len());
}
