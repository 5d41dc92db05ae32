//! Forwards plain records from inboxes: each becomes a write of an ordered source, which its shard takes once.
//!
//! Every process with a router has a forwarder; of each inbox, one of them forwards. They agree in a topic of their own
//! (`inbox-progress`): a record there names a forwarder, its term, and for each partition the offset below which every
//! record was judged. The highest term has the say. Who has it repeats that every second; when nothing was heard for
//! five, another takes the next term, and goes on from the highest offsets that anybody told.
//!
//! Two at once lose nothing, so no clock needs to be right. A record is lost if its key takes a later one first: then it is
//! "done" without having been accepted. That cannot be:
//! 1. What anybody told as judged is judged: it stays true whoever reads it.
//! 2. Each forwarder begins at such an offset, and gives a router the records of a key in their order.
//! 3. A router lets no later position of a key of a source be accepted before an earlier one was, whatever fails: an append
//!    without an answer holds its slot, what is stale goes out again in its order, and a refusal shuts the key for what
//!    follows ([`crate::source_order`]).
//! 4. So of each forwarder, before a position is accepted, every earlier one of its key was judged: accepted, or done
//!    because one as high was. Take the first position that is accepted while an earlier one is not: its own forwarder had
//!    the earlier one judged before, as done, by a position as high, which was accepted before. That one was first, then.
//!
//! Whoever takes over late, wakes up after long, or starts again from an older offset only sends what is answered as done.
//!
//! A record that cannot be applied goes to the topic of rejects; only then it counts as judged. One that comes there twice
//! names the same place twice, and is one.
//!
//! - [`claims`]: who forwards; [`window`]: which records are on their way, and in which order they go out. Both pure.
//! - [`inbox`]: one inbox over the ports.

mod claims;
mod inbox;
mod window;

use crate::handle::RouterHandle;
use inbox::InboxForwarder;
use rehome_control_log::ControlFollower;
use rehome_keyspace::KeyspaceId;
use rehome_ports::{Log, Role, Turn, Waker};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pause before something that failed is tried again, in milliseconds.
const AGAIN_AFTER_MS: u64 = 200;

/// Gives numbers that name one life of one forwarder.
pub type ForwarderIds = Box<dyn FnMut() -> u128 + Send>;

/// Forwards the inboxes of all keyspaces, as far as it has the say.
pub struct Forwarder {
    log: Arc<dyn Log>,
    router: RouterHandle,
    follower: ControlFollower,
    wake: Waker,
    ids: ForwarderIds,
    inboxes: BTreeMap<KeyspaceId, InboxForwarder>,
}

impl Forwarder {
    /// Returns a forwarder that writes by that router. The follower has the same waker.
    pub fn new(
        log: Arc<dyn Log>,
        router: RouterHandle,
        follower: ControlFollower,
        wake: Waker,
        ids: ForwarderIds,
    ) -> Forwarder {
        Forwarder { log, router, follower, wake, ids, inboxes: BTreeMap::new() }
    }

    /// Takes up inboxes that were opened, and forgets those of keyspaces that are gone.
    fn look(&mut self) {
        let state = self.follower.state();
        self.inboxes.retain(|keyspace, _| state.keyspace(*keyspace).is_some());
        for keyspace in state.keyspaces().filter(|keyspace| keyspace.inbox_partitions > 0) {
            if !self.inboxes.contains_key(&keyspace.id) {
                let inbox = InboxForwarder::new(keyspace, (self.ids)(), &self.wake);
                self.inboxes.insert(keyspace.id, inbox);
            }
        }
    }
}

impl Role for Forwarder {
    fn turn(&mut self, now_ms: u64) -> Turn {
        let (mut progressed, mut wake_at_ms) = (false, None);
        match self.follower.turn() {
            Ok(folded) => progressed |= folded > 0,
            Err(error) => {
                tracing::warn!(%error, "the control log is read again");
                wake_at_ms = Some(now_ms + AGAIN_AFTER_MS);
            }
        }
        self.look();
        for inbox in self.inboxes.values_mut() {
            let turn = inbox.turn(&self.log, &self.router, now_ms);
            progressed |= turn.progressed;
            wake_at_ms = [wake_at_ms, turn.wake_at_ms].into_iter().flatten().min();
        }
        Turn { progressed, wake_at_ms }
    }
}
