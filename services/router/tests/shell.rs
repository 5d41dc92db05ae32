//! The router as a role, over the log in memory and one plain replica per shard.

mod world;

use rehome_control_log::{ControlFollower, control_partition};
use rehome_keyspace::{Epoch, KeyspaceId, Offset, Placement, RequestId, ShardId, Version};
use rehome_memory::{Broker, Faults};
use rehome_ports::{
    Batch, Lane, Log, PortError, ReadAnswer, ReadDone, ReadKind, ReadLevel, ReadLimits, ReadRequest, Remedy, Replicas,
    Role, Tail, VerdictBatch, Waker, When,
};
use rehome_records::control::{CONTROL_TOPIC, data_topic};
use rehome_records::{ControlEvent, ControlRecord, DataRecord, TopicPartition, Verdict};
use rehome_router::{
    EffectKind, ReadAsk, RequestIds, Router, RouterHandle, RouterLimits, ScanAsk, WriteAnswer, WriteAsk, WriteRefused,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use world::put;

const UNPOISONED: &str = "no thread panics";
const TAKES: &str = "the log in memory takes it";

/// Replicas that answer every read with no rows, and say what they were asked.
#[derive(Default)]
struct Plain {
    asked: Mutex<Vec<(ShardId, ReadRequest)>>,
}

impl Replicas for Plain {
    fn read(&self, _: KeyspaceId, shard: ShardId, request: ReadRequest, done: ReadDone) {
        let covered = match &request.kind {
            ReadKind::Scan { range, .. } => vec![(range.clone(), Epoch(u64::from(shard.0) + 1))],
            _ => Vec::new(),
        };
        self.asked.lock().expect(UNPOISONED).push((shard, request));
        done(Ok(ReadAnswer { rows: Vec::new(), shard, applied: None, covered, more_after: None }));
    }
}

/// What happens right after the router looked for control records.
type AfterPoll = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

struct Interrupted {
    tail: Box<dyn Tail>,
    after_poll: AfterPoll,
}

impl Tail for Interrupted {
    fn poll(&mut self, limits: ReadLimits) -> Result<Batch, PortError> {
        let batch = self.tail.poll(limits);
        let interruption = self.after_poll.lock().expect(UNPOISONED).take();
        interruption.into_iter().for_each(|interrupt| interrupt());
        batch
    }
}

type Answers = Arc<Mutex<Vec<Result<WriteAnswer, WriteRefused>>>>;
type Called = Arc<Mutex<Vec<(EffectKind, When)>>>;

struct Setup {
    broker: Broker,
    router: Router,
    handle: RouterHandle,
    replicas: Arc<Plain>,
    keyspace: KeyspaceId,
    called: Called,
    woken: Arc<AtomicUsize>,
    answers: Answers,
    after_poll: AfterPoll,
}

fn keyspace_created(name: &str) -> ControlRecord {
    let placement = Placement::buckets(16).expect("a valid count");
    let event = ControlEvent::KeyspaceCreated { name: name.into(), placement, shards: 2, request_retention_ms: 1_000 };
    ControlRecord { command: name.len() as u128, event }
}

/// Appends to the control log, where it is acknowledged at once.
fn append(log: &dyn Log, record: ControlRecord) -> Offset {
    let (tell, told) = channel();
    let done = Box::new(move |result: Result<Vec<Offset>, PortError>| drop(tell.send(result)));
    log.append(&control_partition(), Lane::Protocol, vec![record.into_record()], done);
    told.try_recv().expect("the append was acknowledged at once").expect(TAKES)[0]
}

fn setup() -> Setup {
    let broker = Broker::new(1, Faults::default());
    let log: Arc<dyn Log> = broker.handle("router");
    log.ensure_topic(CONTROL_TOPIC, 1).expect(TAKES);
    let keyspace = KeyspaceId(append(&*log, keyspace_created("k")).0);
    log.ensure_topic(&data_topic("k", keyspace), 2).expect(TAKES);
    let woken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&woken);
    let wake: Waker = Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let handle = RouterHandle::new(RouterLimits { queue_max: 10, ..RouterLimits::STANDARD }, Arc::clone(&wake));
    let replicas = Arc::new(Plain::default());
    let after_poll = AfterPoll::default();
    let tail = log.tail(&control_partition(), Offset(0), wake).expect(TAKES);
    let follower = ControlFollower::on(Box::new(Interrupted { tail, after_poll: Arc::clone(&after_poll) }));
    let mut next_id = 0u128;
    let ids: RequestIds = Box::new(move || {
        next_id += 1;
        RequestId(next_id.to_be_bytes())
    });
    let called: Called = Arc::default();
    let calls = Arc::clone(&called);
    let hook = Arc::new(move |kind, when| calls.lock().expect(UNPOISONED).push((kind, when)));
    let router =
        Router::new(handle.clone(), follower, log, Arc::clone(&replicas) as Arc<dyn Replicas>, ids).with_hook(hook);
    Setup { broker, router, handle, replicas, keyspace, called, woken, answers: Answers::default(), after_poll }
}

