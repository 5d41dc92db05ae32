//! What every adapter of a port must pass: one function per promise, named as the promise.
//!
//! An adapter hands over a *bed*: something that opens what is tested, and opens it again. The macros make one test of
//! each promise, so that none can be forgotten:
//!
//! ```ignore
//! rehome_ports::log_conformance!(Bed::new());
//! ```
//! - [`log`]: the Log port; [`power`]: what a power loss takes of one that acknowledges before it syncs.
//! - [`store`]: the Store port.
//! - [`snapshots`]: the SnapshotStore port.

pub mod log;
pub mod power;
mod reading;
pub mod snapshots;
pub mod store;

/// Makes a test of each promise named.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($suite:ident, $bed:expr, [$($promise:ident),* $(,)?]) => {
        $(
            #[test]
            fn $promise() {
                $crate::conformance::$suite::$promise(&mut $bed);
            }
        )*
    };
}

/// Makes a test of each promise of the Log port. The expression makes a new [`log::LogBed`].
#[macro_export]
macro_rules! log_conformance {
    ($bed:expr) => {
        $crate::conformance_tests!(
            log,
            $bed,
            [
                a_tail_delivers_every_record_once_in_order_as_it_was_appended,
                records_of_one_caller_and_lane_keep_their_order,
                several_appenders_get_distinct_offsets_and_every_record_is_there,
                offsets_of_one_append_grow_and_tell_where_its_records_lie,
                a_poll_returns_no_more_than_its_limits,
                next_passes_every_gap_up_to_the_end,
                a_tail_starts_at_any_kept_position,
                a_tail_beyond_the_end_is_broken,
                a_waiting_reader_is_woken,
                the_end_covers_every_acknowledged_record,
                append_times_never_go_back,
                what_does_not_exist_is_refused_and_not_created,
                a_topic_is_created_once_and_only_grows,
                a_removed_topic_is_gone_for_good_and_others_stay,
                trimmed_records_are_gone_and_a_tail_that_needs_them_is_broken,
                trimming_everything_keeps_offsets_growing,
                everything_acknowledged_is_there_after_opening_again,
            ]
        );
    };
}

/// Makes a test of each promise of a log that acknowledges before it syncs. The expression makes a new
/// [`power::PowerBed`].
#[macro_export]
macro_rules! power_conformance {
    ($bed:expr) => {
        $crate::conformance_tests!(
            power,
            $bed,
            [
                what_a_power_loss_takes_is_an_end_and_was_not_synced,
                an_append_in_the_protocol_lane_is_durable_with_everything_before_it,
                an_offset_that_was_given_is_not_given_again_after_it_was_lost,
                a_tail_passes_what_was_lost,
            ]
        );
    };
}

/// Makes a test of each promise of the Store port. The expression makes a new [`store::StoreBed`].
#[macro_export]
macro_rules! store_conformance {
    ($bed:expr) => {
        $crate::conformance_tests!(
            store,
            $bed,
            [
                a_batch_is_seen_whole_and_its_last_change_of_a_key_wins,
                a_batch_survives_a_crash_whole_or_not_at_all,
                a_scan_visits_its_range_in_order_both_ways,
                a_scan_stops_when_its_visitor_breaks,
                a_snapshot_shows_one_moment_whatever_happens_meanwhile,
                everything_flushed_survives_a_crash,
                a_crash_loses_nothing_but_the_newest_batches,
                a_wipe_removes_its_ranges_and_nothing_else,
                a_wipe_is_durable_also_where_unflushed_removals_came_first,
                an_ingest_takes_in_every_entry_durably,
                an_ingest_over_unflushed_neighbours_changes_none_of_them,
                wiped_entries_do_not_come_back_after_an_ingest,
                an_ingest_of_an_altered_run_is_broken,
                writes_after_an_ingest_win,
                nothing_becomes_durable_before_what_guards_it_was_called,
                where_the_guard_fails_nothing_becomes_durable,
            ]
        );
    };
}

/// Makes a test of each promise of the SnapshotStore port. The expression makes a new [`snapshots::SnapshotBed`].
#[macro_export]
macro_rules! snapshots_conformance {
    ($bed:expr) => {
        $crate::conformance_tests!(
            snapshots,
            $bed,
            [
                a_snapshot_is_absent_until_its_manifest_is_sealed,
                an_altered_run_is_broken,
                a_missing_run_is_broken,
                runs_name_every_entry_in_order,
                parts_that_are_written_at_the_same_time_come_by_number,
                a_snapshot_of_nothing_has_no_runs,
                keys_that_do_not_ascend_are_refused,
                a_manifest_that_names_other_runs_is_refused,
                a_removed_snapshot_is_absent_and_removing_again_is_no_error,
                creating_again_throws_away_what_was_there,
                names_tell_every_snapshot_whole_or_not,
                snapshots_of_different_names_do_not_mix,
                a_sealed_snapshot_is_there_after_opening_again,
            ]
        );
    };
}
