//! What an accepted write changes: rows, request ids, source positions, and the digest of them.
//!
//! Everything is read before anything is changed. A plain put or delete of keys that do not move reads no row.

use crate::core::Ground;
use crate::stop::Stop;
use rehome_keyspace::{PlacedKey, Version};
use rehome_records::store_value::{RowView, StoredRequest, StoredRow, StoredSource};
use rehome_records::{Condition, Digest, FirstAnswer, Operation, RowChange, Verdict, Write, store_key};
use std::collections::BTreeMap;

/// What is read before a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Nothing: offsets of the live tail only grow.
    Blind,
    /// The row as it was, for the digest of keys that move out.
    Moving,
    /// The row as it was, for the digest of keys that move in; an older version changes nothing.
    Replayed,
}

/// A write whose epoch was accepted.
pub(crate) struct Accepted<'a> {
    pub write: Write,
    pub placed: &'a PlacedKey,
    pub version: Version,
    pub reading: Reading,
}

struct RowPut {
    key: Vec<u8>,
    stored: Vec<u8>,
    tombstone: bool,
}

impl Accepted<'_> {
    /// Answers the write, changes what it changes, and returns by how much the digest of its keys changed (nothing
    /// when blind).
    pub fn answer(self, ground: &mut Ground<'_>) -> Result<(Verdict, Digest), Stop> {
        let mut digest = Digest::default();
        let request = self.write.request.map(|id| store_key::request(self.placed, id));
        let content_hash = if request.is_some() { self.write.content_hash() } else { 0 };
        if let Some(key) = &request
            && let Some(stored) = ground.get(key)?
        {
            let stored = StoredRequest::decode(&stored)?;
            let same = stored.content_hash == content_hash;
            let verdict = if same { Verdict::Repeated { first: stored.answer } } else { Verdict::RequestConflict };
            return Ok((verdict, digest));
        }
        let source = match &self.write.source {
            None => None,
            Some(at) => {
                let key = store_key::source(self.placed, &at.source);
                let before = ground.get(&key)?;
                if let Some(before) = &before
                    && StoredSource::decode(before)?.position >= at.position
                {
                    return Ok((Verdict::SourceDone, digest));
                }
                Some((key, before, at.position))
            }
        };
        let (version, counted) = (self.version, self.reading != Reading::Blind);
        let answer = match self.condition_failure(ground)? {
            Some(current) => FirstAnswer::ConditionFailed { current },
            None => {
                if let Some((key, before, position)) = source {
                    let stored = StoredSource { position, version }.encode();
                    if counted {
                        before.iter().for_each(|before| digest.remove_request(&key, before));
                        digest.add_request(&key, &stored);
                    }
                    ground.pending.put(key, stored);
                }
                self.change_rows(ground, &mut digest)?;
                FirstAnswer::Accepted { version }
            }
        };
        if let Some(key) = request {
            let stored = StoredRequest { content_hash, answer, version }.encode();
            if counted {
                digest.add_request(&key, &stored);
            }
            ground.pending.put(key, stored);
        }
        let verdict = match answer {
            FirstAnswer::Accepted { version } => Verdict::Accepted { version },
            FirstAnswer::ConditionFailed { current } => Verdict::ConditionFailed { current },
        };
        Ok((verdict, digest))
    }

    /// Returns the version that was found, if any, when the write's condition does not hold. A tombstone is no row.
    fn condition_failure(&self, ground: &Ground<'_>) -> Result<Option<Option<Version>>, Stop> {
        let Operation::ChangeIf { change, condition } = &self.write.operation else {
            return Ok(None);
        };
        let stored = ground.get(&store_key::row(self.placed, &change.sort_key))?;
        let stored = stored.as_deref().map(RowView::decode).transpose()?;
        let current = stored.filter(|row| row.value.is_some()).map(|row| row.version);
        let holds = match condition {
            Condition::Absent => current.is_none(),
            Condition::Present => current.is_some(),
            Condition::VersionIs(wanted) => current == Some(*wanted),
        };
        Ok((!holds).then_some(current))
    }

    fn change_rows(self, ground: &mut Ground<'_>, digest: &mut Digest) -> Result<(), Stop> {
        let Accepted { write, placed, version, reading } = self;
        let put = |change: RowChange| {
            let key = store_key::row(placed, &change.sort_key);
            let row = StoredRow { version, value: change.value };
            RowPut { key, stored: row.encode(), tombstone: row.value.is_none() }
        };
        match write.operation {
            Operation::Change(change) | Operation::ChangeIf { change, .. } => {
                let [put] = [put(change)];
                put.apply(version, reading, ground, digest)
            }
            Operation::Batch(changes) => {
                // The last change of a row that is named twice wins.
                let last: BTreeMap<Vec<u8>, RowPut> =
                    changes.into_iter().map(put).map(|put| (put.key.clone(), put)).collect();
                last.into_values().try_for_each(|put| put.apply(version, reading, ground, digest))
            }
        }
    }
}

impl RowPut {
    fn apply(
        self,
        version: Version,
        reading: Reading,
        ground: &mut Ground<'_>,
        digest: &mut Digest,
    ) -> Result<(), Stop> {
        if reading != Reading::Blind {
            if let Some(before) = ground.get(&self.key)? {
                let row = RowView::decode(&before)?;
                if row.version >= version {
                    return self.collide(&before, row.version, version, reading);
                }
                digest.remove_row(&self.key, &before, row.value.is_none());
            }
            digest.add_row(&self.key, &self.stored, self.tombstone);
        }
        ground.pending.put(self.key, self.stored);
        Ok(())
    }

    /// A row is there that is as new or newer. During a replay that is harmless if it can be: an older version never
    /// overwrites a newer one. On the live tail offsets and epochs only grow, so it cannot be.
    fn collide(&self, before: &[u8], found: Version, version: Version, reading: Reading) -> Result<(), Stop> {
        let harmless = reading == Reading::Replayed && (found > version || before == self.stored);
        if harmless {
            return Ok(());
        }
        Err(Stop::Broken(format!("a row of version {found} lies where version {version} is to be written")))
    }
}
