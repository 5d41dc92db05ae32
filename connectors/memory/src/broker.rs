//! The log that all roles share, and what a scheduler can do to it.

use crate::handle::Handle;
use crate::partition::Partition;
use crate::unsynced::{Lost, Unsynced};
use crate::waiting::{Effect, Fate, Line, Message, Waiting, What};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rehome_keyspace::Offset;
use rehome_ports::{Log, PortError};
use rehome_records::{Logged, TopicPartition};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What goes wrong by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many of 1,000 records are followed by a gap.
    pub gaps_per_mille: u32,
    /// Longest gap, in offsets.
    pub gap_len_max: u64,
}

impl Faults {
    /// Gaps after one record in five.
    pub fn gaps() -> Faults {
        Faults { gaps_per_mille: 200, gap_len_max: 3 }
    }
}

/// When an append or a question for the end reaches the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At once, before the call returns.
    Immediate,
    /// When the scheduler says so.
    Held,
}

/// A log in memory that several roles share. Clones are the same log.
#[derive(Clone)]
pub struct Broker {
    state: Arc<Mutex<State>>,
}

pub struct State {
    rng: StdRng,
    faults: Faults,
    delivery: Delivery,
    pub now_ms: u64,
    pub topics: BTreeMap<String, u32>,
    pub partitions: BTreeMap<TopicPartition, Partition>,
    handles: BTreeMap<u64, HandleState>,
    lines: BTreeMap<Line, VecDeque<Message>>,
    ids_given: u64,
    pub poll_records_max: usize,
    pub unsynced: Unsynced,
}

struct HandleState {
    role: String,
    cut: bool,
    lag_ms: u64,
}

