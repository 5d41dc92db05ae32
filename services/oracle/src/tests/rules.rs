//! The rule by which writes are accepted, line by line.

use super::world::*;
use crate::{DroppedStory, FoldError, MovePhase};
use rehome_keyspace::*;
use rehome_records::*;

/// A world in which attempt 1 moves slot 0 from shard 0 to shard 2 under epoch 3, with its fence at offset 5.
fn cut_over(outcome: &str) -> World {
    let mut world = World::new();
    world.move_begins(4, true);
    let marks = world.cutover(10, 1, 3);
    world.log(2, 0, marks.open.into_record());
    world.write(0, 3, 1, 0, 1, Some("before the fence"));
    world.log(0, 5, marks.fence.into_record());
    match outcome {
        "switched" => {
            world.ready(11, 1, Side::Source, 5, 1);
            world.ready(12, 1, Side::Destination, 5, 1);
        }
        "aborted" => {
            let (attempt, fence) = (AttemptId(1), Offset(5));
            world.tell(11, ControlEvent::CutoverAborted { attempt, fence, reason: "timeout".into() });
        }
        _ => {}
    }
    world
}

fn accepted(world: &World, shard: u32, offset: u64) -> bool {
    world.fold().accepted.contains(ShardId(shard), Offset(offset))
}

#[test]
fn slots_are_split_evenly_and_contiguously_at_creation() {
    let story = World::new().story();
    let owners: Vec<u32> = story.keyspaces[&KEYSPACE].routes.iter().map(|(shard, _)| shard.0).collect();
    assert_eq!(owners, [0, 0, 1, 1]);
}

#[test]
fn after_a_switch_only_the_destination_accepts() {
    let mut world = cut_over("switched");
    world.write(0, 6, 1, 0, 2, Some("old epoch"));
    world.write(0, 7, 3, 0, 3, Some("new epoch, old shard"));
    world.write(2, 8, 3, 0, 4, Some("new epoch, new shard"));
    world.write(2, 9, 1, 0, 5, Some("old epoch, new shard"));
    let found = [(0, 3), (0, 6), (0, 7), (2, 8), (2, 9)].map(|(shard, offset)| accepted(&world, shard, offset));
    assert_eq!(found, [true, false, false, true, false]);
}

#[test]
fn after_an_abort_only_the_source_accepts_and_only_the_new_epoch() {
    let mut world = cut_over("aborted");
    world.write(0, 6, 1, 0, 2, Some("old epoch"));
    world.write(0, 7, 3, 0, 3, Some("new epoch"));
    world.write(2, 8, 3, 0, 4, Some("new epoch, other shard"));
    let found = [(0, 3), (0, 6), (0, 7), (2, 8)].map(|(shard, offset)| accepted(&world, shard, offset));
    assert_eq!(found, [true, false, true, false]);
}

#[test]
fn without_an_outcome_nobody_accepts_the_epoch() {
    let mut world = cut_over("open");
    world.write(0, 6, 3, 0, 2, Some("source"));
    world.write(2, 6, 3, 0, 3, Some("destination"));
    assert!(!accepted(&world, 0, 6) && !accepted(&world, 2, 6));
}

#[test]
fn the_first_outcome_stays() {
    let mut world = cut_over("switched");
    let (attempt, fence) = (AttemptId(1), Offset(5));
    world.tell(20, ControlEvent::CutoverAborted { attempt, fence, reason: "late".into() });
    assert_eq!(world.story().attempts[&attempt].winner(), Some(ShardId(2)));
    let mut world = cut_over("aborted");
    world.ready(20, 1, Side::Source, 5, 1);
    world.ready(21, 1, Side::Destination, 5, 1);
    assert_eq!(world.story().attempts[&attempt].winner(), Some(ShardId(0)));
}

#[test]
fn an_epoch_is_not_accepted_before_its_mark() {
    let mut world = cut_over("switched");
    let open = world.data[2].remove(0);
    world.write(2, 1, 3, 0, 4, Some("early"));
    world.data[2].push(Logged { offset: Offset(2), ..open });
    world.write(2, 3, 3, 0, 5, Some("in time"));
    assert!(!accepted(&world, 2, 1) && accepted(&world, 2, 3));
}

