//! What a scheduler can do to the log in memory.

// In the helpers as in the tests themselves.
#![allow(clippy::unwrap_used)]

use rehome_keyspace::Offset;
use rehome_memory::{Broker, Delivery, Fate, Faults, What};
use rehome_ports::{Lane, Log, PortError, ReadLimits, Remedy, Signal, Tail};
use rehome_records::{Record, TopicPartition};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex};

const ALL: ReadLimits = ReadLimits { records_max: usize::MAX, bytes_max: usize::MAX };

fn partition() -> TopicPartition {
    TopicPartition::new("rehome.control", 0)
}

fn held(roles: &[&str]) -> (Broker, Vec<Arc<dyn Log>>) {
    let broker = Broker::new(1, Faults::default());
    let logs: Vec<_> = roles.iter().map(|role| broker.handle(*role)).collect();
    logs[0].ensure_topic("rehome.control", 1).unwrap();
    broker.set_delivery(Delivery::Held);
    (broker, logs)
}

fn send(log: &Arc<dyn Log>, lane: Lane, texts: &[&str]) -> Receiver<Result<Vec<Offset>, PortError>> {
    let (told, answer) = channel();
    let records = texts.iter().map(|text| Record { value: Some(text.as_bytes().to_vec()), ..Record::default() });
    log.append(&partition(), lane, records.collect(), Box::new(move |result| drop(told.send(result))));
    answer
}

fn texts(broker: &Broker) -> Vec<String> {
    let text = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap()).unwrap();
    broker.records(&partition()).into_iter().map(|logged| text(logged.record.value)).collect()
}

fn poll(tail: &mut Box<dyn Tail>) -> Vec<Offset> {
    tail.poll(ALL).unwrap().records.iter().map(|logged| logged.offset).collect()
}

#[test]
fn held_appends_wait_for_the_scheduler_and_lines_overtake_each_other() {
    let (broker, logs) = held(&["a", "b"]);
    let first = send(&logs[0], Lane::Data, &["a1"]);
    let second = send(&logs[0], Lane::Data, &["a2"]);
    send(&logs[0], Lane::Protocol, &["mark"]);
    send(&logs[1], Lane::Data, &["b1"]);
    assert_eq!((broker.pending(), first.try_recv(), texts(&broker).len()), (3, Err(TryRecvError::Empty), 0));
    let what: Vec<_> = broker.waiting().into_iter().map(|waiting| (waiting.role, waiting.what)).collect();
    let (a, b) = ("a".to_string(), "b".to_string());
    assert_eq!(what, [(a.clone(), What::AppendProtocol), (a, What::AppendData), (b, What::AppendData)]);
    broker.deliver(2);
    broker.deliver(1);
    assert_eq!((first.try_recv(), second.try_recv()), (Ok(Ok(vec![Offset(1)])), Err(TryRecvError::Empty)));
    broker.set_delivery(Delivery::Immediate);
    assert_eq!((texts(&broker), broker.pending()), (["b1", "a1", "mark", "a2"].map(String::from).to_vec(), 0));
}

#[test]
fn an_unknown_answer_leaves_every_fate_open() {
    let remedy = |answer: Receiver<Result<Vec<Offset>, PortError>>| answer.try_recv().unwrap().unwrap_err().remedy;
    let cases: [(Fate, &[&str]); 4] = [
        (Fate::Appended, &["1", "2", "3", "next"]),
        (Fate::AppendedInPart(1), &["1", "next"]),
        (Fate::Lost, &["next"]),
        (Fate::StillWaiting, &["1", "2", "3", "next"]),
    ];
    for (fate, expected) in cases {
        let (broker, logs) = held(&["a"]);
        let answer = send(&logs[0], Lane::Data, &["1", "2", "3"]);
        send(&logs[0], Lane::Data, &["next"]);
        broker.fail_unknown(0, fate);
        assert_eq!(remedy(answer), Remedy::Unknown);
        let orphaned = broker.waiting()[0].orphaned;
        assert_eq!(orphaned, fate == Fate::StillWaiting, "{fate:?}");
        broker.set_delivery(Delivery::Immediate);
        assert_eq!(texts(&broker), expected, "{fate:?}");
    }
    let (broker, logs) = held(&["a"]);
    let answer = send(&logs[0], Lane::Data, &["1"]);
    broker.refuse(0);
    assert_eq!((remedy(answer), texts(&broker).len(), broker.pending()), (Remedy::NotApplied, 0, 0));
}

