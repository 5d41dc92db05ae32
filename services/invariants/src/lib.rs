//! R1 to R12 as predicates over what was observed. The same ones run in property tests and in the simulation.
//!
//! - [`history`]: what was observed; easy to fill from a scan of the logs.
//! - [`ownership`]: R1 to R4: who may write, and what is equal at a switch.
//! - [`writes`]: R6 and R8: once, and in order.
//! - [`reads`]: R5 and R7: what was acknowledged is read, what was deleted stays away.
//! - [`places`]: R9, R10 and R12: replicas agree, rows are in one place, reads are whole.
//! - [`ends`]: R11: everything ends.

mod ends;
mod history;
mod ownership;
mod places;
mod reads;
mod writes;

#[cfg(test)]
mod tests;

pub use ends::r11_every_job_ends;
pub use history::*;
pub use ownership::{
    r1_an_epoch_is_granted_once, r2_writes_are_accepted_by_the_holder_of_their_epoch,
    r3_nothing_older_is_accepted_after_a_fence, r4_digests_are_equal_at_a_switch,
};
pub use places::{
    r9_replicas_at_one_position_are_equal, r10_rows_are_visible_at_their_owner_only, r12_reads_do_not_mix_owners,
};
pub use reads::{r5_acknowledged_writes_are_readable, r7_deleted_rows_stay_deleted};
pub use writes::{r6_requests_are_done_once, r8_writes_of_a_key_are_in_order};

/// Says whether one invariant holds, or how it does not.
pub type Predicate = fn(&History) -> Result<(), Violation>;

/// Returns the first violation of each invariant that holds at every moment: all but R11.
pub fn violations(history: &History) -> Vec<Violation> {
    let predicates: [Predicate; 11] = [
        r1_an_epoch_is_granted_once,
        r2_writes_are_accepted_by_the_holder_of_their_epoch,
        r3_nothing_older_is_accepted_after_a_fence,
        r4_digests_are_equal_at_a_switch,
        r5_acknowledged_writes_are_readable,
        r6_requests_are_done_once,
        r7_deleted_rows_stay_deleted,
        r8_writes_of_a_key_are_in_order,
        r9_replicas_at_one_position_are_equal,
        r10_rows_are_visible_at_their_owner_only,
        r12_reads_do_not_mix_owners,
    ];
    predicates.iter().filter_map(|predicate| predicate(history).err()).collect()
}
