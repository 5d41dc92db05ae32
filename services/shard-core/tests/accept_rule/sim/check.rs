//! The end of a run: everything catches up, and is compared.

use super::Sim;
use crate::oracle;
use crate::world::KEYS;
use rehome_invariants as seen;
use rehome_keyspace::{KeyRange, Offset};
use rehome_records::store_value::StoredRow;
use rehome_records::{FirstAnswer, SlotState, Verdict, store_key};
use rehome_shard_core::{MarkEffect, digest_of};

impl Sim {
    /// Faults stop: attempts are decided, replicas catch up. Then compares everything.
    pub fn finish(&mut self) {
        while self.world.moves.keys().any(|move_id| self.world.undecided(*move_id).is_some()) {
            self.abort(0);
        }
        let mut progress = true;
        while progress {
            progress = false;
            for index in 0..Self::REPLICAS {
                self.replicas[index].fold(&self.world);
                progress |= self.apply(index, 3);
                progress |= self.ingest(index);
                progress |= self.replay(index, 3);
                progress |= self.replicas[index].settle(&self.world);
            }
        }
        for key in Self::keys() {
            (0..Self::REPLICAS).for_each(|index| self.read(index, key));
        }
        self.everything_is_applied();
        self.the_oracle_says_the_same();
        self.collect_the_end();
        assert_eq!(seen::violations(&self.history), Vec::new());
    }

    fn everything_is_applied(&self) {
        for replica in &self.replicas {
            let end = self.world.partitions[&replica.shard].last().map(|logged| logged.offset);
            assert_eq!(replica.core.applied().map(|applied| applied.offset), end, "shard {} is stuck", replica.shard);
            let contested = replica.core.regions().find(|region| matches!(region.state, SlotState::Contested { .. }));
            assert_eq!(contested, None, "shard {} has a region that nothing resolves", replica.shard);
        }
    }

    fn the_oracle_says_the_same(&self) {
        let told = oracle::tell(&self.world);
        for (at, verdict) in &told.verdicts {
            assert_eq!(self.verdicts.get(at), Some(verdict), "the write at {at:?}");
        }
        assert_eq!(told.verdicts.len(), self.verdicts.len());
        for key in 0..KEYS {
            let (shard, epoch) = self.world.routes[key];
            let wanted: Vec<_> = told
                .rows
                .iter()
                .filter(|((of, _), _)| *of == key)
                .map(|((_, sort_key), (version, value))| {
                    (sort_key.clone(), StoredRow { version: *version, value: value.clone() })
                })
                .collect();
            for replica in self.replicas.iter().filter(|replica| replica.shard == shard) {
                assert_eq!(replica.state(&self.world, key), SlotState::Owned { epoch }, "key {key}");
                assert_eq!(self.rows(replica, key), wanted, "key {key} at shard {shard}");
            }
            for replica in self.replicas.iter().filter(|replica| replica.shard != shard) {
                assert!(
                    matches!(replica.state(&self.world, key), SlotState::Closed { .. }),
                    "key {key} has two owners"
                );
            }
        }
    }

    fn rows(&self, replica: &crate::replica::Replica, key: usize) -> Vec<(Vec<u8>, StoredRow)> {
        let range = store_key::rows_of(&self.world.placed(key));
        let rows = replica.view.0.range(range.start.clone()..).take_while(|(key, _)| range.contains(key));
        rows.map(|(key, stored)| (key[range.start.len()..].to_vec(), StoredRow::decode(stored).expect("sound entries")))
            .collect()
    }

    /// What is visible where, and whether replicas of a shard agree.
    fn collect_the_end(&mut self) {
        let mut visible = seen::Visible::default();
        let mut replicas = Vec::new();
        for (number, replica) in self.replicas.iter().enumerate() {
            let mut hash = 0u128;
            for key in 0..KEYS {
                let SlotState::Owned { epoch } = replica.state(&self.world, key) else { continue };
                let digest = digest_of(&replica.view, &self.world.selector(&[key])).expect("sound entries");
                hash = hash.wrapping_mul(31).wrapping_add(digest.rows ^ digest.requests ^ u128::from(epoch.0));
                for (sort_key, row) in self.rows(replica, key) {
                    let Some(value) = row.value.filter(|_| number < Self::SHARDS as usize) else { continue };
                    let (shard, placed, version) = (replica.shard, self.world.placed(key), row.version);
                    visible.rows.push(seen::VisibleRow { shard, placed, sort_key, version, value });
                }
            }
            let position = replica.core.applied().map_or(Offset(0), |applied| applied.offset);
            replicas.push(seen::ReplicaState {
                shard: replica.shard,
                replica: number as u64,
                position,
                ranges: vec![KeyRange::all()],
                hash,
            });
        }
        for key in 0..KEYS {
            let ranges = self.world.selector(&[key]);
            visible.owners.extend(ranges.ranges().iter().map(|range| (range.clone(), self.world.routes[key].0)));
        }
        self.history.visible = Some(visible);
        self.history.replicas = replicas;
    }
}

/// What runs have reached: a generator that reaches nothing proves nothing.
#[derive(Debug, Default)]
pub struct Reached {
    switched: usize,
    aborted: usize,
    ended: usize,
    second_attempts: usize,
    there_and_back: usize,
    doubled_marks: usize,
    refused_marks: usize,
    forgot: usize,
    reads: usize,
    waits: u64,
    replayed: u64,
    verdicts: [usize; 6],
    straddling: usize,
}

impl Reached {
    pub fn add(&mut self, sim: &Sim) {
        for a_move in sim.world.moves.values() {
            self.switched += usize::from(a_move.switched);
            self.ended += usize::from(a_move.ended);
            self.second_attempts += usize::from(a_move.attempts.len() > 1);
            let back = sim.world.moves.values().any(|other| {
                other.switched && other.source == a_move.destination && other.selector.overlaps(&a_move.selector)
            });
            self.there_and_back += usize::from(a_move.switched && back);
        }
        self.aborted += sim.world.control.all().count() - sim.history.cutovers.len();
        for effect in sim.effects.values() {
            match effect {
                MarkEffect::Ignored => self.doubled_marks += 1,
                MarkEffect::Refused { .. } => self.refused_marks += 1,
                MarkEffect::Forgot { entries } => self.forgot += *entries as usize,
                MarkEffect::Opened | MarkEffect::Fenced => {}
            }
        }
        self.reads += sim.history.reads.len();
        self.waits += sim.waits;
        self.replayed += sim.replayed;
        for ((shard, offset), verdict) in &sim.verdicts {
            let kind = match verdict {
                Verdict::Accepted { .. } => 0,
                Verdict::ConditionFailed { .. } => 1,
                Verdict::Repeated { first } => {
                    if let FirstAnswer::Accepted { version } = first {
                        self.straddling += usize::from(version.epoch != sim.written(*shard, *offset).epoch);
                    }
                    2
                }
                Verdict::RequestConflict => 3,
                Verdict::SourceDone => 4,
                Verdict::StaleRoute => 5,
                Verdict::Invalid { .. } => panic!("nothing here is unreadable"),
            };
            self.verdicts[kind] += 1;
        }
    }

    pub fn check(&self) {
        let counts = [
            self.switched,
            self.aborted,
            self.ended,
            self.second_attempts,
            self.there_and_back,
            self.doubled_marks,
            self.refused_marks,
            self.forgot,
            self.reads,
            self.waits as usize,
            self.replayed as usize,
            self.straddling,
        ];
        assert!(counts.iter().chain(&self.verdicts).all(|count| *count >= 5), "{self:?}");
    }
}
