//! Controllers on a log that loses, doubles and delays, with restarts; nodes that do their part. One seed, one run.

use super::fixture::*;
use crate::{Controller, ControllerMessage, ControllerParts, EffectHook, EffectKind};
use rehome_control_core::{ControlState, JobState, Move, Phase};
use rehome_control_log::{ControlFollower, control_partition};
use rehome_keyspace::{AttemptId, Offset, Outcome, ShardId, Side};
use rehome_memory::{Broker, Delivery, Fate, Faults};
use rehome_ports::When;
use rehome_ports::{InboundProgress, Inbox, Lane, Log, Remedy, Role, Turn};
use rehome_records::control::{CONTROL_TOPIC, JobOptions};
use rehome_records::{ControlEvent, ControlRecord, DataRecord, Digest, Mark, TopicPartition};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// SplitMix64: the only source of chance here.
#[derive(Clone)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

type Calls = Arc<Mutex<Vec<(EffectKind, When)>>>;

struct Site {
    broker: Broker,
    nodes: Arc<dyn Log>,
    controllers: Vec<(Controller, Inbox<ControllerMessage>)>,
    chance: Chance,
    now_ms: u64,
    lives: usize,
    calls: Calls,
    commands: u128,
}

impl Site {
    fn new(seed: u64, controllers: usize, moves: &[(u32, u32, u32)], options: JobOptions) -> Site {
        let broker = Broker::new(seed, Faults::gaps());
        let nodes = broker.handle("nodes");
        nodes.ensure_topic(CONTROL_TOPIC, 1).expect("a new log");
        let mut site = Site {
            broker,
            nodes,
            controllers: Vec::new(),
            chance: Chance(seed),
            now_ms: 1_000,
            lives: 0,
            calls: Calls::default(),
            commands: 0,
        };
        site.broker.set_now_ms(site.now_ms);
        // The keyspace's id is the offset of its record, which a gap may move.
        for event in events(moves, options) {
            let event = match event {
                ControlEvent::JobSubmitted(mut job) => {
                    job.keyspace = site.state().keyspaces().next().expect("created before").id;
                    ControlEvent::JobSubmitted(job)
                }
                event => event,
            };
            site.append_as_node(event);
        }
        for number in 0..controllers {
            let controller = site.start(number);
            site.controllers.push(controller);
        }
        site
    }

    fn start(&mut self, number: usize) -> (Controller, Inbox<ControllerMessage>) {
        self.lives += 1;
        let log = self.broker.handle(format!("controller-{number}"));
        let inbox = Inbox::new(Arc::new(|| {}));
        let follower = ControlFollower::new(&*log, Arc::new(|| {})).expect("the control topic is there");
        let mut nonces = Chance(self.lives as u64 * 7_919);
        let calls = Arc::clone(&self.calls);
        let hook: EffectHook = Arc::new(move |kind, when| calls.lock().expect("one thread").push((kind, when)));
        let parts = ControllerParts {
            log,
            follower,
            inbox: inbox.clone(),
            nonces: Box::new(move || nonces.next()),
            hook: Some(hook),
            told_waits: Box::new(|_| ()),
        };
        (Controller::new(parts), inbox)
    }

    fn restart(&mut self, number: usize) {
        self.broker.cut(&format!("controller-{number}"));
        self.controllers[number] = self.start(number);
    }

    fn state(&self) -> ControlState {
        let mut state = ControlState::new();
        for logged in self.broker.records(&control_partition()) {
            state.fold(&logged);
        }
        state
    }

    /// Nodes are sound here: what they append arrives at once, after what they sent before.
    fn append_as_node(&mut self, event: ControlEvent) {
        self.commands += 1;
        let record = ControlRecord { command: self.commands << 64, event }.into_record();
        let before = self.broker.records(&control_partition()).len();
        self.nodes.append(&control_partition(), Lane::Protocol, vec![record], Box::new(|_| {}));
        while self.broker.records(&control_partition()).len() == before {
            let mine = self.broker.waiting().iter().position(|waiting| waiting.role == "nodes").expect("it waits");
            self.broker.deliver(mine);
        }
    }

