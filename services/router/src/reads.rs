//! Reads of one key, retried where ownership moves.
//!
//! A read goes to the shard that owns the slot, with the epoch that the router believes in: the replica answers only
//! under that epoch. The same shard under another epoch is another owner.

use crate::ask::{ReadAsk, Refused, check_read};
use crate::core::{AskId, Effect, ReadTry, Turn, dropped, not_ready, overloaded};
use crate::limits::RouterLimits;
use crate::routes::Routes;
use crate::timers::{Retry, Timers};
use rehome_control_core::Route;
use rehome_keyspace::{KeyspaceId, SlotId};
use rehome_ports::{ReadAnswer, ReadRefused, ReadRequest};
use std::collections::BTreeMap;

/// A read without an answer.
#[derive(Debug)]
struct Waiting {
    read: ReadAsk,
    slot: SlotId,
    /// Where the last try went.
    tried: Route,
    tries: u32,
    retry: Retry,
    refused: Option<ReadRefused>,
    /// When a shard first said that it does not own the key.
    paused_at_ms: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Reads {
    reads_max: usize,
    waiting: BTreeMap<AskId, Waiting>,
    timers: Timers,
}

impl Reads {
    pub(crate) fn new(limits: RouterLimits) -> Reads {
        Reads { reads_max: limits.reads_max, waiting: BTreeMap::new(), timers: Timers::default() }
    }

    pub(crate) fn holds(&self, ask: AskId) -> bool {
        self.waiting.contains_key(&ask)
    }

    pub(crate) fn ask(&mut self, turn: &mut Turn<'_>, ask: AskId, read: ReadAsk) {
        match self.admit(turn, &read) {
            Ok((slot, tried)) => {
                self.timers.set_deadline(read.deadline_ms, ask);
                let waiting =
                    Waiting { read, slot, tried, tries: 0, retry: Retry::default(), refused: None, paused_at_ms: None };
                self.waiting.insert(ask, waiting);
                self.try_now(turn, ask);
            }
            Err(refused) => {
                turn.counters.reads_refused += 1;
                turn.effects.push(Effect::AnswerRead { ask, answer: Err(refused) });
            }
        }
    }

    fn admit(&self, turn: &Turn<'_>, read: &ReadAsk) -> Result<(SlotId, Route), Refused> {
        let key = check_read(read)?;
        let routes = turn.table.get(read.keyspace).ok_or_else(|| not_ready(read.keyspace))?;
        if self.waiting.len() >= self.reads_max {
            return Err(overloaded("reads"));
        }
        let slot = routes.placement.slot(key);
        Ok((slot, routes.route(slot)))
    }

    fn try_now(&mut self, turn: &mut Turn<'_>, ask: AskId) {
        let Some(waiting) = self.waiting.get_mut(&ask) else { return };
        if let Some(at_ms) = waiting.retry.at_ms.take() {
            self.timers.unset_retry(at_ms, ask);
        }
        let keyspace = waiting.read.keyspace;
        waiting.tried = turn.table.get(keyspace).expect("an admitted read's keyspace is known").route(waiting.slot);
        waiting.tries += 1;
        turn.counters.reads_retried += u64::from(waiting.tries > 1);
        let request = ReadRequest {
            kind: waiting.read.kind.clone(),
            epoch: Some(waiting.tried.epoch),
            level: waiting.read.level,
        };
        let read = ReadTry { ask, number: waiting.tries };
        turn.effects.push(Effect::Read { read, keyspace, shard: waiting.tried.shard, request });
    }

    /// A replica answered a try.
    pub(crate) fn ended(&mut self, turn: &mut Turn<'_>, read: ReadTry, result: Result<ReadAnswer, ReadRefused>) {
        let Some(waiting) = self.waiting.get_mut(&read.ask) else { return };
        if waiting.tries != read.number || waiting.retry.at_ms.is_some() {
            return;
        }
        match result {
            Ok(answer) => self.answer(turn, read.ask, Ok(answer)),
            Err(ReadRefused::Overloaded) => self.answer(turn, read.ask, Err(overloaded("reads of that shard"))),
            Err(refused) => {
                // The routes may have changed while the try was under way.
                let moved = turn.table.get(waiting.read.keyspace).is_some_and(|routes| is_newer(routes, waiting));
                if refused == ReadRefused::NotOwner {
                    waiting.paused_at_ms.get_or_insert(turn.now_ms);
                }
                waiting.refused = Some(refused);
                let at_ms = waiting.retry.wait(turn.now_ms);
                self.timers.set_retry(at_ms, read.ask);
                if moved {
                    self.try_now(turn, read.ask);
                }
            }
        }
    }

    /// Reads that wait for another owner try it.
    pub(crate) fn routes_changed(&mut self, turn: &mut Turn<'_>, keyspace: KeyspaceId) {
        let Some(routes) = turn.table.get(keyspace) else { return };
        let concerned = |waiting: &Waiting| {
            waiting.read.keyspace == keyspace && waiting.retry.at_ms.is_some() && is_newer(routes, waiting)
        };
        let moved: Vec<AskId> =
            self.waiting.iter().filter(|(_, waiting)| concerned(waiting)).map(|(ask, _)| *ask).collect();
        for ask in moved {
            self.try_now(turn, ask);
        }
    }

    pub(crate) fn dropped(&mut self, turn: &mut Turn<'_>, keyspace: KeyspaceId) {
        let of_it = self.waiting.iter().filter(|(_, waiting)| waiting.read.keyspace == keyspace);
        let asks: Vec<AskId> = of_it.map(|(ask, _)| *ask).collect();
        for ask in asks {
            self.answer(turn, ask, Err(dropped(keyspace)));
        }
    }

    pub(crate) fn turn_ended(&mut self, turn: &mut Turn<'_>) {
        while let Some(ask) = self.timers.pop_deadline(turn.now_ms) {
            let waiting = &self.waiting[&ask];
            let shard = waiting.tried.shard;
            let why = waiting.refused.as_ref().map_or("no answer".to_owned(), ToString::to_string);
            let message = format!("not read before the deadline: shard {shard}: {why}");
            let refused = match waiting.refused {
                Some(ReadRefused::NotOwner) => Refused::not_applied("not_owner", message),
                Some(ReadRefused::Unavailable { .. } | ReadRefused::Overloaded) => {
                    Refused::not_applied("replica_unavailable", message)
                }
                None => Refused::not_applied("deadline", message),
            };
            self.answer(turn, ask, Err(refused));
        }
        while let Some(ask) = self.timers.pop_retry(turn.now_ms) {
            self.try_now(turn, ask);
        }
    }

    fn answer(&mut self, turn: &mut Turn<'_>, ask: AskId, answer: Result<ReadAnswer, Refused>) {
        let waiting = self.waiting.remove(&ask).expect("a read is answered once");
        self.timers.unset_deadline(waiting.read.deadline_ms, ask);
        if let Some(at_ms) = waiting.retry.at_ms {
            self.timers.unset_retry(at_ms, ask);
        }
        if let Some(paused_at_ms) = waiting.paused_at_ms {
            turn.counters.read_pauses.note(turn.now_ms.saturating_sub(paused_at_ms));
        }
        *(match answer {
            Ok(_) => &mut turn.counters.reads_answered,
            Err(_) => &mut turn.counters.reads_refused,
        }) += 1;
        turn.effects.push(Effect::AnswerRead { ask, answer });
    }

    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        self.timers.next_ms()
    }
}

fn is_newer(routes: &Routes, waiting: &Waiting) -> bool {
    routes.route(waiting.slot).epoch > waiting.tried.epoch
}
