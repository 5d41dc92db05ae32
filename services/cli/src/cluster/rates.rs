//! What was seen of this process lately: how fast records come in, and how fast a replay takes them. For plans only.

use rehome_keyspace::{KeyspaceId, ShardId};
use rehome_ports::ReplicaProgress;
use std::collections::{BTreeMap, VecDeque};

/// How far back arrivals are looked at, in milliseconds. Reason: long enough to even out bursts, short enough to be now.
const LOOK_BACK_MS: u64 = 10_000;
/// Least time between two samples of one shard, in milliseconds. Reason: busy replicas report every few milliseconds.
const SAMPLE_EVERY_MS: u64 = 400;
/// A replay is busy, and its speed is a measurement, when it lags by at least this many records.
const BUSY_RECORDS: u64 = 1_000;

/// Ends of partitions over time, and the fastest replay.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    ends: BTreeMap<(KeyspaceId, ShardId), VecDeque<(u64, u64)>>,
    replays: BTreeMap<(KeyspaceId, ShardId), (u64, ReplicaProgress)>,
    replay_records_per_sec: Option<f64>,
}

impl Rates {
    /// Takes a replica's report.
    pub fn note(&mut self, report: &ReplicaProgress, now_ms: u64) {
        let key = (report.keyspace, report.shard);
        if let Some(end) = report.applied_next.0.checked_add(report.lag_records) {
            let ends = self.ends.entry(key).or_default();
            if ends.back().is_none_or(|(at_ms, _)| now_ms >= at_ms + SAMPLE_EVERY_MS) {
                ends.push_back((now_ms, end));
            }
            while ends.len() > 2 && ends.front().is_some_and(|(at_ms, _)| at_ms + LOOK_BACK_MS < now_ms) {
                ends.pop_front();
            }
        }
        if report.inbound.is_empty() {
            self.replays.remove(&key);
            return;
        }
        if let Some((at_ms, before)) = self.replays.get(&key) {
            let elapsed_ms = now_ms.saturating_sub(*at_ms);
            if elapsed_ms < SAMPLE_EVERY_MS / 8 {
                return;
            }
            let rates = report.inbound.iter().filter_map(|new| {
                let old = before.inbound.iter().find(|old| old.move_id == new.move_id)?;
                let replayed = new.replayed_records.checked_sub(old.replayed_records)?;
                let busy = old.lag_records >= BUSY_RECORDS && new.lag_records >= BUSY_RECORDS;
                busy.then(|| replayed as f64 * 1000.0 / elapsed_ms as f64)
            });
            self.replay_records_per_sec = rates.chain(self.replay_records_per_sec).reduce(f64::max);
        }
        self.replays.insert(key, (now_ms, report.clone()));
    }

    /// Returns how many records per second come into the shard's partition.
    pub fn arrival_records_per_sec(&self, keyspace: KeyspaceId, shard: ShardId) -> f64 {
        let ends = self.ends.get(&(keyspace, shard));
        let Some(((first_ms, first), (last_ms, last))) = ends.and_then(|ends| Some((ends.front()?, ends.back()?)))
        else {
            return 0.0;
        };
        match last_ms.saturating_sub(*first_ms) {
            0 => 0.0,
            elapsed_ms => last.saturating_sub(*first) as f64 * 1000.0 / elapsed_ms as f64,
        }
    }

    /// Returns the fastest replay that was seen in this life of the process; nothing before one had enough to do.
    pub fn replay_records_per_sec(&self) -> Option<f64> {
        self.replay_records_per_sec
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehome_keyspace::{MoveId, NodeId, Offset};
    use rehome_ports::InboundProgress;

    const KEY: (KeyspaceId, ShardId) = (KeyspaceId(1), ShardId(0));

    fn report(applied: u64, lag: u64, inbound: Option<(u64, u64)>) -> ReplicaProgress {
        let inbound = inbound.map(|(replayed_records, lag_records)| InboundProgress {
            move_id: MoveId(1),
            replayed_next: Offset(0),
            lag_records,
            replayed_records,
        });
        ReplicaProgress {
            keyspace: KEY.0,
            shard: KEY.1,
            node: NodeId(1),
            applied_next: Offset(applied),
            lag_records: lag,
            horizon: None,
            inbound: inbound.into_iter().collect(),
            troubles: Vec::new(),
            broken: None,
        }
    }

    #[test]
    fn arrivals_are_the_growth_of_the_partition_over_the_last_seconds() {
        let mut rates = Rates::default();
        assert_eq!(rates.arrival_records_per_sec(KEY.0, KEY.1), 0.0);
        for second in 0..20 {
            // What is applied says little: the end grows by 1,000 each second, then by 3,000.
            let end = if second < 10 { second * 1_000 } else { 10_000 + (second - 10) * 3_000 };
            rates.note(&report(end / 2, end - end / 2, None), 1_000_000 + second * 1_000);
        }
        let rate = rates.arrival_records_per_sec(KEY.0, KEY.1);
        assert!((2_700.0..=3_000.0).contains(&rate), "{rate}");
        rates.note(&report(5, u64::MAX, None), 2_000_000);
        assert!(rates.arrival_records_per_sec(KEY.0, KEY.1) > 0.0, "an unknown lag is no sample");
    }

    #[test]
    fn only_a_busy_replay_measures_and_the_fastest_counts() {
        let mut rates = Rates::default();
        for (at_ms, replayed, lag) in [(0, 0, 9_000), (100, 5_000, 4_000), (200, 8_000, 2_000), (300, 8_100, 10)] {
            rates.note(&report(0, 0, Some((replayed, lag))), at_ms);
        }
        assert_eq!(rates.replay_records_per_sec(), Some(50_000.0));
    }
}
