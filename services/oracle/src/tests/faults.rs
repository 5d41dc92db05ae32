//! One planted fault each.

use super::world::*;
use crate::Finding;
use rehome_keyspace::*;
use rehome_records::{ControlEvent, Digest, Mark, store_key};

#[test]
fn logs_stores_and_answers_that_agree_are_clean() {
    let findings = agreeing().compare();
    assert!(findings.is_clean(), "{findings}");
}

#[test]
fn an_acknowledged_write_that_the_log_refuses_is_lost() {
    let mut world = agreeing();
    world.answer(0, 9, (1, 6), Some("too late"), (40, 41));
    world.expect_only(Finding::Lost);
}

#[test]
fn an_acknowledged_position_that_is_not_accepted_is_lost() {
    let mut world = agreeing();
    world.history.acknowledge(ShardId(0), Offset(6));
    world.expect_only(Finding::Lost);
}

#[test]
fn a_row_that_is_missing_at_its_owner_is_lost() {
    let mut world = agreeing();
    world.stores.retain(|(shard, key), _| *shard != ShardId(2) || key[0] != rehome_records::store_key::KIND_ROW);
    world.expect_only(Finding::Lost);
}

#[test]
fn a_row_older_than_what_was_accepted_is_lost() {
    let mut world = agreeing();
    world.store_row(2, 0, (1, 0), Some("old"));
    world.expect_only(Finding::Lost);
}

#[test]
fn a_retry_that_was_answered_with_a_second_version_is_duplicated() {
    let mut world = agreeing();
    world.answer(0, 1, (3, 7), Some("old"), (50, 52));
    world.expect_only(Finding::Duplicated);
}

#[test]
fn a_retry_that_was_answered_with_the_version_of_another_write_is_duplicated() {
    let mut world = agreeing();
    world.answer(0, 1, (3, 8), Some("new"), (70, 71));
    world.expect_only(Finding::Duplicated);
}

#[test]
fn a_row_written_by_a_repeated_request_is_duplicated() {
    let mut world = agreeing();
    world.data[2].pop();
    world.history.writes.retain(|write| write.version != at((3, 8)));
    world.history.reads.clear();
    world.store_row(2, 0, (3, 7), Some("old"));
    let findings = world.compare();
    assert!(findings.count(Finding::Duplicated) > 0, "{findings}");
}

#[test]
fn a_row_that_two_stores_show_is_duplicated_and_misplaced() {
    let mut world = agreeing();
    world.state(0, 0, rehome_records::SlotState::Owned { epoch: Epoch(1) });
    world.store_row(0, 0, (1, 0), Some("old"));
    let findings = world.compare();
    assert_eq!((findings.count(Finding::Duplicated), findings.count(Finding::MisplacedRow)), (1, 1), "{findings}");
}

#[test]
fn a_row_shown_after_its_delete_is_resurrected() {
    let mut world = agreeing();
    world.store_row(1, 2, (2, 0), Some("there"));
    world.expect_only(Finding::Resurrected);
}

#[test]
fn a_read_older_than_an_acknowledged_write_is_stale() {
    let mut world = agreeing();
    world.read(0, Some(((1, 0), "old")), (62, 63));
    world.expect_only(Finding::StaleRead);
}

#[test]
fn a_read_that_runs_beside_the_write_may_miss_it() {
    let mut world = agreeing();
    world.read(0, Some(((1, 0), "old")), (60, 63));
    assert!(world.compare().is_clean());
}

#[test]
fn a_read_of_nothing_after_a_put_is_stale() {
    let mut world = agreeing();
    world.read(0, None, (30, 31));
    world.expect_only(Finding::StaleRead);
}

#[test]
fn a_read_of_a_deleted_row_is_stale() {
    let mut world = agreeing();
    world.read(2, Some(((2, 0), "there")), (9, 10));
    world.expect_only(Finding::StaleRead);
}

#[test]
fn a_value_that_was_never_written_is_stale() {
    for (version, value) in [((3, 8), "other"), ((1, 6), "too late"), ((9, 9), "dream")] {
        let mut world = agreeing();
        world.read(0, Some((version, value)), (70, 71));
        world.expect_only(Finding::StaleRead);
    }
}

#[test]
fn a_value_read_before_it_was_asked_for_is_stale() {
    let mut world = agreeing();
    world.read(0, Some(((3, 8), "new")), (30, 31));
    world.expect_only(Finding::StaleRead);
}

#[test]
fn what_the_source_keeps_after_the_clean_up_is_misplaced() {
    let mut world = agreeing();
    world.store_row(0, 0, (1, 0), Some("old"));
    world.store_request(0, 0, 1, (1, 0), Some("old"));
    world.expect_only(Finding::MisplacedRow);
    assert_eq!(world.compare().count(Finding::MisplacedRow), 2);
}

#[test]
fn what_the_source_keeps_before_the_clean_up_is_not_misplaced() {
    let mut world = agreeing();
    world.control.pop();
    world.store_row(0, 0, (1, 0), Some("old"));
    assert!(world.compare().is_clean());
}

#[test]
fn another_value_under_the_same_version_is_a_digest_mismatch() {
    let mut world = agreeing();
    world.store_row(0, 1, (1, 1), Some("other"));
    world.expect_only(Finding::DigestMismatch);
}

#[test]
fn a_forgotten_request_id_is_a_digest_mismatch() {
    let mut world = agreeing();
    world.stores.retain(|(shard, key), _| *shard != ShardId(0) || key[0] != rehome_records::store_key::KIND_REQUEST);
    world.expect_only(Finding::DigestMismatch);
}

#[test]
fn sides_that_report_different_digests_are_a_digest_mismatch() {
    let mut world = World::new();
    world.move_begins(4, true);
    let marks = world.cutover(10, 1, 3);
    world.log(2, 0, marks.open.into_record());
    world.log(0, 5, marks.fence.into_record());
    world.ready(11, 1, Side::Source, 5, 1);
    world.ready(12, 1, Side::Destination, 5, 2);
    world.expect_only(Finding::DigestMismatch);
    assert_eq!(world.story().attempts[&AttemptId(1)].winner(), Some(ShardId(0)));
}

#[test]
fn a_copy_read_back_differently_is_a_digest_mismatch() {
    let mut world = World::new();
    world.move_begins(4, true);
    world.control.pop();
    let digest = Digest { rows: 7, ..Digest::default() };
    world.tell(7, ControlEvent::CopyIngested { move_id: MoveId(1), copy: 1, node: NodeId(1), digest });
    world.expect_only(Finding::DigestMismatch);
}

#[test]
fn a_row_that_was_deleted_and_forgotten_is_not_lost() {
    let mut world = agreeing();
    let slot = SlotId(2);
    let regions = vec![(world.placement.slot_range(slot), Epoch(2))];
    world.log(1, 9, Mark::Horizon { regions, version: at((2, 4)) }.into_record());
    assert!(!world.compare().is_clean(), "the store has forgotten nothing");
    world.stores.retain(|(shard, key), _| *shard != ShardId(1) || key[0] == store_key::KIND_STATE);
    let findings = world.compare();
    assert!(findings.is_clean(), "{findings}");
    // Only what came after the delete is.
    world.answer(2, 8, (2, 7), Some("again"), (80, 81));
    world.expect_only(Finding::Lost);
}
