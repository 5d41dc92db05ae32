//! Topics: their entries in the default family, and the families that they have.

use super::{Disk, TOPIC, next_key, start_key};
use crate::errors::port_error;
use crate::families::Shares;
use crate::options;
use rehome_ports::PortError;
use rehome_records::TopicPartition;
use rocksdb::{IteratorMode, WriteBatch};
use std::collections::BTreeMap;

impl Disk {
    /// Returns every topic with its number of partitions.
    pub fn topics(&self) -> BTreeMap<String, u32> {
        self.families.topics()
    }

    pub(super) fn read_topics(&self) -> Result<(), PortError> {
        for entry in self.db.iterator(IteratorMode::From(TOPIC.as_bytes(), rocksdb::Direction::Forward)) {
            let (key, value) = entry.map_err(|error| port_error("reading topics", &error))?;
            let Some(name) = key.strip_prefix(TOPIC.as_bytes()) else { break };
            let name = String::from_utf8_lossy(name).into_owned();
            let shares = Shares::decode(&value);
            let shares = shares.ok_or_else(|| PortError::broken(format!("topic {name} has a damaged entry")))?;
            self.families.note(&name, shares);
        }
        Ok(())
    }

    /// Makes the topic's partitions up to `wanted`, durably.
    pub fn grow_topic(&self, topic: &str, wanted: u32) -> Result<(), PortError> {
        let failed = |error: rocksdb::Error| port_error(&format!("growing topic {topic}"), &error);
        let grown = self.families.grown(topic, wanted);
        for family in grown.families(topic) {
            // An earlier attempt may have got this far.
            if self.db.cf_handle(&family).is_none() {
                self.db.create_cf(&family, &options::partition(&self.cache)).map_err(failed)?;
                // Whoever appends looks families up, and making one keeps that waiting.
                std::thread::yield_now();
            }
        }
        let mut batch = WriteBatch::default();
        batch.put(format!("{TOPIC}{topic}"), grown.encode());
        self.write_synced(batch).map_err(failed)?;
        self.families.note(topic, grown);
        Ok(())
    }

    /// Removes the topic with its records, durably; its partitions were removed before. After a crash in the middle the
    /// rest goes at the next start.
    pub fn remove_topic(&self, topic: &str) -> Result<(), PortError> {
        let failed = |error: rocksdb::Error| port_error(&format!("removing topic {topic}"), &error);
        let shares = self.families.of(topic);
        let mut batch = WriteBatch::default();
        batch.delete(format!("{TOPIC}{topic}"));
        for name in (0..shares.partitions).map(|partition| TopicPartition::new(topic, partition)) {
            [start_key(&name), next_key(&name)].iter().for_each(|key| batch.delete(key));
        }
        self.write_synced(batch).map_err(failed)?;
        for family in shares.families(topic) {
            if self.db.cf_handle(&family).is_some() {
                self.db.drop_cf(&family).map_err(failed)?;
                std::thread::yield_now();
            }
        }
        self.families.forget(topic);
        Ok(())
    }

    /// Drops the families that belong to no topic: what a crash left of one that was being made or removed.
    pub fn drop_strays(&self) -> Result<(), PortError> {
        let mut strays = self.found.iter().filter(|family| *family != "default" && !self.families.knows(family));
        strays.try_for_each(|stray| match self.db.cf_handle(stray).is_some() {
            true => {
                self.db.drop_cf(stray).map_err(|error| port_error(&format!("removing what is left of {stray}"), &error))
            }
            false => Ok(()),
        })
    }
}
