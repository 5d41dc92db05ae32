//! What a controller remembers, and what it learns of speeds.

use super::fixture::*;
use crate::{Memory, Observed, Step};
use rehome_keyspace::{KeyspaceId, MoveId, Offset};
use rehome_ports::PortError;
use rehome_records::ControlEvent;

#[test]
fn a_step_is_not_taken_again_until_its_record_is_folded() {
    let mut memory = Memory::default();
    let step = Step::Start(FIRST);
    assert!(memory.may_take(step, 0));
    memory.begin(step, 0);
    assert!(!memory.may_take(step, u64::MAX) && memory.is_under_way(step));
    assert_eq!(memory.ended(step, &Ok(Offset(7)), 3), Some(3), "how long the log took");
    assert!(!memory.may_take(step, u64::MAX) && memory.is_under_way(step));
    assert_eq!(memory.folded(Offset(7), 3), []);
    assert_eq!(memory.folded(Offset(8), 3), [(step, Offset(7))]);
    assert!(!memory.may_take(step, 52) && memory.may_take(step, 53), "refused: again after a pause");
}

#[test]
fn pauses_grow_with_failures_in_a_row() {
    let mut memory = Memory::default();
    let step = Step::Partitions(KeyspaceId(1));
    let mut pauses = Vec::new();
    for _ in 0..8 {
        memory.begin(step, 1_000);
        assert_eq!(memory.ended(step, &Err(PortError::not_applied("full")), 1_000), None);
        pauses.push(memory.retry_at_ms(1_000).unwrap() - 1_000);
    }
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
    memory.forget(step);
    assert!(memory.may_take(step, 0));
    memory.begin(step, 1_000);
    memory.ended(step, &Err(PortError::not_applied("full")), 1_000);
    assert_eq!(memory.retry_at_ms(1_000), Some(1_050));
}

#[test]
fn what_is_over_is_forgotten() {
    let mut fixture = Fixture::one().cutting_over();
    let id = fixture.attempt();
    for step in [Step::Open(id), Step::Fence(id), Step::Abort(id)] {
        fixture.memory.begin(step, 0);
        fixture.memory.ended(step, &Ok(Offset(70)), 0);
    }
    assert_eq!(fixture.memory.mark_offset(Step::Fence(id)), Some(Offset(70)));
    assert!(fixture.memory.attempt_started_ms(id).is_some());
    fixture.abort_attempt();
    assert_eq!(fixture.memory.mark_offset(Step::Fence(id)), None);
    assert_eq!(fixture.memory.attempt_started_ms(id), None);
    assert_eq!(fixture.memory.attempt_aborted_ms(id), Some(fixture.now_ms));
    fixture.tell(ControlEvent::MoveFailed { move_id: FIRST, reason: "no room".into() });
    assert_eq!(fixture.memory.attempt_aborted_ms(id), None);
    assert_eq!(fixture.memory.retry_at_ms(0), None);
}

#[test]
fn a_busy_replay_shows_how_fast_records_are_applied() {
    let fixture = Fixture::one().copied();
    let facts = |observed: &Observed, now_ms| observed.pause_facts(&fixture.state, fixture.first(), now_ms).unwrap();
    let report = |observed: &mut Observed, lag, replayed, now_ms| {
        let mut destination = progress(1, 0, Some(lag));
        destination.inbound[0].replayed_records = replayed;
        observed.note_progress(destination, now_ms);
        observed.note_progress(progress(0, 0, None), now_ms);
    };
    let mut observed = Observed::default();
    report(&mut observed, 90_000, 0, 0);
    let first = facts(&observed, 0).apply_records_per_sec;
    report(&mut observed, 50_000, 40_000, 100);
    let second = facts(&observed, 100).apply_records_per_sec;
    assert!(second > first, "400,000 records/s were seen");
    report(&mut observed, 0, 40_001, 200);
    let third = facts(&observed, 200).apply_records_per_sec;
    assert!(first < third && third < second, "an idle replay shows nothing, and what was measured fades");
    report(&mut observed, 5_000, 0, 300);
    report(&mut observed, 4_000, 1_000, 400);
    assert!(facts(&observed, 400).apply_records_per_sec < third);
}

#[test]
fn a_slow_log_keeps_cutovers_from_starting_but_not_for_ever() {
    let mut fixture = Fixture::one().copied();
    fixture.observed.note_hop(std::time::Duration::from_secs(2), fixture.now_ms);
    fixture.report(0, 0);
    assert_eq!(fixture.names(), [""; 0], "a pause of one second is predicted");
    let mut waited_ms = 0;
    while fixture.names().is_empty() {
        fixture.now_ms += 100;
        waited_ms += 100;
        fixture.report(0, 0);
    }
    assert!((3_000..5_000).contains(&waited_ms), "no append mends the measurement, so it fades: {waited_ms}");
}

#[test]
fn another_moves_progress_is_not_this_ones() {
    let mut fixture = Fixture::one().copied();
    fixture.report(0, 0);
    let mut other = progress(1, 0, Some(0));
    other.inbound[0].move_id = MoveId(77);
    fixture.observed.note_progress(other, fixture.now_ms);
    assert_eq!(fixture.observed.pause_facts(&fixture.state, fixture.first(), fixture.now_ms), None);
}
