//! Writes through a router core over a simulated log, with every fault and in every order.

mod world;

use proptest::prelude::*;
use rehome_keyspace::{Epoch, ShardId, SlotId};
use rehome_ports::Remedy;
use rehome_records::{SourcePosition, Verdict};
use rehome_router::{AskId, Effect, Input, RouterCore, RouterLimits, WriteAnswer, WriteAsk, WriteRefused};
use std::collections::{BTreeMap, BTreeSet};
use world::{End, KEYSPACE, Rng, SHARDS, SLOTS, World, key_in, number_of, placement, put};

const LIMITS: RouterLimits = RouterLimits {
    writes_max: 40,
    write_bytes_max: 10_000,
    appends_per_shard_max: 2,
    append_records_max: 5,
    ..RouterLimits::STANDARD
};
/// Positions that each ordered source has to bring in.
const SOURCE_POSITIONS: u64 = 12;
const SOURCES: u32 = 3;

/// A sender of an ordered source: pipelines, and goes back to what was refused.
struct Sender {
    slot: SlotId,
    number: u32,
    next: u64,
    on_their_way: usize,
    done: BTreeSet<u64>,
}

struct Sim {
    rng: Rng,
    now_ms: u64,
    core: RouterCore,
    world: World,
    asks: u64,
    asked: BTreeMap<AskId, WriteAsk>,
    answers: BTreeMap<AskId, Result<WriteAnswer, WriteRefused>>,
    senders: Vec<Sender>,
    /// Request ids of writes whose answer is unknown, to ask again with.
    unknown: Vec<WriteAsk>,
    faults: bool,
    /// The clients send no deadline that can pass.
    patient: bool,
}

impl Sim {
    fn new(seed: u64) -> Sim {
        let mut rng = Rng(seed);
        let patient = rng.chance(500);
        let sender = |number: u32| Sender {
            slot: SlotId(number % SLOTS),
            number,
            next: 1,
            on_their_way: 0,
            done: BTreeSet::new(),
        };
        Sim {
            rng,
            now_ms: 1_000,
            core: RouterCore::new(LIMITS),
            world: World::new(),
            asks: 0,
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
            senders: (0..SOURCES).map(sender).collect(),
            unknown: Vec::new(),
            faults: true,
            patient,
        }
    }

    fn step(&mut self, input: Input) {
        for effect in self.core.step(self.now_ms, input) {
            match effect {
                Effect::Append { append, partition, records } => {
                    assert!(!records.is_empty() && records.len() <= LIMITS.append_records_max);
                    self.world.append(ShardId(partition.partition), append, &records);
                    assert!(self.world.waiting(ShardId(partition.partition)) <= 1_000);
                }
                Effect::AnswerWrite { ask, answer } => self.answered(ask, answer),
                other => panic!("no one asked for {other:?}"),
            }
        }
        let counters = self.core.counters();
        assert!(counters.writes_waiting <= LIMITS.writes_max as u64);
        assert!(counters.write_bytes_waiting <= LIMITS.write_bytes_max as u64);
        assert_eq!(counters.writes_waiting as usize, self.asked.len() - self.answers.len());
    }

    fn answered(&mut self, ask: AskId, answer: Result<WriteAnswer, WriteRefused>) {
        let asked = &self.asked[&ask];
        if let Ok(answer) = &answer {
            assert_ne!(answer.verdict, Verdict::StaleRoute, "a client never sees a stale route");
        }
        if let Some(source) = &asked.source {
            let sender = &mut self.senders[source.source.parse::<usize>().expect("sources are named by number")];
            sender.on_their_way -= 1;
            match &answer {
                Ok(answer) if answer.is_done() => {
                    sender.done.insert(source.position);
                }
                _ => sender.next = sender.next.min(source.position),
            }
        } else if answer.as_ref().is_err_and(|refused| refused.remedy == Remedy::Unknown) {
            self.unknown.push(asked.clone());
        }
        assert!(self.answers.insert(ask, answer).is_none(), "{ask:?} was answered twice");
    }

    fn ask(&mut self, write: WriteAsk) {
        let ask = AskId(self.asks);
        self.asked.insert(ask, write.clone());
        self.step(Input::Write { ask, write });
    }

