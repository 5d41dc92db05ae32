//! What a reshard would take: rows, bytes, seconds and pause of each move, and what stands in its way. Changes nothing.

use super::Api;
use crate::cluster::{Limit, Rates, Size, size};
use crate::pause::measured_pause_ms;
use crate::wire::{EstimateShape, PlannedShape, WarningShape};
use rehome_control_core::{ControlState, Keyspace, Move};
use rehome_keyspace::{Outcome, ShardId, SlotId};
use rehome_planner::{MoveFacts, PauseFacts, estimate};
use rehome_ports::PortError;
use rehome_records::TopicPartition;
use rehome_records::control::{JobOptions, MoveWanted};
use std::time::{Duration, Instant};

/// Bytes per second of a copy until one was measured. Reason: a careful guess for a disk of today.
const COPY_BYTES_PER_SEC: f64 = 50_000_000.0;
/// Records per second of a replay until one was measured. Reason: as careful as the controller is.
const REPLAY_RECORDS_PER_SEC: f64 = 50_000.0;
/// Pause of a cutover until one was measured: two hops of the log.
const PAUSE: Duration = Duration::from_millis(10);
/// Copies and cutovers that a measurement looks back on.
const NEWEST: usize = 16;
/// A copy of fewer rows is mostly waiting, so its time says little about the speed. Reason: what every copy waits for
/// takes some hundredths of a second, these many rows about as long.
const ROWS_MIN: u64 = 50_000;

/// How long rows are counted before the rest is estimated. Reason: millions of rows, and a person still waits.
const COUNT_TIME_MAX: Duration = Duration::from_secs(3);

/// What was measured in this folder, or is assumed.
struct Measured {
    copies: Copies,
    replay_records_per_sec: Option<f64>,
    pause: Option<Duration>,
}

/// How fast copies were.
#[derive(Debug, Default, PartialEq)]
struct Copies {
    /// Of the newest large ones together.
    rows_per_sec: Option<f64>,
    /// Of the fastest small one: large ones are no slower.
    rows_per_sec_min: f64,
}

/// Returns the moves with their estimates, and that of all together.
pub fn plan(
    api: &Api,
    control: &ControlState,
    keyspace: &Keyspace,
    wanted: &[MoveWanted],
    options: JobOptions,
) -> Result<(Vec<PlannedShape>, EstimateShape), PortError> {
    let rates = api.cluster.rates();
    let measured = Measured::of(api, control, &rates);
    let mut total = EstimateShape { disk_free_bytes: api.cluster.disk_free_bytes()?, ..EstimateShape::default() };
    let mut longest = Some(0.0f64);
    let mut sum = 0.0;
    let mut moves = Vec::with_capacity(wanted.len());
    for one in wanted {
        let slots: Vec<_> = one.slots.iter().flat_map(|span| span.slots()).collect();
        let size = size(&*api.cluster.store(keyspace.id, one.source)?, keyspace, &slots, Limit::SAMPLE)?;
        let facts = facts(api, &rates, &measured, keyspace, one, size);
        let mut planned = PlannedShape {
            rows: Some(size.rows),
            bytes: Some(size.bytes),
            pause_ms: Some(rehome_planner::predicted_pause(&facts.pause).as_secs_f64() * 1000.0),
            ..PlannedShape::of(one)
        };
        match estimate(&facts) {
            Ok(estimate) => {
                planned.seconds = Some(estimate.seconds);
                sum += estimate.seconds;
                longest = longest.map(|longest| longest.max(estimate.seconds));
            }
            Err(refused) => {
                longest = None;
                let message = format!("the move from shard {} to {}: {refused}", one.source, one.destination);
                total.warnings.push(WarningShape { code: "replay_cannot_catch_up".into(), message });
            }
        }
        total.rows += size.rows;
        total.bytes += size.bytes;
        total.counted &= size.counted;
        total.pause_ms = total.pause_ms.max(planned.pause_ms.unwrap_or_default());
        moves.push(planned);
    }
    total.seconds = longest.map(|longest| longest.max(sum / f64::from(options.moves_at_once.max(1))));
    total.assumed = measured.assumed();
    total.warnings.extend(disk_warning(total.bytes, total.disk_free_bytes));
    Ok((moves, total))
}

/// Returns how much the keyspace holds: counted, as far as there is time.
pub fn size_of(api: &Api, keyspace: &Keyspace) -> Result<Size, PortError> {
    let (mut total, limit) = (Size { counted: true, ..Size::default() }, Limit::until(Instant::now() + COUNT_TIME_MAX));
    for shard in (0..keyspace.shards).map(ShardId) {
        let owners = (0..).map(SlotId).zip(keyspace.owners());
        let slots: Vec<SlotId> = owners.filter(|(_, owner)| *owner == shard).map(|(slot, _)| slot).collect();
        if slots.is_empty() {
            continue;
        }
        let size = size(&*api.cluster.store(keyspace.id, shard)?, keyspace, &slots, limit)?;
        total.rows += size.rows;
        total.bytes += size.bytes;
        total.counted &= size.counted;
    }
    Ok(total)
}

/// Destinations hold their copies before any source drops its rows.
fn disk_warning(needed: u64, free: u64) -> Option<WarningShape> {
    (needed > free).then(|| WarningShape {
        code: "disk_short".into(),
        message: format!(
            "not enough disk: the copies need about {needed} bytes, {free} are free; make room, or reshard in steps"
        ),
    })
}

