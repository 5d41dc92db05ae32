//! The scheduler: what can happen now, and what is drawn.
//!
//! First a phase under faults, then a healing phase without: in it every job must end and every client be answered (R11).

use crate::client::Client;
use crate::inbox::Producer;
use crate::judge;
use crate::operator::{KEYSPACE, Operator};
use crate::options::Options;
use crate::process::{Kind, Process, QueuedJob, Site, lock};
use crate::trace::{Counts, Trace};
use crate::witness::Witness;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rehome_keyspace::{NodeId, Offset};
use rehome_memory::{Broker, Delivery, Fate, Faults, Lost, Waiting, What};
use rehome_ports::SnapshotStore;
use rehome_records::TopicPartition;
use rehome_records::control::{CONTROL_TOPIC, data_topic};
use std::collections::BTreeMap;
use std::fmt;

/// Steps of the healing phase before it counts as stuck. Reason: far above what the slowest good run needs.
const STEPS_HEALING_MAX: u64 = 400_000;

/// How long it must stay quiet, in milliseconds. Reason: above every pause after which a role tries something again.
const QUIET_MS: u64 = 3_000;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    pub counts: Counts,
    pub trace_hash: u64,
    pub failure: Option<Failure>,
}

/// What was violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Runs one seed to its end.
pub fn run(options: &Options) -> Report {
    let mut world = World::new(options.clone());
    let failure = world.live().err();
    world.counts.steps = world.step;
    world.count_moves();
    Report { counts: world.counts, trace_hash: world.trace.hash(), failure }
}

pub struct World {
    pub options: Options,
    rng: StdRng,
    pub site: Site,
    pub processes: Vec<Process>,
    pub clients: Vec<Client>,
    operator: Operator,
    producer: Producer,
    now_ms: u64,
    step: u64,
    faulty: bool,
    pub counts: Counts,
    pub trace: Trace,
    /// What power losses took.
    pub lost: Vec<Lost>,
    /// The first step of each moment of the clock.
    steps_at: BTreeMap<u64, u64>,
    /// A desk that has folded less is one of an older time.
    folded_min: Offset,
    pub witness: Witness,
}

/// What waits for ever again: questions, and forwarders that say that they live.
fn is_no_change(waiting: &Waiting) -> bool {
    waiting.what == What::End || waiting.partition.topic.ends_with(".inbox-progress")
}

/// What can be drawn.
#[derive(Clone, Copy, Debug)]
enum Next {
    Role(usize, usize),
    Append(usize),
    Message(usize),
    Job(usize),
    Client(usize),
    Operator,
}

impl World {
    fn new(options: Options) -> World {
        let broker = Broker::new(options.seed, Faults::gaps());
        let setup = broker.handle("setup");
        setup.ensure_topic(CONTROL_TOPIC, 1).expect("nothing is cut off yet");
        broker.set_delivery(Delivery::Held);
        broker.set_poll_records_max(options.poll_records_max);
        broker.set_fsync_every_ms(options.fsync_every_ms);
        let mut kinds: Vec<(String, Kind)> = vec![("desk".into(), Kind::Desk)];
        kinds.extend((1..=options.nodes).map(|node| (format!("node-{node}"), Kind::Node(NodeId(node)))));
        kinds.extend((0..options.routers).map(|router| (format!("router-{router}"), Kind::Router)));
        kinds.extend((0..options.controllers).map(|controller| (format!("controller-{controller}"), Kind::Controller)));
        let process = |(name, kind)| Process {
            name,
            kind,
            roles: Vec::new(),
            restart_at_ms: Some(0),
            frozen_until_ms: None,
            router: None,
            desk: None,
        };
        World {
            rng: StdRng::seed_from_u64(options.seed),
            site: Site::new(broker, options.inbox_records > 0),
            processes: kinds.into_iter().map(process).collect(),
            clients: Vec::new(),
            operator: Operator::new(&options),
            producer: Producer::new(options.seed, options.inbox_records),
            now_ms: 1_000,
            step: 0,
            faulty: true,
            counts: Counts::default(),
            trace: Trace::default(),
            lost: Vec::new(),
            steps_at: BTreeMap::new(),
            folded_min: Offset(0),
            witness: Witness::default(),
            options,
        }
    }

