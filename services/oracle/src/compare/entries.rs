//! One entry of a store against the fold.

use super::{Comparison, request_facts, row_facts, source_facts};
use crate::findings::Finding;
use crate::fingerprint::{Fingerprint, ValueHash};
use rehome_keyspace::{RequestId, ShardId, SlotId, Version};
use rehome_records::store_key::{KIND_REQUEST, KIND_ROW, KIND_SOURCE, KIND_STATE};
use rehome_records::store_value::{StoredRequest, StoredRow, StoredSource};
use rehome_records::{SlotState, StateRegion};

pub(super) fn compare(all: &mut Comparison<'_>, shard: ShardId, key: &[u8], value: &[u8]) {
    let Some((&kind, placed)) = key.split_first() else { return };
    let read = match kind {
        KIND_STATE => StateRegion::decode(value).ok().map(|region| all.states.entry(shard).or_default().push(region)),
        KIND_ROW => row(all, shard, placed, value),
        KIND_REQUEST => request(all, shard, placed, value),
        KIND_SOURCE => source(all, shard, placed, value),
        _ => Some(()),
    };
    if read.is_none() {
        all.findings
            .note(Finding::DigestMismatch, || format!("shard {shard}: an entry of kind {kind:#04x} is unreadable"));
    }
}

fn row(all: &mut Comparison<'_>, shard: ShardId, placed: &[u8], value: &[u8]) -> Option<()> {
    let stored = StoredRow::decode(value).ok()?;
    let placement = all.keyspace.placement;
    let (partition_key, sort_key) = placement.unplace(placed)?;
    let name = Fingerprint::row(&placement, &partition_key, sort_key);
    let there =
        Entry { shard, slot: name.slot(), version: stored.version, partition_key: &partition_key, rest: sort_key };
    let hash = stored.value.as_deref().map(ValueHash::of);
    let visible = stored.value.is_some() && is_visible(all, shard, placed);
    all.rows_visible += u64::from(visible);
    there.check_place(all, "row");
    let owner = all.owner(there.slot);
    if let Some(fact) = all.folded.rows.get_mut(&name) {
        let seen_twice = visible && fact.seen.visible;
        fact.seen.visible |= visible;
        fact.seen.at_owner |= owner == shard;
        if seen_twice {
            all.findings.note(Finding::Duplicated, || format!("{there}: visible in two stores"));
        }
    }
    if owner == shard {
        all.sum_of_store(shard, name, row_facts(stored.version, hash));
        there.check_row(all, name, hash);
    }
    Some(())
}

fn request(all: &mut Comparison<'_>, shard: ShardId, placed: &[u8], value: &[u8]) -> Option<()> {
    let stored = StoredRequest::decode(value).ok()?;
    let placement = all.keyspace.placement;
    let (partition_key, id) = placement.unplace(placed)?;
    let name = Fingerprint::request(&placement, &partition_key, RequestId(id.try_into().ok()?));
    let there = Entry { shard, slot: name.slot(), version: stored.version, partition_key: &partition_key, rest: id };
    there.check_place(all, "request id");
    if all.owner(there.slot) == shard {
        all.sum_of_store(shard, name, request_facts(stored.content_hash, stored.answer, stored.version));
        if all.is_repeated(there.slot, stored.version) {
            all.findings.note(Finding::Duplicated, || format!("{there}: this request was judged before"));
        }
    }
    Some(())
}

fn source(all: &mut Comparison<'_>, shard: ShardId, placed: &[u8], value: &[u8]) -> Option<()> {
    let stored = StoredSource::decode(value).ok()?;
    let placement = all.keyspace.placement;
    let (partition_key, source) = placement.unplace(placed)?;
    let name = Fingerprint::source(&placement, &partition_key, std::str::from_utf8(source).ok()?);
    let there =
        Entry { shard, slot: name.slot(), version: stored.version, partition_key: &partition_key, rest: source };
    there.check_place(all, "source position");
    if all.owner(there.slot) == shard {
        all.sum_of_store(shard, name, source_facts(stored.position, stored.version));
    }
    Some(())
}

/// Tells whether the store would show the key to a reader.
fn is_visible(all: &Comparison<'_>, shard: ShardId, placed: &[u8]) -> bool {
    let regions = all.states.get(&shard).map(Vec::as_slice).unwrap_or_default();
    let after = regions.partition_point(|region| region.range.start.as_slice() <= placed);
    let region = after.checked_sub(1).map(|at| &regions[at]).filter(|region| region.range.contains(placed));
    match region.map(|region| region.state) {
        Some(SlotState::Owned { .. }) => true,
        Some(SlotState::Contested { attempt, .. }) => {
            all.story.attempts.get(&attempt).and_then(|attempt| attempt.winner()) == Some(shard)
        }
        Some(SlotState::Closed { .. }) | None => false,
    }
}

/// Where an entry lies, for examples.
struct Entry<'a> {
    shard: ShardId,
    slot: SlotId,
    version: Version,
    partition_key: &'a [u8],
    rest: &'a [u8],
}

impl Entry<'_> {
    fn check_place(&self, all: &mut Comparison<'_>, what: &str) {
        if !all.story.may_hold(all.keyspace, self.slot, self.shard) {
            let owner = all.owner(self.slot);
            all.findings.note(Finding::MisplacedRow, || format!("{self}: a {what} that belongs to shard {owner}"));
        }
    }

    /// Compares a row of the owner's store with what the fold says it must be.
    fn check_row(&self, all: &mut Comparison<'_>, name: Fingerprint, found: Option<ValueHash>) {
        let fact = all.folded.rows.get(&name).copied();
        match fact {
            Some(fact) if fact.version == self.version && fact.value == found => {}
            Some(fact) if fact.value.is_none() && found.is_some() && self.version <= fact.version => {
                all.findings.note(Finding::Resurrected, || format!("{self}: deleted by version {}", fact.version));
            }
            Some(fact) if self.version < fact.version => {
                all.findings.note(Finding::Lost, || format!("{self}: version {} was accepted later", fact.version));
            }
            _ if all.is_repeated(self.slot, self.version) => {
                all.findings
                    .note(Finding::Duplicated, || format!("{self}: the write at this position was done before"));
            }
            Some(fact) => all.findings.note(Finding::DigestMismatch, || {
                format!("{self}: the fold has version {} or another value", fact.version)
            }),
            None if found.is_some() => {
                all.findings.note(Finding::DigestMismatch, || format!("{self}: nobody wrote this row"));
            }
            None => {}
        }
    }
}

impl std::fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "shard {}, slot {}, key {:?}/{:?}, version {}",
            self.shard,
            self.slot,
            String::from_utf8_lossy(self.partition_key),
            String::from_utf8_lossy(self.rest),
            self.version
        )
    }
}
