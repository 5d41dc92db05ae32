//! One inbox over the ports: reads its partitions, gives records to the router, says how far it has come.

use super::AGAIN_AFTER_MS;
use super::claims::Claims;
use super::window::{Plain, Window};
use crate::ask::{WriteAnswer, WriteAsk, WriteRefused};
use crate::handle::RouterHandle;
use rehome_control_core::Keyspace;
use rehome_keyspace::{KeyspaceId, Offset};
use rehome_ports::{Inbox, Lane, Log, PortError, ReadLimits, Remedy, Tail, Turn, Waker};
use rehome_records::inbox::{InboxProgress, read_plain, source_of};
use rehome_records::{Operation, Record, Rejected, RejectedAt, RejectedFrom, TopicPartition, Verdict};
use std::sync::Arc;

/// How long a router may take for one record before it is given again, in milliseconds.
const DEADLINE_MS: u64 = 20_000;
/// Pause before a record that was refused goes out again where the router names none, in milliseconds.
const REFUSED_AGAIN_MS: u64 = 50;
const READ: ReadLimits = ReadLimits { records_max: 1_000, bytes_max: 2 << 20 };
/// Rejects that go out at once, and their bytes, passed by at most one.
const EXPORT_RECORDS_MAX: usize = 256;
const EXPORT_BYTES_MAX: usize = 2 << 20;
/// Bytes of rejects that wait; more is not read meanwhile.
const REJECTS_BYTES_MAX: usize = 8 << 20;
/// How often progress is said before what was said earlier is removed.
const TRIM_EVERY: u64 = 64;
/// Records judged after which progress is said before its time.
const SAY_AFTER: u64 = 10_000;

/// What comes back to the forwarder of an inbox.
enum Message {
    /// Of the life of the claim under which it was asked: an older one's is of no use.
    Answered(u64, u32, Offset, Result<WriteAnswer, WriteRefused>),
    Exported(u64, u32, Vec<Offset>, Result<(), PortError>),
    /// The end of the progress topic when it was opened.
    ProgressEnd(Result<Offset, PortError>),
    Said(Result<Offset, PortError>),
}

/// One partition that is forwarded.
struct Reading {
    tail: Box<dyn Tail>,
    window: Window,
    /// Records on their way to the rejects.
    rejects: Vec<Rejected>,
    rejects_again_ms: Option<u64>,
}

/// The forwarder of one keyspace's inbox.
pub(super) struct InboxForwarder {
    keyspace: KeyspaceId,
    inbox: String,
    progress: TopicPartition,
    rejects: TopicPartition,
    partitions: u32,
    me: u128,
    wake: Waker,
    messages: Inbox<Message>,
    claims: Option<(Claims, Box<dyn Tail>)>,
    /// Everything below was there when the progress topic was opened.
    fold_to: Option<Offset>,
    progress_next: Offset,
    /// Counts claims that were won: answers to what an earlier one asked are passed over.
    life: u64,
    readings: Vec<Reading>,
    /// Sum of the offsets that were said last.
    said: u64,
    is_saying: bool,
    says: u64,
    trim_to: Option<Offset>,
    rejects_exist: bool,
    retry_at_ms: Option<u64>,
}

impl InboxForwarder {
    pub fn new(keyspace: &Keyspace, me: u128, wake: &Waker) -> InboxForwarder {
        InboxForwarder {
            keyspace: keyspace.id,
            inbox: keyspace.inbox_topic(),
            progress: TopicPartition::new(keyspace.inbox_progress_topic(), 0),
            rejects: TopicPartition::new(keyspace.rejects_topic(), 0),
            partitions: keyspace.inbox_partitions,
            me,
            wake: Arc::clone(wake),
            messages: Inbox::new(Arc::clone(wake)),
            claims: None,
            fold_to: None,
            progress_next: Offset(0),
            life: 0,
            readings: Vec::new(),
            said: 0,
            is_saying: false,
            says: 0,
            trim_to: None,
            rejects_exist: false,
            retry_at_ms: None,
        }
    }