#[test]
fn a_cut_role_hears_nothing_and_its_messages_may_still_arrive() {
    let (broker, logs) = held(&["a", "b"]);
    let signal = Signal::new();
    let mut tail = logs[0].tail(&partition(), Offset(0), signal.waker()).unwrap();
    let before = [send(&logs[0], Lane::Data, &["late"]), send(&logs[0], Lane::Protocol, &["lost"])];
    broker.cut("a");
    let after = send(&logs[0], Lane::Data, &["never"]);
    assert!(broker.waiting().iter().all(|waiting| waiting.orphaned));
    let protocol = broker.waiting().iter().position(|waiting| waiting.what == What::AppendProtocol).unwrap();
    broker.fail_unknown(protocol, Fate::Lost);
    broker.deliver(0);
    assert_eq!((texts(&broker), broker.pending()), (vec!["late".to_string()], 0));
    for answer in before.iter().chain([&after]) {
        assert_eq!(answer.try_recv(), Err(TryRecvError::Disconnected));
    }
    assert_eq!(tail.poll(ALL).unwrap_err().remedy, Remedy::NotApplied);
    assert!(logs[0].start(&partition()).is_err());
    let again = broker.handle("a");
    assert_eq!(poll(&mut again.tail(&partition(), Offset(0), signal.waker()).unwrap()), [Offset(0)]);
    assert!(logs[1].start(&partition()).is_ok(), "the others live on");
}

#[test]
fn a_question_for_the_end_is_held_too_and_answered_as_of_its_delivery() {
    let (broker, logs) = held(&["a"]);
    let (told, answer) = channel();
    logs[0].end(&partition(), Box::new(move |result| drop(told.send(result))));
    send(&logs[0], Lane::Data, &["1"]);
    assert_eq!((broker.pending(), answer.try_recv()), (2, Err(TryRecvError::Empty)));
    broker.deliver(0);
    broker.deliver(0);
    assert_eq!(answer.try_recv(), Ok(Ok(Offset(1))));
}

#[test]
fn a_lagging_role_sees_records_only_later() {
    let (broker, logs) = held(&["a", "b"]);
    broker.set_delivery(Delivery::Immediate);
    broker.set_lag_ms("b", 10);
    let woken = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&woken);
    let mut prompt = logs[0].tail(&partition(), Offset(0), Signal::new().waker()).unwrap();
    let mut late = logs[1].tail(&partition(), Offset(0), Arc::new(move || *counted.lock().unwrap() += 1)).unwrap();
    broker.set_now_ms(100);
    send(&logs[0], Lane::Data, &["1"]);
    broker.set_now_ms(105);
    send(&logs[0], Lane::Data, &["2"]);
    assert_eq!((poll(&mut prompt), poll(&mut late)), (vec![Offset(0), Offset(1)], vec![]));
    let before = *woken.lock().unwrap();
    broker.set_now_ms(110);
    assert!(*woken.lock().unwrap() > before);
    let batch = late.poll(ALL).unwrap();
    assert_eq!((batch.records.len(), batch.next), (1, Offset(1)), "next does not pass what is not visible yet");
    broker.set_lag_ms("b", 0);
    assert_eq!(poll(&mut late), [Offset(1)]);
    let times: Vec<_> = broker.records(&partition()).iter().map(|logged| logged.append_time_ms).collect();
    assert_eq!(times, [100, 105]);
}

#[test]
fn one_seed_gives_one_log() {
    let offsets = |seed| {
        let broker = Broker::new(seed, Faults::gaps());
        let log = broker.handle("a");
        log.ensure_topic("rehome.control", 1).unwrap();
        (0..100).for_each(|_| drop(send(&log, Lane::Data, &["x"])));
        broker.records(&partition()).iter().map(|logged| logged.offset.0).collect::<Vec<_>>()
    };
    assert_eq!(offsets(1), offsets(1));
    assert_ne!(offsets(1), offsets(2));
    assert!(offsets(1).windows(2).any(|pair| pair[1] > pair[0] + 1), "there are gaps");
}

#[test]
fn a_callback_may_append_again() {
    let (broker, logs) = held(&["a"]);
    let log = Arc::clone(&logs[0]);
    let done = move |_| log.append(&partition(), Lane::Data, vec![Record::default()], Box::new(|_| {}));
    logs[0].append(&partition(), Lane::Data, vec![Record::default()], Box::new(done));
    broker.deliver(0);
    assert_eq!((broker.records(&partition()).len(), broker.pending()), (1, 1));
}

#[test]
fn a_long_log_is_read_in_as_many_polls_as_the_scheduler_wants() {
    let (broker, logs) = held(&["a"]);
    broker.set_delivery(Delivery::Immediate);
    send(&logs[0], Lane::Data, &["1", "2", "3"]);
    broker.set_poll_records_max(2);
    let mut tail = logs[0].tail(&partition(), Offset(0), Signal::new().waker()).unwrap();
    assert_eq!(poll(&mut tail), [Offset(0), Offset(1)]);
    assert_eq!(poll(&mut tail), [Offset(2)]);
}
