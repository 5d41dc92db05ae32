//! Reads at their levels of freshness.
//!
//! A linearizable read fetches the partition's end after it came, applies that far, and is answered only if the slot is
//! still owned under its epoch. If it is contested and the outcome is unknown, the control log's end is fetched then,
//! folded up to, and the read is answered only if the routes there still show the same epoch: a write of the new epoch
//! exists only after the outcome, so until then the old value is the newest.

use crate::replica::{Replica, StoreView};
use crate::scan::{self, Owned};
use rehome_keyspace::{Epoch, KeyRange, Offset};
use rehome_ports::{PortError, ReadAnswer, ReadDone, ReadKind, ReadLevel, ReadRefused, ReadRequest};
use rehome_records::{SlotState, StateRegion, store_key};

/// Longest that a read waits here, in milliseconds. Reason: its router has given up by then.
const WAIT_MAX_MS: u64 = 10_000;
/// Most reads that wait at once.
const WAITING_MAX: usize = 10_000;

/// What a read still waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    DataEnd,
    /// Apply everything below.
    Applied(Offset),
    /// Under which number the end was asked for; nothing while it is not.
    ControlEnd {
        asked: Option<u64>,
    },
    /// Fold everything below.
    Folded(Offset),
    /// Only that the outcome of a contested slot becomes known.
    Outcome,
}

struct Waiting {
    number: u64,
    request: ReadRequest,
    done: ReadDone,
    need: Need,
    give_up_ms: u64,
}

/// The reads that wait, oldest first.
#[derive(Default)]
pub(crate) struct Reads {
    waiting: Vec<Waiting>,
    next_number: u64,
    asked_data: u64,
    asked_control: u64,
}

enum Judged {
    Answer(Box<ReadAnswer>),
    Refuse(ReadRefused),
    Wait(Need),
}

impl Reads {
    pub fn push(&mut self, request: ReadRequest, done: ReadDone, now_ms: u64) {
        if self.waiting.len() >= WAITING_MAX {
            done(Err(ReadRefused::Overloaded));
            return;
        }
        let need = match request.level {
            ReadLevel::Eventual => Need::Applied(Offset(0)),
            ReadLevel::Linearizable | ReadLevel::Token { .. } => Need::DataEnd,
        };
        self.next_number += 1;
        self.waiting.push(Waiting { number: self.next_number, request, done, need, give_up_ms: now_ms + WAIT_MAX_MS });
    }

    /// Returns the number of the newest read that waits for an end of the partition not asked for yet.
    pub fn wants_data_end(&mut self) -> Option<u64> {
        let newest =
            self.waiting.iter().rev().find(|read| read.need == Need::DataEnd && read.number > self.asked_data)?.number;
        self.asked_data = newest;
        Some(newest)
    }

    /// Returns a number for the reads that wait for an end of the control log not asked for yet.
    pub fn wants_control_end(&mut self) -> Option<u64> {
        let fresh = Need::ControlEnd { asked: None };
        if !self.waiting.iter().any(|read| read.need == fresh) {
            return None;
        }
        self.asked_control += 1;
        let asked = Need::ControlEnd { asked: Some(self.asked_control) };
        self.waiting.iter_mut().filter(|read| read.need == fresh).for_each(|read| read.need = asked);
        Some(self.asked_control)
    }

    pub fn data_end(&mut self, up_to: u64, end: Result<Offset, PortError>) {
        self.got_end(|read| read.need == Need::DataEnd && read.number <= up_to, end, Need::Applied);
    }

    /// Reads that came to need it after the question was put need a newer answer.
    pub fn control_end(&mut self, number: u64, end: Result<Offset, PortError>) {
        self.got_end(|read| read.need == Need::ControlEnd { asked: Some(number) }, end, Need::Folded);
    }

    fn got_end(
        &mut self,
        concerns: impl Fn(&Waiting) -> bool,
        end: Result<Offset, PortError>,
        then: impl Fn(Offset) -> Need,
    ) {
        match end {
            Ok(end) => self.waiting.iter_mut().filter(|read| concerns(read)).for_each(|read| read.need = then(end)),
            Err(error) => {
                let waiting = std::mem::take(&mut self.waiting);
                let (failed, kept): (Vec<Waiting>, Vec<Waiting>) = waiting.into_iter().partition(|read| concerns(read));
                self.waiting = kept;
                failed
                    .into_iter()
                    .for_each(|read| (read.done)(Err(ReadRefused::Unavailable { reason: error.message.clone() })));
            }
        }
    }

    pub fn refuse_all(&mut self, reason: &str) {
        for read in self.waiting.drain(..) {
            (read.done)(Err(ReadRefused::Unavailable { reason: reason.to_owned() }));
        }
    }

    pub fn wake_at_ms(&self) -> Option<u64> {
        self.waiting.iter().map(|read| read.give_up_ms).min()
    }
}

