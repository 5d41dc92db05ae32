//! What waits for the scheduler.

use rehome_keyspace::Offset;
use rehome_ports::{AppendDone, EndDone, Lane, PortError, Waker};
use rehome_records::{Record, TopicPartition};

/// What became of an append whose caller is told `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in the log.
    Appended,
    /// Only the first records are.
    AppendedInPart(usize),
    /// It waits on, before what its caller appended after it, and may yet be delivered or lost.
    StillWaiting,
    /// It is gone.
    Lost,
}

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    AppendProtocol,
    AppendData,
    End,
}

/// The first message of a queue that keeps its order: what the scheduler can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub role: String,
    pub partition: TopicPartition,
    pub what: What,
    pub records: usize,
    /// Whoever sent it hears no answer: it is cut off, or was told `Unknown`.
    pub orphaned: bool,
}

/// Names a queue: messages of one line keep their order, messages of different lines do not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub handle: u64,
    pub partition: TopicPartition,
    pub what: What,
}

/// A message on its way to the log.
pub enum Message {
    Append { records: Vec<Record>, done: Option<AppendDone> },
    End { done: Option<EndDone> },
}

impl Message {
    pub fn records(&self) -> usize {
        match self {
            Message::Append { records, .. } => records.len(),
            Message::End { .. } => 0,
        }
    }

    /// Takes away who would hear the answer.
    pub fn orphan(&mut self) {
        match self {
            Message::Append { done, .. } => *done = None,
            Message::End { done } => *done = None,
        }
    }

    pub fn orphaned(&self) -> bool {
        match self {
            Message::Append { done, .. } => done.is_none(),
            Message::End { done } => done.is_none(),
        }
    }

    /// Returns what tells the sender of the failure.
    pub fn fail(self, error: PortError) -> Option<Effect> {
        match self {
            Message::Append { done, .. } => done.map(|done| Effect::Appended(done, Err(error))),
            Message::End { done } => done.map(|done| Effect::End(done, Err(error))),
        }
    }
}

/// A call to make once the broker's lock is free: whoever is called may call the broker again.
pub enum Effect {
    Wake(Waker),
    Appended(AppendDone, Result<Vec<Offset>, PortError>),
    End(EndDone, Result<Offset, PortError>),
}

impl Effect {
    pub fn run(self) {
        match self {
            Effect::Wake(wake) => wake(),
            Effect::Appended(done, result) => done(result),
            Effect::End(done, result) => done(result),
        }
    }
}

impl What {
    pub fn append(lane: Lane) -> What {
        match lane {
            Lane::Protocol => What::AppendProtocol,
            Lane::Data => What::AppendData,
        }
    }
}