#[test]
fn a_mark_that_cites_its_control_record_wrongly_does_nothing() {
    let spoil: [fn(&mut data::AttemptMark); 5] = [
        |mark| mark.nonce = Nonce(0),
        |mark| mark.control_offset = Offset(9),
        |mark| mark.epoch = Epoch(9),
        |mark| mark.move_id = MoveId(9),
        |mark| mark.selector = Placement::buckets(BUCKETS).unwrap().selector([SlotId(0), SlotId(1)]),
    ];
    for spoil in spoil {
        let mut world = cut_over("aborted");
        let fence = world.data[0].pop().expect("the fence is last");
        let Ok(DataRecord::Mark(Mark::Fence(mut mark))) = DataRecord::read(&fence.record) else {
            panic!("the fence is last")
        };
        spoil(&mut mark);
        world.log(0, 5, Mark::Fence(mark).into_record());
        world.write(0, 7, 1, 0, 2, Some("the old epoch is not closed"));
        assert!(accepted(&world, 0, 7));
    }
}

#[test]
fn a_request_is_done_once_in_the_order_of_epochs_though_its_retry_is_read_first() {
    let mut world = cut_over("switched");
    world.write(2, 8, 3, 0, 1, Some("before the fence"));
    let folded = world.fold();
    assert!(folded.accepted.contains(ShardId(0), Offset(3)));
    assert!(folded.repeated.contains(ShardId(2), Offset(8)));
    // Shards are read in order; a move downwards reads the destination first.
    assert_eq!(folded.accepted.len(), 1);
}

#[test]
fn a_condition_is_judged_on_the_newest_row_and_its_failure_is_remembered() {
    let mut world = World::new();
    let change = || RowChange { sort_key: b"row".to_vec(), value: Some(b"v".to_vec()) };
    let absent = || Operation::ChangeIf { change: change(), condition: Condition::Absent };
    let version = |offset| Condition::VersionIs(at((1, offset)));
    world.append(0, 0, 1, 0, 1, absent());
    world.append(0, 1, 1, 0, 2, absent());
    world.append(0, 2, 1, 0, 3, Operation::ChangeIf { change: change(), condition: version(0) });
    world.append(0, 3, 1, 0, 4, Operation::ChangeIf { change: change(), condition: version(0) });
    world.write(0, 4, 1, 0, 5, None);
    world.append(0, 5, 1, 0, 2, absent());
    let found: Vec<bool> = (0..6).map(|offset| accepted(&world, 0, offset)).collect();
    assert_eq!(found, [true, false, true, false, true, false]);
    assert!(world.fold().repeated.contains(ShardId(0), Offset(5)));
}

#[test]
fn an_ordered_source_is_done_up_to_its_highest_position() {
    let mut world = World::new();
    for (offset, position) in [(0, 5), (1, 5), (2, 4), (3, 6)] {
        let source = Some(SourcePosition { source: "file".into(), position });
        let operation = Operation::Change(RowChange { sort_key: vec![], value: Some(vec![]) });
        let write = Write { partition_key: world.key(0), epoch: Epoch(1), request: None, source, operation };
        world.log(0, offset, write.into_record());
    }
    let found: Vec<bool> = (0..4).map(|offset| accepted(&world, 0, offset)).collect();
    assert_eq!(found, [true, false, false, true]);
}

#[test]
fn a_horizon_forgets_request_ids_up_to_its_version_where_its_epoch_is_current() {
    for (epoch, is_forgotten) in [(1, true), (2, false)] {
        let mut world = World::new();
        world.write(0, 0, 1, 0, 1, Some("a"));
        world.write(0, 1, 1, 0, 2, None);
        let regions = vec![(world.placement.slot_range(SlotId(0)), Epoch(epoch))];
        world.log(0, 2, Mark::Horizon { regions: regions.clone(), version: at((1, 1)) }.into_record());
        world.write(0, 3, 1, 0, 1, Some("a"));
        assert_eq!(accepted(&world, 0, 3), is_forgotten);
        // The request that was just accepted again is newer than this horizon.
        world.log(0, 4, Mark::Horizon { regions, version: at((1, 2)) }.into_record());
        world.write(0, 5, 1, 0, 1, Some("a"));
        assert!(!accepted(&world, 0, 5));
    }
}