fn facts(
    api: &Api,
    rates: &Rates,
    measured: &Measured,
    keyspace: &Keyspace,
    one: &MoveWanted,
    size: Size,
) -> MoveFacts {
    let row_bytes = size.bytes as f64 / size.rows.max(1) as f64;
    let replay_records_per_sec = measured.replay_records_per_sec.unwrap_or(REPLAY_RECORDS_PER_SEC);
    let hop = measured.pause.unwrap_or(PAUSE) / 2;
    let lag = api.cluster.progress().get(&(keyspace.id, one.source)).map_or(0, |report| report.lag_records);
    MoveFacts {
        source_rows: size.rows,
        source_bytes: size.bytes,
        share: 1.0,
        copy_bytes_per_sec: measured.copies.bytes_per_sec(row_bytes),
        arrival_records_per_sec: rates.arrival_records_per_sec(keyspace.id, one.source),
        replay_records_per_sec,
        pause: PauseFacts {
            // A lag that is unknown is that of a replica which has just started.
            source_lag_records: if lag == u64::MAX { 0 } else { lag },
            // A cutover waits until its replay has caught up.
            replay_lag_records: 0,
            apply_records_per_sec: replay_records_per_sec,
            fence_hop: hop,
            ready_hop: hop,
        },
    }
}

impl Measured {
    fn of(api: &Api, control: &ControlState, rates: &Rates) -> Measured {
        let moves: Vec<&Move> = control.moves().collect();
        Measured {
            copies: Copies::of(
                moves.iter().rev().filter_map(|one| Some((one.snapshot?.digest.row_count, one.copy_took_ms?))),
            ),
            replay_records_per_sec: rates.replay_records_per_sec(),
            pause: newest_pause(api, control),
        }
    }

    /// Returns what is assumed, for people.
    fn assumed(&self) -> Vec<String> {
        let copy =
            self.copies.rows_per_sec.is_none().then(|| format!("{COPY_BYTES_PER_SEC:.0} bytes/s copied at least"));
        let replay =
            self.replay_records_per_sec.is_none().then(|| format!("{REPLAY_RECORDS_PER_SEC:.0} records/s replayed"));
        let pause = self.pause.is_none().then(|| format!("{} ms of pause", PAUSE.as_millis()));
        [copy, replay, pause].into_iter().flatten().collect()
    }
}

impl Copies {
    /// From the rows and milliseconds of each copy, the newest first.
    fn of(copies: impl Iterator<Item = (u64, u64)>) -> Copies {
        let (large, small): (Vec<_>, Vec<_>) = copies.partition(|(rows, _)| *rows >= ROWS_MIN);
        let speed = |rows: u64, took_ms: u64| rows as f64 * 1000.0 / took_ms.max(1) as f64;
        let newest = &large[..large.len().min(NEWEST)];
        let rows: u64 = newest.iter().map(|(rows, _)| rows).sum();
        let took_ms = newest.iter().map(|(_, took_ms)| took_ms).sum();
        Copies {
            rows_per_sec: (rows > 0).then(|| speed(rows, took_ms)),
            rows_per_sec_min: small
                .iter()
                .take(NEWEST)
                .map(|(rows, took_ms)| speed(*rows, *took_ms))
                .fold(0.0, f64::max),
        }
    }

    /// Returns the speed that is expected of a copy of such rows.
    fn bytes_per_sec(&self, row_bytes: f64) -> f64 {
        let measured = self.rows_per_sec.map(|rows| rows * row_bytes).filter(|bytes| *bytes > 0.0);
        measured.unwrap_or(COPY_BYTES_PER_SEC.max(self.rows_per_sec_min * row_bytes))
    }
}

/// Returns the median pause of the newest cutovers.
fn newest_pause(api: &Api, control: &ControlState) -> Option<Duration> {
    let mut attempts: Vec<_> =
        control.attempts().filter(|one| matches!(one.outcome(), Some(Outcome::Switched { .. }))).collect();
    let newest = attempts.split_off(attempts.len().saturating_sub(NEWEST));
    let pause_ms = |attempt: &&rehome_control_core::Attempt| {
        let topic = control.keyspace(attempt.facts.keyspace)?.data_topic();
        let source = TopicPartition::new(topic, attempt.facts.source.0);
        measured_pause_ms(api.cluster.log(), &source, attempt)
    };
    let mut pauses: Vec<u64> = newest.iter().filter_map(pause_ms).collect();
    pauses.sort_unstable();
    pauses.get(pauses.len() / 2).map(|pause_ms| Duration::from_millis(*pause_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a row.
    const ROW: f64 = 140.0;

    #[test]
    fn small_copies_do_not_make_a_plan_slow() {
        // What was measured: ten thousand rows wait as long as they are copied, a million take about a second.
        let small = Copies::of([(10_000, 300); 20].into_iter());
        assert_eq!(small.bytes_per_sec(ROW), COPY_BYTES_PER_SEC, "too little to be a measurement");
        let both = Copies::of([(10_000, 300); 20].into_iter().chain([(1_000_000, 1_000)]));
        assert_eq!(both.bytes_per_sec(ROW), 1_000_000.0 * ROW, "whatever small ones came later");
        let quick = Copies::of([(40_000, 50), (10_000, 300)].into_iter());
        assert_eq!(quick.bytes_per_sec(ROW), 800_000.0 * ROW, "no slower than a small one was");
        let slow = Copies::of([(1_000_000, 100_000)].into_iter());
        assert_eq!(slow.bytes_per_sec(ROW), 10_000.0 * ROW, "a slow disk is a measurement");
        assert_eq!(Copies::of(std::iter::empty()).bytes_per_sec(0.0), COPY_BYTES_PER_SEC);
    }

    #[test]
    fn too_little_disk_is_told_with_what_is_needed() {
        assert_eq!(disk_warning(10, 10), None);
        let warning = disk_warning(11, 10).expect("one byte short");
        assert_eq!(warning.code, "disk_short");
        assert!(warning.message.starts_with("not enough disk: the copies need about 11 bytes, 10 are free"));
    }
}
