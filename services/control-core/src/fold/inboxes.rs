//! Inbox topics of keyspaces.
//!
//! A keyspace gets an inbox once, and its partitions never change: a producer's partition follows from their number, and
//! records of one key that were on their way in two partitions would have no order.

use super::Folded;
use crate::keyspace::INBOX_PARTITIONS_MAX;
use crate::{Accepted, ControlState, Decision, Refusal};
use rehome_keyspace::KeyspaceId;

impl ControlState {
    pub(super) fn open_inbox(&mut self, id: KeyspaceId, partitions: u32) -> Folded {
        let keyspace = self.known_keyspace(id)?;
        if partitions == 0 || partitions > INBOX_PARTITIONS_MAX {
            return Err(Refusal::InboxPartitionsInvalid { partitions });
        }
        match keyspace.inbox_partitions {
            0 => {}
            same if same == partitions => return Ok(Decision::AlreadyDone(Accepted::InboxOpened(id))),
            other => return Err(Refusal::InboxFixed { name: keyspace.name.clone(), partitions: other }),
        }
        self.keyspace_mut(id).inbox_partitions = partitions;
        Ok(Decision::Accepted(Accepted::InboxOpened(id)))
    }
}
