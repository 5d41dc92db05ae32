//! Jobs: submission, cancellation, completion.

use super::{At, Folded};
use crate::{Accepted, ControlState, Decision, Ending, Job, Keyspace, Move, Phase, Refusal, SHARDS_MAX};
use rehome_keyspace::{JobId, MoveId, Selector, SlotId};
use rehome_records::control::{JobSubmitted, MoveWanted, SlotSpan};
use std::collections::BTreeSet;
use std::sync::Arc;

impl ControlState {
    pub(super) fn submit_job(&mut self, asked: JobSubmitted, at: At) -> Folded {
        let keyspace = self.known_keyspace(asked.keyspace)?;
        let slots = keyspace.placement.slot_count();
        if asked.shards == 0 || asked.shards > slots || asked.shards > SHARDS_MAX {
            return Err(Refusal::ShardCountInvalid { shards: asked.shards, slots });
        }
        if asked.moves.is_empty() {
            return Err(Refusal::JobEmpty);
        }
        let other = self.other_reshard(&asked);
        for wanted in &asked.moves {
            // A plan to another number counts on the routes that the job under way is about to change.
            check_move(keyspace, wanted, asked.shards).map_err(|refusal| match (refusal, &other) {
                (Refusal::SlotNotOwned { .. }, Some(other)) => other.clone(),
                (refusal, _) => refusal,
            })?;
        }
        check_named_once(&asked.moves)?;
        let selector = |wanted: &MoveWanted| {
            Arc::new(keyspace.placement.selector(wanted.slots.iter().flat_map(|span| span.slots())))
        };
        let selectors: Vec<Arc<Selector>> = asked.moves.iter().map(selector).collect();
        for selector in &selectors {
            self.check_keys_free(keyspace, selector)?;
        }
        if let Some(other) = other {
            return Err(other);
        }

        let job = JobId(at.offset.0);
        let first = self.moves.last_key_value().map_or(1, |(last, _)| last.0 + 1);
        let ids: Vec<MoveId> = (first..).map(MoveId).take(asked.moves.len()).collect();
        for ((id, wanted), selector) in ids.iter().zip(&asked.moves).zip(selectors) {
            let planned = planned(*id, job, &asked, wanted, selector, at);
            Arc::make_mut(&mut self.moves).insert(*id, Arc::new(planned));
            Arc::make_mut(&mut self.moves_open).insert(*id);
        }
        let keyspace = self.keyspace_mut(asked.keyspace);
        let shards_needed = asked.moves.iter().map(|wanted| wanted.destination.0 + 1).max().unwrap_or(0);
        keyspace.shards = keyspace.shards.max(shards_needed);
        self.assign_replicas(asked.keyspace);
        let submitted = Job {
            id: job,
            keyspace: asked.keyspace,
            shards: asked.shards,
            moves: ids.clone(),
            options: asked.options,
            requested_by: asked.requested_by,
            paused: None,
            created: at.offset,
            created_ms: at.time_ms,
        };
        Arc::make_mut(&mut self.jobs).insert(job, Arc::new(submitted));
        Ok(Decision::Accepted(Accepted::JobSubmitted(job, ids)))
    }

    /// Refuses a job while another is on its way to another number of shards: both cannot come true.
    fn other_reshard(&self, asked: &JobSubmitted) -> Option<Refusal> {
        let moving = self.open_moves().filter(|one| one.keyspace == asked.keyspace && one.phase.is_before_switch());
        let mut others = moving.filter_map(|one| Some((one, self.job(one.job)?)));
        let (one, job) = others.find(|(_, job)| job.shards != asked.shards)?;
        Some(Refusal::ReshardUnderWay { job: job.id, shards: job.shards, way_out: self.way_out(one) })
    }

    /// Refuses keys (not slot names) that are in an open move, or not yet cleaned up after one.
    fn check_keys_free(&self, keyspace: &Keyspace, selector: &Selector) -> Result<(), Refusal> {
        let in_common = |one: &&Move| one.keyspace == keyspace.id && one.selector.overlaps(selector);
        let Some(one) = self.open_moves().find(in_common) else {
            return Ok(());
        };
        let (move_id, job) = (one.id, one.job);
        Err(match one.phase {
            Phase::Switched { .. } => Refusal::KeysKeptAtSource { move_id, job },
            Phase::Completing { .. } | Phase::Cancelling | Phase::Failing { .. } => {
                Refusal::KeysInCleanup { move_id, job }
            }
            _ if self.is_paused(job) => Refusal::KeysInPausedJob { move_id, job },
            _ => Refusal::KeysInOpenMove { move_id, job, phase: one.phase.name() },
        })
    }

