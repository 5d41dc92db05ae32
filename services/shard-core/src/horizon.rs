//! What a `Horizon` forgets: tombstones and request ids up to a version, at the same offset for every replica.

use crate::core::Ground;
use crate::judge::Judge;
use crate::regions;
use crate::stop::Stop;
use rehome_keyspace::{Epoch, KeyRange, Version};
use rehome_records::store_value::{RowView, StoredRequest};
use rehome_records::{Digest, SlotState, StateRegion, store_key};
use std::ops::ControlFlow;

/// What a `Horizon` makes of the regions it names, before anything is changed.
#[derive(Default)]
pub(crate) struct HorizonPlan {
    /// Where the state is another one now that an attempt was resolved.
    pub resolved: Vec<(KeyRange, SlotState)>,
    /// Where it is effective.
    pub ranges: Vec<KeyRange>,
}

/// Judges each region like a write of the epoch given for it.
pub(crate) fn plan(
    named: &[(KeyRange, Epoch)],
    states: &[StateRegion],
    judge: &Judge<'_>,
) -> Result<HorizonPlan, Stop> {
    let mut plan = HorizonPlan::default();
    for (range, epoch) in named {
        for part in regions::parts_of_range(states, range) {
            let judged = judge.write(part.state, *epoch)?;
            if judged.effective {
                plan.ranges.push(part.range.clone());
            }
            if judged.state != part.state {
                plan.resolved.push((part.range, judged.state));
            }
        }
    }
    Ok(plan)
}

/// Removes the range's tombstones and request ids up to the version. Tells `removed` the digest of what a partition
/// key lost, and returns how many entries went.
pub(crate) fn forget(
    range: &KeyRange,
    version: Version,
    ground: &mut Ground<'_>,
    removed: &mut dyn FnMut(&[u8], Digest),
) -> Result<u64, Stop> {
    let mut gone: Vec<(Vec<u8>, Digest)> = Vec::new();
    for kind in [store_key::KIND_ROW, store_key::KIND_REQUEST] {
        let mut problem = None;
        ground.pending.scan(
            ground.view,
            &store_key::kind_of_range(kind, range),
            &mut |key, stored| match forgettable(kind, key, stored, version) {
                Ok(None) => ControlFlow::Continue(()),
                Ok(Some(digest)) => {
                    gone.push((key.to_vec(), digest));
                    ControlFlow::Continue(())
                }
                Err(stop) => {
                    problem = Some(stop);
                    ControlFlow::Break(())
                }
            },
        )?;
        if let Some(stop) = problem {
            return Err(stop);
        }
    }
    let entries = gone.len() as u64;
    for (key, digest) in gone {
        // What follows the kind is a placed key with more behind it, so it lies in the same ranges as the placed key.
        removed(&key[1..], digest);
        ground.pending.remove(key);
    }
    Ok(entries)
}

/// Returns the digest of an entry that may be forgotten.
fn forgettable(kind: u8, key: &[u8], stored: &[u8], version: Version) -> Result<Option<Digest>, Stop> {
    let is_row = kind == store_key::KIND_ROW;
    let forgettable = if is_row {
        let row = RowView::decode(stored)?;
        row.value.is_none() && row.version <= version
    } else {
        StoredRequest::decode(stored)?.version <= version
    };
    if !forgettable {
        return Ok(None);
    }
    let mut digest = Digest::default();
    if is_row {
        digest.add_row(key, stored, true)
    } else {
        digest.add_request(key, stored)
    }
    Ok(Some(digest))
}
