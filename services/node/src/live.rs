//! The live tail of the replica's own partition.

use crate::citation::Citation;
use crate::replica::{LiveTurn, Replica, stopped};
use rehome_keyspace::Offset;
use rehome_ports::{Log, PortError, ReadLimits, Remedy, Tail, VerdictBatch, Waker};
use rehome_records::store_value::StoredApplied;
use rehome_records::{Logged, TopicPartition};
use rehome_shard_core::{Pending, Stop, WaitFor};
use std::collections::VecDeque;

/// Most that one turn applies. Reason: a turn stays short, so that reads and marks do not wait long.
const LIMITS: ReadLimits = ReadLimits { records_max: 1_000, bytes_max: 4 << 20 };

/// Records read and not applied yet, with where the tail stands.
pub(crate) struct Live {
    tail: Box<dyn Tail>,
    queue: VecDeque<Logged>,
    next: Offset,
    /// The last applied record as the store knows it, until it was read again and found the same.
    expected: Option<StoredApplied>,
    announced: bool,
}

impl Live {
    /// Follows from the last applied record on: that one is read again, to see that it is still the same log.
    pub fn open(
        log: &dyn Log,
        partition: &TopicPartition,
        applied: Option<StoredApplied>,
        wake: &Waker,
    ) -> Result<Live, PortError> {
        let from = applied.map_or(Offset(0), |applied| applied.offset);
        let tail = log.tail(partition, from, wake.clone()).map_err(|error| match error.remedy {
            Remedy::Broken if from > Offset(0) => PortError::broken(format!(
                "the store has applied a record at {from} that its log does not hold: {error}; stop, bring back the log and \
                 the stores of one moment, then `rehome up`"
            )),
            _ => error,
        })?;
        Ok(Live { tail, queue: VecDeque::new(), next: from, expected: applied, announced: false })
    }

    /// Tells whether the log is known to hold what the store has applied last.
    pub fn is_confirmed(&self) -> bool {
        self.expected.is_none()
    }

    /// Checks that the log goes as far as the store.
    ///
    /// Errors: `Broken` when it ends before.
    pub fn check_end(&self, partition: &TopicPartition, end: Offset) -> Result<(), PortError> {
        match self.expected {
            Some(expected) if end <= expected.offset => Err(PortError::broken(format!(
                "the store has applied a record at {} that its log does not hold: {partition} ends at {end}; the log is older \
                 than the store: stop, bring back the log and the stores of one moment, then `rehome up`",
                expected.offset
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the offset below which everything is applied.
    pub fn next(&self) -> Offset {
        self.queue.front().map_or(self.next, |logged| logged.offset)
    }

    fn fill(&mut self) -> Result<(), PortError> {
        if !self.queue.is_empty() {
            return Ok(());
        }
        let batch = match self.tail.poll(LIMITS) {
            Ok(batch) => batch,
            Err(error) if error.remedy == Remedy::NotApplied => return Ok(()),
            Err(error) => return Err(error),
        };
        self.queue.extend(batch.records);
        self.next = batch.next;
        if let Some(expected) = self.expected {
            self.check_same_log(expected)?;
        }
        Ok(())
    }

    /// Compares the last applied record with what lies at its offset now.
    fn check_same_log(&mut self, expected: StoredApplied) -> Result<(), PortError> {
        match self.queue.front() {
            Some(first) if first.offset == expected.offset && first.hash() == expected.record_hash => {
                self.queue.pop_front();
            }
            Some(first) => {
                return Err(PortError::broken(format!(
                    "this store has applied a record at {} that the log no longer holds (found one at {}): it is another log; \
                     stop, bring back the log and the stores of one moment, then `rehome up`",
                    expected.offset, first.offset
                )));
            }
            None if self.next > expected.offset => {
                return Err(PortError::broken(format!(
                    "this store has applied a record at {} that the log no longer holds; stop, bring back the log and the stores of one moment, then `rehome up`",
                    expected.offset
                )));
            }
            None => return Ok(()),
        }
        self.expected = None;
        Ok(())
    }
}

impl Replica {
    /// Applies what has come, up to the first record that must wait.
    pub(crate) fn apply_live(&mut self, pending: &mut Pending) -> Result<LiveTurn, PortError> {
        let before = self.live.next();
        self.live.fill()?;
        let mut verdicts = Vec::new();
        let mut applied = None;
        let mut records = 0;
        while let Some(logged) = self.live.queue.front() {
            let offset = logged.offset;
            let view = crate::replica::StoreView(&*self.config.store);
            let mut ground = rehome_shard_core::Ground { view: &view, attempts: self.follower.state(), pending };
            match self.core.apply(logged, &mut ground) {
                Ok(result) => {
                    if result.rejected {
                        self.rejects.kept();
                    }
                    verdicts.extend(result.verdict.map(|verdict| (offset, verdict)));
                }
                Err(Stop::Wait(wait)) => {
                    if let WaitFor::Control(cited) = wait {
                        self.wait_for_citation(Citation { replay_of: None, mark: offset, cited });
                    }
                    break;
                }
                Err(stop) => return Err(stopped(stop)),
            }
            applied = Some(offset);
            records += 1;
            self.live.queue.pop_front();
        }
        // The first batch of a life tells routers which verdicts they will not hear again.
        let first = if self.live.announced { None } else { self.core.applied().map(|applied| applied.offset) };
        self.live.announced = true;
        let verdicts = applied.or(first).map(|applied| VerdictBatch {
            keyspace: self.keyspace,
            shard: self.shard,
            verdicts,
            applied,
        });
        Ok(LiveTurn { records, progressed: self.live.next() != before || records > 0, verdicts })
    }
}
