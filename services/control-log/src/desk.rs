//! Where requests of people are appended, and answered with what the fold decided.
//!
//! An append is not a success: the desk folds up to its own record, and looks.

use crate::{ControlFollower, append_control};
use rehome_control_core::{ControlState, Decision};
use rehome_keyspace::Offset;
use rehome_ports::{Inbox, Log, PortError, Role, Turn, Waker};
use rehome_records::{ControlEvent, ControlRecord};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Pause before the control log is read again after an error, in milliseconds.
const AGAIN_AFTER_MS: u64 = 50;

/// Requests that wait for the log or the fold at once. Reason: people ask; more than this is a log that stands still.
const PROPOSALS_MAX: usize = 1_024;

/// Told what the fold decided, or what is known of a failed append.
pub type Proposed = Box<dyn FnOnce(Result<Decision, PortError>) + Send>;

enum Message {
    Propose(ControlRecord, Proposed),
    Appended(u64, Result<Offset, PortError>),
}

type Watchers = Arc<Mutex<Vec<Waker>>>;

/// Reaches the desk from any thread.
#[derive(Clone)]
pub struct DeskHandle {
    inbox: Inbox<Message>,
    latest: Arc<Mutex<Arc<ControlState>>>,
    watchers: Watchers,
}

impl DeskHandle {
    /// Appends the request, and tells what the fold decided about it.
    pub fn propose(&self, command: u128, event: ControlEvent, done: Proposed) {
        self.inbox.push(Message::Propose(ControlRecord { command, event }, done));
    }

    /// Returns the state as far as the desk has folded.
    pub fn state(&self) -> Arc<ControlState> {
        Arc::clone(&self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls `wake` after every change of the state from now on, as long as the desk lives.
    pub fn watch(&self, wake: Waker) {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }
}

/// The role behind [`DeskHandle`].
pub struct ControlDesk {
    log: Arc<dyn Log>,
    follower: ControlFollower,
    handle: DeskHandle,
    next_ticket: u64,
    appending: BTreeMap<u64, Proposed>,
    folding: BTreeMap<Offset, Proposed>,
}

impl ControlDesk {
    /// `wake` wakes the role's owner.
    pub fn new(log: Arc<dyn Log>, wake: Waker) -> Result<ControlDesk, PortError> {
        let follower = ControlFollower::new(&*log, Arc::clone(&wake))?;
        let handle = DeskHandle {
            inbox: Inbox::new(wake),
            latest: Arc::new(Mutex::new(Arc::new(ControlState::new()))),
            watchers: Watchers::default(),
        };
        Ok(ControlDesk { log, follower, handle, next_ticket: 0, appending: BTreeMap::new(), folding: BTreeMap::new() })
    }

    pub fn handle(&self) -> DeskHandle {
        self.handle.clone()
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Propose(_, done) if self.appending.len() + self.folding.len() >= PROPOSALS_MAX => {
                let message =
                    format!("{PROPOSALS_MAX} requests wait for the control log already; ask again in a second");
                done(Err(PortError::not_applied(message)));
            }
            Message::Propose(record, done) => {
                let ticket = self.next_ticket;
                self.next_ticket += 1;
                self.appending.insert(ticket, done);
                let inbox = self.handle.inbox.clone();
                append_control(&*self.log, record, move |result| inbox.push(Message::Appended(ticket, result)));
            }
            Message::Appended(ticket, result) => {
                let Some(done) = self.appending.remove(&ticket) else { return };
                match result {
                    Ok(offset) => {
                        self.folding.insert(offset, done);
                    }
                    Err(error) => done(Err(error)),
                }
            }
        }
    }

    fn answer_folded(&mut self) {
        let next = self.follower.state().folded_next();
        while let Some(entry) = self.folding.first_entry().filter(|entry| *entry.key() < next) {
            let (offset, done) = entry.remove_entry();
            match self.follower.decision(offset) {
                Some(decision) => done(Ok(decision.clone())),
                None => done(Err(PortError::unknown("the decision was folded too long ago; run `rehome status`"))),
            }
        }
    }

    fn publish(&self) {
        let state = Arc::new(self.follower.state().clone());
        *self.handle.latest.lock().unwrap_or_else(PoisonError::into_inner) = state;
        for wake in self.handle.watchers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            wake();
        }
    }
}

impl Role for ControlDesk {
    fn turn(&mut self, now_ms: u64) -> Turn {
        let messages = self.handle.inbox.drain();
        let mut progressed = !messages.is_empty();
        messages.into_iter().for_each(|message| self.take(message));
        let folded_before = self.follower.state().folded_next();
        let mut wake_at_ms = None;
        match self.follower.turn() {
            // A gap is passed without a record.
            Ok(0) if self.follower.state().folded_next() == folded_before => {}
            Ok(_) => {
                progressed = true;
                self.publish();
            }
            Err(error) => {
                // Nothing else may wake it: what it missed was told of before.
                wake_at_ms = Some(now_ms + AGAIN_AFTER_MS);
                let waiting = std::mem::take(&mut self.folding);
                waiting
                    .into_values()
                    .for_each(|done| done(Err(PortError { remedy: rehome_ports::Remedy::Unknown, ..error.clone() })));
            }
        }
        self.answer_folded();
        Turn { progressed, wake_at_ms }
    }
}