    fn live(&mut self) -> Result<(), Failure> {
        while self.step < self.options.steps_faulty && !self.is_quiet() {
            self.one_step()?;
        }
        self.faulty = false;
        for process in 0..self.processes.len() {
            let name = self.processes[process].name.clone();
            self.site.broker.set_lag_ms(&name, 0);
        }
        let heal_until = self.step + STEPS_HEALING_MAX;
        let mut quiet_since_ms = None;
        while quiet_since_ms.is_none_or(|since| self.now_ms < since + QUIET_MS) {
            quiet_since_ms = if self.is_quiet() { quiet_since_ms.or(Some(self.now_ms)) } else { None };
            if self.step >= heal_until {
                return Err(Failure(format!("R11: stuck after faults stopped: {}", self.describe())));
            }
            self.one_step()?;
        }
        judge::judge(self)
    }

    /// Tells whether every client was answered, every job has ended, and nothing is on its way.
    fn is_quiet(&self) -> bool {
        let desk = self.desk();
        self.clients.iter().all(Client::is_done)
            && !self.clients.is_empty()
            && desk.is_some_and(|desk| {
                self.operator.is_done(&desk)
                    && self.producer.is_done(&desk.state(), &self.site)
                    && desk.state().dropped_keyspaces().all(|one| one.topic_removed)
            })
            && self.processes.iter().all(|process| process.restart_at_ms.is_none())
            && lock(&self.site.jobs).is_empty()
            && self.site.broker.waiting().iter().all(is_no_change)
    }

    fn produce(&mut self) {
        if let Some(desk) = self.desk().filter(|_| self.options.inbox_records > 0) {
            self.producer.act(&desk.state(), &self.site);
        }
    }

    fn desk(&self) -> Option<rehome_control_log::DeskHandle> {
        let desk = self.processes.iter().find_map(|process| process.desk.clone());
        desk.filter(|desk| desk.state().folded_next() >= self.folded_min)
    }

    fn choices(&self) -> Vec<Next> {
        let mut choices = Vec::new();
        let awake = |process: &&Process| !process.is_frozen(self.now_ms);
        for (at, process) in self.processes.iter().enumerate().filter(|(_, process)| awake(process)) {
            let due = |role: &usize| process.roles[*role].is_due(self.now_ms);
            choices.extend((0..process.roles.len()).filter(due).map(|role| Next::Role(at, role)));
        }
        choices.extend((0..self.site.broker.pending()).map(Next::Append));
        choices.extend((0..self.site.network.pending()).map(Next::Message));
        choices.extend((0..lock(&self.site.jobs).len()).map(Next::Job));
        let due = |client: &usize| self.clients[*client].is_due(self.now_ms);
        choices.extend((0..self.clients.len()).filter(due).map(Next::Client));
        choices
    }

    fn one_step(&mut self) -> Result<(), Failure> {
        self.step += 1;
        self.start_what_is_down();
        if self.faulty {
            self.maybe_fault()?;
        }
        self.produce();
        let mut choices = self.choices();
        let nothing = choices.is_empty();
        if self.rng.random_range(0..40) == 0 {
            choices.push(Next::Operator);
        }
        if nothing {
            self.pass_time();
        } else if self.rng.random_range(0..5) == 0 {
            self.set_now(self.now_ms + 1);
        }
        if choices.is_empty() {
            return Ok(());
        }
        let next = choices[self.rng.random_range(0..choices.len())];
        self.trace.note(&format!("{next:?}"), self.now_ms);
        self.do_next(next);
        self.broken()
    }

    fn do_next(&mut self, next: Next) {
        match next {
            Next::Role(process, role) => {
                if !self.processes[process].roles[role].turn(self.now_ms) {
                    drop(self.processes[process].roles.remove(role));
                }
                for (name, running) in self.site.take_spawned() {
                    let process = self.processes.iter_mut().find(|process| process.name == name);
                    process.expect("roles are hosted by processes").roles.push(running);
                }
                if let Kind::Node(node) = self.processes[process].kind {
                    self.witness.look(node, &self.site);
                }
            }
            Next::Append(index) => self.deliver_append(index),
            Next::Message(index) => {
                let lose = self.fault(self.options.read_lost_per_10k);
                self.site.network.deliver(index, lose);
            }
            Next::Job(index) => {
                let job = lock(&self.site.jobs).swap_remove(index);
                if self.fault(self.options.job_cut_per_10k) {
                    self.cut_short(job);
                } else {
                    (job.run)();
                }
            }
            Next::Client(index) => self.client_acts(index),
            Next::Operator => {
                if let Some(desk) = self.desk() {
                    self.operator.act(self.now_ms, &desk, &self.site, &mut self.counts);
                    self.let_clients_in(&desk);
                }
            }
        }
    }

