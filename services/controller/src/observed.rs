//! What replicas and the log were seen to do: advice on when to try, never authority.

use rehome_control_core::{ControlState, Keyspace, Move};
use rehome_keyspace::{KeyspaceId, MoveId, NodeId, Offset, ShardId};
use rehome_planner::PauseFacts;
use rehome_ports::{InboundProgress, ReplicaProgress};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A report older than this says nothing, in milliseconds. Reason: idle replicas report every 500 ms.
const FRESH_MS: u64 = 1_000;
/// Records per second that a replica is taken to apply until a replay was seen to be faster or slower.
/// Reason: well below what a store was measured to take, so that the first prediction is careful.
const APPLY_RECORDS_PER_SEC: f64 = 50_000.0;
/// A replay is busy, and its speed is a measurement, when it lags by at least this many records.
const BUSY_RECORDS: u64 = 1_000;
/// Seconds that one hop of the log is taken to last until one was measured.
const HOP_SECS: f64 = 0.005;
/// Weight of the newest measurement.
const NEWEST: f64 = 0.25;
/// A measurement counts half as much after this time, in milliseconds. Reason: while a bad one keeps cutovers from
/// starting, nothing is appended that could mend it; so it fades, or the move would never end (R11).
const HALF_LIFE_MS: f64 = 1_000.0;

/// What was seen lately.
#[derive(Clone, Debug)]
pub struct Observed {
    replicas: BTreeMap<(KeyspaceId, ShardId, NodeId), Seen>,
    partitions: BTreeMap<KeyspaceId, u32>,
    /// Not recorded yet.
    topics_removed: BTreeSet<KeyspaceId>,
    apply_records_per_sec: Measured,
    hop_secs: Measured,
}

/// A measured value that fades back to what is assumed without one.
#[derive(Clone, Copy, Debug)]
struct Measured {
    assumed: f64,
    value: f64,
    at_ms: u64,
}

impl Measured {
    fn assumed(assumed: f64) -> Measured {
        Measured { assumed, value: assumed, at_ms: 0 }
    }

    fn at(&self, now_ms: u64) -> f64 {
        let age_ms = now_ms.saturating_sub(self.at_ms) as f64;
        self.assumed + (self.value - self.assumed) * (-age_ms / HALF_LIFE_MS).exp2()
    }

    fn note(&mut self, newest: f64, now_ms: u64) {
        let before = self.at(now_ms);
        self.value = before + (newest - before) * NEWEST;
        self.at_ms = now_ms;
    }
}

#[derive(Clone, Debug)]
struct Seen {
    at_ms: u64,
    progress: ReplicaProgress,
}

impl Default for Observed {
    fn default() -> Observed {
        Observed {
            replicas: BTreeMap::new(),
            partitions: BTreeMap::new(),
            topics_removed: BTreeSet::new(),
            apply_records_per_sec: Measured::assumed(APPLY_RECORDS_PER_SEC),
            hop_secs: Measured::assumed(HOP_SECS),
        }
    }
}

impl Observed {
    /// Takes a replica's report.
    pub fn note_progress(&mut self, progress: ReplicaProgress, now_ms: u64) {
        let key = (progress.keyspace, progress.shard, progress.node);
        if let Some(before) = self.replicas.get(&key) {
            let elapsed_ms = now_ms.saturating_sub(before.at_ms);
            let pairs = progress.inbound.iter().filter_map(|new| Some((inbound(&before.progress, new.move_id)?, new)));
            if let Some(rate) = pairs.filter_map(|(old, new)| busy_rate(old, new, elapsed_ms)).reduce(f64::max) {
                self.apply_records_per_sec.note(rate, now_ms);
            }
        }
        self.replicas.insert(key, Seen { at_ms: now_ms, progress });
    }

    /// Takes how many partitions the keyspace's data topic is known to have.
    pub fn note_partitions(&mut self, keyspace: KeyspaceId, count: u32) {
        let known = self.partitions.entry(keyspace).or_insert(0);
        *known = count.max(*known);
    }

    /// Takes that the data topic of a dropped keyspace is gone.
    pub fn note_topic_removed(&mut self, keyspace: KeyspaceId) {
        self.partitions.remove(&keyspace);
        self.topics_removed.insert(keyspace);
    }