    fn turn(&mut self, number: usize) -> Turn {
        let state = self.state();
        let (controller, inbox) = &mut self.controllers[number];
        let keyspace = state.keyspaces().next().expect("created at the start");
        for shard in (0..keyspace.shards).map(ShardId) {
            let mut report = progress(shard.0, 0, None);
            report.keyspace = keyspace.id;
            let inbound = |one: &Move| InboundProgress {
                move_id: one.id,
                replayed_next: Offset(0),
                lag_records: 0,
                replayed_records: 0,
            };
            report.inbound = state.open_moves().filter(|one| one.destination == shard).map(inbound).collect();
            inbox.push(ControllerMessage::Progress(report));
        }
        let turn = controller.turn(self.now_ms);
        assert_eq!(controller.broken(), None);
        turn
    }

    /// Does one thing that a node owes to some move.
    fn work_as_node(&mut self) {
        let state = self.state();
        let open: Vec<_> = state.open_moves().collect();
        if open.is_empty() {
            return;
        }
        let one = open[self.chance.below(open.len())];
        let (move_id, copy, node, digest) = (one.id, one.copy, NODE, Digest::default());
        let event = match &one.phase {
            Phase::Copying if one.snapshot.is_none() => {
                ControlEvent::SnapshotTaken { move_id, copy, node, position: Some(Offset(1)), digest, bytes: 1 }
            }
            Phase::Copying => ControlEvent::CopyIngested { move_id, copy, node, digest },
            Phase::CuttingOver { attempt } => {
                let Some(fence) = self.mark(one.source.0, *attempt) else { return };
                let open = self.mark(one.destination.0, *attempt);
                let source_told = state.attempt_record(*attempt).and_then(|attempt| attempt.fence_seen()).is_some();
                match (source_told, open) {
                    (false, _) => ready(*attempt, Side::Source, fence, None),
                    (true, Some(open)) => ready(*attempt, Side::Destination, fence, Some(open)),
                    (true, None) => return,
                }
            }
            Phase::Completing { .. } | Phase::Cancelling | Phase::Failing { .. } => {
                ControlEvent::CleanupDone { move_id, node }
            }
            _ => return,
        };
        self.append_as_node(event);
    }

    /// Returns where the attempt's first mark lies, checked against the control record that it cites.
    fn mark(&self, shard: u32, attempt: AttemptId) -> Option<Offset> {
        let state = self.state();
        let facts = &state.attempt_record(attempt).expect("a known attempt").facts;
        let topic = state.keyspace(facts.keyspace).expect("its keyspace").data_topic();
        let records = self.broker.records(&TopicPartition::new(topic, shard));
        let marks = records.iter().map(|logged| match DataRecord::read(&logged.record) {
            Ok(DataRecord::Mark(Mark::Open(mark))) => (logged.offset, mark, facts.destination),
            Ok(DataRecord::Mark(Mark::Fence(mark))) => (logged.offset, mark, facts.source),
            other => panic!("{other:?}"),
        });
        let mut of_attempt = marks.filter(|(_, mark, _)| mark.attempt == attempt);
        let (offset, mark, shard_wanted) = of_attempt.next()?;
        let cited = (mark.move_id, mark.epoch, mark.control_offset, mark.nonce, &mark.selector, shard);
        let wanted =
            (facts.move_id, facts.epoch, facts.control_offset, facts.nonce, facts.selector.as_ref(), shard_wanted.0);
        assert_eq!(cited, wanted);
        Some(offset)
    }