impl Replica {
    /// Answers every read whose wait is over. Called after the turn's batch is written.
    pub(crate) fn answer_reads(&mut self, now_ms: u64) -> Result<bool, PortError> {
        if self.reads.waiting.is_empty() {
            return Ok(false);
        }
        let mut kept = Vec::new();
        let mut any = false;
        for mut read in std::mem::take(&mut self.reads.waiting) {
            let judged = if self.live.is_confirmed() { self.judge(&read)? } else { Judged::Wait(read.need) };
            match judged {
                Judged::Answer(answer) => (read.done)(Ok(*answer)),
                Judged::Refuse(refused) => (read.done)(Err(refused)),
                Judged::Wait(_) if now_ms >= read.give_up_ms => {
                    (read.done)(Err(ReadRefused::Unavailable {
                        reason: "the replica could not catch up in time".into(),
                    }));
                }
                Judged::Wait(need) => {
                    any |= need != read.need;
                    read.need = need;
                    kept.push(read);
                    continue;
                }
            }
            any = true;
        }
        self.reads.waiting = kept;
        Ok(any)
    }

    fn judge(&self, read: &Waiting) -> Result<Judged, PortError> {
        let folded = match read.need {
            Need::DataEnd | Need::ControlEnd { .. } => return Ok(Judged::Wait(read.need)),
            Need::Applied(end) if self.live.next() < end => return Ok(Judged::Wait(read.need)),
            Need::Folded(end) if self.follower.state().folded_next() < end => return Ok(Judged::Wait(read.need)),
            Need::Applied(_) | Need::Outcome => false,
            Need::Folded(_) => true,
        };
        match &read.request.kind {
            ReadKind::Get { partition_key, .. } | ReadKind::List { partition_key, .. } => {
                let placed = self.placement.place(partition_key);
                let range = store_key::placed_range(&placed);
                let owned = self.owned(&range, self.core.state(&placed.0), folded);
                self.judge_key(&read.request, range, owned)
            }
            ReadKind::Scan { range, .. } => self.judge_scan(&read.request, range, folded),
        }
    }

    fn judge_key(&self, request: &ReadRequest, key: KeyRange, owned: Owned) -> Result<Judged, PortError> {
        match owned {
            Owned::Under(epoch) if request.epoch.is_none_or(|wanted| wanted == epoch) => {
                let rows = scan::rows(&StoreView(&*self.config.store), &self.placement, &request.kind)?;
                Ok(Judged::Answer(Box::new(ReadAnswer {
                    rows: rows.rows,
                    shard: self.shard,
                    applied: self.core.applied().map(|applied| applied.offset),
                    covered: vec![(key, epoch)],
                    more_after: rows.more_after,
                })))
            }
            Owned::Unknown => Ok(Judged::Wait(self.wait_for_outcome(request))),
            Owned::Under(_) | Owned::No => Ok(Judged::Refuse(ReadRefused::NotOwner)),
        }
    }

    fn judge_scan(&self, request: &ReadRequest, range: &KeyRange, folded: bool) -> Result<Judged, PortError> {
        let mut covered: Vec<(KeyRange, Epoch)> = Vec::new();
        for StateRegion { range, state } in self.core.regions_of(&rehome_keyspace::Selector::new(vec![range.clone()])) {
            match self.owned(&range, state, folded) {
                Owned::Under(epoch) => covered.push((range, epoch)),
                Owned::Unknown => return Ok(Judged::Wait(self.wait_for_outcome(request))),
                Owned::No => {}
            }
        }
        let (rows, covered) =
            scan::owned_rows(&StoreView(&*self.config.store), &self.placement, &request.kind, covered)?;
        Ok(Judged::Answer(Box::new(ReadAnswer {
            rows: rows.rows,
            shard: self.shard,
            applied: self.core.applied().map(|applied| applied.offset),
            covered,
            more_after: rows.more_after,
        })))
    }

    fn wait_for_outcome(&self, request: &ReadRequest) -> Need {
        match request.level {
            ReadLevel::Eventual => Need::Outcome,
            ReadLevel::Token { .. } | ReadLevel::Linearizable => Need::ControlEnd { asked: None },
        }
    }

    /// Tells who owns the region, as far as this replica may say. `folded`: the control log was folded up to an end
    /// that was fetched after the region was found contested.
    fn owned(&self, range: &KeyRange, state: SlotState, folded: bool) -> Owned {
        match state {
            SlotState::Owned { epoch } => Owned::Under(epoch),
            SlotState::Closed { .. } => Owned::No,
            SlotState::Contested { .. } if !folded => Owned::Unknown,
            SlotState::Contested { attempt, .. } => {
                scan::owned_by_routes(self.follower.state(), self.keyspace, self.shard, attempt, range)
            }
        }
    }
}
