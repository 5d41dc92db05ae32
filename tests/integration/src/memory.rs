//! What clients were answered.

use anyhow::Context;
use rehome_keyspace::{Epoch, Offset, Placement, RequestId, Version};
use rehome_oracle::{ClientHistory, Fingerprint, ReadSeen, ValueHash, WriteAnswered};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Instant;

/// Slots of the keyspaces that are tested. Reason: few enough to fold quickly, many more than shards.
pub const BUCKETS: u32 = 256;

/// Names a row: partition key and sort key.
pub type RowName = (String, String);

/// A row as its newest acknowledged write left it; no value: deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub version: Version,
    pub value: Option<String>,
}

/// What one client, or all of them, were answered.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub history: ClientHistory,
    /// The newest acknowledged write of each row.
    pub rows: BTreeMap<RowName, Fact>,
    pub counts: Counts,
}

/// How much was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub puts: u64,
    pub deletes: u64,
    pub conditions_failed: u64,
    /// Requests sent again on purpose.
    pub resent: u64,
    pub reads: u64,
    pub scans: u64,
    /// Requests sent again because no answer came.
    pub retries: u64,
}

/// Nanoseconds since this process first asked.
pub fn ticks() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

pub fn placement() -> Placement {
    Placement::buckets(BUCKETS).expect("a good number of buckets")
}

/// Reads `EPOCH@OFFSET`.
pub fn version(text: &str) -> anyhow::Result<Version> {
    let (epoch, offset) = text.split_once('@').with_context(|| format!("{text:?} is no version"))?;
    Ok(Version { epoch: Epoch(epoch.parse()?), offset: Offset(offset.parse()?) })
}

impl Memory {
    /// Remembers that a write was accepted as that version.
    pub fn wrote(&mut self, name: &RowName, request: RequestId, fact: Fact, issued_at: u64) {
        let placement = placement();
        self.history.writes.push(WriteAnswered {
            row: Fingerprint::row(&placement, name.0.as_bytes(), name.1.as_bytes()),
            request: Some(Fingerprint::request(&placement, name.0.as_bytes(), request)),
            version: fact.version,
            value: fact.value.as_deref().map(|value| ValueHash::of(value.as_bytes())),
            issued_at,
            answered_at: ticks(),
        });
        self.note(name, fact);
    }

    /// Remembers what a linearizable read found.
    pub fn read(&mut self, name: &RowName, found: Option<&Fact>, issued_at: u64) {
        self.counts.reads += 1;
        let value = |fact: &Fact| ValueHash::of(fact.value.as_deref().unwrap_or_default().as_bytes());
        self.history.reads.push(ReadSeen {
            row: Fingerprint::row(&placement(), name.0.as_bytes(), name.1.as_bytes()),
            found: found.map(|fact| (fact.version, value(fact))),
            issued_at,
            answered_at: ticks(),
        });
    }

    /// Takes in what another client was answered.
    pub fn extend(&mut self, other: Memory) {
        self.history.extend(other.history);
        for (name, fact) in other.rows {
            self.note(&name, fact);
        }
        let (all, one) = (&mut self.counts, other.counts);
        all.puts += one.puts;
        all.deletes += one.deletes;
        all.conditions_failed += one.conditions_failed;
        all.resent += one.resent;
        all.reads += one.reads;
        all.scans += one.scans;
        all.retries += one.retries;
    }

    /// Returns the rows that a reader must see.
    pub fn visible(&self) -> BTreeMap<&RowName, &Fact> {
        self.rows.iter().filter(|(_, fact)| fact.value.is_some()).collect()
    }

    fn note(&mut self, name: &RowName, fact: Fact) {
        match self.rows.get_mut(name) {
            Some(known) if known.version >= fact.version => {}
            Some(known) => *known = fact,
            None => drop(self.rows.insert(name.clone(), fact)),
        }
    }
}
