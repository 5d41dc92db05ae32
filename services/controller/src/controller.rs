//! The thin shell: folds, decides, carries out.

use crate::{ControllerEffect, EffectHook, Memory, Observed, Step, Waits, decide, waits, wake_at_ms};
use rehome_control_core::Decision;
use rehome_control_log::{ControlFollower, Opening, control_partition};
use rehome_keyspace::{AttemptFacts, Epoch, Nonce, Offset, Selector, Version};
use rehome_ports::{Inbox, Lane, Log, PortError, Remedy, ReplicaProgress, Role, Turn, around};
use rehome_records::data::{AttemptMark, Mark};
use rehome_records::{ControlEvent, ControlRecord, Record, TopicPartition};
use std::sync::Arc;
use std::time::Duration;

/// Pause before the control log is asked or read again after an error, in milliseconds.
const AGAIN_AFTER_MS: u64 = 50;

/// What others tell a controller.
#[derive(Clone, Debug)]
pub enum ControllerMessage {
    /// A node's report on one of its replicas.
    Progress(ReplicaProgress),
    /// The log's answer to a step.
    Ended { step: Step, result: Result<Offset, PortError> },
    /// The end of the control log when the controller asked.
    ControlEnd(Result<Offset, PortError>),
}

/// What a controller is made of.
pub struct ControllerParts {
    pub log: Arc<dyn Log>,
    /// Its waker and the inbox's wake the same role.
    pub follower: ControlFollower,
    pub inbox: Inbox<ControllerMessage>,
    /// Random numbers: for nonces and for command ids.
    pub nonces: Box<dyn FnMut() -> u64 + Send>,
    pub hook: Option<EffectHook>,
    /// Told what moves wait for, whenever that changes.
    pub told_waits: Box<dyn FnMut(&Waits) + Send>,
}

/// Drives every move of every keyspace to its end.
pub struct Controller {
    parts: ControllerParts,
    observed: Observed,
    memory: Memory,
    opening: Opening,
    waits: Waits,
    broken: Option<String>,
}

impl Controller {
    pub fn new(parts: ControllerParts) -> Controller {
        Controller {
            parts,
            observed: Observed::default(),
            memory: Memory::default(),
            opening: Opening::START,
            waits: Waits::new(),
            broken: None,
        }
    }