    /// Does a job in part, then crashes its process.
    fn cut_short(&mut self, job: QueuedJob) {
        let at = self.processes.iter().position(|process| process.name == job.process);
        let at = at.expect("jobs are spawned by processes");
        if let Kind::Node(node) = self.processes[at].kind {
            for (_, store) in lock(&self.site.stores).iter().filter(|((owner, _, _), _)| *owner == node) {
                store.cut_short_next(self.rng.random_range(0..40));
            }
        }
        (job.run)();
        self.counts.jobs_cut += 1;
        self.crash(at);
    }

    fn crash(&mut self, at: usize) {
        self.counts.crashes += 1;
        if let Kind::Node(node) = self.processes[at].kind {
            self.witness.crashed(node);
        }
        let down_ms = self.rng.random_range(1..1_500);
        self.site.crash(&mut self.processes[at], self.now_ms + down_ms, &mut self.rng);
    }

    fn client_acts(&mut self, index: usize) {
        let routers: Vec<_> = self.processes.iter().filter_map(|process| process.router.clone()).collect();
        if routers.is_empty() {
            return;
        }
        let router = &routers[self.rng.random_range(0..routers.len())];
        let client = &mut self.clients[index];
        client.act(self.now_ms, self.step, router, &mut self.rng, &mut self.counts, &mut self.trace);
    }

    /// Clients come once the keyspace is there.
    fn let_clients_in(&mut self, desk: &rehome_control_log::DeskHandle) {
        let state = desk.state();
        let Some(keyspace) = state.keyspace_named(KEYSPACE).filter(|_| self.clients.is_empty()) else { return };
        let client = |number| Client::new(number, keyspace.id, keyspace.placement, &self.options);
        self.clients = (0..self.options.clients as u32).map(client).collect();
    }

    fn deliver_append(&mut self, index: usize) {
        let broker = self.site.broker.clone();
        if !self.fault(self.options.append_fault_per_10k) {
            return broker.deliver(index);
        }
        self.counts.append_faults += 1;
        let waiting = &broker.waiting()[index];
        let records = waiting.records;
        match (waiting.what, self.rng.random_range(0..5)) {
            (What::End, _) | (_, 0) => broker.refuse(index),
            (_, 1) => broker.fail_unknown(index, Fate::Appended),
            (_, 2) => broker.fail_unknown(index, Fate::Lost),
            (_, 3) => broker.fail_unknown(index, Fate::StillWaiting),
            (_, _) => broker.fail_unknown(index, Fate::AppendedInPart(self.rng.random_range(0..=records))),
        }
    }

    fn fault(&mut self, per_10k: u32) -> bool {
        self.faulty && self.rng.random_range(0..10_000) < per_10k
    }

    /// Every process is gone at once, with what was not durable.
    fn lose_power(&mut self) -> Result<(), Failure> {
        self.counts.power_losses += 1;
        self.counts.crashes += 1;
        let restart_at_ms = self.now_ms + self.rng.random_range(1..1_500);
        let lost = self.site.lose_power(&mut self.processes, restart_at_ms);
        self.trace.note("records lost", lost.len() as u64);
        self.witness.power_lost((1..=self.options.nodes).map(NodeId), !lost.is_empty());
        let first_ms = lost.iter().map(|lost| lost.appended_ms).min();
        let window_ms = self.options.fsync_every_ms.unwrap_or(0);
        if first_ms.is_some_and(|first_ms| self.options.fsync_every_ms.is_none() || first_ms + window_ms <= self.now_ms)
        {
            return Err(Failure(format!("lost at {} ms what was appended at {first_ms:?} ms", self.now_ms)));
        }
        let step_at = |ms| self.steps_at.range(..=ms).next_back().map_or(0, |(_, step)| *step);
        let lost_since = first_ms.map(step_at);
        self.clients.iter_mut().for_each(|client| client.power_lost(self.now_ms, lost_since));
        let control = self.site.broker.records(&rehome_control_log::control_partition());
        self.folded_min = control.last().map_or(Offset(0), |last| last.offset.next());
        self.site.network.forget_verdicts(|keyspace, shard, offset| {
            let partition = TopicPartition::new(data_topic(KEYSPACE, keyspace), shard.0);
            lost.iter().any(|lost| lost.partition == partition && lost.offset == offset)
        });
        self.counts.records_lost += lost.len() as u64;
        self.lost.extend(lost);
        Ok(())
    }

