//! Stories of single writes through a router core.

mod sources;
#[path = "../world/mod.rs"]
mod world;

use rehome_control_core::Route;
use rehome_keyspace::{Epoch, Offset, ShardId, SlotId, Version};
use rehome_ports::{PortError, Remedy, VerdictBatch};
use rehome_records::{FirstAnswer, Operation, RowChange, Verdict};
use rehome_router::limits::{BATCH_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX_RANGE};
use rehome_router::{AppendId, AskId, Effect, Input, RouterCore, RouterLimits, WriteAnswer, WriteAsk, WriteRefused};
use world::{KEYSPACE, first_routes, key_in, number_of, placement, put, routes, writes_of};

const SLOT: SlotId = SlotId(0);
const LATE_MS: u64 = 1_000_000;

/// An append as it went out: its id, shard, and the epoch and number of each write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    append: AppendId,
    shard: u32,
    writes: Vec<(u64, u64)>,
}

struct Story {
    now_ms: u64,
    core: RouterCore,
    sent: Vec<Sent>,
    answers: Vec<(u64, Result<WriteAnswer, WriteRefused>)>,
}

impl Story {
    fn new() -> Story {
        Story::with(RouterLimits::STANDARD)
    }

    fn with(limits: RouterLimits) -> Story {
        let mut story = Story { now_ms: 0, core: RouterCore::new(limits), sent: Vec::new(), answers: Vec::new() };
        story.step(Input::Routes(routes(1, first_routes())));
        story
    }

