//! From what a shard keeps of records that it could not apply into the keyspace's topic of rejects.
//!
//! What was exported is what lies in the topic: it is read up to an end before anything is appended, and again after each
//! append. So neither a restart nor a store that was made anew appends anything twice, and a row goes only once its
//! record is seen there. The first of a shard's replicas appends; the others remove what they see exported. Two that both
//! take themselves for the first may append twice: whoever reads the topic takes records that name one place as one.

use crate::replica::{Message, Replica};
use rehome_keyspace::Offset;
use rehome_ports::{Change, Inbox, Lane, Log, PortError, ReadLimits, Remedy, Store, Tail};
use rehome_records::rejects::StoredReject;
use rehome_records::{Rejected, RejectedFrom, TopicPartition, store_key};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Pause before something that failed is tried again, in milliseconds.
const AGAIN_AFTER_MS: u64 = 500;
const READ: ReadLimits = ReadLimits { records_max: 1_000, bytes_max: 2 << 20 };
/// Rows that are looked at in a turn, and their bytes, passed by at most one. Reason: they are appended at once.
const ROWS_MAX: usize = 256;
const BYTES_MAX: usize = 2 << 20;
/// Bytes of a record that is exported whole; a larger one goes without its value, which lies in the data topic still.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// What comes back of what an export has asked for.
pub(crate) enum RejectsMessage {
    /// The topic is there, and begins at that offset.
    Ready(Result<Offset, PortError>),
    End(Result<Offset, PortError>),
    Appended(Result<(), PortError>),
}

/// How far the export of one replica has come.
#[derive(Default)]
pub(crate) struct Rejects {
    /// The store may hold some.
    any: bool,
    asked: bool,
    tail: Option<Box<dyn Tail>>,
    /// Where the next reading of the topic begins.
    next: Option<Offset>,
    /// Read up to there, nothing is unknown that was exported before the question.
    end: Option<Offset>,
    /// Every reject of this shard up to here lies in the topic.
    exported: Option<Offset>,
    appending: bool,
    retry_at_ms: Option<u64>,
}

impl Rejects {
    /// Looks whether the store holds any.
    pub fn open(store: &dyn Store) -> Result<Rejects, PortError> {
        let mut any = false;
        store.scan(&store_key::kind_range(store_key::KIND_REJECT), false, &mut |_, _| {
            any = true;
            ControlFlow::Break(())
        })?;
        Ok(Rejects { any, ..Rejects::default() })
    }

    /// A record was kept.
    pub fn kept(&mut self) {
        self.any = true;
    }

    pub fn wake_at_ms(&self) -> Option<u64> {
        self.retry_at_ms.filter(|_| self.any)
    }

    pub fn told(&mut self, message: RejectsMessage, now_ms: u64) {
        let failed = match message {
            RejectsMessage::Ready(Ok(start)) => {
                self.next = Some(self.next.map_or(start, |next| next.max(start)));
                None
            }
            RejectsMessage::End(Ok(end)) => {
                self.end = Some(end);
                None
            }
            RejectsMessage::Appended(result) => {
                self.appending = false;
                result.err()
            }
            RejectsMessage::Ready(Err(error)) | RejectsMessage::End(Err(error)) => Some(error),
        };
        if let Some(error) = failed {
            self.again(&error, now_ms);
        }
    }

    fn again(&mut self, error: &PortError, now_ms: u64) {
        tracing::warn!(%error, "rejects are exported a little later");
        (self.tail, self.end, self.asked) = (None, None, false);
        self.retry_at_ms = Some(now_ms + AGAIN_AFTER_MS);
    }

    /// Reads the topic on; tells whether everything is read that was there when it was opened.
    fn read(&mut self, partition: u32) -> Result<bool, PortError> {
        let Some(tail) = &mut self.tail else { return Ok(false) };
        let batch = match tail.poll(READ) {
            Ok(batch) => batch,
            Err(error) if error.remedy == Remedy::NotApplied => return Ok(false),
            Err(error) => return Err(error),
        };
        for logged in batch.records {
            match Rejected::read(logged.record) {
                Ok(Rejected { at, .. }) if (at.from, at.partition) == (RejectedFrom::Data, partition) => {
                    self.exported = self.exported.max(Some(at.offset));
                }
                _ => {}
            }
        }
        self.next = Some(batch.next);
        Ok(self.end.is_some_and(|end| batch.next >= end))
    }
}

