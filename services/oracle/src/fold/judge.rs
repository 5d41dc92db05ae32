//! Rule 4: what becomes of a write whose epoch is current.

use super::{Folded, RequestFact, RowFact, Seen, SourceFact};
use crate::fingerprint::{Fingerprint, ValueHash};
use rehome_keyspace::{Offset, Placement, ShardId, SlotId, Version};
use rehome_records::{Condition, FirstAnswer, Operation, Write};
use std::collections::BTreeSet;

impl Folded {
    pub(super) fn judge(&mut self, placement: &Placement, shard: ShardId, offset: Offset, write: &Write) {
        let version = Version { epoch: write.epoch, offset };
        let request = write.request.map(|id| Fingerprint::request(placement, &write.partition_key, id));
        let source = write
            .source
            .as_ref()
            .map(|at| (Fingerprint::source(placement, &write.partition_key, &at.source), at.position));
        let request_was_judged = request.is_some_and(|request| self.requests.contains_key(&request));
        let source_was_here = source
            .is_some_and(|(source, position)| self.sources.get(&source).is_some_and(|fact| fact.position >= position));
        if request_was_judged || source_was_here {
            self.repeated.insert(shard, offset);
            return;
        }
        let answer = self.answer(placement, write, version);
        if let Some(request) = request {
            self.requests.insert(request, RequestFact { answer, content_hash: write.content_hash(), version });
        }
        if let FirstAnswer::ConditionFailed { .. } = answer {
            return;
        }
        if let Some((source, position)) = source {
            self.sources.insert(source, SourceFact { position, version });
        }
        self.accepted.insert(shard, offset);
        for change in write.changes() {
            let row = Fingerprint::row(placement, &write.partition_key, &change.sort_key);
            let value = change.value.as_deref().map(ValueHash::of);
            self.rows.insert(row, RowFact { version, value, seen: Seen::default() });
        }
    }

    fn answer(&self, placement: &Placement, write: &Write, version: Version) -> FirstAnswer {
        let Operation::ChangeIf { change, condition } = &write.operation else {
            return FirstAnswer::Accepted { version };
        };
        let row = self.rows.get(&Fingerprint::row(placement, &write.partition_key, &change.sort_key));
        let current = row.filter(|row| row.value.is_some()).map(|row| row.version);
        let holds = match condition {
            Condition::Absent => current.is_none(),
            Condition::Present => current.is_some(),
            Condition::VersionIs(wanted) => current == Some(*wanted),
        };
        if holds { FirstAnswer::Accepted { version } } else { FirstAnswer::ConditionFailed { current } }
    }

    /// Forgets tombstones and request ids of the slots, up to a version.
    pub(super) fn forget(&mut self, slots: &BTreeSet<SlotId>, version: Version) {
        let over = |name: &Fingerprint, at: Version| at <= version && slots.contains(&name.slot());
        let forgotten = &mut self.forgotten;
        self.rows.retain(|name, row| {
            let kept = row.value.is_some() || !over(name, row.version);
            if !kept {
                forgotten.insert(*name, row.version);
            }
            kept
        });
        self.requests.retain(|name, request| !over(name, request.version));
    }
}
