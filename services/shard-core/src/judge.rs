//! The accept rule: the state of a key and a record in, the next state out. Nothing else decides who may write.
//!
//! A verdict is a function of the partition's prefix and of attempt outcomes, which are fixed for ever. So it does not
//! matter when a contested state is resolved: `contested(a, e)` answers everything but a write of `e` as both of its
//! resolutions would, and for a write of `e` the judge waits.

use crate::core::Inbounds;
use crate::stop::{Stop, WaitFor};
use rehome_keyspace::{AttemptId, Attempts, Epoch, MoveId, Offset, Outcome, ShardId, Side};
use rehome_records::SlotState;

/// Judges the records of one partition, at one replica.
pub(crate) struct Judge<'a> {
    pub attempts: &'a dyn Attempts,
    /// The partition whose records are judged: the replica's own, or the source's during a replay.
    pub partition: ShardId,
    /// The replica's own copies of other shards' keys.
    pub inbounds: &'a Inbounds,
}

/// What a mark or a write did to one region: the state it is in now, and whether the record was effective there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub effective: bool,
    pub state: SlotState,
}

impl Judge<'_> {
    /// Judges a write, or what is judged like one, of an epoch.
    pub fn write(&self, state: SlotState, epoch: Epoch) -> Result<Judged, Stop> {
        let state = match state {
            SlotState::Contested { attempt, epoch: reserved } if reserved == epoch => {
                self.resolve(attempt, reserved)?
            }
            other => other,
        };
        Ok(Judged { effective: state == SlotState::Owned { epoch }, state })
    }

    /// Judges an `Open`: effective above every epoch that the key has had here.
    pub fn open(&self, state: SlotState, attempt: AttemptId, epoch: Epoch) -> Result<Judged, Stop> {
        let state = self.resolve_earlier(state, attempt)?;
        Ok(if epoch > state.highest() {
            Judged { effective: true, state: SlotState::Contested { attempt, epoch } }
        } else {
            Judged { effective: false, state }
        })
    }

    /// Judges a `Fence`: effective where an older epoch is owned.
    pub fn fence(&self, state: SlotState, attempt: AttemptId, epoch: Epoch) -> Result<Judged, Stop> {
        let state = self.resolve_earlier(state, attempt)?;
        Ok(match state {
            SlotState::Owned { epoch: owned } if owned < epoch => {
                Judged { effective: true, state: SlotState::Contested { attempt, epoch } }
            }
            state => Judged { effective: false, state },
        })
    }

    /// A mark of an attempt is judged only once every earlier attempt is resolved. Against a later attempt it needs no
    /// outcome: however that ends, the mark's epoch is not above what the key has had here.
    fn resolve_earlier(&self, state: SlotState, attempt: AttemptId) -> Result<SlotState, Stop> {
        match state {
            SlotState::Contested { attempt: earlier, epoch } if earlier < attempt => self.resolve(earlier, epoch),
            other => Ok(other),
        }
    }

    /// Returns what a state contested by the attempt becomes. The winner is judged by role: the destination if
    /// switched, the source if aborted.
    pub fn resolve(&self, attempt: AttemptId, epoch: Epoch) -> Result<SlotState, Stop> {
        // An attempt whose mark was applied is known as soon as the control log is folded as far as it was then.
        let facts = self.attempts.attempt(attempt).ok_or(WaitFor::Outcome(attempt))?;
        let outcome = facts.outcome.ok_or(WaitFor::Outcome(attempt))?;
        let role = if facts.source == self.partition {
            Side::Source
        } else if facts.destination == self.partition {
            Side::Destination
        } else {
            return Err(Stop::Broken(format!(
                "attempt {attempt} contests keys of shard {}, and is between {} and {}",
                self.partition, facts.source, facts.destination
            )));
        };
        if outcome.winner() != role {
            return Ok(SlotState::Closed { highest: epoch });
        }
        match outcome {
            Outcome::Switched { fence } if !self.replayed(facts.move_id, fence) => {
                Err(WaitFor::Replay { move_id: facts.move_id, fence }.into())
            }
            _ => Ok(SlotState::Owned { epoch }),
        }
    }

    /// Tells whether this replica has replayed the source of the move up to the fence. One without an entry for the
    /// move never had the copy (a store that is seeded from a peer comes with the peer's entry, or with the state
    /// resolved already), so it has not.
    fn replayed(&self, move_id: MoveId, fence: Offset) -> bool {
        self.inbounds
            .get(&move_id)
            .and_then(|inbound| inbound.stored.replay.as_ref())
            .is_some_and(|replay| replay.position >= Some(fence))
    }
}