    /// Lets one waiting message arrive, or fail in one of the ways in which messages fail.
    fn deliver_or_fail(&mut self) {
        let pending = self.broker.pending();
        if pending == 0 {
            return;
        }
        let index = self.chance.below(pending);
        if self.broker.waiting()[index].orphaned {
            return self.broker.deliver(index);
        }
        match self.chance.below(12) {
            0 => self.broker.refuse(index),
            1 => self.broker.fail_unknown(index, Fate::Lost),
            2 => self.broker.fail_unknown(index, Fate::Appended),
            3 => self.broker.fail_unknown(index, Fate::StillWaiting),
            _ => self.broker.deliver(index),
        }
    }

    /// Any of the things that can happen. Two controllers at once, and one that was thought dead, included.
    fn happen(&mut self) {
        let count = self.controllers.len();
        match self.chance.below(40) {
            0 => {
                let number = self.chance.below(count);
                self.restart(number);
            }
            1..=3 => {
                self.now_ms += self.chance.next() % 900;
                self.broker.set_now_ms(self.now_ms);
            }
            4..=11 => self.work_as_node(),
            12..=22 => self.deliver_or_fail(),
            _ => {
                let number = self.chance.below(count);
                self.turn(number);
            }
        }
    }

    /// Faults have stopped: everything arrives, everybody works, time passes.
    fn calm_down(&mut self) {
        self.broker.set_delivery(Delivery::Immediate);
        for _ in 0..3_000 {
            let state = self.state();
            if state.open_moves().count() == 0 {
                return;
            }
            for number in 0..self.controllers.len() {
                self.turn(number);
            }
            for _ in 0..4 {
                self.work_as_node();
            }
            self.now_ms += 20;
            self.broker.set_now_ms(self.now_ms);
        }
        let open: Vec<String> = self.state().open_moves().map(|one| format!("{} is {}", one.id, one.phase)).collect();
        panic!("R11: {open:?}");
    }

    /// Whoever aborts has first made sure that the attempt's fence is in the source's partition.
    fn check_aborts(&self) -> (usize, usize) {
        let state = self.state();
        let (mut switched, mut aborted) = (0, 0);
        for attempt in state.attempts() {
            let fence = self.mark(attempt.facts.source.0, attempt.facts.attempt).expect("no outcome without a fence");
            match attempt.outcome().expect("every attempt is decided") {
                Outcome::Switched { fence: told } => {
                    assert_eq!(fence, told);
                    switched += 1;
                }
                Outcome::Aborted { fence: told } => {
                    assert!(fence <= told);
                    aborted += 1;
                }
            }
        }
        (switched, aborted)
    }
}

const MOVES: [(u32, u32, u32); 4] = [(0, 3, 0), (0, 4, 1), (1, 4, 4), (2, 0, 8)];

/// Returns attempts switched and aborted, the effects seen, and the whole control log.
fn run(seed: u64, controllers: usize) -> (usize, usize, BTreeSet<EffectKind>, Vec<rehome_records::Logged>) {
    let mut site = Site::new(seed, controllers, &MOVES, JobOptions::STANDARD);
    site.broker.set_delivery(Delivery::Held);
    let steps = 200 + site.chance.below(600);
    for _ in 0..steps {
        site.happen();
    }
    site.calm_down();
    let state = site.state();
    for job in state.jobs() {
        assert!(state.job_state(job.id).expect("a job").is_final(), "R11");
    }
    let (switched, aborted) = site.check_aborts();
    let kinds = site.calls.lock().expect("one thread").iter().map(|(kind, _)| *kind).collect();
    (switched, aborted, kinds, site.broker.records(&control_partition()))
}

