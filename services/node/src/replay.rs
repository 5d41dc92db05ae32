//! Following the source's partition for a move on its way in.

use crate::citation::Citation;
use crate::replica::{Replica, StoreView, stopped};
use rehome_keyspace::{MoveId, Offset, ShardId};
use rehome_ports::{InboundProgress, Log, PortError, ReadLimits, Remedy, Tail, Waker};
use rehome_records::{Logged, TopicPartition};
use rehome_shard_core::{Ground, Pending, Stop, WaitFor};
use std::collections::VecDeque;

const POLL: ReadLimits = ReadLimits { records_max: 2_000, bytes_max: 4 << 20 };
/// Bytes of changes of one turn, over the live tail and all replays, passed by at most one record. Reason: they are one
/// batch, held in memory several times until it is written.
const TURN_BYTES_MAX: usize = 8 << 20;
/// Records replayed in a turn while the live tail has work. Reason: replay yields to the live tail, but never stands still.
/// Live writes are answered once the turn is over, and each of these takes some 15 microseconds of it.
const RECORDS_BESIDE_LIVE: usize = 64;

/// One replay: where its tail stands, and what is read and not judged yet.
pub(crate) struct Replay {
    pub source: ShardId,
    tail: Box<dyn Tail>,
    queue: VecDeque<Logged>,
    next: Offset,
    records: u64,
}

impl Replay {
    /// Follows the source's partition from after that position on, from the start without one.
    pub fn open(
        log: &dyn Log,
        source: ShardId,
        partition: &TopicPartition,
        position: Option<Offset>,
        wake: &Waker,
    ) -> Result<Replay, PortError> {
        let from = position.map_or(Offset(0), Offset::next);
        let tail = log.tail(partition, from, wake.clone())?;
        Ok(Replay { source, tail, queue: VecDeque::new(), next: from, records: 0 })
    }

    /// Returns the offset below which everything is replayed.
    pub fn next(&self) -> Offset {
        self.queue.front().map_or(self.next, |logged| logged.offset)
    }

    pub fn progress(&self, move_id: MoveId, lag_records: u64) -> InboundProgress {
        InboundProgress { move_id, replayed_next: self.next(), lag_records, replayed_records: self.records }
    }

    fn fill(&mut self) -> Result<(), PortError> {
        if !self.queue.is_empty() {
            return Ok(());
        }
        match self.tail.poll(POLL) {
            Ok(batch) => {
                self.queue.extend(batch.records);
                self.next = batch.next;
                Ok(())
            }
            Err(error) if error.remedy == Remedy::NotApplied => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Replica {
    /// Replays what has come of every move on its way in.
    pub(crate) fn replay_all(
        &mut self,
        pending: &mut Pending,
        live_busy: bool,
        now_ms: u64,
    ) -> Result<bool, PortError> {
        self.open_and_close_replays()?;
        let budget = if live_busy { RECORDS_BESIDE_LIVE } else { usize::MAX };
        let resting = self.resting_replays(now_ms);
        let mut progressed = false;
        let mut waiting = Vec::new();
        for (move_id, replay) in &mut self.replays {
            if resting.contains(move_id) {
                continue;
            }
            replay.fill()?;
            let mut done = 0;
            while done < budget && pending.bytes() < TURN_BYTES_MAX {
                let Some(logged) = replay.queue.front() else { break };
                let view = StoreView(&*self.config.store);
                let mut ground = Ground { view: &view, attempts: self.follower.state(), pending };
                match self.core.replay(*move_id, logged, &mut ground) {
                    Ok(()) => {}
                    Err(Stop::Wait(wait)) => {
                        if let WaitFor::Control(cited) = wait {
                            waiting.push(Citation { replay_of: Some(*move_id), mark: logged.offset, cited });
                        }
                        break;
                    }
                    Err(stop) => return Err(stopped(stop)),
                }
                replay.queue.pop_front();
                replay.records += 1;
                done += 1;
            }
            progressed |= done > 0;
        }
        waiting.into_iter().for_each(|citation| self.wait_for_citation(citation));
        Ok(progressed)
    }

    /// Keeps one open replay for each inbound move whose copy is in.
    fn open_and_close_replays(&mut self) -> Result<(), PortError> {
        let core = &self.core;
        self.replays.retain(|move_id, _| core.inbound(*move_id).is_some_and(|inbound| inbound.replay.is_some()));
        for inbound in self.core.inbounds() {
            let Some(replay) = &inbound.replay else { continue };
            if !self.replays.contains_key(&inbound.move_id) {
                let partition = TopicPartition::new(self.topic.clone(), inbound.source.0);
                match Replay::open(&*self.config.log, inbound.source, &partition, replay.position, &self.wake) {
                    Ok(opened) => {
                        self.replays.insert(inbound.move_id, opened);
                    }
                    Err(error) if error.remedy == Remedy::NotApplied => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
