//! Reading a partition from somewhere to its end.

use crate::error::{PortError, Remedy};
use crate::inbox::Signal;
use crate::log::{Log, ReadLimits, Tail};
use rehome_keyspace::Offset;
use rehome_records::{Logged, TopicPartition};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const LIMITS: ReadLimits = ReadLimits { records_max: 4_096, bytes_max: 4 << 20 };

/// Every record of a partition up to the end that it had when this was made, in order. Ends with the first error.
pub struct Records {
    partition: TopicPartition,
    tail: Box<dyn Tail>,
    limits: ReadLimits,
    signal: Arc<Signal>,
    end: Offset,
    next: Offset,
    deadline: Instant,
    batch: std::vec::IntoIter<Logged>,
}

impl Records {
    /// Reads from that offset on. Blocks until the log has told the end. Where nothing more comes before the end, it is
    /// waited for until `wait_max` after the start.
    ///
    /// Errors: the partition does not exist, or cannot be read from there.
    pub fn up_to_now(
        log: &dyn Log,
        partition: &TopicPartition,
        from: Offset,
        wait_max: Duration,
    ) -> Result<Records, PortError> {
        let (tell, told) = mpsc::sync_channel(1);
        log.end(partition, Box::new(move |end| drop(tell.send(end))));
        let end = told.recv().unwrap_or_else(|_| Err(PortError::not_applied("the log has stopped")))?;
        let signal = Signal::new();
        let tail = log.tail(partition, from, signal.waker())?;
        let deadline = Instant::now() + wait_max;
        let batch = Vec::new().into_iter();
        Ok(Records { partition: partition.clone(), tail, limits: LIMITS, signal, end, next: from, deadline, batch })
    }

    /// Reads no more than that at a time, for those who do not want all.
    pub fn at_most(self, limits: ReadLimits) -> Records {
        Records { limits, ..self }
    }

    fn fill(&mut self) -> Result<(), PortError> {
        loop {
            match self.tail.poll(self.limits) {
                Ok(batch) if batch.next > self.next => {
                    self.next = batch.next;
                    self.batch = batch.records.into_iter();
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) if error.remedy == Remedy::NotApplied => {}
                Err(error) => return Err(error),
            }
            if Instant::now() >= self.deadline {
                let Records { partition, next, end, .. } = self;
                return Err(PortError::not_applied(format!(
                    "{partition} cannot be read from {next} up to its end {end}"
                )));
            }
            self.signal.wait(Some(self.deadline));
        }
    }
}

impl Iterator for Records {
    type Item = Result<Logged, PortError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(logged) = self.batch.next() {
                return Some(Ok(logged));
            }
            if self.next >= self.end {
                return None;
            }
            if let Err(error) = self.fill() {
                self.next = self.end;
                return Some(Err(error));
            }
        }
    }
}