impl Replica {
    /// Exports what could not be applied, as far as can be done now. Nothing here stops a replica: what fails is tried again.
    pub(crate) fn export_rejects(&mut self, now_ms: u64) -> bool {
        if !self.rejects.any || self.rejects.retry_at_ms.is_some_and(|at| now_ms < at) {
            return false;
        }
        self.rejects.retry_at_ms = None;
        self.try_export(now_ms).unwrap_or_else(|error| {
            self.rejects.again(&error, now_ms);
            false
        })
    }

    fn try_export(&mut self, now_ms: u64) -> Result<bool, PortError> {
        let Some(keyspace) = self.follower.state().keyspace(self.keyspace) else { return Ok(false) };
        let topic = TopicPartition::new(keyspace.rejects_topic(), 0);
        let is_first = keyspace.replicas_of(self.shard).first() == Some(&self.config.node);
        if !self.rejects.asked {
            self.rejects.asked = true;
            self.prepare(topic);
            return Ok(true);
        }
        if self.rejects.tail.is_none() {
            let Some(next) = self.rejects.next else { return Ok(false) };
            self.rejects.tail = Some(self.config.log.tail(&topic, next, Arc::clone(&self.wake))?);
            let inbox = self.inbox.clone();
            self.config.log.end(&topic, Box::new(move |end| inbox.push(Message::Rejects(RejectsMessage::End(end)))));
        }
        if !self.rejects.read(self.shard.0)? {
            return Ok(false);
        }
        let (gone, left) = self.kept_rejects()?;
        let progressed = !gone.is_empty();
        if progressed {
            self.config.store.write(gone.into_iter().map(|key| Change::Remove { key }).collect())?;
        } else if left.is_empty() {
            // The topic is read on from here when there is something again.
            (self.rejects.any, self.rejects.asked, self.rejects.tail, self.rejects.end) = (false, false, None, None);
        } else if is_first && !self.rejects.appending {
            self.append_rejects(&topic, left);
        } else {
            self.rejects.retry_at_ms = Some(now_ms + AGAIN_AFTER_MS);
        }
        Ok(progressed)
    }

    /// Makes sure of the topic, beside the turns: that may take long.
    fn prepare(&self, topic: TopicPartition) {
        let (log, inbox): (Arc<dyn Log>, Inbox<Message>) = (Arc::clone(&self.config.log), self.inbox.clone());
        let job = move || {
            let ready = log.ensure_topic(&topic.topic, 1).and_then(|()| log.start(&topic));
            inbox.push(Message::Rejects(RejectsMessage::Ready(ready)));
        };
        self.config.jobs.spawn(format!("rejects-{}-{}", self.keyspace, self.shard), Box::new(job));
    }

    /// Returns the keys of some that are exported, or some that are not.
    fn kept_rejects(&self) -> Result<(Vec<Vec<u8>>, Vec<Rejected>), PortError> {
        let (mut gone, mut left, mut bytes, mut damaged) = (Vec::new(), Vec::new(), 0, None);
        self.config.store.scan(&store_key::kind_range(store_key::KIND_REJECT), false, &mut |key, value| {
            let offset = store_key::reject_offset(key);
            if offset.is_none() || offset <= self.rejects.exported {
                gone.push(key.to_vec());
            } else if let Some(offset) = offset {
                match StoredReject::decode(value) {
                    Ok(stored) => left.push(stored.into_rejected(self.shard.0, offset).fit(RECORD_BYTES_MAX)),
                    Err(error) => damaged = Some(PortError::broken(error.to_string())),
                }
            }
            bytes += value.len();
            match gone.len() + left.len() >= ROWS_MAX || bytes >= BYTES_MAX {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        damaged.map_or(Ok((gone, left)), Err)
    }

    fn append_rejects(&mut self, topic: &TopicPartition, rejects: Vec<Rejected>) {
        self.rejects.appending = true;
        let inbox = self.inbox.clone();
        let done = Box::new(move |result: Result<Vec<Offset>, PortError>| {
            inbox.push(Message::Rejects(RejectsMessage::Appended(result.map(drop))));
        });
        let records = rejects.into_iter().map(Rejected::into_record).collect();
        self.config.log.append(topic, Lane::Protocol, records, done);
    }
}