    pub(super) fn cancel_job(&mut self, id: JobId, reason: &str, at: At) -> Folded {
        let job = self.job(id).ok_or(Refusal::JobUnknown { job: id })?;
        let accepted = Accepted::CancellationStarted(id);
        let moves = job.moves.clone();
        let under_way = |one: &Move| one.phase.is_before_switch() && one.ending.is_none();
        let to_end: Vec<MoveId> =
            moves.iter().filter_map(|id| self.move_(*id)).filter(|one| under_way(one)).map(|one| one.id).collect();
        if to_end.is_empty() {
            let cancelled = |one: &Move| {
                matches!(one.phase, Phase::Cancelling | Phase::Cancelled)
                    || matches!((&one.phase, &one.ending), (Phase::CuttingOver { .. }, Some(Ending::Cancel { .. })))
            };
            return match moves.iter().filter_map(|id| self.move_(*id)).any(cancelled) {
                true => Ok(Decision::AlreadyDone(accepted)),
                false => Err(Refusal::CancelTooLate { job: id }),
            };
        }
        for move_id in to_end {
            self.end_early(move_id, Ending::Cancel { reason: reason.to_owned() }, at);
        }
        Ok(Decision::Accepted(accepted))
    }

    pub(super) fn complete_job(&mut self, id: JobId, at: At) -> Folded {
        let job = self.job(id).ok_or(Refusal::JobUnknown { job: id })?;
        let accepted = Accepted::CompletionStarted(id);
        let moves: Vec<&Move> = job.moves.iter().filter_map(|id| self.move_(*id)).collect();
        if let Some(early) = moves.iter().find(|one| one.phase.is_before_switch()) {
            return Err(Refusal::CompleteTooEarly { job: id, move_id: early.id, phase: early.phase.name() });
        }
        let switched: Vec<MoveId> =
            moves.iter().filter(|one| matches!(one.phase, Phase::Switched { .. })).map(|one| one.id).collect();
        if switched.is_empty() {
            let completed = |one: &&Move| matches!(one.phase, Phase::Completing { .. } | Phase::Completed);
            return match moves.into_iter().any(|one| completed(&one)) {
                true => Ok(Decision::AlreadyDone(accepted)),
                false => Err(Refusal::CompleteTooLate { job: id }),
            };
        }
        for move_id in switched {
            self.start_completing(move_id, at);
        }
        Ok(Decision::Accepted(accepted))
    }
}

fn planned(id: MoveId, job: JobId, asked: &JobSubmitted, wanted: &MoveWanted, selector: Arc<Selector>, at: At) -> Move {
    let (source, destination) = (wanted.source, wanted.destination);
    let mut planned = Move {
        id,
        job,
        keyspace: asked.keyspace,
        source,
        destination,
        slots: wanted.slots.clone(),
        selector,
        options: asked.options,
        phase: Phase::Planned,
        copy: 1,
        attempts: Vec::new(),
        snapshot: None,
        copy_took_ms: None,
        ingested: BTreeSet::new(),
        copy_awaited: BTreeSet::new(),
        ending: None,
        cleanup_awaited: BTreeSet::new(),
        created: at.offset,
        changed: at.offset,
        changed_ms: at.time_ms,
        story: Vec::new(),
    };
    let count: u64 = wanted.slots.iter().map(|span| u64::from(span.count())).sum();
    let by = &asked.requested_by;
    let what = format!("{by} asked for job {job}; this move takes {count} slots from shard {source} to {destination}");
    planned.tell(at.offset, at.time_ms, what);
    planned
}

/// Checks one wanted move against the routes: its spans ascend, and its source owns every slot.
fn check_move(keyspace: &Keyspace, wanted: &MoveWanted, shards: u32) -> Result<(), Refusal> {
    let (source, destination) = (wanted.source, wanted.destination);
    if source == destination {
        return Err(Refusal::SameShard { shard: source });
    }
    if destination.0 >= shards {
        return Err(Refusal::DestinationRetired { destination, shards });
    }
    let invalid = |reason: String| Refusal::SlotsInvalid { source_shard: source, destination, reason };
    if wanted.slots.is_empty() {
        return Err(invalid("there are none".into()));
    }
    let mut end: Option<SlotId> = None;
    for SlotSpan { first, last } in wanted.slots.iter().copied() {
        if first > last || end.is_some_and(|end| first <= end) {
            return Err(invalid(format!("span {first} to {last} does not ascend")));
        }
        if last.0 >= keyspace.placement.slot_count() {
            return Err(invalid(format!("slot {last} is beyond the last one")));
        }
        end = Some(last);
        for slot in (SlotSpan { first, last }).slots() {
            let owner = keyspace.route(slot).map(|route| route.shard);
            if let Some(owner) = owner.filter(|owner| *owner != source) {
                return Err(Refusal::SlotNotOwned { slot, source_shard: source, owner });
            }
        }
    }
    Ok(())
}

fn check_named_once(moves: &[MoveWanted]) -> Result<(), Refusal> {
    let mut spans: Vec<SlotSpan> = moves.iter().flat_map(|wanted| wanted.slots.iter().copied()).collect();
    spans.sort();
    match spans.windows(2).find(|pair| pair[1].first <= pair[0].last) {
        Some(pair) => Err(Refusal::KeysNamedTwice { slot: pair[1].first }),
        None => Ok(()),
    }
}
