//! Follows a partition: from memory where it can, from disk where it must.

use crate::disk::Disk;
use crate::partition::{Found, Partition};
use rehome_keyspace::Offset;
use rehome_ports::{Batch, PortError, ReadLimits, Tail};
use std::sync::Arc;

/// A reader of one partition.
pub struct EmbeddedTail {
    pub disk: Arc<Disk>,
    pub partition: Arc<Partition>,
    pub number: u64,
    pub next: Offset,
}

impl Tail for EmbeddedTail {
    fn poll(&mut self, limits: ReadLimits) -> Result<Batch, PortError> {
        let batch = match self.partition.find(self.next, limits)? {
            Found::InMemory(batch) => batch,
            Found::OnDisk(end) => {
                let batch = self.disk.read(&self.partition.name, self.next, end, limits)?;
                // A trim meanwhile may have taken files away; the start moves before they go.
                self.partition.check_kept(self.next)?;
                batch
            }
        };
        self.next = batch.next;
        Ok(batch)
    }
}

impl Drop for EmbeddedTail {
    fn drop(&mut self) {
        self.partition.unfollow(self.number);
    }
}
