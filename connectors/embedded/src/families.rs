//! In which column family the records of a partition lie, and under which keys.
//!
//! ```text
//! family NAME/PARTITION   offset: u64 BE                         one of the first partitions of its topic
//! family NAME/others      partition: u32 BE | offset: u64 BE     all that come after those
//! ```
//! Why not one for each: making or removing a family writes down the options of all there are, and whoever appends waits
//! for a part of it; a flush writes one table for each. With a thousand, making the last takes a hundred times as long
//! as making the first.

use rehome_keyspace::Offset;
use rehome_records::TopicPartition;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Partitions of one topic that have families of their own at most.
const OWN_OF_TOPIC_MAX: u32 = 32;
/// Partitions of all topics that do.
const OWN_MAX: u32 = 128;
const OTHERS: &str = "others";

/// How a topic's partitions share families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    pub partitions: u32,
    /// So many of the first partitions have a family each.
    own: u32,
}

impl Shares {
    /// Errors: nothing when the bytes are no entry of a topic.
    pub fn decode(bytes: &[u8]) -> Option<Shares> {
        let (partitions, own) = bytes.split_at_checked(4)?;
        let partitions = u32::from_be_bytes(partitions.try_into().ok()?);
        let own = if own.is_empty() { partitions } else { u32::from_be_bytes(own.try_into().ok()?) };
        (own <= partitions).then_some(Shares { partitions, own })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.partitions.to_be_bytes().to_vec();
        if self.own < self.partitions {
            bytes.extend(self.own.to_be_bytes());
        }
        bytes
    }

    /// Returns the names of the topic's families.
    pub fn families(self, topic: &str) -> impl Iterator<Item = String> {
        let own = (0..self.own).map(move |partition| TopicPartition::new(topic, partition).to_string());
        own.chain((self.own < self.partitions).then(|| format!("{topic}/{OTHERS}")))
    }

    /// Returns where the records of the partition lie.
    pub fn place(&self, partition: &TopicPartition) -> Place {
        match partition.partition < self.own {
            true => Place { family: partition.to_string(), shared: None },
            false => Place { family: format!("{}/{OTHERS}", partition.topic), shared: Some(partition.partition) },
        }
    }
}

/// Where the records of a partition lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    family: String,
    /// Begins its keys in a family that it shares.
    shared: Option<u32>,
}

impl Place {
    pub fn family(&self) -> &str {
        &self.family
    }

    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    pub fn key(&self, offset: Offset) -> Vec<u8> {
        let mut key = self.shared.map(u32::to_be_bytes).map(Vec::from).unwrap_or_default();
        key.extend(offset.0.to_be_bytes());
        key
    }

    /// Returns the offset of a key; nothing when it is none of this partition.
    pub fn offset(&self, key: &[u8]) -> Option<Offset> {
        let own = match self.shared {
            Some(partition) => key.strip_prefix(&partition.to_be_bytes())?,
            None => key,
        };
        own.try_into().ok().map(|offset| Offset(u64::from_be_bytes(offset)))
    }
}

/// How each topic's partitions share families.
#[derive(Default)]
pub struct Families {
    topics: RwLock<BTreeMap<String, Shares>>,
}

impl Families {
    pub fn note(&self, topic: &str, shares: Shares) {
        self.topics.write().unwrap_or_else(PoisonError::into_inner).insert(topic.to_owned(), shares);
    }

    pub fn forget(&self, topic: &str) {
        self.topics.write().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }

    fn read<T>(&self, read: impl FnOnce(&BTreeMap<String, Shares>) -> T) -> T {
        read(&self.topics.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns every topic with its number of partitions.
    pub fn topics(&self) -> BTreeMap<String, u32> {
        self.read(|topics| topics.iter().map(|(topic, shares)| (topic.clone(), shares.partitions)).collect())
    }

    /// Returns how that topic's do; nothing of one that is not there.
    pub fn of(&self, topic: &str) -> Shares {
        self.read(|topics| topics.get(topic).copied().unwrap_or_default())
    }

    /// Returns how they will when it has so many partitions. What is there stays where it is.
    pub fn grown(&self, topic: &str, partitions: u32) -> Shares {
        let Shares { partitions: existing, own } = self.of(topic);
        if own < existing {
            return Shares { partitions, own };
        }
        let of_all: u32 = self.read(|topics| topics.values().map(|shares| shares.own).sum());
        let room = OWN_MAX.saturating_sub(of_all).min(OWN_OF_TOPIC_MAX.saturating_sub(own));
        Shares { partitions, own: partitions.min(own + room) }
    }

    /// Returns the names of all families of topics.
    pub fn all(&self) -> Vec<String> {
        self.read(|topics| topics.iter().flat_map(|(topic, shares)| shares.families(topic)).collect())
    }

    /// Tells whether the family is one of a topic.
    pub fn knows(&self, family: &str) -> bool {
        let (topic, name) = family.rsplit_once('/').unwrap_or((family, ""));
        let Shares { partitions, own } = self.of(topic);
        if name == OTHERS { own < partitions } else { name.parse::<u32>().is_ok_and(|number| number < own) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_partitions_have_families_and_the_others_share_one_wherever_the_topic_grew_to_before() {
        let families = Families::default();
        for (topic, partitions, own) in [("a", 3, 3), ("a", 40, 32), ("a", 1000, 32), ("b", 32, 32), ("c", 100, 32)] {
            let grown = families.grown(topic, partitions);
            assert_eq!(grown, Shares { partitions, own }, "{topic}");
            families.note(topic, grown);
        }
        families.note("old", Shares { partitions: 30, own: 30 });
        assert_eq!(families.grown("d", 7), Shares { partitions: 7, own: 2 }, "so many are left for all");
        families.note("d", families.grown("d", 7));
        assert_eq!(families.grown("e", 1), Shares { partitions: 1, own: 0 });
        families.forget("b");
        assert_eq!(families.grown("d", 9), Shares { partitions: 9, own: 2 }, "what shares a family stays there");
        let names = families.of("d").families("d").collect::<Vec<_>>();
        assert_eq!(names, ["d/0", "d/1", "d/others"]);
        assert!(names.iter().all(|name| families.knows(name)));
        assert!(["d/2", "b/0", "old/others", "d"].iter().all(|name| !families.knows(name)));
    }

    #[test]
    fn an_entry_reads_back_and_one_of_before_families_were_shared_does_too() {
        for shares in [Shares { partitions: 3, own: 3 }, Shares { partitions: 1000, own: 32 }, Shares::default()] {
            assert_eq!(Shares::decode(&shares.encode()), Some(shares));
        }
        assert_eq!(Shares::decode(&[0, 0, 3, 232]), Some(Shares { partitions: 1000, own: 1000 }));
        for damaged in [&[][..], &[0, 0, 1], &[0, 0, 0, 1, 0], &[0, 0, 0, 1, 0, 0, 0, 2]] {
            assert_eq!(Shares::decode(damaged), None, "{damaged:?}");
        }
    }
}
