//! Nodes and keyspaces.

use super::{At, Folded};
use crate::keyspace::first_slot;
use crate::{Accepted, ControlState, Decision, Keyspace, Node, REPLICAS_MAX, Refusal, Route, SHARDS_MAX};
use rehome_keyspace::{Epoch, KeyspaceId, NodeId, Placement, ShardId};
use rehome_records::control::{Hosting, Label};
use std::collections::BTreeMap;
use std::sync::Arc;

const NAME_BYTES_MAX: usize = 100;
const LABEL_BYTES_MAX: usize = 63;
/// Labels of one node. Reason: each is looked at for each shard.
const LABELS_MAX: usize = 16;

impl ControlState {
    pub(super) fn register_node(&mut self, id: NodeId, address: String, labels: Vec<Label>, at: At) -> Folded {
        let accepted = Accepted::NodeRegistered(id);
        check_labels(&labels)?;
        let labels: BTreeMap<String, String> = labels.into_iter().map(|label| (label.key, label.value)).collect();
        if self.node(id).is_some_and(|node| node.address == address && node.labels == labels) {
            return Ok(Decision::AlreadyDone(accepted));
        }
        let known = self.node(id).map(|node| (node.registered, node.drained, node.filling));
        let (registered, drained, filling) = known.unwrap_or((at.offset, false, false));
        Arc::make_mut(&mut self.nodes).insert(id, Node { id, address, labels, registered, drained, filling });
        self.assign_lacking();
        Ok(Decision::Accepted(accepted))
    }

    /// Gives shards that nobody hosts yet to the nodes that there are now.
    pub(super) fn assign_lacking(&mut self) {
        let without = |keyspace: &&Keyspace| (0..keyspace.shards).any(|i| keyspace.replicas_of(ShardId(i)).is_empty());
        let lacking: Vec<KeyspaceId> = self.keyspaces().filter(without).map(|keyspace| keyspace.id).collect();
        for keyspace in lacking {
            self.assign_replicas(keyspace);
        }
    }

    pub(super) fn create_keyspace(
        &mut self,
        name: String,
        placement: Placement,
        shards: u32,
        request_retention_ms: u64,
        hosting: Hosting,
        at: At,
    ) -> Folded {
        check_name(&name)?;
        check_hosting(&hosting)?;
        if let Some(taken) = self.keyspace_named(&name) {
            return Err(Refusal::NameTaken { name, keyspace: taken.id });
        }
        // A record may hold what no constructor would have made.
        Placement::buckets(placement.slot_count())
            .map_err(|error| Refusal::PlacementInvalid { reason: error.to_string() })?;
        let slots = placement.slot_count();
        if shards == 0 || shards > slots || shards > SHARDS_MAX {
            return Err(Refusal::ShardCountInvalid { shards, slots });
        }
        let id = KeyspaceId(at.offset.0);
        let keyspace = Keyspace {
            id,
            name,
            placement,
            shards,
            shards_active: shards,
            shards_created: shards,
            routes: Arc::new(routes_at_creation(slots, shards)),
            epoch_next: Epoch(u64::from(shards) + 1),
            hosting,
            replicas: BTreeMap::new(),
            coming: BTreeMap::new(),
            leaving: BTreeMap::new(),
            request_retention_ms,
            created: at.offset,
            routes_changed: at.offset,
            routes_changed_ms: at.time_ms,
            inbox_partitions: 0,
        };
        Arc::make_mut(&mut self.keyspaces).insert(id, Arc::new(keyspace));
        self.assign_replicas(id);
        Ok(Decision::Accepted(Accepted::KeyspaceCreated(id)))
    }

    /// Gives the keyspace's shards that have no replica one, over the nodes registered so far.
    pub(super) fn assign_replicas(&mut self, keyspace: KeyspaceId) {
        let nodes = Arc::clone(&self.nodes);
        self.keyspace_mut(keyspace).assign_replicas(&nodes);
    }
}

fn routes_at_creation(slots: u32, shards: u32) -> Vec<Route> {
    let mut routes = Vec::with_capacity(slots as usize);
    for shard in 0..shards {
        let route = Route { shard: ShardId(shard), epoch: Epoch(u64::from(shard) + 1) };
        routes.resize(first_slot(slots, shards, shard + 1).0 as usize, route);
    }
    routes
}

fn check_hosting(hosting: &Hosting) -> Result<(), Refusal> {
    let Hosting { replicas, ready_replicas, required } = hosting;
    if !(1..=REPLICAS_MAX).contains(replicas) || !(1..=*replicas).contains(ready_replicas) {
        return Err(Refusal::ReplicasInvalid { replicas: *replicas, ready_replicas: *ready_replicas });
    }
    check_labels(required)
}

/// Labels are typed by people, and shown in tables.
fn check_labels(labels: &[Label]) -> Result<(), Refusal> {
    let plain = |text: &str| {
        let fits = (1..=LABEL_BYTES_MAX).contains(&text.len());
        fits && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
    };
    let wrong = labels.iter().enumerate().find(|(at, label)| {
        let twice = labels[..*at].iter().any(|other| other.key == label.key);
        twice || !plain(&label.key) || !plain(&label.value)
    });
    match wrong {
        Some((_, label)) => Err(Refusal::LabelInvalid { key: label.key.clone(), value: label.value.clone() }),
        None if labels.len() > LABELS_MAX => {
            Err(Refusal::LabelInvalid { key: labels[LABELS_MAX].key.clone(), value: "one too many".into() })
        }
        None => Ok(()),
    }
}

/// A keyspace's name is part of its topics' names.
fn check_name(name: &str) -> Result<(), Refusal> {
    let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    // Else it could be taken for a folder, an option, or a step up in a path.
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if fits && plain && begins {
        Ok(())
    } else {
        Err(Refusal::NameInvalid { name: name.chars().take(NAME_BYTES_MAX).collect() })
    }
}
