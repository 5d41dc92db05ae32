//! Which jobs are accepted, and what completing or cancelling one does.

use super::moves::end_early;
use super::{ControlStory, MovePhase, MoveStory};
use rehome_keyspace::{JobId, MoveId, SlotId};
use rehome_records::control::{JobSubmitted, MoveWanted};
use std::collections::BTreeSet;

impl ControlStory {
    /// Creates the moves of a job, all or none.
    pub(super) fn job_submitted(&mut self, id: JobId, job: JobSubmitted) {
        let Some(keyspace) = self.keyspaces.get(&job.keyspace) else { return };
        if job.moves.is_empty() || job.shards == 0 || job.shards > keyspace.placement.slot_count() {
            return;
        }
        let mut taken = BTreeSet::new();
        for wanted in &job.moves {
            let spans_are_good = wanted.slots.iter().all(|span| span.first <= span.last)
                && wanted.slots.windows(2).all(|pair| pair[0].last < pair[1].first)
                && wanted.slots.iter().all(|span| span.last.0 < keyspace.placement.slot_count());
            if wanted.source == wanted.destination
                || wanted.destination.0 >= job.shards
                || wanted.slots.is_empty()
                || !spans_are_good
            {
                return;
            }
            for slot in slots_of(wanted) {
                let owner = keyspace.routes[slot.0 as usize].0;
                if owner != wanted.source || !taken.insert(slot) || self.is_moving(job.keyspace, slot) {
                    return;
                }
            }
        }
        let mut ids = Vec::new();
        for wanted in &job.moves {
            let move_id = MoveId(self.moves.last_key_value().map_or(1, |(last, _)| last.0 + 1));
            ids.push(move_id);
            self.moves.insert(
                move_id,
                MoveStory {
                    id: move_id,
                    job: id,
                    keyspace: job.keyspace,
                    source: wanted.source,
                    destination: wanted.destination,
                    slots: slots_of(wanted).collect(),
                    phase: MovePhase::Planned,
                    copy: 1,
                    snapshot: None,
                    ingested: BTreeSet::new(),
                    copy_awaited: BTreeSet::new(),
                    cleaning: BTreeSet::new(),
                    cleans_at: None,
                    complete: job.options.complete,
                    end_wanted: false,
                    unequal_copies: 0,
                },
            );
        }
        let highest = job.moves.iter().map(|wanted| wanted.destination.0 + 1).max().unwrap_or_default();
        let keyspace = self.keyspaces.get_mut(&job.keyspace).expect("looked up above");
        keyspace.shards = keyspace.shards.max(highest);
        self.jobs.insert(id, ids);
        self.assign_hosts();
    }

    /// Lets the source drop what it no longer owns. Refused while a move of the job may still switch.
    pub(super) fn complete_requested(&mut self, job: JobId) {
        let Some(ids) = self.jobs.get(&job) else { return };
        let may_switch = |id: &MoveId| {
            use MovePhase::{CatchingUp, Copying, CuttingOver, Planned};
            matches!(self.moves[id].phase, Planned | Copying | CatchingUp | CuttingOver(_))
        };
        if ids.iter().any(may_switch) {
            return;
        }
        for id in ids {
            let moved = self.moves.get_mut(id).expect("a job's moves exist");
            if moved.phase == MovePhase::Switched {
                moved.phase = moved.clean_up_at(moved.source, &self.keyspaces[&moved.keyspace].hosts);
            }
        }
    }

    /// Ends every move of the job that is not switched; one that is being cut over, once that is aborted.
    pub(super) fn cancel_requested(&mut self, job: JobId) {
        for id in self.jobs.get(&job).into_iter().flatten() {
            let moved = self.moves.get_mut(id).expect("a job's moves exist");
            // With its keyspace gone, it had ended.
            let Some(keyspace) = self.keyspaces.get(&moved.keyspace) else { continue };
            moved.phase = end_early(moved, &keyspace.hosts).unwrap_or(moved.phase);
        }
    }

    /// From here on no move of the job starts or cuts over. Refused when all have switched or are to end.
    pub(super) fn pause_requested(&mut self, job: JobId) {
        let Some(ids) = self.jobs.get(&job) else { return };
        let may_switch = |id: &MoveId| {
            use MovePhase::{CatchingUp, Copying, CuttingOver, Planned};
            let moved = &self.moves[id];
            matches!(moved.phase, Planned | Copying | CatchingUp | CuttingOver(_)) && !moved.end_wanted
        };
        if ids.iter().any(may_switch) {
            self.paused.insert(job);
        }
    }

    fn is_moving(&self, keyspace: rehome_keyspace::KeyspaceId, slot: SlotId) -> bool {
        self.moves
            .values()
            .any(|moved| moved.keyspace == keyspace && moved.phase != MovePhase::Ended && moved.slots.contains(&slot))
    }
}

fn slots_of(wanted: &MoveWanted) -> impl Iterator<Item = SlotId> + '_ {
    wanted.slots.iter().flat_map(|span| span.slots())
}
