//! What clients append.

use super::{Sim, pick};
use crate::random::{IdentityStep, OperationStep, WriteStep};
use rehome_keyspace::{Epoch, Offset, RequestId, ShardId, Version};
use rehome_records::{Condition, Mark, Operation, RowChange, SourcePosition, Write};

impl Sim {
    pub(super) fn write(&mut self, step: &WriteStep) {
        let routed = self.world.routes[step.key];
        let (shard, epoch) = match step.astray {
            None => routed,
            // Zero stays with the routed shard, under a guess; the others go anywhere, the next epochs included.
            Some((_, 0)) => (routed.0, Epoch(self.world.control.epoch_max().0)),
            Some((shard, back)) => (ShardId(shard), Epoch((self.world.control.epoch_max().0 + 2).saturating_sub(back))),
        };
        let mut write = Write {
            partition_key: self.world.key(step.key),
            epoch,
            request: None,
            source: None,
            operation: self.operation(&step.operation),
        };
        let requests = self.requests.entry(step.key).or_default();
        match step.identity {
            IdentityStep::None => {}
            IdentityStep::NewRequest => {
                write.request = Some(request_id(self.values));
                self.values += 1;
                requests.push(write.clone());
            }
            IdentityStep::Retry { pick: number } => {
                if let Some(first) = pick(number, requests.iter()) {
                    write = Write { epoch, ..first.clone() };
                }
            }
            IdentityStep::Conflict { pick: number } => {
                write.request = pick(number, requests.iter()).and_then(|first| first.request);
            }
            IdentityStep::Source { back } => {
                let next = self.sources.entry(step.key).or_insert(10);
                *next += 1;
                write.source = Some(SourcePosition { source: "import".into(), position: *next - back });
            }
        }
        let offset = self.world.append(shard, write.into_record(), step.gap);
        let asked = self.moment();
        self.asked.insert((shard, offset), asked);
    }

    fn operation(&mut self, step: &OperationStep) -> Operation {
        let mut change = |sort_key: u8, delete: bool| {
            self.values += 1;
            let value = (!delete).then(|| format!("v{}", self.values).into_bytes());
            RowChange { sort_key: vec![sort_key], value }
        };
        match step {
            OperationStep::Put { sort_key } => Operation::Change(change(*sort_key, false)),
            OperationStep::Delete { sort_key } => Operation::Change(change(*sort_key, true)),
            OperationStep::Batch { changes } => {
                Operation::Batch(changes.iter().map(|(sort_key, delete)| change(*sort_key, *delete)).collect())
            }
            OperationStep::If { sort_key, condition, pick: number, delete } => {
                let change = change(*sort_key, *delete);
                let condition = match condition {
                    0 => Condition::Absent,
                    1 => Condition::Present,
                    _ => Condition::VersionIs(
                        pick(*number, self.history.accepted.iter().map(|accepted| accepted.version))
                            .unwrap_or(Version { epoch: Epoch(1), offset: Offset(0) }),
                    ),
                };
                Operation::ChangeIf { change, condition }
            }
        }
    }

    /// Appends a `Horizon` for one key, under the epoch it is routed with, or an older one as a delayed horizon has.
    pub(super) fn horizon(&mut self, key: usize, number: u16) {
        let (shard, epoch) = self.world.routes[key];
        let epoch = Epoch(epoch.0.saturating_sub(u64::from(number % 3 / 2)));
        let up_to = pick(number, self.history.accepted.iter().map(|accepted| accepted.version));
        let Some(version) = up_to else { return };
        let regions = self.world.selector(&[key]).ranges().iter().map(|range| (range.clone(), epoch)).collect();
        self.world.append(shard, Mark::Horizon { regions, version }.into_record(), 0);
        // What may be forgotten is not sent again: that is what the horizon waits for.
        self.requests.remove(&key);
    }
}

fn request_id(number: u64) -> RequestId {
    RequestId((u128::from(number) + 1).to_be_bytes())
}