    /// Does what can be done now. What fails is tried again: nothing here is remembered that a restart could not do without.
    pub fn turn(&mut self, log: &Arc<dyn Log>, router: &RouterHandle, now_ms: u64) -> Turn {
        if self.retry_at_ms.is_some_and(|at| now_ms < at) {
            return Turn { progressed: false, wake_at_ms: self.retry_at_ms };
        }
        self.retry_at_ms = None;
        match self.try_turn(log, router, now_ms) {
            Ok(progressed) => Turn { progressed, wake_at_ms: self.wake_at_ms() },
            Err(error) => {
                tracing::warn!(topic = self.inbox, %error, "the inbox is forwarded again a little later");
                self.lose_say();
                self.claims = None;
                self.retry_at_ms = Some(now_ms + AGAIN_AFTER_MS);
                Turn { progressed: false, wake_at_ms: self.retry_at_ms }
            }
        }
    }

    fn try_turn(&mut self, log: &Arc<dyn Log>, router: &RouterHandle, now_ms: u64) -> Result<bool, PortError> {
        let messages = self.messages.drain();
        let mut progressed = !messages.is_empty();
        for message in messages {
            self.take(message, now_ms);
        }
        if self.claims.is_none() {
            self.open(log, now_ms)?;
        }
        progressed |= self.fold(now_ms)?;
        if self.fold_to.is_none_or(|end| self.progress_next < end) {
            return Ok(progressed);
        }
        let is_mine = self.claims.as_ref().is_some_and(|(claims, _)| claims.is_mine());
        match (is_mine, self.readings.is_empty()) {
            (false, _) => self.lose_say(),
            (true, true) => self.begin(log)?,
            (true, false) => {}
        }
        progressed |= self.read()?;
        progressed |= self.send(router, now_ms);
        self.export(log, router.limits().value_bytes_max, now_ms)?;
        self.say(log, now_ms);
        if let Some(before) = self.trim_to.take().filter(|_| is_mine) {
            log.trim(&self.progress, before)?;
        }
        Ok(progressed)
    }