    fn step(&mut self, input: Input) {
        for effect in self.core.step(self.now_ms, input) {
            match effect {
                Effect::Append { append, partition, records } => {
                    let writes = writes_of(&records).iter().map(|write| (write.epoch.0, number_of(write))).collect();
                    self.sent.push(Sent { append, shard: partition.partition, writes });
                }
                Effect::AnswerWrite { ask, answer } => self.answers.push((ask.0, answer)),
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn ask(&mut self, write: WriteAsk) {
        let ask = AskId(number_of(&rehome_records::data::Write {
            partition_key: Vec::new(),
            epoch: Epoch(0),
            request: None,
            source: None,
            operation: write.operation.clone(),
        }));
        self.step(Input::Write { ask, write });
    }

    /// Asks for a put in [`SLOT`].
    fn put(&mut self, number: u64) {
        self.ask(put(&key_in(SLOT, 0), number, LATE_MS));
    }

    /// Ends the turn; returns what went out since the last time.
    fn turn(&mut self) -> Vec<Sent> {
        self.step(Input::TurnEnded);
        std::mem::take(&mut self.sent)
    }

    /// Ends the turn, in which exactly one append goes out; returns it.
    fn turn_with_one(&mut self) -> Sent {
        let mut sent = self.turn();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    fn ack(&mut self, append: AppendId, offsets: &[u64]) {
        let result = Ok(offsets.iter().map(|offset| Offset(*offset)).collect());
        self.step(Input::Appended { append, result });
    }

    fn fail(&mut self, append: AppendId, error: PortError) {
        self.step(Input::Appended { append, result: Err(error) });
    }

    fn verdict(&mut self, shard: u32, offset: u64, verdict: Verdict) {
        self.batch(shard, &[(offset, verdict)], offset);
    }

    fn batch(&mut self, shard: u32, verdicts: &[(u64, Verdict)], applied: u64) {
        let verdicts = verdicts.iter().map(|(offset, verdict)| (Offset(*offset), verdict.clone())).collect();
        let batch = VerdictBatch { keyspace: KEYSPACE, shard: ShardId(shard), verdicts, applied: Offset(applied) };
        self.step(Input::Verdicts(batch));
    }

    /// The control log tells a new owner of [`SLOT`].
    fn reroute(&mut self, position: u64, shard: u32, epoch: u64) {
        let mut all = first_routes();
        all[SLOT.0 as usize] = Route { shard: ShardId(shard), epoch: Epoch(epoch) };
        self.step(Input::Routes(routes(position, all)));
    }

    /// Returns the one answer to that write, and forgets it.
    fn answer(&mut self, number: u64) -> Result<WriteAnswer, WriteRefused> {
        let index = self.answers.iter().position(|(other, _)| *other == number).expect("the write has an answer");
        self.answers.remove(index).1
    }

    fn refusal(&mut self, number: u64) -> (Remedy, &'static str) {
        let refused = self.answer(number).expect_err("the write is refused");
        (refused.remedy, refused.code)
    }
}

fn version(epoch: u64, offset: u64) -> Version {
    Version { epoch: Epoch(epoch), offset: Offset(offset) }
}

fn accepted(epoch: u64, offset: u64) -> Verdict {
    Verdict::Accepted { version: version(epoch, offset) }
}

#[test]
fn w1_stale_goes_out_again_before_w2_under_the_new_epoch() {
    let mut story = Story::new();
    story.put(1);
    let first = story.turn_with_one();
    assert_eq!((first.shard, first.writes.as_slice()), (0, [(1, 1)].as_slice()));
    story.ack(first.append, &[10]);
    story.verdict(0, 10, Verdict::StaleRoute);
    story.put(2);
    assert_eq!(story.turn(), [], "the slot is held until a higher epoch is known");
    story.reroute(2, 2, 4);
    let again = story.turn_with_one();
    assert_eq!((again.shard, again.writes.as_slice()), (2, [(4, 1), (4, 2)].as_slice()));
    story.ack(again.append, &[3, 5]);
    story.batch(2, &[(3, accepted(4, 3)), (5, accepted(4, 5))], 5);
    let answer = story.answer(1).unwrap();
    assert_eq!(answer, WriteAnswer { verdict: accepted(4, 3), shard: ShardId(2), offset: Offset(3), epoch: Epoch(4) });
    assert_eq!(story.answer(2).unwrap().version(), Some(version(4, 5)));
    let counters = story.core.counters();
    assert_eq!((counters.stale_verdicts, counters.writes_resent, counters.holds), (1, 1, 1));
}

#[test]
fn a_retry_that_straddles_a_cutover_gets_the_first_answer() {
    let mut story = Story::new();
    story.put(1);
    let first = story.turn_with_one();
    story.ack(first.append, &[10]);
    story.reroute(2, 1, 4);
    let again = story.turn_with_one();
    assert_eq!((again.shard, again.writes.as_slice()), (1, [(4, 1)].as_slice()));
    story.ack(again.append, &[20]);
    story.verdict(1, 20, Verdict::Repeated { first: FirstAnswer::Accepted { version: version(1, 10) } });
    assert_eq!(story.answer(1).unwrap().verdict, accepted(1, 10));
    story.verdict(0, 10, accepted(1, 10));
    assert_eq!(story.answers, [], "one answer only");
}

#[test]
fn the_first_verdict_answers_even_if_a_later_copy_is_on_its_way() {
    let mut story = Story::new();
    story.put(1);
    let first = story.turn_with_one();
    story.ack(first.append, &[10]);
    story.reroute(2, 1, 4);
    let again = story.turn_with_one();
    story.verdict(0, 10, Verdict::ConditionFailed { current: None });
    assert_eq!(story.answer(1).unwrap().verdict, Verdict::ConditionFailed { current: None });
    story.ack(again.append, &[20]);
    story.verdict(1, 20, Verdict::Repeated { first: FirstAnswer::ConditionFailed { current: None } });
    assert_eq!(story.answers, []);
}

#[test]
fn a_clients_own_repetition_is_told_as_one() {
    let mut story = Story::new();
    story.put(1);
    let sent = story.turn_with_one();
    story.ack(sent.append, &[10]);
    let repeated = Verdict::Repeated { first: FirstAnswer::Accepted { version: version(1, 4) } };
    story.verdict(0, 10, repeated.clone());
    assert_eq!(story.answer(1).unwrap().verdict, repeated);
}

#[test]
fn a_verdict_before_the_ack_is_kept() {
    let mut story = Story::new();
    story.put(1);
    let sent = story.turn_with_one();
    story.batch(0, &[(9, accepted(1, 9)), (10, accepted(1, 10))], 10);
    assert_eq!(story.answers, []);
    story.ack(sent.append, &[10]);
    assert_eq!(story.answer(1).unwrap().offset, Offset(10));
}

#[test]
fn a_verdict_of_an_earlier_append_never_judges_a_later_one() {
    let mut story = Story::new();
    story.put(1);
    let sent = story.turn_with_one();
    story.batch(0, &[(10, accepted(1, 10)), (11, Verdict::StaleRoute)], 11);
    story.ack(sent.append, &[10]);
    assert!(story.answer(1).is_ok());
    story.put(2);
    let sent = story.turn_with_one();
    story.ack(sent.append, &[12]);
    assert_eq!(story.answers, []);
}

#[test]
fn an_abort_gives_the_same_shard_with_a_new_epoch_and_is_followed() {
    let mut story = Story::new();
    story.put(1);
    let sent = story.turn_with_one();
    story.ack(sent.append, &[10]);
    story.verdict(0, 10, Verdict::StaleRoute);
    assert_eq!(story.turn(), []);
    story.reroute(2, 0, 4);
    let again = story.turn_with_one();
    assert_eq!((again.shard, again.writes.as_slice()), (0, [(4, 1)].as_slice()));
    story.ack(again.append, &[12]);
    story.verdict(0, 12, accepted(4, 12));
    assert!(story.answer(1).unwrap().is_done());
}

#[test]
fn a_stale_verdict_under_an_old_epoch_does_not_hold_the_slot_again() {
    let mut story = Story::new();
    story.put(1);
    let first = story.turn_with_one();
    story.ack(first.append, &[10]);
    story.reroute(2, 1, 4);
    let again = story.turn_with_one();
    story.verdict(0, 10, Verdict::StaleRoute);
    story.ack(again.append, &[20]);
    story.put(2);
    assert_eq!(story.turn_with_one().writes, [(4, 2)]);
    assert_eq!(story.core.counters().holds, 0);
}

#[test]
fn older_routes_are_not_taken_back() {
    let mut story = Story::new();
    story.reroute(5, 1, 4);
    story.reroute(3, 2, 3);
    story.put(1);
    assert_eq!(story.turn_with_one().writes, [(4, 1)]);
}

#[test]
fn a_held_slot_holds_no_other() {
    let mut story = Story::new();
    story.put(1);
    let sent = story.turn_with_one();
    story.ack(sent.append, &[10]);
    story.verdict(0, 10, Verdict::StaleRoute);
    // Slot 3 is at the same shard.
    story.ask(put(&key_in(SlotId(3), 0), 2, LATE_MS));
    story.put(3);
    assert_eq!(story.turn_with_one().writes, [(1, 2)]);
}

#[test]
fn the_time_for_which_slots_were_held_is_counted() {
    let mut story = Story::new();
    story.put(1);
    let sent = story.turn_with_one();
    story.ack(sent.append, &[10]);
    story.now_ms = 100;
    story.verdict(0, 10, Verdict::StaleRoute);
    story.now_ms = 107;
    story.reroute(2, 1, 4);
    let pauses = story.core.counters().write_pauses;
    assert_eq!((pauses.count(), pauses.sum_ms()), (1, 7));
    assert_eq!(pauses.up_to().find(|(_, count)| *count == 1), Some((10, 1)));
}

#[test]
fn writes_of_one_shard_go_out_in_one_append_per_turn() {
    let mut story = Story::new();
    story.put(1);
    story.ask(put(&key_in(SlotId(3), 0), 2, LATE_MS));
    story.ask(put(&key_in(SlotId(1), 0), 3, LATE_MS));
    story.put(4);
    let sent = story.turn();
    assert_eq!(sent[0].writes, [(1, 1), (1, 4), (1, 2)]);
    assert_eq!((sent[1].shard, sent[1].writes.as_slice()), (1, [(2, 3)].as_slice()));
}

#[test]
fn a_slot_has_one_append_without_an_ack_so_that_nothing_overtakes() {
    let mut story = Story::new();
    story.put(1);
    let first = story.turn_with_one();
    story.put(2);
    assert_eq!(story.turn(), []);
    story.fail(first.append, PortError::not_applied("full"));
    assert_eq!(story.turn(), [], "a failed partition rests a moment");
    story.now_ms = story.core.wake_at_ms().unwrap();
    assert_eq!(story.turn_with_one().writes, [(1, 1), (1, 2)]);
}

#[test]
fn an_append_of_unknown_outcome_goes_out_again_under_the_same_request_ids() {
    let mut story = Story::new();
    story.put(1);
    let first = story.turn_with_one();
    story.fail(first.append, PortError::unknown("no answer"));
    story.now_ms = 600;
    let again = story.turn_with_one();
    assert_eq!(again.writes, first.writes);
    story.ack(again.append, &[11]);
    story.verdict(0, 11, Verdict::Repeated { first: FirstAnswer::Accepted { version: version(1, 10) } });
    assert_eq!(story.answer(1).unwrap().verdict, accepted(1, 10));
}

#[test]
fn failing_appends_are_tried_less_and_less_often() {
    let mut story = Story::new();
    story.put(1);
    let mut waits_ms = Vec::new();
    for _ in 0..10 {
        let sent = story.turn_with_one();
        story.fail(sent.append, PortError::not_applied("full"));
        let wake_at_ms = story.core.wake_at_ms().unwrap();
        waits_ms.push(wake_at_ms - story.now_ms);
        story.now_ms = wake_at_ms;
    }
    assert_eq!(waits_ms, [5, 10, 20, 40, 80, 160, 320, 500, 500, 500]);
}

#[test]
fn a_verdict_that_the_replica_passed_over_is_asked_for_again() {
    let mut story = Story::new();
    story.put(1);
    let first = story.turn_with_one();
    story.ack(first.append, &[10]);
    story.batch(0, &[], 10);
    let again = story.turn_with_one();
    assert_eq!(again.writes, [(1, 1)]);
    story.ack(again.append, &[12]);
    story.verdict(0, 12, Verdict::Repeated { first: FirstAnswer::Accepted { version: version(1, 10) } });
    assert_eq!(story.answer(1).unwrap().verdict, accepted(1, 10));
    assert_eq!(story.core.counters().verdicts_missed, 1);
}

#[test]
fn a_silent_replica_is_probed_with_the_oldest_write_only() {
    let mut story = Story::new();
    for number in 1..=3 {
        story.put(number);
    }
    let first = story.turn_with_one();
    story.ack(first.append, &[10, 11, 12]);
    assert_eq!(story.turn(), []);
    story.now_ms = story.core.wake_at_ms().unwrap();
    assert!(story.now_ms > 1_000);
    let probe = story.turn_with_one();
    assert_eq!(probe.writes, [(1, 1)]);
    story.ack(probe.append, &[20]);
    // What the replica says about the probe shows that the others were missed.
    story.verdict(0, 20, Verdict::Repeated { first: FirstAnswer::Accepted { version: version(1, 10) } });
    assert_eq!(story.answer(1).unwrap().verdict, accepted(1, 10));
    assert_eq!(story.turn_with_one().writes, [(1, 2), (1, 3)]);
}

#[test]
fn at_the_deadline_a_write_that_was_never_appended_is_surely_not_applied() {
    let mut story = Story::new();
    story.ask(put(&key_in(SLOT, 0), 1, 50));
    let sent = story.turn_with_one();
    story.fail(sent.append, PortError::not_applied("full"));
    assert_eq!(story.core.wake_at_ms(), Some(5));
    story.now_ms = 50;
    assert_eq!(story.turn(), []);
    assert_eq!(story.refusal(1), (Remedy::NotApplied, "deadline"));
}

#[test]
fn at_the_deadline_a_write_whose_copies_were_all_stale_is_surely_not_applied() {
    let mut story = Story::new();
    story.ask(put(&key_in(SLOT, 0), 1, 50));
    let sent = story.turn_with_one();
    story.ack(sent.append, &[10]);
    story.verdict(0, 10, Verdict::StaleRoute);
    story.now_ms = 50;
    assert_eq!(story.turn(), []);
    let refused = story.answer(1).unwrap_err();
    assert_eq!((refused.remedy, refused.code), (Remedy::NotApplied, "paused"));
    assert!(refused.message.contains("slot 0 is changing owner"), "{refused}");
}

#[test]
fn at_the_deadline_a_write_that_may_lie_somewhere_is_unknown() {
    let on_its_way = |_: &mut Story, _: Sent| {};
    let without_verdict = |story: &mut Story, sent: Sent| story.ack(sent.append, &[10]);
    let unknown_then_stale = |story: &mut Story, sent: Sent| {
        story.fail(sent.append, PortError::unknown("no answer"));
        story.now_ms = 20;
        let again = story.turn_with_one();
        story.ack(again.append, &[11]);
        story.verdict(0, 11, Verdict::StaleRoute);
    };
    let passed_over_then_stale = |story: &mut Story, sent: Sent| {
        story.ack(sent.append, &[10]);
        story.batch(0, &[], 10);
        let again = story.turn_with_one();
        story.ack(again.append, &[11]);
        story.verdict(0, 11, Verdict::StaleRoute);
    };
    type Case<'a> = &'a dyn Fn(&mut Story, Sent);
    let cases: [Case<'_>; 4] = [&on_its_way, &without_verdict, &unknown_then_stale, &passed_over_then_stale];
    for (index, case) in cases.iter().enumerate() {
        let mut story = Story::new();
        story.ask(put(&key_in(SLOT, 0), 1, 50));
        let sent = story.turn_with_one();
        case(&mut story, sent);
        story.now_ms = 50;
        assert_eq!(story.turn(), []);
        assert_eq!(story.refusal(1), (Remedy::Unknown, "deadline"), "case {index}");
        assert_eq!(story.core.wake_at_ms(), None, "case {index} leaves something behind");
    }
}

#[test]
fn an_ack_after_the_deadline_changes_nothing() {
    let mut story = Story::new();
    story.ask(put(&key_in(SLOT, 0), 1, 50));
    let sent = story.turn_with_one();
    story.now_ms = 50;
    story.turn();
    assert_eq!(story.refusal(1), (Remedy::Unknown, "deadline"));
    story.ack(sent.append, &[10]);
    story.verdict(0, 10, accepted(1, 10));
    assert_eq!(story.answers, []);
    assert_eq!(story.core.wake_at_ms(), None, "nothing is left behind");
}

/// Two writes fill the room and a third is refused; once they are answered there is room again.
fn room_for_two(limits: RouterLimits) {
    let mut story = Story::with(limits);
    for number in 1..=3 {
        story.put(number);
    }
    assert_eq!(story.refusal(3), (Remedy::NotApplied, "overloaded"));
    let sent = story.turn_with_one();
    story.ack(sent.append, &[1, 2]);
    story.batch(0, &[(1, accepted(1, 1)), (2, accepted(1, 2))], 2);
    story.put(4);
    assert_eq!(story.turn_with_one().writes, [(1, 4)], "answered writes make room");
}

#[test]
fn too_many_writes_or_bytes_are_refused_at_once() {
    let mut story = Story::with(RouterLimits { writes_max: 2, ..RouterLimits::STANDARD });
    for number in 1..=3 {
        story.put(number);
    }
    let refused = story.answer(3).unwrap_err();
    assert_eq!((refused.remedy, refused.code), (Remedy::NotApplied, "overloaded"));
    assert!(refused.retry_after_ms.is_some());
    room_for_two(RouterLimits { write_bytes_max: 600, ..RouterLimits::STANDARD });
}

#[test]
fn one_keyspace_does_not_take_all_the_room() {
    let of_keyspace = [
        RouterLimits { keyspace_writes_max: 2, ..RouterLimits::STANDARD },
        RouterLimits { keyspace_write_bytes_max: 600, ..RouterLimits::STANDARD },
    ];
    of_keyspace.into_iter().for_each(room_for_two);
}

#[test]
fn appends_to_a_shard_that_does_not_answer_are_bounded() {
    let mut story = Story::with(RouterLimits { appends_per_shard_max: 1, ..RouterLimits::STANDARD });
    story.put(1);
    let first = story.turn_with_one();
    story.ask(put(&key_in(SlotId(3), 0), 2, LATE_MS));
    assert_eq!(story.turn(), []);
    story.ack(first.append, &[10]);
    assert_eq!(story.turn_with_one().writes, [(1, 2)]);
}

#[test]
fn one_append_holds_no_more_than_its_limit() {
    let mut story = Story::with(RouterLimits { append_records_max: 2, ..RouterLimits::STANDARD });
    for number in 1..=3 {
        story.put(number);
    }
    let first = story.turn_with_one();
    assert_eq!(first.writes, [(1, 1), (1, 2)]);
    story.ack(first.append, &[10, 11]);
    assert_eq!(story.turn_with_one().writes, [(1, 3)]);
}

#[test]
fn what_breaks_a_limit_is_refused_with_a_clear_error() {
    let row = |key: usize, value: usize| RowChange { sort_key: vec![1; key], value: Some(vec![1; value]) };
    let key = b"k".to_vec();
    let standard = RouterLimits::STANDARD.value_bytes_max;
    let cases = [
        ("empty_key", Vec::new(), Operation::Change(row(1, 1))),
        ("key_too_large", vec![1; KEY_BYTES_MAX + 1], Operation::Change(row(1, 1))),
        ("key_too_large", key.clone(), Operation::Change(row(KEY_BYTES_MAX + 1, 1))),
        ("value_too_large", key.clone(), Operation::Change(row(1, standard + 1))),
        ("empty_batch", key.clone(), Operation::Batch(Vec::new())),
        ("batch_too_large", key.clone(), Operation::Batch(vec![row(1, BATCH_BYTES_MAX / 2); 2])),
    ];
    for (code, partition_key, operation) in cases {
        let mut story = Story::new();
        let write = WriteAsk { partition_key, operation, ..put(&key, 1, LATE_MS) };
        story.step(Input::Write { ask: AskId(1), write });
        assert_eq!(story.refusal(1), (Remedy::NotApplied, code));
    }
    for value_bytes_max in [*VALUE_BYTES_MAX_RANGE.start(), standard, *VALUE_BYTES_MAX_RANGE.end()] {
        let mut story = Story::with(RouterLimits { value_bytes_max, ..RouterLimits::STANDARD });
        for (ask, bytes) in [(1, value_bytes_max), (2, value_bytes_max + 1)] {
            let write = WriteAsk { operation: Operation::Change(row(KEY_BYTES_MAX, bytes)), ..put(&key, 1, LATE_MS) };
            story.step(Input::Write { ask: AskId(ask), write });
        }
        assert_eq!(story.answers.len(), 1, "{value_bytes_max}");
        assert_eq!(story.refusal(2), (Remedy::NotApplied, "value_too_large"));
    }
}

#[test]
fn a_keyspace_that_is_not_known_yet_is_worth_another_try() {
    let mut story = Story::new();
    story.step(Input::Write {
        ask: AskId(1),
        write: WriteAsk { keyspace: rehome_keyspace::KeyspaceId(99), ..put(b"k", 1, LATE_MS) },
    });
    let refused = story.answer(1).unwrap_err();
    assert_eq!(
        (refused.remedy, refused.code, refused.retry_after_ms.is_some()),
        (Remedy::NotApplied, "keyspace_not_ready", true)
    );
}