    fn deadline_ms(&mut self) -> u64 {
        match self.patient {
            true => self.now_ms + 1_000_000,
            false => self.now_ms + [30, 300, 3_000][self.rng.below(3) as usize],
        }
    }

    fn ask_something(&mut self) {
        self.asks += 1;
        let deadline_ms = self.deadline_ms();
        if self.rng.chance(100) && !self.unknown.is_empty() {
            let retry = self.unknown.swap_remove(0);
            return self.ask(WriteAsk { deadline_ms, ..retry });
        }
        let slot = SlotId(self.rng.below(u64::from(SLOTS)) as u32);
        let key = key_in(slot, self.rng.below(2) as u32);
        self.ask(put(&key, self.asks, deadline_ms));
    }

    fn send_from_source(&mut self) {
        let deadline_ms = self.deadline_ms();
        let index = self.rng.below(u64::from(SOURCES)) as usize;
        let sender = &mut self.senders[index];
        if sender.next > SOURCE_POSITIONS || sender.on_their_way >= 6 {
            return;
        }
        let position = sender.next;
        sender.next += 1;
        sender.on_their_way += 1;
        self.asks += 1;
        let source = Some(SourcePosition { source: sender.number.to_string(), position });
        let write = put(&key_in(sender.slot, 2), self.asks, deadline_ms);
        self.ask(WriteAsk { request: None, source, ..write });
    }

    fn shard(&mut self) -> ShardId {
        ShardId(self.rng.below(u64::from(SHARDS)) as u32)
    }

    fn deliver(&mut self) {
        let shard = self.shard();
        let end = match self.rng.below(if self.faults { 12 } else { 1 }) {
            1 => End::NotApplied,
            2 => End::UnknownAppended,
            3 => End::UnknownInPart,
            4 => End::UnknownLater,
            5 => End::UnknownLost,
            _ => End::Acknowledged,
        };
        self.world.deliver(&mut self.rng, shard, end);
    }

    fn act(&mut self) {
        match self.rng.below(16) {
            0..=2 => self.ask_something(),
            3 => self.send_from_source(),
            4..=6 => self.deliver(),
            7 | 8 => {
                let shard = self.shard();
                self.world.apply(shard);
            }
            9 => {
                let shard = self.shard();
                let lost = self.faults && self.rng.chance(100);
                if let Some(batch) = self.world.verdicts(shard)
                    && !lost
                {
                    self.step(Input::Verdicts(batch));
                }
            }
            10 | 11 => self.acknowledge(),
            12 => self.fold(),
            13 if self.faults && self.rng.chance(200) => {
                let slot = SlotId(self.rng.below(u64::from(SLOTS)) as u32);
                let destination = self.shard();
                self.world.start_cutover(&mut self.rng, slot, destination);
            }
            _ => self.end_turn(5),
        }
    }

    fn acknowledge(&mut self) {
        if !self.world.acks.is_empty() {
            let index = self.rng.below(self.world.acks.len() as u64) as usize;
            let (append, result) = self.world.acks.swap_remove(index);
            self.step(Input::Appended { append, result });
        }
    }

    fn fold(&mut self) {
        if let Some(routes) = self.world.told.pop_front() {
            self.step(Input::Routes(routes));
        }
    }

    fn end_turn(&mut self, ms_max: u64) {
        self.now_ms += self.rng.below(ms_max);
        self.step(Input::TurnEnded);
        for (ask, write) in &self.asked {
            assert!(
                write.deadline_ms > self.now_ms || self.answers.contains_key(ask),
                "{ask:?} is without an answer after its deadline"
            );
        }
        let wake_at_ms = self.core.wake_at_ms();
        assert!(wake_at_ms.is_none_or(|at_ms| at_ms > self.now_ms), "the router would spin");
    }

    /// Faults stop; everything comes to its end.
    fn settle(&mut self) {
        self.faults = false;
        for _ in 0..4_000 {
            let idle = self.answers.len() == self.asked.len()
                && self.senders.iter().all(|sender| sender.done.len() as u64 == SOURCE_POSITIONS);
            if idle {
                return self.drain();
            }
            self.send_from_source();
            self.drain();
            self.end_turn(20);
        }
        let open: Vec<_> = self.asked.keys().filter(|ask| !self.answers.contains_key(ask)).collect();
        let senders: Vec<_> = self.senders.iter().map(|sender| (sender.next, sender.done.len())).collect();
        panic!("without faults these are still open: {open:?}, senders {senders:?}");
    }

