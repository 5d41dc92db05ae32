//! R1 to R4: who may write, and what is equal at a switch.

use crate::history::{Grant, History, Invariant, Violation};
use rehome_keyspace::Epoch;
use std::collections::BTreeMap;

/// An epoch is granted at most once, to one shard.
pub fn r1_an_epoch_is_granted_once(history: &History) -> Result<(), Violation> {
    let mut seen: BTreeMap<Epoch, &Grant> = BTreeMap::new();
    for grant in &history.grants {
        if let Some(first) = seen.insert(grant.epoch, grant) {
            return Err(Violation {
                id: Invariant::R1,
                text: format!("epoch {} is granted to shard {} and to shard {}", grant.epoch, first.shard, grant.shard),
            });
        }
    }
    Ok(())
}

/// An accepted write's epoch is granted to the shard that accepted it, for a set that holds its key.
pub fn r2_writes_are_accepted_by_the_holder_of_their_epoch(history: &History) -> Result<(), Violation> {
    let grants: BTreeMap<Epoch, &Grant> = history.grants.iter().map(|grant| (grant.epoch, grant)).collect();
    for write in &history.accepted {
        let granted = grants
            .get(&write.version.epoch)
            .is_some_and(|grant| grant.shard == write.shard && grant.selector.contains(&write.placed.0));
        if !granted {
            return Err(Violation {
                id: Invariant::R2,
                text: format!(
                    "shard {} accepted {} of key {:?} under an epoch that it was not granted for it",
                    write.shard, write.version, write.placed
                ),
            });
        }
    }
    Ok(())
}

/// After F no write of an epoch closed by it is accepted: in that partition none below the fence's epoch, elsewhere
/// none of an epoch that this shard had been granted.
pub fn r3_nothing_older_is_accepted_after_a_fence(history: &History) -> Result<(), Violation> {
    let shard_of: BTreeMap<Epoch, _> = history.grants.iter().map(|grant| (grant.epoch, grant.shard)).collect();
    for fence in &history.fences {
        for write in &history.accepted {
            if write.version.epoch >= fence.epoch || !fence.selector.contains(&write.placed.0) {
                continue;
            }
            let late = write.shard == fence.shard && write.version.offset > fence.offset;
            let elsewhere = write.shard != fence.shard && shard_of.get(&write.version.epoch) == Some(&fence.shard);
            if late || elsewhere {
                return Err(Violation {
                    id: Invariant::R3,
                    text: format!(
                        "shard {} accepted {} of key {:?}, closed by the fence of attempt {} at {} of shard {}",
                        write.shard, write.version, write.placed, fence.attempt, fence.offset, fence.shard
                    ),
                });
            }
        }
    }
    Ok(())
}

/// At a switch, source and destination had equal digests at F.
pub fn r4_digests_are_equal_at_a_switch(history: &History) -> Result<(), Violation> {
    for cutover in &history.cutovers {
        let Some(source) = cutover.source else { continue };
        if let Some(other) = cutover.destinations.iter().find(|digest| **digest != source) {
            return Err(Violation {
                id: Invariant::R4,
                text: format!("attempt {} switched with {source:?} at the source and {other:?}", cutover.attempt),
            });
        }
    }
    Ok(())
}
