//! Writes of ordered sources.

use super::*;
use rehome_records::SourcePosition;

fn from_source(position: u64, deadline_ms: u64) -> WriteAsk {
    let source = Some(SourcePosition { source: "flights".into(), position });
    WriteAsk { source, request: None, ..put(&key_in(SLOT, 0), position, deadline_ms) }
}

#[test]
fn a_source_write_that_was_accepted_before_a_cutover_is_done_after_it() {
    let mut story = Story::new();
    story.ask(from_source(1, LATE_MS));
    let first = story.turn_with_one();
    story.fail(first.append, PortError::unknown("no answer"));
    story.reroute(2, 1, 4);
    let again = story.turn_with_one();
    story.ack(again.append, &[20]);
    story.verdict(1, 20, Verdict::SourceDone);
    let answer = story.answer(1).unwrap();
    assert!(answer.is_done());
    assert_eq!((answer.shard, answer.offset, answer.version()), (ShardId(1), Offset(20), None));
}

#[test]
fn no_later_position_of_a_source_is_accepted_before_a_refused_one() {
    let mut story = Story::new();
    story.ask(from_source(1, 50));
    let sent = story.turn_with_one();
    story.fail(sent.append, PortError::not_applied("full"));
    story.ask(from_source(2, LATE_MS));
    story.put(9);
    story.now_ms = 50;
    assert_eq!(story.turn_with_one().writes, [(1, 9)]);
    assert_eq!(story.refusal(1), (Remedy::NotApplied, "deadline"));
    assert_eq!(story.refusal(2), (Remedy::NotApplied, "source_order"));
    story.ask(from_source(3, LATE_MS));
    assert_eq!(story.refusal(3), (Remedy::NotApplied, "source_order"));
    // The sender goes back.
    for position in 1..=3 {
        story.ask(from_source(position, LATE_MS));
    }
    assert_eq!(story.answers, []);
    assert_eq!(placement().slot(&key_in(SLOT, 0)), SLOT);
}

#[test]
fn an_overloaded_router_keeps_sources_in_order() {
    let mut story = Story::with(RouterLimits { writes_max: 1, ..RouterLimits::STANDARD });
    story.put(9);
    story.ask(from_source(1, LATE_MS));
    assert_eq!(story.refusal(1), (Remedy::NotApplied, "overloaded"));
    let sent = story.turn_with_one();
    story.ack(sent.append, &[1]);
    story.verdict(0, 1, accepted(1, 1));
    story.ask(from_source(2, LATE_MS));
    assert_eq!(story.refusal(2), (Remedy::NotApplied, "source_order"));
    story.ask(from_source(1, LATE_MS));
    assert_eq!(story.turn_with_one().writes, [(1, 1)]);
}

#[test]
fn a_refused_source_write_takes_those_that_are_on_their_way_with_it() {
    let mut story = Story::new();
    story.ask(from_source(1, 50));
    story.ask(from_source(2, LATE_MS));
    let sent = story.turn_with_one();
    story.ack(sent.append, &[10, 11]);
    story.now_ms = 50;
    story.turn();
    assert_eq!(story.refusal(1), (Remedy::Unknown, "deadline"));
    assert_eq!(story.refusal(2), (Remedy::Unknown, "source_order"));
}