    fn maybe_fault(&mut self) -> Result<(), Failure> {
        if self.fault(self.options.power_loss_per_10k) {
            self.lose_power()?;
        }
        if self.fault(self.options.flush_per_10k) {
            self.site.flush_one(&mut self.rng);
        }
        if self.fault(self.options.crash_per_10k) {
            let index = self.rng.random_range(0..self.processes.len());
            let process = &self.processes[index];
            if process.restart_at_ms.is_none() && process.kind != Kind::Desk {
                self.crash(index);
            }
        }
        if self.fault(self.options.freeze_per_10k) {
            self.counts.freezes += 1;
            let index = self.rng.random_range(0..self.processes.len());
            self.processes[index].frozen_until_ms = Some(self.now_ms + self.rng.random_range(1..3_000));
        }
        if self.fault(self.options.damage_per_10k) {
            let names = self.site.snapshots.names().unwrap_or_default();
            if !names.is_empty() && self.site.snapshots.damage(&names[self.rng.random_range(0..names.len())]) {
                self.counts.damaged += 1;
            }
        }
        if self.fault(self.options.clock_jump_per_10k) {
            let jump_ms = self.rng.random_range(1..5_000);
            self.set_now(self.now_ms + jump_ms);
        }
        if self.fault(self.options.cancel_per_10k)
            && let Some(desk) = self.desk()
        {
            self.operator.cancel(&desk, &self.site, &mut self.counts);
        }
        if self.fault(self.options.pause_per_10k)
            && let Some(desk) = self.desk()
        {
            self.operator.pause(self.now_ms, &desk, &self.site, &mut self.counts);
        }
        if self.options.lag_ms_max > 0 && self.fault(50) {
            let index = self.rng.random_range(0..self.processes.len());
            let lag_ms = self.rng.random_range(0..=self.options.lag_ms_max);
            self.site.broker.set_lag_ms(&self.processes[index].name, lag_ms);
        }
        Ok(())
    }

    fn start_what_is_down(&mut self) {
        for process in &mut self.processes {
            if process.restart_at_ms.is_some_and(|at| at <= self.now_ms) && self.site.start(process).is_err() {
                process.restart_at_ms = Some(self.now_ms + 10);
            }
        }
    }

    /// Nothing can be done now: lets time pass up to the next moment at which something can.
    fn pass_time(&mut self) {
        let roles = self.processes.iter().flat_map(|process| process.roles.iter().filter_map(|role| role.wake_at_ms()));
        let restarts = self.processes.iter().filter_map(|process| process.restart_at_ms);
        let clients = self.clients.iter().filter_map(Client::wake_at_ms);
        let thaws = self.processes.iter().filter_map(|process| process.frozen_until_ms);
        let next = roles.chain(restarts).chain(thaws).chain(clients).filter(|at| *at > self.now_ms).min();
        self.set_now(next.unwrap_or(self.now_ms + 10).min(self.now_ms + 50));
    }

    fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.steps_at.entry(now_ms).or_insert(self.step);
        self.site.broker.set_now_ms(now_ms);
    }

    /// A replica or controller that stops for good is a violation: nothing here gives it a reason to.
    fn broken(&self) -> Result<(), Failure> {
        match self.site.broken() {
            Some(reason) => Err(Failure(format!("stopped for good: {reason}"))),
            None => Ok(()),
        }
    }

    fn count_moves(&mut self) {
        let Some(desk) = self.desk() else { return };
        let state = desk.state();
        for attempt in state.attempts() {
            match attempt.outcome() {
                Some(rehome_keyspace::Outcome::Switched { .. }) => self.counts.cutovers += 1,
                Some(rehome_keyspace::Outcome::Aborted { .. }) => self.counts.aborts += 1,
                None => {}
            }
        }
        self.counts.copies_again += state.moves().map(|one| u64::from(one.copy.saturating_sub(1))).sum::<u64>();
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        if let Some(desk) = self.desk() {
            let state = desk.state();
            for one in state.moves().filter(|one| one.is_open()) {
                text +=
                    &format!("\n  move {} from {} to {}: {}; story:", one.id, one.source, one.destination, one.phase);
                for line in one.story.iter().rev().take(4) {
                    text += &format!("\n    {} {}", line.offset, line.what);
                }
            }
        }
        let waiting = self.clients.iter().filter(|client| !client.is_done()).count();
        text + &format!("\n  {waiting} clients are not done; {} choices; now {} ms", self.choices().len(), self.now_ms)
    }
}
