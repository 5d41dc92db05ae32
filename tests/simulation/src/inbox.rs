//! A producer that knows no routes, and what must have become of its records.

use crate::operator::KEYSPACE;
use crate::process::{Site, lock};
use crate::trace::Counts;
use crate::world::Failure;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rehome_control_core::{ControlState, Keyspace};
use rehome_keyspace::{Offset, ShardId, Version};
use rehome_oracle::{Folded, KeyspaceStory};
use rehome_ports::{Lane, Reader};
use rehome_records::control::{inbox_progress_topic, inbox_topic, rejects_topic};
use rehome_records::inbox::{INBOX_SOURCE_PREFIX, InboxProgress};
use rehome_records::{DataRecord, Logged, Record, Rejected, RejectedFrom, TopicPartition, store_key};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Partitions of the inbox.
pub const PARTITIONS: u32 = 2;
const KEYS: u32 = 7;

/// Appends plain records to the inbox, some of which cannot be applied.
pub struct Producer {
    left: u32,
    rng: StdRng,
}

impl Producer {
    pub fn new(seed: u64, records: u32) -> Producer {
        Producer { left: records, rng: StdRng::seed_from_u64(seed ^ 0x1B0C) }
    }

    /// Tells whether it has appended everything, and every record was judged.
    pub fn is_done(&self, state: &ControlState, site: &Site) -> bool {
        let Some(keyspace) = state.keyspace_named(KEYSPACE) else { return false };
        let keeps_rejects = || {
            let mut any = false;
            let range = store_key::kind_range(store_key::KIND_REJECT);
            for store in lock(&site.stores).values() {
                let look = &mut |_: &[u8], _: &[u8]| {
                    any = true;
                    ControlFlow::Break(())
                };
                store.scan(&range, false, look).expect("a store in memory is read");
            }
            any
        };
        self.left == 0 && (keyspace.inbox_partitions == 0 || is_forwarded(keyspace, site)) && !keeps_rejects()
    }

    /// Appends a record, now and then.
    pub fn act(&mut self, state: &ControlState, site: &Site) {
        if self.left == 0 || self.rng.random_range(0..12) != 0 {
            return;
        }
        let Some(keyspace) = state.keyspace_named(KEYSPACE).filter(|keyspace| keyspace.inbox_partitions > 0) else {
            return;
        };
        let key = self.rng.random_range(0..KEYS);
        let partition = TopicPartition::new(keyspace.inbox_topic(), key % PARTITIONS);
        if !site.broker.topic_partitions().contains(&partition) {
            return;
        }
        self.left -= 1;
        if self.rng.random_range(0..6) == 0 {
            return self.astray(keyspace, site);
        }
        let key = if self.rng.random_range(0..10) == 0 { Vec::new() } else { format!("inbox-{key}").into_bytes() };
        let record = Record { key: Some(key), value: Some(self.left.to_be_bytes().to_vec()), headers: Vec::new() };
        let log = site.broker.handle("producer");
        log.append(&partition, Lane::Data, vec![record], Box::new(drop));
    }
}

impl Producer {
    /// Writes to the data topic, as one that has old routes and waits for no verdict; or what nobody can read.
    fn astray(&mut self, keyspace: &Keyspace, site: &Site) {
        let shard = self.rng.random_range(0..keyspace.shards);
        let partition = TopicPartition::new(keyspace.data_topic(), shard);
        if !site.broker.topic_partitions().contains(&partition) {
            return;
        }
        let (key, value) = (Some(b"astray".to_vec()), Some(self.left.to_be_bytes().to_vec()));
        let epoch = self.rng.random_range(1..keyspace.epoch_next.0 + 1);
        let mut record = Record { key, value, headers: Vec::new() };
        if self.rng.random_range(0..4) > 0 {
            record = record.with_header("rh-epoch", epoch.to_be_bytes());
        }
        site.broker.handle("producer").append(&partition, Lane::Data, vec![record], Box::new(drop));
    }
}

/// Tells whether some forwarder has said that everything is judged.
fn is_forwarded(keyspace: &Keyspace, site: &Site) -> bool {
    let said = site.broker.records(&TopicPartition::new(keyspace.inbox_progress_topic(), 0));
    let said: Vec<_> = said.iter().filter_map(|logged| InboxProgress::read(&logged.record).ok()).collect();
    (0..PARTITIONS).all(|partition| {
        let records = site.broker.records(&TopicPartition::new(keyspace.inbox_topic(), partition));
        let told = said.iter().filter_map(|progress| progress.next.get(partition as usize)).max();
        records.last().is_none_or(|last| told.is_some_and(|told| *told > last.offset))
    })
}