    fn drain(&mut self) {
        for shard in (0..SHARDS).map(ShardId) {
            while self.world.waiting(shard) > 0 {
                self.world.deliver(&mut self.rng, shard, End::Acknowledged);
            }
            while self.world.apply(shard) {}
            if let Some(batch) = self.world.verdicts(shard) {
                self.step(Input::Verdicts(batch));
            }
        }
        while !self.world.acks.is_empty() {
            self.acknowledge();
        }
        while !self.world.told.is_empty() {
            self.fold();
        }
    }

    fn check(&self) {
        self.check_answers();
        self.check_order();
        for sender in &self.senders {
            let name = sender.number.to_string();
            let accepted = self.world.accepted.get(&sender.slot).into_iter().flatten();
            let positions: Vec<u64> = accepted
                .filter_map(|write| write.source.as_ref())
                .filter(|source| source.source == name)
                .map(|source| source.position)
                .collect();
            assert_eq!(
                positions,
                (1..=SOURCE_POSITIONS).collect::<Vec<_>>(),
                "source {name} lost or doubled something"
            );
        }
    }

    /// What clients were told is what happened (R5, R6).
    fn check_answers(&self) {
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        for write in self.world.accepted.values().flatten() {
            *times.entry(number_of(write)).or_default() += 1;
        }
        let number = |ask: &AskId| number_of(&as_write(&self.asked[ask]));
        for (ask, answer) in &self.answers {
            let count = times.get(&number(ask)).copied().unwrap_or_default();
            assert!(count <= 1, "{ask:?} was accepted {count} times");
            let other_says = self.answers.iter().any(|(other, _)| other != ask && number(other) == number(ask));
            match answer {
                Ok(answer) if answer.verdict == Verdict::SourceDone => {}
                Ok(answer) => assert!(answer.is_done() && count == 1, "{ask:?} was told {answer:?}, not accepted"),
                Err(refused) if refused.remedy == Remedy::NotApplied && !other_says => {
                    assert_eq!(count, 0, "{ask:?} was told that nothing was applied: {refused:?}");
                }
                Err(_) => {}
            }
        }
    }

    /// Per slot and epoch, writes reach the log in the order in which they were asked for; over all epochs, those that
    /// were answered are accepted in that order (R8).
    fn check_order(&self) {
        let mut first: BTreeMap<(SlotId, Epoch), Vec<u64>> = BTreeMap::new();
        for (_, write) in &self.world.reached {
            let slot = placement().slot(&write.partition_key);
            let reached = first.entry((slot, write.epoch)).or_default();
            if !reached.contains(&number_of(write)) {
                reached.push(number_of(write));
            }
        }
        // A write that is asked for again under its old number may come later.
        let again: BTreeSet<u64> = self
            .asked
            .iter()
            .map(|(ask, write)| (ask.0, number_of(&as_write(write))))
            .filter(|(ask, number)| ask != number)
            .map(|(_, number)| number)
            .collect();
        for ((slot, epoch), mut reached) in first {
            reached.retain(|number| !again.contains(number));
            assert!(reached.is_sorted(), "slot {slot} under epoch {epoch}: {reached:?}");
        }
        for (slot, accepted) in &self.world.accepted {
            let told = |number: &u64| self.answers.get(&AskId(*number)).is_some_and(Result::is_ok);
            let mut numbers: Vec<u64> = accepted.iter().map(number_of).collect();
            numbers.retain(|number| told(number) && !again.contains(number));
            assert!(numbers.is_sorted(), "slot {slot} accepted {numbers:?}");
        }
    }
}

fn as_write(ask: &WriteAsk) -> rehome_records::data::Write {
    rehome_records::data::Write {
        partition_key: ask.partition_key.clone(),
        epoch: Epoch(0),
        request: ask.request,
        source: ask.source.clone(),
        operation: ask.operation.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_write_is_answered_once_truly_and_in_order_whatever_fails(seed: u64, length in 50usize..1500) {
        let mut sim = Sim::new(seed);
        sim.fold();
        for _ in 0..length {
            sim.act();
        }
        sim.settle();
        sim.check();
        assert_eq!(KEYSPACE, sim.core.routes(KEYSPACE).unwrap().keyspace);
    }
}
