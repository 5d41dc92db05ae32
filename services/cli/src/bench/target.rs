//! What is written to: a keyspace in a running system, and rows that are there.

use super::rows::value;
use crate::cluster::Cluster;
use crate::workload::RowKey;
use rand::Rng;
use rand::rngs::SmallRng;
use rehome_keyspace::{KeyspaceId, Placement, SlotId};
use rehome_records::{Operation, RowChange};
use rehome_router::WriteAsk;
use std::sync::Arc;

const DEADLINE_MS: u64 = 30_000;

#[derive(Clone)]
pub struct Target {
    pub cluster: Arc<Cluster>,
    pub keyspace: KeyspaceId,
    /// Each with its slot.
    rows: Arc<Vec<(SlotId, RowKey)>>,
}

impl Target {
    pub fn new(cluster: &Arc<Cluster>, keyspace: KeyspaceId, placement: Placement, rows: Vec<RowKey>) -> Target {
        let rows = rows.into_iter().map(|row| (placement.slot(&row.partition_key), row)).collect();
        Target { cluster: Arc::clone(cluster), keyspace, rows: Arc::new(rows) }
    }

    /// Returns the same, but only the rows of these slots are written.
    pub fn within(&self, slots: impl Fn(SlotId) -> bool) -> Target {
        let rows = self.rows.iter().filter(|(slot, _)| slots(*slot)).cloned().collect();
        Target { rows: Arc::new(rows), ..self.clone() }
    }

    pub fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Returns a new value for some row, and the row's slot. Requires that there are rows.
    pub fn overwrite(&self, random: &mut SmallRng) -> (SlotId, WriteAsk) {
        let (slot, row) = &self.rows[random.random_range(0..self.rows.len())];
        let change = RowChange { sort_key: row.sort_key.clone(), value: Some(value(random)) };
        let ask = WriteAsk {
            keyspace: self.keyspace,
            partition_key: row.partition_key.clone(),
            operation: Operation::Change(change),
            request: None,
            source: None,
            deadline_ms: self.cluster.clock().now_ms() + DEADLINE_MS,
        };
        (*slot, ask)
    }
}
