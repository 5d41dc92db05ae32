//! What happens to partitions and attempts, written down as it happens, with the verdict on every record once the shard
//! core has judged it.

use crate::replica::Replica;
use crate::world::World;
use rehome_keyspace::{AttemptId, KeyRange, Offset, Outcome, ShardId};
use rehome_records::{FirstAnswer, Logged, Record, SlotState, Verdict, store_key, store_value::StoredRow};
use rehome_shard_core::{Applied, MarkEffect};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// One entry of the log of what happened.
enum Happened {
    Attempt(AttemptId),
    Outcome(AttemptId),
    Record(ShardId, Offset),
}

/// A world that remembers in which order things happened.
pub struct Trace {
    pub world: World,
    pub replicas: Vec<Replica>,
    happened: Vec<Happened>,
    told: BTreeMap<(ShardId, Offset), Applied>,
}

impl Trace {
    pub fn new(shards: u32) -> Trace {
        let world = World::new(shards);
        let replicas = (0..shards).map(|shard| Replica::new(&world, shard)).collect();
        Trace { world, replicas, happened: Vec::new(), told: BTreeMap::new() }
    }

    /// Notes everything that was appended to any partition and is not noted yet.
    pub fn note(&mut self) {
        for (shard, partition) in &self.world.partitions {
            for logged in partition {
                let new = !self
                    .happened
                    .iter()
                    .any(|one| matches!(one, Happened::Record(at, offset) if (at, *offset) == (shard, logged.offset)));
                if new {
                    self.happened.push(Happened::Record(*shard, logged.offset));
                }
            }
        }
    }

    pub fn write(&mut self, shard: u32, write: rehome_records::Write) -> Offset {
        self.append(shard, write.into_record())
    }

    pub fn append(&mut self, shard: u32, record: Record) -> Offset {
        let offset = self.world.append(ShardId(shard), record, 1);
        self.note();
        offset
    }

    /// Copies the keys from one shard to another, and starts an attempt without any mark.
    pub fn attempt(&mut self, source: usize, destination: usize, keys: &[usize]) -> AttemptId {
        self.apply();
        let [from, to] = self.replicas.get_disjoint_mut([source, destination]).expect("two shards");
        let move_id = crate::replica::copied(&mut self.world, from, to, keys);
        self.attempt_of(move_id)
    }

    /// Starts one more attempt of a move.
    pub fn attempt_of(&mut self, move_id: rehome_keyspace::MoveId) -> AttemptId {
        let attempt = self.world.start_attempt(move_id);
        self.happened.push(Happened::Attempt(attempt));
        attempt
    }

    pub fn open(&mut self, attempt: AttemptId) {
        self.world.open(attempt);
        self.note();
    }

    pub fn fence(&mut self, attempt: AttemptId) {
        self.world.fence(attempt);
        self.note();
    }

    pub fn switch(&mut self, attempt: AttemptId) {
        self.world.switch(attempt);
        self.happened.push(Happened::Outcome(attempt));
    }

    pub fn abort(&mut self, attempt: AttemptId) {
        self.world.abort(attempt);
        self.note();
        self.happened.push(Happened::Outcome(attempt));
    }

    /// Moves the keys, with the marks and the outcome that belong to it.
    pub fn moved(&mut self, source: usize, destination: usize, keys: &[usize]) {
        let attempt = self.attempt(source, destination, keys);
        self.open(attempt);
        self.fence(attempt);
        self.switch(attempt);
    }