impl Setup {
    fn turns(&mut self) {
        while self.router.turn(0).progressed {}
    }

    fn write(&self, write: WriteAsk) {
        let answers = Arc::clone(&self.answers);
        let write = WriteAsk { keyspace: self.keyspace, ..write };
        self.handle.write(write, Box::new(move |answer| answers.lock().expect(UNPOISONED).push(answer)));
    }

    /// Both shards accept whatever lies in their partitions.
    fn accept_all(&self) {
        for shard in 0..2 {
            let partition = TopicPartition::new(data_topic("k", self.keyspace), shard);
            let records = self.broker.records(&partition);
            let Some(last) = records.last() else { continue };
            let verdict = |logged: &rehome_records::Logged| {
                let version = Version { epoch: Epoch(u64::from(shard) + 1), offset: logged.offset };
                (logged.offset, Verdict::Accepted { version })
            };
            let verdicts = records.iter().map(verdict).collect();
            let batch = VerdictBatch { keyspace: self.keyspace, shard: ShardId(shard), verdicts, applied: last.offset };
            (self.handle.verdict_sink())(batch);
        }
    }
}

#[test]
fn a_write_goes_through_the_log_and_is_answered_by_its_verdict() {
    let mut setup = setup();
    let woken = setup.woken.load(Ordering::SeqCst);
    setup.write(put(b"key", 1, 1_000));
    assert!(setup.woken.load(Ordering::SeqCst) > woken, "an ask wakes the router");
    setup.turns();
    assert!(setup.answers.lock().expect(UNPOISONED).is_empty(), "an append is not an answer");
    setup.accept_all();
    setup.turns();
    let answers = setup.answers.lock().expect(UNPOISONED);
    assert!(answers.len() == 1 && answers[0].as_ref().unwrap().is_done(), "{answers:?}");
    assert_eq!(setup.handle.counters().writes_answered, 1);
}

#[test]
fn a_write_without_request_id_and_source_is_given_an_id() {
    let mut setup = setup();
    for number in 1..=2 {
        setup.write(WriteAsk { request: None, ..put(b"key", number, 1_000) });
    }
    setup.turns();
    let shard = Placement::buckets(16).unwrap().slot(b"key").0 / 8;
    let records = setup.broker.records(&TopicPartition::new(data_topic("k", setup.keyspace), shard));
    let ids: BTreeSet<Option<RequestId>> = records
        .iter()
        .map(|logged| match DataRecord::read(&logged.record).unwrap() {
            DataRecord::Write(write) => write.request,
            DataRecord::Mark(_) => panic!("a router appends no marks"),
        })
        .collect();
    assert_eq!(ids, BTreeSet::from([1u128, 2].map(|id| Some(RequestId(id.to_be_bytes())))));
}