    pub fn is_topic_removed(&self, keyspace: KeyspaceId) -> bool {
        self.topics_removed.contains(&keyspace)
    }

    /// Forgets what replicas of keyspaces that are gone told, and topics that are recorded as gone.
    pub fn look(&mut self, state: &ControlState) {
        self.topics_removed.retain(|keyspace| state.dropped_keyspace(*keyspace).is_none_or(|one| !one.topic_removed));
        self.replicas.retain(|(keyspace, ..), _| state.dropped_keyspace(*keyspace).is_none());
    }

    /// Returns of how many replicas reports are kept, and how many topics are gone without a record of it.
    #[cfg(test)]
    pub fn kept(&self) -> (usize, usize) {
        (self.replicas.len(), self.topics_removed.len())
    }

    /// Takes how long an append took until it was acknowledged.
    pub fn note_hop(&mut self, took: Duration, now_ms: u64) {
        self.hop_secs.note(took.as_secs_f64(), now_ms);
    }

    /// Returns how many partitions the keyspace's data topic is known to have.
    pub fn partitions(&self, keyspace: KeyspaceId) -> u32 {
        self.partitions.get(&keyspace).copied().unwrap_or(0)
    }

    /// Returns what the pause of a cutover would be made of now; nothing while too few replicas have reported lately,
    /// or are sound.
    pub fn pause_facts(&self, state: &ControlState, one: &Move, now_ms: u64) -> Option<PauseFacts> {
        let keyspace = state.keyspace(one.keyspace)?;
        let fresh = |shard: ShardId| {
            let nodes = keyspace.replicas_of(shard).iter();
            nodes.filter_map(move |node| self.fresh(one.keyspace, shard, *node, now_ms))
        };
        let source_lag_records = fresh(one.source).map(|progress| progress.lag_records).min()?;
        // The destination's own tail must reach its `Open`, its replay must reach F.
        let replay_lag =
            |progress: &ReplicaProgress| Some(inbound(progress, one.id)?.lag_records.max(progress.lag_records));
        let mut replay_lags: Vec<u64> = fresh(one.destination).filter_map(replay_lag).collect();
        replay_lags.sort_unstable();
        let required = keyspace.replicas_of(one.destination).len().clamp(1, 2);
        let replay_lag_records = *replay_lags.get(required - 1)?;
        let hop = Duration::from_secs_f64(self.hop_secs.at(now_ms).clamp(0.0, 86_400.0));
        Some(PauseFacts {
            source_lag_records,
            replay_lag_records,
            apply_records_per_sec: self.apply_records_per_sec.at(now_ms),
            fence_hop: hop,
            ready_hop: hop,
        })
    }

    /// Returns the offset that every replica of the shard knows to be older than request ids are kept; nothing while
    /// one has not reported lately, is not sound, or knows none.
    pub fn horizon(&self, keyspace: &Keyspace, shard: ShardId, now_ms: u64) -> Option<Offset> {
        let of_node = |node: &NodeId| self.fresh(keyspace.id, shard, *node, now_ms)?.horizon;
        let horizons: Option<Vec<Offset>> = keyspace.replicas_of(shard).iter().map(of_node).collect();
        horizons?.into_iter().min()
    }

    fn fresh(&self, keyspace: KeyspaceId, shard: ShardId, node: NodeId, now_ms: u64) -> Option<&ReplicaProgress> {
        let seen = self.replicas.get(&(keyspace, shard, node))?;
        let is_fresh = now_ms.saturating_sub(seen.at_ms) <= FRESH_MS;
        (is_fresh && seen.progress.broken.is_none()).then_some(&seen.progress)
    }
}

fn inbound(progress: &ReplicaProgress, move_id: MoveId) -> Option<&InboundProgress> {
    progress.inbound.iter().find(|inbound| inbound.move_id == move_id)
}

/// Returns records per second of a replay that had enough to do between two reports.
fn busy_rate(old: &InboundProgress, new: &InboundProgress, elapsed_ms: u64) -> Option<f64> {
    let replayed = new.replayed_records.checked_sub(old.replayed_records)?;
    let was_busy = old.lag_records >= BUSY_RECORDS && new.lag_records >= BUSY_RECORDS;
    (was_busy && elapsed_ms > 0).then(|| replayed as f64 * 1000.0 / elapsed_ms as f64)
}