/// Every record of the inbox was accepted exactly once, those of a key in their order; what cannot be applied lies among
/// the rejects.
pub fn judge(
    site: &Site,
    keyspace: &KeyspaceStory,
    partitions: &[Vec<Logged>],
    folded: &Folded,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let mut accepted: BTreeMap<(u64, Vec<u8>), BTreeMap<Version, u64>> = BTreeMap::new();
    for (shard, records) in (0..).map(ShardId).zip(partitions) {
        for logged in records {
            let Ok(DataRecord::Write(write)) = DataRecord::read(&logged.record) else { continue };
            let Some(source) = &write.source else { continue };
            let Some(partition) = source.source.strip_prefix(INBOX_SOURCE_PREFIX) else { continue };
            if !folded.accepted.contains(shard, logged.offset) {
                counts.inbox_copies += 1;
                continue;
            }
            let partition = partition.parse().map_err(|_| Failure(format!("{} names no partition", source.source)))?;
            let version = Version { epoch: write.epoch, offset: logged.offset };
            accepted.entry((partition, write.partition_key)).or_default().insert(version, source.position);
        }
    }
    let mut expected: BTreeMap<(u64, Vec<u8>), Vec<u64>> = BTreeMap::new();
    let mut bad = BTreeSet::new();
    for partition in 0..PARTITIONS {
        let topic = inbox_topic(&keyspace.name, keyspace.id);
        for logged in site.broker.records(&TopicPartition::new(topic, partition)) {
            let key = logged.record.key.unwrap_or_default();
            if key.is_empty() {
                bad.insert((partition, logged.offset));
            } else {
                expected.entry((u64::from(partition), key)).or_default().push(logged.offset.0);
            }
        }
    }
    let accepted: BTreeMap<(u64, Vec<u8>), Vec<u64>> =
        accepted.into_iter().map(|(key, of)| (key, of.into_values().collect())).collect();
    if accepted != expected {
        return Err(Failure(format!("R6: of the inbox were accepted\n{accepted:?}\nnot\n{expected:?}")));
    }
    counts.inbox_accepted += accepted.values().map(|of| of.len() as u64).sum::<u64>();
    judge_rejects(site, keyspace, partitions, folded, &bad, counts)?;
    let said = site.broker.records(&TopicPartition::new(inbox_progress_topic(&keyspace.name, keyspace.id), 0));
    let terms = said.iter().filter_map(|logged| InboxProgress::read(&logged.record).ok()).map(|said| said.term).max();
    counts.inbox_takeovers += terms.unwrap_or(1).saturating_sub(1);
    Ok(())
}

/// Each record that could not be applied lies among the rejects, and no other.
fn judge_rejects(
    site: &Site,
    keyspace: &KeyspaceStory,
    partitions: &[Vec<Logged>],
    folded: &Folded,
    bad: &BTreeSet<(u32, Offset)>,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let rejects = site.broker.records(&TopicPartition::new(rejects_topic(&keyspace.name, keyspace.id), 0));
    let mut told = BTreeSet::new();
    let mut told_of_data = BTreeSet::new();
    for logged in rejects {
        let rejected = Rejected::read(logged.record).map_err(|error| Failure(error.to_string()))?;
        counts.rejects += 1;
        match rejected.at.from {
            RejectedFrom::Inbox => told.insert((rejected.at.partition, rejected.at.offset)),
            RejectedFrom::Data => told_of_data.insert((rejected.at.partition, rejected.at.offset)),
        };
    }
    let mut bad_of_data = BTreeSet::new();
    for (shard, records) in (0..).zip(partitions) {
        for logged in records {
            let is_rejected = match DataRecord::read(&logged.record) {
                Err(_) => true,
                Ok(DataRecord::Write(write)) => {
                    let is_named = write.request.is_some() || write.source.is_some();
                    !is_named && !folded.accepted.contains(ShardId(shard), logged.offset)
                }
                Ok(DataRecord::Mark(_)) => false,
            };
            if is_rejected {
                bad_of_data.insert((shard, logged.offset));
            }
        }
    }
    if told_of_data != bad_of_data {
        return Err(Failure(format!("of the data topic were rejected {told_of_data:?}, not {bad_of_data:?}")));
    }
    if told != *bad {
        return Err(Failure(format!("of the inbox were rejected {told:?}, not {bad:?}")));
    }
    Ok(())
}