#[test]
fn a_keyspace_that_is_made_while_the_router_works_is_found_by_who_asks_afterwards() {
    let mut setup = setup();
    setup.turns();
    let (log, handle, answers) = (setup.broker.handle("operator"), setup.handle.clone(), Arc::clone(&setup.answers));
    *setup.after_poll.lock().expect(UNPOISONED) = Some(Box::new(move || {
        let keyspace = KeyspaceId(append(&*log, keyspace_created("another")).0);
        log.ensure_topic(&data_topic("another", keyspace), 2).expect(TAKES);
        let done = Box::new(move |answer| answers.lock().expect(UNPOISONED).push(answer));
        handle.write(WriteAsk { keyspace, ..put(b"key", 1, 1_000) }, done);
    }));
    setup.turns();
    assert!(setup.after_poll.lock().expect(UNPOISONED).is_none());
    let answers = setup.answers.lock().expect(UNPOISONED);
    assert!(answers.is_empty(), "its verdict is waited for, instead of {answers:?}");
}

#[test]
fn reads_and_scans_reach_the_replicas() {
    let mut setup = setup();
    let told = Arc::new(AtomicUsize::new(0));
    let kind = ReadKind::Get { partition_key: b"key".to_vec(), sort_key: b"s".to_vec() };
    let read = ReadAsk { keyspace: setup.keyspace, kind, level: ReadLevel::Eventual, deadline_ms: 1_000 };
    let count = Arc::clone(&told);
    setup.handle.read(read, Box::new(move |answer| drop(answer.map(|_| count.fetch_add(1, Ordering::SeqCst)))));
    let scan =
        ScanAsk { keyspace: setup.keyspace, level: ReadLevel::Eventual, limit: 10, after: None, deadline_ms: 1_000 };
    let count = Arc::clone(&told);
    setup.handle.scan(
        scan,
        Box::new(move |answer| {
            assert_eq!(answer.map(|page| (page.next, page.missing)), Ok((None, Vec::new())));
            count.fetch_add(1, Ordering::SeqCst);
        }),
    );
    setup.turns();
    assert_eq!(told.load(Ordering::SeqCst), 2);
    let asked = setup.replicas.asked.lock().expect(UNPOISONED);
    assert_eq!(asked.len(), 3, "one read, and one part per shard: {asked:?}");
}

#[test]
fn every_effect_has_a_hook_before_and_after() {
    let mut setup = setup();
    setup.write(put(b"key", 1, 1_000));
    setup.turns();
    setup.accept_all();
    setup.turns();
    let called = setup.called.lock().expect(UNPOISONED);
    let expected = [EffectKind::Append, EffectKind::AnswerWrite]
        .into_iter()
        .flat_map(|kind| [(kind, When::Before), (kind, When::After)])
        .collect::<Vec<_>>();
    assert_eq!(*called, expected);
    let names: BTreeSet<&str> = EffectKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), EffectKind::ALL.len());
}

#[test]
fn a_router_that_stands_still_lets_no_more_in() {
    let setup = setup();
    for number in 0..11 {
        setup.write(put(b"key", number, 1_000));
    }
    let answers = setup.answers.lock().expect(UNPOISONED);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].as_ref().unwrap_err().code, "overloaded");
}

#[test]
fn a_router_that_ends_answers_everybody() {
    let mut setup = setup();
    setup.write(put(b"key", 1, 1_000));
    setup.turns();
    setup.write(put(b"key", 2, 1_000));
    let Setup { router, handle, answers, keyspace, .. } = setup;
    drop(router);
    let remedies = |answers: &Answers| -> Vec<Remedy> {
        answers.lock().expect(UNPOISONED).iter().map(|answer| answer.as_ref().unwrap_err().remedy).collect()
    };
    assert_eq!(remedies(&answers), [Remedy::NotApplied, Remedy::Unknown]);
    let told = Arc::clone(&answers);
    let write = WriteAsk { keyspace, ..put(b"key", 3, 1_000) };
    handle.write(write, Box::new(move |answer| told.lock().expect(UNPOISONED).push(answer)));
    assert_eq!(remedies(&answers), [Remedy::NotApplied, Remedy::Unknown, Remedy::NotApplied]);
}