#[test]
fn a_horizon_waits_for_the_fence_behind_what_it_forgets() {
    let mut world = cut_over("switched");
    let regions = vec![(world.placement.slot_range(SlotId(0)), Epoch(3))];
    world.log(2, 8, Mark::Horizon { regions, version: at((3, 0)) }.into_record());
    assert!(world.fold().requests.is_empty(), "what was brought here is older");
    world.data[0].pop();
    let missing = world.try_fold().expect_err("the order cannot be told");
    assert!(matches!(missing, FoldError::FenceMissing { attempt: AttemptId(1), .. }), "{missing}");
}

#[test]
fn a_missing_fence_on_which_writes_depend_is_said() {
    let mut world = cut_over("switched");
    world.data[0].pop();
    world.write(2, 8, 3, 0, 4, Some("new"));
    let missing = world.try_fold().expect_err("the order cannot be told");
    assert!(matches!(missing, FoldError::FenceMissing { attempt: AttemptId(1), .. }), "{missing}");
}

#[test]
fn a_job_on_keys_that_are_moving_is_refused_until_the_move_has_ended() {
    let mut copying = World::new();
    copying.move_begins(4, true);
    copying.move_begins(30, true);
    assert_eq!(copying.story().moves.len(), 1);
    let mut world = cut_over("switched");
    world.move_begins(30, true);
    assert_eq!(world.story().moves.len(), 1);
    assert_eq!(world.story().moves[&MoveId(1)].phase, MovePhase::CleaningUp);
    world.tell(40, ControlEvent::CleanupDone { move_id: MoveId(1), node: NodeId(1) });
    assert_eq!(world.story().moves[&MoveId(1)].phase, MovePhase::Ended);
}

#[test]
fn a_paused_job_starts_nothing_until_it_is_resumed() {
    let mut world = cut_over("open");
    let (job, move_id, attempt) = (JobId(4), MoveId(1), AttemptId(1));
    world.tell(11, ControlEvent::PauseRequested { job, reason: "wait".into() });
    world.tell(12, ControlEvent::CutoverAborted { attempt, fence: Offset(5), reason: "late".into() });
    let again = |nonce| ControlEvent::CutoverStarted { move_id, nonce: Nonce(nonce), predicted_pause_us: 1 };
    world.tell(13, again(2));
    assert_eq!(world.story().moves[&move_id].phase, MovePhase::CatchingUp);
    world.tell(14, ControlEvent::ResumeRequested { job });
    world.tell(15, again(3));
    assert_eq!(world.story().moves[&move_id].phase, MovePhase::CuttingOver(AttemptId(2)));
}

#[test]
fn a_cancel_during_a_cutover_takes_effect_when_it_aborts() {
    let mut world = cut_over("open");
    world.tell(11, ControlEvent::CancelRequested { job: JobId(4), reason: "changed my mind".into() });
    assert_eq!(world.story().moves[&MoveId(1)].phase, MovePhase::CuttingOver(AttemptId(1)));
    let (attempt, fence) = (AttemptId(1), Offset(5));
    world.tell(12, ControlEvent::CutoverAborted { attempt, fence, reason: "cancelled".into() });
    assert_eq!(world.story().moves[&MoveId(1)].phase, MovePhase::CleaningUp);
}

#[test]
fn a_dropped_keyspace_keeps_its_name_and_whether_its_topic_is_gone() {
    let mut world = World::new();
    let keyspace = KEYSPACE;
    world.tell(20, ControlEvent::TopicRemoved { keyspace });
    assert_eq!(world.story().dropped, [].into(), "it was not dropped");
    world.tell(21, ControlEvent::KeyspaceDropped { keyspace });
    let name = World::new().story().keyspaces[&keyspace].name.clone();
    let told = |topic_removed| [(keyspace, DroppedStory { name: name.clone(), topic_removed })].into();
    assert_eq!(world.story().dropped, told(false));
    world.tell(22, ControlEvent::TopicRemoved { keyspace });
    assert_eq!(world.story().dropped, told(true));
    assert!(world.story().keyspaces.is_empty());
}
