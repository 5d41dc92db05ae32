//! How long a move takes, and what pause its cutover would have.

use std::time::Duration;
use thiserror::Error;

/// What is known of a move and of the machines that do it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoveFacts {
    /// Rows and bytes of the source shard, and the share of its keys that move (0 to 1).
    pub source_rows: u64,
    pub source_bytes: u64,
    pub share: f64,
    /// Bytes per second of export, transport, ingest and read-back together.
    pub copy_bytes_per_sec: f64,
    /// Records per second that come into the source's partition, all keys.
    pub arrival_records_per_sec: f64,
    /// Records per second that a destination replays, all keys: it reads the whole partition to filter its share.
    pub replay_records_per_sec: f64,
    pub pause: PauseFacts,
}

/// What the pause of a cutover is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PauseFacts {
    /// Records that the fastest required source replica has not applied.
    pub source_lag_records: u64,
    /// Records that the slowest required destination replica has not replayed.
    pub replay_lag_records: u64,
    pub apply_records_per_sec: f64,
    /// From the append of the fence until replicas see it.
    pub fence_hop: Duration,
    /// From the append of the last `Ready` until routers see it.
    pub ready_hop: Duration,
}

/// What a move will take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoveEstimate {
    pub rows: u64,
    pub bytes: u64,
    pub seconds: f64,
    pub pause: Duration,
}

/// Why a move would never end.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error(
    "replay cannot catch up: {arrival:.0} records/s come in, {replay:.0} records/s are replayed; \
     slow the writers down, or plan again when there is less load"
)]
pub struct ReplayCannotCatchUp {
    pub arrival: f64,
    pub replay: f64,
}

/// Returns what a move will take: the copy, then the replay of what came in meanwhile.
///
/// Errors: replay is no faster than what comes in, so that the move would never end.
pub fn estimate(facts: &MoveFacts) -> Result<MoveEstimate, ReplayCannotCatchUp> {
    let (arrival, replay) = (facts.arrival_records_per_sec.max(0.0), facts.replay_records_per_sec.max(0.0));
    if replay <= arrival {
        return Err(ReplayCannotCatchUp { arrival, replay });
    }
    let share = facts.share.clamp(0.0, 1.0);
    let rows = (facts.source_rows as f64 * share).round() as u64;
    let bytes = (facts.source_bytes as f64 * share).round() as u64;
    let copy_seconds = bytes as f64 / at_least_one(facts.copy_bytes_per_sec);
    // While the backlog of the copy is replayed, more comes in: a geometric series.
    let replay_seconds = copy_seconds * arrival / (replay - arrival);
    Ok(MoveEstimate { rows, bytes, seconds: copy_seconds + replay_seconds, pause: predicted_pause(&facts.pause) })
}

/// Returns the pause that a cutover would have now: both sides apply what lies before the fence, at the same time, and
/// two hops of the log.
pub fn predicted_pause(facts: &PauseFacts) -> Duration {
    let lag_records = facts.source_lag_records.max(facts.replay_lag_records);
    let apply_seconds = lag_records as f64 / at_least_one(facts.apply_records_per_sec);
    // A day is as good as for ever, and keeps the sum far from any overflow.
    let apply = Duration::from_secs_f64(apply_seconds.min(86_400.0));
    apply.saturating_add(facts.fence_hop).saturating_add(facts.ready_hop)
}

/// Keeps a rate that nobody has measured yet from dividing by zero.
fn at_least_one(rate: f64) -> f64 {
    rate.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: PauseFacts = PauseFacts {
        source_lag_records: 10,
        replay_lag_records: 200,
        apply_records_per_sec: 100_000.0,
        fence_hop: Duration::from_millis(2),
        ready_hop: Duration::from_millis(3),
    };

    #[test]
    fn the_pause_is_two_hops_and_the_longer_lag() {
        assert_eq!(predicted_pause(&PAUSE), Duration::from_millis(7));
        let swapped = PauseFacts { source_lag_records: 200, replay_lag_records: 10, ..PAUSE };
        assert_eq!(predicted_pause(&swapped), Duration::from_millis(7));
        let idle = PauseFacts { source_lag_records: 0, replay_lag_records: 0, ..PAUSE };
        assert_eq!(predicted_pause(&idle), Duration::from_millis(5));
    }

    #[test]
    fn rates_that_nobody_measured_give_a_long_pause_and_no_panic() {
        for rate in [0.0, -1.0, f64::NAN] {
            let facts = PauseFacts { apply_records_per_sec: rate, replay_lag_records: u64::MAX, ..PAUSE };
            assert!(predicted_pause(&facts) >= Duration::from_secs(86_400));
        }
    }

    #[test]
    fn a_move_takes_its_copy_and_the_replay_of_what_came_in_meanwhile() {
        let facts = MoveFacts {
            source_rows: 1_000_000,
            source_bytes: 200_000_000,
            share: 0.5,
            copy_bytes_per_sec: 50_000_000.0,
            arrival_records_per_sec: 10_000.0,
            replay_records_per_sec: 110_000.0,
            pause: PAUSE,
        };
        let estimate = estimate(&facts).unwrap();
        assert_eq!((estimate.rows, estimate.bytes), (500_000, 100_000_000));
        // 2 s of copy leave 20,000 records, replayed at 100,000 more per second than come in: 0.2 s.
        assert!((estimate.seconds - 2.2).abs() < 1e-9, "{}", estimate.seconds);
        assert_eq!(estimate.pause, Duration::from_millis(7));
    }

    #[test]
    fn a_replay_slower_than_the_writers_is_refused() {
        let facts = MoveFacts {
            source_rows: 1,
            source_bytes: 1,
            share: 1.0,
            copy_bytes_per_sec: 1.0,
            arrival_records_per_sec: 1_000.0,
            replay_records_per_sec: 1_000.0,
            pause: PAUSE,
        };
        let refused = estimate(&facts).unwrap_err();
        assert!(refused.to_string().starts_with("replay cannot catch up: 1000 records/s come in"), "{refused}");
    }
}