    /// Lets every replica apply and replay as far as it can.
    pub fn apply(&mut self) {
        loop {
            let mut progressed = false;
            for replica in &mut self.replicas {
                replica.fold(&self.world);
                let told = &mut self.told;
                let shard = replica.shard;
                let mut watch = |_: &_, _: &crate::replica::Laid<'_>, logged: &Logged, applied: &Applied| {
                    told.insert((shard, logged.offset), applied.clone());
                };
                progressed |= replica.apply_batch(&self.world, 100, &mut watch).is_ok_and(|count| count > 0);
                let inbound: Vec<_> = replica.core.inbounds().map(|inbound| inbound.move_id).collect();
                for move_id in inbound {
                    let replayed = replica.replay_batch(&self.world, move_id, 100, &mut |_, _, _| {});
                    progressed |= replayed.is_ok_and(|count| count > 0);
                }
                replica.settle(&self.world);
            }
            if !progressed {
                return;
            }
        }
    }

    /// Returns the trace as it is published. Requires: every record can be judged by now.
    pub fn published(mut self, name: &str, says: &str) -> Value {
        self.apply();
        let log: Vec<Value> = self.happened.iter().map(|happened| self.entry(happened)).collect();
        let keys =
            (0..crate::world::KEYS).map(|key| (hex(&self.world.key(key)), Value::from(hex(&self.world.placed(key).0))));
        let granted = self.replicas.iter().flat_map(|replica| {
            let of = self.world.granted(replica.shard).into_iter();
            of.map(|(range, epoch)| json!({ "shard": replica.shard.0, "epoch": epoch.0, "range": range_of(&range) }))
        });
        json!({
            "name": name,
            "says": says,
            "buckets": crate::world::SLOTS,
            "placed_keys": keys.collect::<Map<String, Value>>(),
            "granted": granted.collect::<Vec<_>>(),
            "log": log,
            "rows": self.rows(),
        })
    }

    fn entry(&self, happened: &Happened) -> Value {
        match happened {
            Happened::Attempt(attempt) => {
                let facts = self.world.control.facts(*attempt);
                json!({ "attempt": {
                    "attempt": attempt.0,
                    "move": facts.move_id.0,
                    "source": facts.source.0,
                    "destination": facts.destination.0,
                    "epoch": facts.epoch.0,
                    "control_offset": facts.control_offset.0,
                    "nonce": facts.nonce.0,
                    "ranges": facts.selector.ranges().iter().map(range_of).collect::<Vec<_>>(),
                } })
            }
            Happened::Outcome(attempt) => {
                let outcome = self.world.control.facts(*attempt).outcome.expect("it has an outcome");
                let (word, fence) = match outcome {
                    Outcome::Switched { fence } => ("switched", fence),
                    Outcome::Aborted { fence } => ("aborted", fence),
                };
                json!({ "outcome": { "attempt": attempt.0, "is": word, "fence": fence.0 } })
            }
            Happened::Record(shard, offset) => {
                let logged = self.world.partitions[shard].iter().find(|logged| logged.offset == *offset);
                let record = &logged.expect("it was appended").record;
                let headers = record.headers.iter().map(|header| json!([header.name, hex(&header.value)]));
                let told = self.told.get(&(*shard, *offset)).expect("every record is judged");
                let mut entry = json!({ "record": {
                    "shard": shard.0,
                    "offset": offset.0,
                    "key": record.key.as_deref().map(hex),
                    "value": record.value.as_deref().map(hex),
                    "headers": headers.collect::<Vec<_>>(),
                } });
                match (&told.verdict, &told.mark) {
                    (Some(verdict), _) => entry["verdict"] = verdict_of(verdict),
                    (_, Some(mark)) => entry["effect"] = effect_of(&mark.effect).into(),
                    (None, None) => panic!("{shard} {offset} was not judged"),
                }
                entry
            }
        }
    }

    /// What is left at the owners, deletes included.
    fn rows(&self) -> Vec<Value> {
        let mut rows = Vec::new();
        for replica in &self.replicas {
            for (key, value) in &replica.view.0 {
                if key[0] != store_key::KIND_ROW {
                    continue;
                }
                let (partition_key, sort) = self.world.placement.unplace(&key[1..]).expect("a row's key");
                let placed = self.world.placement.place(&partition_key);
                let row = StoredRow::decode(value).unwrap();
                if matches!(replica.core.state(&placed.0), SlotState::Owned { .. }) {
                    rows.push(json!({
                        "shard": replica.shard.0,
                        "key": hex(&partition_key),
                        "sort": hex(sort),
                        "value": row.value.as_deref().map(hex),
                        "version": [row.version.epoch.0, row.version.offset.0],
                    }));
                }
            }
        }
        rows
    }
}

fn verdict_of(verdict: &Verdict) -> Value {
    let version = |version: &rehome_keyspace::Version| json!([version.epoch.0, version.offset.0]);
    match verdict {
        Verdict::Accepted { version: at } => json!({ "is": "accepted", "version": version(at) }),
        Verdict::ConditionFailed { current } => {
            json!({ "is": "condition-failed", "current": current.as_ref().map(version) })
        }
        Verdict::Repeated { first: FirstAnswer::Accepted { version: at } } => {
            json!({ "is": "repeated", "first": { "is": "accepted", "version": version(at) } })
        }
        Verdict::Repeated { first: FirstAnswer::ConditionFailed { current } } => {
            let first = json!({ "is": "condition-failed", "current": current.as_ref().map(version) });
            json!({ "is": "repeated", "first": first })
        }
        Verdict::RequestConflict => json!({ "is": "request-conflict" }),
        Verdict::SourceDone => json!({ "is": "source-done" }),
        Verdict::StaleRoute => json!({ "is": "stale-route" }),
        Verdict::Invalid { .. } => json!({ "is": "invalid" }),
    }
}

fn effect_of(effect: &MarkEffect) -> &'static str {
    match effect {
        MarkEffect::Opened => "opened",
        MarkEffect::Fenced => "fenced",
        MarkEffect::Forgot { .. } => "forgot",
        MarkEffect::Ignored => "ignored",
        MarkEffect::Refused { .. } => "refused",
    }
}

fn range_of(range: &KeyRange) -> Value {
    json!([hex(&range.start), range.end.as_deref().map(hex)])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