impl Broker {
    /// Returns an empty log whose faults follow from the seed. It delivers at once until told otherwise.
    pub fn new(seed: u64, faults: Faults) -> Broker {
        let state = State {
            rng: StdRng::seed_from_u64(seed),
            faults,
            delivery: Delivery::Immediate,
            now_ms: 0,
            topics: BTreeMap::new(),
            partitions: BTreeMap::new(),
            handles: BTreeMap::new(),
            lines: BTreeMap::new(),
            ids_given: 0,
            poll_records_max: usize::MAX,
            unsynced: Unsynced::default(),
        };
        Broker { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns a new role's view of the log. A role that starts again takes a new one.
    pub fn handle(&self, role: impl Into<String>) -> Arc<dyn Log> {
        let mut state = self.lock();
        let number = state.new_id();
        state.handles.insert(number, HandleState { role: role.into(), cut: false, lag_ms: 0 });
        Arc::new(Handle { broker: self.clone(), number })
    }

    /// Cuts every handle of that role off, as its crash does: nothing answers it any more. What it had sent and was
    /// not delivered stays pending, orphaned.
    pub fn cut(&self, role: &str) {
        let mut guard = self.lock();
        let state = &mut *guard;
        for handle in state.handles.values_mut().filter(|handle| handle.role == role) {
            handle.cut = true;
        }
        let is_cut = |handles: &BTreeMap<u64, HandleState>, number: &u64| handles.get(number).is_none_or(|h| h.cut);
        for (line, messages) in &mut state.lines {
            if is_cut(&state.handles, &line.handle) {
                messages.iter_mut().for_each(Message::orphan);
            }
        }
        for partition in state.partitions.values_mut() {
            partition.tails.retain(|_, (handle, _)| !is_cut(&state.handles, handle));
        }
    }

    /// Sets the clock that stamps the records. It may stand still; where it goes back, append times do not.
    pub fn set_now_ms(&self, now_ms: u64) {
        self.with(|state, effects| {
            state.now_ms = now_ms;
            state.unsynced.sync_what_is_due(now_ms);
            for partition in state.partitions.values() {
                let lagging = partition.tails.values().filter(|(handle, _)| state.lag_ms(*handle) > 0);
                effects.extend(lagging.map(|(_, wake)| Effect::Wake(Arc::clone(wake))));
            }
        });
    }

    /// Lets the tails of that role's handles see records only so long after they were appended.
    pub fn set_lag_ms(&self, role: &str, lag_ms: u64) {
        self.with(|state, effects| {
            for handle in state.handles.values_mut().filter(|handle| handle.role == role) {
                handle.lag_ms = lag_ms;
            }
            for (handle, wake) in state.partitions.values().flat_map(|partition| partition.tails.values()) {
                if state.handles.get(handle).is_some_and(|handle| handle.role == role) {
                    effects.push(Effect::Wake(Arc::clone(wake)));
                }
            }
        });
    }

    /// Acknowledges and shows data before it is durable, and makes it durable at most so many milliseconds later; without
    /// a number, nothing is acknowledged before it is durable.
    pub fn set_fsync_every_ms(&self, every_ms: Option<u64>) {
        self.lock().unsynced.set_every_ms(every_ms);
    }

    /// Makes everything durable that can be read now.
    pub fn sync(&self) {
        self.lock().unsynced.clear();
    }

    /// Loses power: every handle is cut off, what they had sent and was not delivered is gone, and of what was not
    /// durable by chance none, some or all of the newest. Returns what was lost, in the order it was appended.
    pub fn lose_power(&self) -> Vec<Lost> {
        let mut guard = self.lock();
        let State { handles, lines, partitions, unsynced, rng, .. } = &mut *guard;
        handles.values_mut().for_each(|handle| handle.cut = true);
        lines.clear();
        partitions.values_mut().for_each(|partition| partition.tails.clear());
        let lost = unsynced.lose(rng);
        for Lost { partition, offset, .. } in &lost {
            if let Some(partition) = partitions.get_mut(partition) {
                partition.lose(*offset);
            }
        }
        lost
    }

    /// Lets no poll return more records than that, whatever its limits: roles that start again then fold and apply what
    /// was there before them over many turns, as they do when it is long. Requires: at least 1.
    pub fn set_poll_records_max(&self, records_max: usize) {
        self.lock().poll_records_max = records_max;
    }

    /// Says when what follows reaches the log. `Immediate` also delivers all that waits.
    pub fn set_delivery(&self, delivery: Delivery) {
        self.lock().delivery = delivery;
        while delivery == Delivery::Immediate && self.pending() > 0 {
            self.deliver(0);
        }
    }

    /// Returns between how many messages the scheduler can choose now: the first of each line. 0: nothing waits.
    pub fn pending(&self) -> usize {
        self.lock().lines.len()
    }

    /// Describes the messages that the scheduler can choose between, in the order of their index.
    pub fn waiting(&self) -> Vec<Waiting> {
        let state = self.lock();
        let describe = |(line, messages): (&Line, &VecDeque<Message>)| Waiting {
            role: state.handles.get(&line.handle).map_or_else(String::new, |handle| handle.role.clone()),
            partition: line.partition.clone(),
            what: line.what,
            records: messages.front().map_or(0, Message::records),
            orphaned: messages.front().is_some_and(Message::orphaned),
        };
        state.lines.iter().map(describe).collect()
    }

    /// Delivers the message of that index, and answers it. Requires: `index < pending()`.
    pub fn deliver(&self, index: usize) {
        self.with(|state, effects| {
            let (line, message) = state.take(index);
            state.arrive(&line, message, effects);
        });
    }

    /// Refuses the message of that index: it certainly did not happen, and its sender is told so.
    pub fn refuse(&self, index: usize) {
        self.with(|state, effects| {
            let (line, message) = state.take(index);
            effects.extend(message.fail(PortError::not_applied(format!("{} did not take it", line.partition))));
        });
    }

    /// Tells the sender of the message of that index `Unknown`, whatever becomes of it.
    pub fn fail_unknown(&self, index: usize, fate: Fate) {
        self.with(|state, effects| {
            let (line, message) = state.take(index);
            let error = PortError::unknown(format!("no answer from {}", line.partition));
            let Message::Append { mut records, done } = message else {
                effects.extend(message.fail(error));
                return;
            };
            match fate {
                Fate::Lost => records.clear(),
                Fate::Appended => {}
                Fate::AppendedInPart(count) => records.truncate(count),
                Fate::StillWaiting => {
                    let orphan = Message::Append { records: std::mem::take(&mut records), done: None };
                    state.lines.entry(line.clone()).or_default().push_front(orphan);
                }
            }
            if !records.is_empty() {
                state.arrive(&line, Message::Append { records, done: None }, effects);
            }
            effects.extend(done.map(|done| Effect::Appended(done, Err(error))));
        });
    }

    /// Leaves a gap at the end of the partition by chance.
    pub fn leave_gap(&self, partition: &TopicPartition) {
        self.with(|state, effects| {
            let State { partitions, rng, faults, .. } = state;
            if let Some(partition) = partitions.get_mut(partition) {
                partition.leave_gap(*faults, rng);
                effects.extend(partition.tails.values().map(|(_, wake)| Effect::Wake(Arc::clone(wake))));
            }
        });
    }

    /// Returns every kept record of the partition, without a tail: for a check that folds the log by itself.
    pub fn records(&self, partition: &TopicPartition) -> Vec<Logged> {
        self.lock().partitions.get(partition).map_or_else(Vec::new, |partition| partition.records().cloned().collect())
    }

    /// Returns the partitions that there are, in order.
    pub fn topic_partitions(&self) -> Vec<TopicPartition> {
        self.lock().partitions.keys().cloned().collect()
    }

    /// Changes the state, then makes the calls that follow from it, with the lock free.
    pub fn with<T>(&self, change: impl FnOnce(&mut State, &mut Vec<Effect>) -> T) -> T {
        let mut effects = Vec::new();
        let result = change(&mut self.lock(), &mut effects);
        effects.into_iter().for_each(Effect::run);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub fn new_id(&mut self) -> u64 {
        self.ids_given += 1;
        self.ids_given
    }

    pub fn is_cut(&self, handle: u64) -> bool {
        self.handles.get(&handle).is_none_or(|handle| handle.cut)
    }

    pub fn lag_ms(&self, handle: u64) -> u64 {
        self.handles.get(&handle).map_or(0, |handle| handle.lag_ms)
    }

    /// Takes a message from a role: it arrives at once, or waits for the scheduler.
    pub fn send(&mut self, line: Line, message: Message, effects: &mut Vec<Effect>) {
        match self.delivery {
            Delivery::Immediate => self.arrive(&line, message, effects),
            Delivery::Held => self.lines.entry(line).or_default().push_back(message),
        }
    }

    fn take(&mut self, index: usize) -> (Line, Message) {
        let line = self.lines.keys().nth(index).cloned().expect("the scheduler chooses below pending()");
        let messages = self.lines.get_mut(&line).expect("the line was just found");
        let message = messages.pop_front().expect("an empty line is not kept");
        if messages.is_empty() {
            self.lines.remove(&line);
        }
        (line, message)
    }

    fn arrive(&mut self, Line { partition: name, what, .. }: &Line, message: Message, effects: &mut Vec<Effect>) {
        let State { partitions, rng, faults, now_ms, unsynced, .. } = self;
        let Some(partition) = partitions.get_mut(name) else {
            effects.extend(message.fail(no_partition(name)));
            return;
        };
        match message {
            Message::Append { records, done } => {
                let offsets = partition.append(records, *now_ms, *faults, rng);
                unsynced.appended(name, &offsets, *what, *now_ms);
                effects.extend(partition.tails.values().map(|(_, wake)| Effect::Wake(Arc::clone(wake))));
                effects.extend(done.map(|done| Effect::Appended(done, Ok(offsets))));
            }
            Message::End { done } => {
                let end: Offset = partition.end();
                effects.extend(done.map(|done| Effect::End(done, Ok(end))));
            }
        }
    }
}

pub fn no_partition(name: &TopicPartition) -> PortError {
    PortError::not_applied(format!("there is no partition {name}"))
}

pub fn line(handle: u64, partition: &TopicPartition, what: What) -> Line {
    Line { handle, partition: partition.clone(), what }
}
