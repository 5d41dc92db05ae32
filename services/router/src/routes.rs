//! Who owns which slot, as the router believes now: what the control log told so far.

use rehome_control_core::{Keyspace, Route};
use rehome_keyspace::{KeyspaceId, Offset, Placement, ShardId, SlotId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The routes of one keyspace at one position of the control log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    pub keyspace: KeyspaceId,
    /// Its data topic.
    pub topic: Arc<str>,
    pub placement: Placement,
    /// Control position of the last change.
    pub position: Offset,
    /// By slot.
    pub routes: Arc<Vec<Route>>,
}

impl Routes {
    /// Returns the routes as the control log has told them.
    pub fn of(keyspace: &Keyspace) -> Routes {
        Routes {
            keyspace: keyspace.id,
            topic: keyspace.data_topic().into(),
            placement: keyspace.placement,
            position: keyspace.routes_changed,
            routes: Arc::clone(&keyspace.routes),
        }
    }

    /// Requires: a slot of the placement; routes are total.
    pub fn route(&self, slot: SlotId) -> Route {
        self.routes[slot.0 as usize]
    }

    /// Returns the longest run of slots from `first` on that one shard owns, as the slot after it and the shard.
    pub(crate) fn run_from(&self, first: SlotId) -> (SlotId, ShardId) {
        let shard = self.route(first).shard;
        let run = self.routes[first.0 as usize..].iter().take_while(|route| route.shard == shard).count();
        (SlotId(first.0 + run as u32), shard)
    }

    pub(crate) fn slot_count(&self) -> u32 {
        self.routes.len() as u32
    }
}

/// The routes of all keyspaces.
#[derive(Debug, Default)]
pub(crate) struct RouteTable {
    keyspaces: BTreeMap<KeyspaceId, Routes>,
}

impl RouteTable {
    pub(crate) fn get(&self, keyspace: KeyspaceId) -> Option<&Routes> {
        self.keyspaces.get(&keyspace)
    }

    pub(crate) fn remove(&mut self, keyspace: KeyspaceId) {
        self.keyspaces.remove(&keyspace);
    }

    /// Takes newer routes in; tells whether they are newer.
    pub(crate) fn take(&mut self, routes: Routes) -> bool {
        let known = self.keyspaces.get(&routes.keyspace).map(|known| known.position);
        let newer = known.is_none_or(|known| known < routes.position);
        if newer {
            self.keyspaces.insert(routes.keyspace, routes);
        }
        newer
    }
}