    /// Returns why the controller has stopped for good; a human must look.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    fn stop(&mut self, error: &PortError) {
        tracing::error!(%error, "controller stops");
        self.broken = Some(error.message.clone());
    }

    fn take(&mut self, message: ControllerMessage, now_ms: u64) {
        match message {
            ControllerMessage::Progress(progress) => self.observed.note_progress(progress, now_ms),
            ControllerMessage::Ended { step, result } => self.step_ended(step, &result, now_ms),
            ControllerMessage::ControlEnd(Err(error)) if error.remedy == Remedy::Broken => self.stop(&error),
            ControllerMessage::ControlEnd(end) => self.opening.told(end, now_ms),
        }
    }

    fn step_ended(&mut self, step: Step, result: &Result<Offset, PortError>, now_ms: u64) {
        if let Some(took_ms) = self.memory.ended(step, result, now_ms) {
            self.observed.note_hop(Duration::from_millis(took_ms), now_ms);
        }
        if let Err(error) = result {
            match error.remedy {
                Remedy::Broken => self.stop(error),
                // Every step may be taken again: marks are idempotent, records are refused by the fold.
                Remedy::NotApplied | Remedy::Unknown | Remedy::Fenced => {
                    tracing::warn!(?step, %error, "step is taken again");
                }
            }
        }
    }

    fn ask_for_the_end(&mut self, now_ms: u64) {
        if !self.opening.asks(now_ms) {
            return;
        }
        let inbox = self.parts.inbox.clone();
        let done = Box::new(move |end| inbox.push(ControllerMessage::ControlEnd(end)));
        self.parts.log.end(&control_partition(), done);
    }

    fn note_folded(&mut self, now_ms: u64) {
        let state = self.parts.follower.state();
        for (step, offset) in self.memory.folded(state.folded_next(), now_ms) {
            if let Some(Decision::Refused(refusal)) = self.parts.follower.decision(offset) {
                tracing::info!(?step, %offset, code = refusal.code(), %refusal, "step was refused");
            }
        }
        self.memory.look(state, now_ms);
        self.observed.look(state);
    }

    fn carry_out(&mut self, effect: ControllerEffect, now_ms: u64) {
        let (kind, step) = (effect.kind(), effect.step());
        tracing::debug!(kind = kind.name(), ?step, "step is taken");
        self.memory.begin(step, now_ms);
        let hook = self.parts.hook.clone();
        around(&hook, kind, || self.act(effect, now_ms));
    }

    fn act(&mut self, effect: ControllerEffect, now_ms: u64) {
        let step = effect.step();
        match effect {
            ControllerEffect::EnsurePartitions { keyspace, topic, count } => {
                match self.parts.log.ensure_topic(&topic, count) {
                    Ok(()) => {
                        self.observed.note_partitions(keyspace, count);
                        self.memory.forget(step);
                    }
                    Err(error) => self.step_ended(step, &Err(error), now_ms),
                }
            }
            ControllerEffect::RemoveTopics { keyspace, topics } => {
                match topics.iter().try_for_each(|topic| self.parts.log.remove_topic(topic)) {
                    Ok(()) => {
                        self.observed.note_topic_removed(keyspace);
                        self.memory.forget(step);
                    }
                    Err(error) => self.step_ended(step, &Err(error), now_ms),
                }
            }
            ControllerEffect::ProposeTopicRemoved { keyspace } => {
                self.propose(step, ControlEvent::TopicRemoved { keyspace });
            }
            ControllerEffect::StartMove { move_id } => self.propose(step, ControlEvent::MoveStarted { move_id }),
            ControllerEffect::StartCutover { move_id, predicted_pause } => {
                let nonce = Nonce((self.parts.nonces)());
                let predicted_pause_us = u64::try_from(predicted_pause.as_micros()).unwrap_or(u64::MAX);
                self.propose(step, ControlEvent::CutoverStarted { move_id, nonce, predicted_pause_us });
            }
            ControllerEffect::AppendOpen { facts, partition } => {
                self.append(step, &partition, vec![Mark::Open(mark(&facts)).into_record()]);
            }
            ControllerEffect::AppendFence { facts, partition } => {
                self.append(step, &partition, vec![Mark::Fence(mark(&facts)).into_record()]);
            }
            ControllerEffect::AbortCutover { attempt, fence, reason } => {
                self.propose(step, ControlEvent::CutoverAborted { attempt, fence, reason });
            }
            ControllerEffect::FailMove { move_id, reason } => {
                self.propose(step, ControlEvent::MoveFailed { move_id, reason });
            }
            ControllerEffect::AppendHorizon { up_to, owned, partition, .. } => {
                let mark = |(epoch, selector): (Epoch, Selector)| {
                    let regions = selector.ranges().iter().map(|range| (range.clone(), epoch)).collect();
                    Mark::Horizon { regions, version: Version { epoch, offset: up_to } }.into_record()
                };
                self.append(step, &partition, owned.into_iter().map(mark).collect());
            }
        }
    }

    fn propose(&mut self, step: Step, event: ControlEvent) {
        let (high, low) = ((self.parts.nonces)(), (self.parts.nonces)());
        let command = (u128::from(high) << 64) | u128::from(low);
        self.append(step, &control_partition(), vec![ControlRecord { command, event }.into_record()]);
    }

    fn append(&self, step: Step, partition: &TopicPartition, records: Vec<Record>) {
        let inbox = self.parts.inbox.clone();
        let done = Box::new(move |result: Result<Vec<Offset>, PortError>| {
            let result = result.and_then(|offsets| {
                offsets.first().copied().ok_or_else(|| PortError::unknown("the log acknowledged without an offset"))
            });
            inbox.push(ControllerMessage::Ended { step, result });
        });
        self.parts.log.append(partition, Lane::Protocol, records, done);
    }
}

impl Role for Controller {
    /// Without a controller no move goes on or is aborted, and nobody would notice.
    fn fatal(&self) -> Option<&str> {
        self.broken()
    }

    fn turn(&mut self, now_ms: u64) -> Turn {
        let messages = self.parts.inbox.drain();
        if self.broken.is_some() {
            return Turn { progressed: false, wake_at_ms: None };
        }
        let mut progressed = !messages.is_empty();
        messages.into_iter().for_each(|message| self.take(message, now_ms));
        self.ask_for_the_end(now_ms);
        match self.parts.follower.turn() {
            Ok(folded) => progressed |= folded > 0,
            Err(error) if error.remedy == Remedy::Broken => self.stop(&error),
            Err(error) => {
                tracing::warn!(%error, "the control log is read again");
                return Turn { progressed, wake_at_ms: Some(now_ms + AGAIN_AFTER_MS) };
            }
        }
        if self.broken.is_some() {
            return Turn { progressed: false, wake_at_ms: None };
        }
        if !self.opening.is_over(self.parts.follower.state().folded_next()) {
            return Turn { progressed, wake_at_ms: self.opening.wake_at_ms() };
        }
        self.note_folded(now_ms);
        let effects = decide(self.parts.follower.state(), &self.observed, &self.memory, now_ms);
        progressed |= !effects.is_empty();
        for effect in effects {
            self.carry_out(effect, now_ms);
        }
        let waits = waits(self.parts.follower.state(), &self.observed, &self.memory, now_ms);
        if waits != self.waits {
            self.waits = waits;
            (self.parts.told_waits)(&self.waits);
        }
        let wake_at_ms = wake_at_ms(self.parts.follower.state(), &self.memory, now_ms);
        Turn { progressed, wake_at_ms }
    }
}

/// Returns the mark of the attempt, citing the control record that allowed it.
fn mark(facts: &AttemptFacts) -> AttemptMark {
    AttemptMark {
        move_id: facts.move_id,
        attempt: facts.attempt,
        epoch: facts.epoch,
        selector: facts.selector.as_ref().clone(),
        control_offset: facts.control_offset,
        nonce: facts.nonce,
    }
}