#[test]
fn every_job_ends_whatever_is_lost_doubled_delayed_or_restarted() {
    let (mut switched, mut aborted, mut kinds) = (0, 0, BTreeSet::new());
    for seed in 0..60 {
        let (more_switched, more_aborted, more_kinds, _) = run(seed, 1 + (seed % 2) as usize);
        switched += more_switched;
        aborted += more_aborted;
        kinds.extend(more_kinds);
    }
    assert!(switched > 100 && aborted > 20, "the runs are lively: {switched} switched, {aborted} aborted");
    let unseen: Vec<_> = EffectKind::ALL.iter().filter(|kind| !kinds.contains(kind)).collect();
    let of_drops = [EffectKind::RemoveTopics, EffectKind::ProposeTopicRemoved];
    let rare = [[EffectKind::FailMove, EffectKind::AppendHorizon], of_drops].concat();
    assert!(unseen.iter().all(|kind| rare.contains(kind)), "{unseen:?}");
}

#[test]
fn one_seed_is_one_run() {
    for seed in [3, 4] {
        assert_eq!(run(seed, 2).3, run(seed, 2).3);
    }
}

#[test]
fn a_controller_restarted_before_and_after_each_effect_completes_the_job() {
    let mut at = 0;
    loop {
        let mut site = Site::new(1, 1, &[(0, 3, 0)], JobOptions::STANDARD);
        let mut done = false;
        for _ in 0..400 {
            let before = site.calls.lock().expect("one thread").len();
            site.turn(0);
            let after = site.calls.lock().expect("one thread").len();
            // The process ends at the given call of the hook; what was appended by then stays.
            if before <= at && at < after {
                site.restart(0);
                done = true;
            }
            site.work_as_node();
            site.now_ms += 10;
            site.broker.set_now_ms(site.now_ms);
        }
        let state = site.state();
        let job = state.jobs().next().expect("submitted at the start").id;
        assert_eq!(state.job_state(job), Some(JobState::Completed), "restarted at call {at}");
        if !done {
            break;
        }
        at += 1;
    }
    assert!(at >= 8, "partitions, start, cutover, open, fence: each before and after, saw {at}");
}

#[test]
fn an_attempt_whose_destination_never_answers_is_aborted_and_tried_again_until_the_move_fails() {
    let mut site = Site::new(5, 1, &[(0, 3, 0)], JobOptions::STANDARD);
    for _ in 0..20_000 {
        site.turn(0);
        let state = site.state();
        if state.open_moves().count() == 0 {
            break;
        }
        if !state.open_moves().any(|one| matches!(one.phase, Phase::CuttingOver { .. })) {
            site.work_as_node();
        }
        site.now_ms += 25;
        site.broker.set_now_ms(site.now_ms);
    }
    let state = site.state();
    let job = state.jobs().next().expect("submitted at the start").id;
    let reason = "16 attempts to cut over were aborted, the last one because: no outcome after 2000 ms".to_owned();
    assert_eq!(state.job_state(job), Some(JobState::Failed { reason }));
    assert_eq!(site.check_aborts(), (0, 16));
    let kinds: BTreeSet<EffectKind> = site.calls.lock().expect("one thread").iter().map(|(kind, _)| *kind).collect();
    let others = [EffectKind::AppendHorizon, EffectKind::RemoveTopics, EffectKind::ProposeTopicRemoved];
    let of_moves: Vec<_> = EffectKind::ALL.iter().filter(|kind| !others.contains(kind)).copied().collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), of_moves, "every effect of moves was seen, before and after");
}

#[test]
fn a_log_that_is_broken_stops_the_controller_and_it_says_why() {
    let mut site = Site::new(6, 1, &[(0, 3, 0)], JobOptions::STANDARD);
    let (controller, inbox) = &mut site.controllers[0];
    let error = rehome_ports::PortError { remedy: Remedy::Broken, message: "record 7 has a wrong checksum".into() };
    inbox.push(ControllerMessage::ControlEnd(Err(error)));
    controller.turn(1_000);
    assert_eq!(controller.broken(), Some("record 7 has a wrong checksum"));
    assert_eq!(controller.turn(2_000), Turn { progressed: false, wake_at_ms: None });
    assert!(site.calls.lock().expect("one thread").is_empty());
}
