//! One line for each move of a finished job, from the control state and the logs.

use crate::cluster::Cluster;
use crate::pause::measured_pause_ms;
use indicatif::HumanCount;
use rehome_control_core::{Attempt, ControlState, Move};
use rehome_keyspace::{MoveId, Outcome, Side};
use rehome_records::TopicPartition;

/// Returns the lines of those moves that switched.
pub fn lines(cluster: &Cluster, moves: &[MoveId]) -> Vec<String> {
    let state = cluster.desk().state();
    moves.iter().filter_map(|id| line(cluster, &state, state.move_(*id)?)).collect()
}

fn line(cluster: &Cluster, state: &ControlState, one: &Move) -> Option<String> {
    let attempts = || one.attempts.iter().filter_map(|id| state.attempt_record(*id));
    let attempt = attempts().find(|attempt| matches!(attempt.outcome(), Some(Outcome::Switched { .. })))?;
    let partition = TopicPartition::new(state.keyspace(one.keyspace)?.data_topic(), one.source.0);
    let pause = measured_pause_ms(cluster.log(), &partition, attempt);
    let pause = pause.map_or("unknown".to_owned(), |ms| format!("{ms} ms"));
    let (rows, digests) = compared(attempt)?;
    let (id, source, destination) = (one.id, one.source, one.destination);
    Some(format!("move {id}: shard {source} -> {destination}, {rows} rows, fence to switch {pause}, {digests}"))
}

/// Returns how many rows the destination had at the fence, and what both sides' digests were.
fn compared(attempt: &Attempt) -> Option<(HumanCount, String)> {
    let of = |side| attempt.readies.iter().find(|ready| ready.side == side).map(|ready| ready.digest);
    let (source, destination) = (of(Side::Source)?, of(Side::Destination)?);
    let first_digits = |digest: rehome_records::Digest| (digest.rows >> 96) as u32;
    let digests = if source == destination {
        format!("digests equal {:08x}...", first_digits(source))
    } else {
        format!("digests differ {:08x}... {:08x}...", first_digits(source), first_digits(destination))
    };
    Some((HumanCount(destination.row_count), digests))
}