    fn take(&mut self, message: Message, now_ms: u64) {
        match message {
            Message::Answered(life, partition, offset, answer) if life == self.life => {
                self.answered(partition, offset, answer, now_ms);
            }
            Message::Exported(life, partition, offsets, result) if life == self.life => {
                let Some(reading) = self.readings.get_mut(partition as usize) else { return };
                match result {
                    Ok(()) => {
                        reading.rejects.retain(|rejected| !offsets.contains(&rejected.at.offset));
                        offsets.into_iter().for_each(|offset| reading.window.exported(offset));
                        reading.rejects_again_ms = None;
                    }
                    Err(error) => {
                        tracing::warn!(topic = self.rejects.topic, %error, "rejects are told again");
                        reading.rejects_again_ms = Some(now_ms + AGAIN_AFTER_MS);
                    }
                }
            }
            Message::Answered(..) | Message::Exported(..) => {}
            Message::ProgressEnd(Ok(end)) => self.fold_to = Some(end),
            // Opened again, and asked again.
            Message::ProgressEnd(Err(_)) => self.claims = None,
            Message::Said(result) => {
                self.is_saying = false;
                self.says += 1;
                match result {
                    // Each record holds everything that those before it told.
                    Ok(offset) if self.says.is_multiple_of(TRIM_EVERY) => self.trim_to = Some(offset),
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "progress is said again"),
                }
            }
        }
    }

    fn answered(&mut self, partition: u32, offset: Offset, answer: Result<WriteAnswer, WriteRefused>, now_ms: u64) {
        let Some(reading) = self.readings.get_mut(partition as usize) else { return };
        let rejected = match answer {
            Ok(answer) if answer.is_done() => return reading.window.done(offset),
            Ok(WriteAnswer { verdict: Verdict::Invalid { reason }, .. }) => reason,
            Ok(answer) => answer.verdict.to_string(),
            Err(refused) if refused.never_fits() => refused.message,
            Err(refused) => {
                let after_ms = refused.retry_after_ms.unwrap_or(REFUSED_AGAIN_MS);
                return reading.window.refused(offset, now_ms + after_ms);
            }
        };
        let Some(plain) = reading.window.reject(offset) else { return };
        let mut record = Record { key: Some(plain.key), value: plain.change.value, headers: Vec::new() };
        if !plain.change.sort_key.is_empty() {
            record = record.with_header(rehome_records::data::HEADER_SORT, plain.change.sort_key);
        }
        let at = RejectedAt { from: RejectedFrom::Inbox, partition, offset };
        reading.rejects.push(Rejected::new(at, rejected, record));
    }

    /// Makes sure of the topics, and reads the progress topic from its start.
    fn open(&mut self, log: &Arc<dyn Log>, now_ms: u64) -> Result<(), PortError> {
        log.ensure_topic(&self.inbox, self.partitions)?;
        log.ensure_topic(&self.progress.topic, 1)?;
        let start = log.start(&self.progress)?;
        let tail = log.tail(&self.progress, start, Arc::clone(&self.wake))?;
        self.claims = Some((Claims::new(self.me, self.partitions, now_ms), tail));
        (self.fold_to, self.progress_next, self.is_saying) = (None, start, false);
        let messages = self.messages.clone();
        log.end(&self.progress, Box::new(move |end| messages.push(Message::ProgressEnd(end))));
        Ok(())
    }

    fn fold(&mut self, now_ms: u64) -> Result<bool, PortError> {
        let Some((claims, tail)) = &mut self.claims else { return Ok(false) };
        let batch = match tail.poll(READ) {
            Ok(batch) => batch,
            Err(error) if error.remedy == Remedy::NotApplied => return Ok(false),
            Err(error) => return Err(error),
        };
        for logged in &batch.records {
            match InboxProgress::read(&logged.record) {
                Ok(progress) => claims.fold(&progress, now_ms),
                Err(error) => {
                    tracing::warn!(topic = self.progress.topic, offset = %logged.offset, %error, "passed over")
                }
            }
        }
        self.progress_next = batch.next;
        Ok(!batch.records.is_empty())
    }

    /// Somebody else forwards, or nobody can tell: what is on its way is no longer this one's.
    fn lose_say(&mut self) {
        if !self.readings.is_empty() {
            self.life += 1;
            self.readings.clear();
        }
    }

    /// It has the say: reads each partition from where everything before is judged.
    fn begin(&mut self, log: &Arc<dyn Log>) -> Result<(), PortError> {
        let Some((claims, _)) = &self.claims else { return Ok(()) };
        let next = claims.next.clone();
        let mut readings = Vec::with_capacity(next.len());
        for (partition, told) in (0..).zip(next) {
            let at = TopicPartition::new(self.inbox.clone(), partition);
            let start = log.start(&at)?;
            if start > told {
                tracing::warn!(%at, %told, %start, "records of the inbox were removed before they were forwarded");
            }
            let next = told.max(start);
            let tail = log.tail(&at, next, Arc::clone(&self.wake))?;
            let window = Window::starting_at(next);
            readings.push(Reading { tail, window, rejects: Vec::new(), rejects_again_ms: None });
        }
        self.readings = readings;
        self.said = 0;
        tracing::info!(topic = self.inbox, "forwards the inbox");
        Ok(())
    }

    fn read(&mut self) -> Result<bool, PortError> {
        let mut progressed = false;
        for (partition, reading) in (0..).zip(&mut self.readings) {
            let waiting: usize = reading.rejects.iter().map(|rejected| rejected.record.bytes()).sum();
            if !reading.window.has_room() || waiting >= REJECTS_BYTES_MAX {
                continue;
            }
            let batch = match reading.tail.poll(READ) {
                Ok(batch) => batch,
                Err(error) if error.remedy == Remedy::NotApplied => continue,
                Err(error) => return Err(error),
            };
            progressed |= !batch.records.is_empty();
            for logged in batch.records {
                match read_plain(logged.record) {
                    Ok((key, change)) => reading.window.offer(logged.offset, Plain { key, change }),
                    Err((record, invalid)) => {
                        let at = RejectedAt { from: RejectedFrom::Inbox, partition, offset: logged.offset };
                        reading.window.offer_rejected(logged.offset);
                        reading.rejects.push(Rejected::new(at, invalid.0, record));
                    }
                }
            }
            reading.window.read_up_to(batch.next);
        }
        Ok(progressed)
    }

    fn send(&mut self, router: &RouterHandle, now_ms: u64) -> bool {
        let mut asks = Vec::new();
        for (partition, reading) in (0..).zip(&mut self.readings) {
            for (offset, plain) in reading.window.sends(now_ms) {
                let ask = WriteAsk {
                    keyspace: self.keyspace,
                    partition_key: plain.key,
                    operation: Operation::Change(plain.change),
                    request: None,
                    source: Some(source_of(partition, offset)),
                    deadline_ms: now_ms + DEADLINE_MS,
                };
                let (messages, life) = (self.messages.clone(), self.life);
                let done: crate::WriteDone =
                    Box::new(move |answer| messages.push(Message::Answered(life, partition, offset, answer)));
                asks.push((ask, done));
            }
        }
        let any = !asks.is_empty();
        if any {
            router.write_many(asks);
        }
        any
    }

    /// Puts what cannot be applied into the topic of rejects. What fails goes out again, and may then lie there twice.
    fn export(&mut self, log: &Arc<dyn Log>, record_bytes_max: usize, now_ms: u64) -> Result<(), PortError> {
        for (partition, reading) in (0..).zip(&mut self.readings) {
            let on_its_way = reading.rejects_again_ms.is_some_and(|at| now_ms < at);
            if reading.rejects.is_empty() || on_its_way {
                continue;
            }
            if !self.rejects_exist {
                log.ensure_topic(&self.rejects.topic, 1)?;
                self.rejects_exist = true;
            }
            // Asked again when no answer has come for long.
            reading.rejects_again_ms = Some(now_ms + DEADLINE_MS);
            let mut bytes = 0;
            let fits = |rejected: &&Rejected| {
                bytes += rejected.record.bytes();
                bytes - rejected.record.bytes() < EXPORT_BYTES_MAX
            };
            let some: Vec<&Rejected> = reading.rejects.iter().take(EXPORT_RECORDS_MAX).take_while(fits).collect();
            let offsets: Vec<Offset> = some.iter().map(|rejected| rejected.at.offset).collect();
            let records = some.into_iter().map(|rejected| rejected.clone().fit(record_bytes_max).into_record());
            let (messages, life) = (self.messages.clone(), self.life);
            let done = Box::new(move |result: Result<Vec<Offset>, PortError>| {
                messages.push(Message::Exported(life, partition, offsets, result.map(drop)));
            });
            log.append(&self.rejects, Lane::Protocol, records.collect(), done);
        }
        Ok(())
    }

    /// Claims the inbox, or says how far it has come, when either is due.
    fn say(&mut self, log: &Arc<dyn Log>, now_ms: u64) {
        let Some((claims, _)) = &mut self.claims else { return };
        if self.is_saying {
            return;
        }
        let mut next = claims.next.clone();
        for (told, reading) in next.iter_mut().zip(&self.readings) {
            *told = (*told).max(reading.window.judged_next());
        }
        let judged = next.iter().map(|next| next.0).sum::<u64>();
        let urgent = judged >= self.said + SAY_AFTER;
        let Some(term) = claims.says(urgent, now_ms) else { return };
        (self.said, self.is_saying) = (judged, true);
        let record = InboxProgress { forwarder: self.me, term, next }.into_record();
        let messages = self.messages.clone();
        let done = Box::new(move |result: Result<Vec<Offset>, PortError>| {
            let none = || PortError::unknown("the log acknowledged without an offset");
            messages.push(Message::Said(result.and_then(|offsets| offsets.first().copied().ok_or_else(none))));
        });
        log.append(&self.progress, Lane::Protocol, vec![record], done);
    }

    fn wake_at_ms(&self) -> Option<u64> {
        let saying = self.claims.as_ref().filter(|_| !self.is_saying && self.fold_to.is_some());
        let saying = saying.map(|(claims, _)| claims.wake_at_ms());
        let windows = self.readings.iter().filter_map(|reading| reading.window.wake_at_ms());
        let rejects = self.readings.iter().filter_map(|reading| reading.rejects_again_ms);
        saying.into_iter().chain(windows).chain(rejects).min()
    }
}
