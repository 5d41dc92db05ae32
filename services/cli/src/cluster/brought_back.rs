//! Folders that a power loss left, that were brought back from a copy, or that belong elsewhere.

use super::*;
use crate::demo::compare::compare;
use rehome_keyspace::Placement;
use rehome_oracle::ClientHistory;
use rehome_ports::{ReadAnswer, ReadKind, ReadLevel};
use rehome_records::store_value::StoredIdentity;
use rehome_records::{Operation, RowChange, store_key};
use rehome_router::{ReadAsk, Refused, WriteAnswer, WriteAsk};
use std::path::PathBuf;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(30);
/// So long that nothing is synced unless it must be.
const SELDOM: Fsync = Fsync::Every(Duration::from_secs(3_600));

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn start(dir: &Path, fsync: Fsync) -> Cluster {
    start_on(&Cluster::take(dir, fsync).expect("the log opens"), dir)
}

fn start_on(log: &Arc<EmbeddedLog>, dir: &Path) -> Cluster {
    Cluster::start_on(Arc::clone(log), dir, "test", Hooks::default(), RouterLimits::STANDARD).expect("it starts")
}

fn create(cluster: &Cluster, name: &str, shards: u32) -> KeyspaceId {
    let placement = Placement::buckets(64).expect("a valid count");
    let event = ControlEvent::KeyspaceCreated {
        name: name.into(),
        placement,
        shards,
        request_retention_ms: REQUEST_RETENTION_MS,
    };
    cluster.propose(event).expect("it is decided");
    cluster.desk().state().keyspace_named(name).expect("it was created").id
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn put(cluster: &Cluster, keyspace: KeyspaceId, number: u32) -> WriteAnswer {
    let change = RowChange { sort_key: b"s".to_vec(), value: Some(number.to_be_bytes().to_vec()) };
    let ask = WriteAsk {
        keyspace,
        partition_key: key(number),
        operation: Operation::Change(change),
        request: None,
        source: None,
        deadline_ms: cluster.clock().now_ms() + DEADLINE.as_millis() as u64,
    };
    let (tell, told) = mpsc::channel();
    cluster.router().write(ask, Box::new(move |answer| drop(tell.send(answer))));
    let answer = told.recv_timeout(2 * DEADLINE).expect("it is answered").expect("it is accepted");
    assert!(answer.is_done());
    answer
}

fn get(cluster: &Cluster, keyspace: KeyspaceId, number: u32, wait: Duration) -> Result<ReadAnswer, Refused> {
    let kind = ReadKind::Get { partition_key: key(number), sort_key: b"s".to_vec() };
    let deadline_ms = cluster.clock().now_ms() + wait.as_millis() as u64;
    let ask = ReadAsk { keyspace, kind, level: ReadLevel::Linearizable, deadline_ms };
    let (tell, told) = mpsc::channel();
    cluster.router().read(ask, Box::new(move |answer| drop(tell.send(answer))));
    told.recv_timeout(2 * DEADLINE).expect("it is answered")
}

fn is_there(cluster: &Cluster, keyspace: KeyspaceId, number: u32) -> bool {
    let rows = get(cluster, keyspace, number, DEADLINE).expect("it is read").rows;
    assert!(rows.iter().all(|row| row.value == number.to_be_bytes()));
    !rows.is_empty()
}

fn flush(cluster: &Cluster) {
    let (tell, told) = mpsc::channel();
    let flushing = cluster.node.as_ref().expect("it is a node").1.flush_all(move |result| drop(tell.send(result)));
    told.iter().take(flushing).for_each(|result| result.expect("a store can be flushed"));
}

/// Waits until that replica says why it is broken.
fn broken(cluster: &Cluster, keyspace: KeyspaceId) -> String {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let mut reports = cluster.progress().reports.into_iter();
        let found = reports.find(|((of, _), report)| *of == keyspace && report.broken.is_some());
        if let Some((_, report)) = found {
            return report.broken.unwrap_or_default();
        }
        assert!(Instant::now() < deadline, "the replica is not refused: {:?}", cluster.progress());
        std::thread::yield_now();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder can be made");
    for entry in std::fs::read_dir(from).expect("a folder can be read") {
        let path = entry.expect("a folder can be read").path();
        let target = to.join(path.file_name().expect("an entry has a name"));
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, &target).expect("a file can be copied")),
        }
    }
}

fn replace(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).expect("a folder can be removed");
    copy(from, to);
}

fn store_dir(dir: &Path, keyspace: KeyspaceId) -> PathBuf {
    dir.join("stores").join(format!("{keyspace}-0"))
}

/// Writes, flushes the stores in between, and loses power; returns how many of the last writes are lost.
fn lose_power(before_flush: u32, after_flush: u32, torn: usize) -> usize {
    let (dir, left) = (folder(), folder());
    let log = Cluster::take(dir.path(), SELDOM).expect("the log opens");
    let cluster = start_on(&log, dir.path());
    let keyspace = create(&cluster, "rows", 3);
    let mut answers: Vec<WriteAnswer> = (0..before_flush).map(|number| put(&cluster, keyspace, number)).collect();
    flush(&cluster);
    answers.extend((before_flush..before_flush + after_flush).map(|number| put(&cluster, keyspace, number)));
    copy(&dir.path().join("stores"), &left.path().join("stores"));
    log.copy_after_power_loss(&left.path().join("log"), torn).expect("the log can be copied");
    cluster.stop().expect("it stops");
    drop((cluster, log));

    let cluster = start(left.path(), SELDOM);
    let there: Vec<bool> = (0..).take(answers.len()).map(|number| is_there(&cluster, keyspace, number)).collect();
    let kept = there.iter().take_while(|there| **there).count();
    assert!(there[kept..].iter().all(|there| !there), "the newest are lost, none in between: {there:?}");
    assert!(kept >= before_flush as usize, "what a store has flushed is synced, and all before");
    let mut history = ClientHistory::new();
    answers[..kept].iter().for_each(|answer| history.acknowledge(answer.shard, answer.offset));
    for number in 1_000..1_050 {
        let answer = put(&cluster, keyspace, number);
        let same = |old: &WriteAnswer| (old.shard, old.offset) == (answer.shard, answer.offset);
        assert!(!answers.iter().any(same), "{answer:?} has the offset of another write");
        history.acknowledge(answer.shard, answer.offset);
    }
    let store = |shard| Ok(cluster.store(keyspace, shard)?);
    let compared = compare(cluster.log(), &store, keyspace, &history).expect("it can be compared");
    assert!(compared.findings.is_clean(), "{}", compared.findings);
    assert_eq!(compared.rows_visible, kept as u64 + 50);
    cluster.stop().expect("it stops");
    answers.len() - kept
}

#[test]
fn a_power_loss_takes_the_newest_writes_and_log_and_stores_agree() {
    assert_eq!(lose_power(200, 100, 0), 100, "nothing made them durable");
    let lost = lose_power(50, 100, 3_000);
    assert!((1..100).contains(&lost), "{lost} of 100 are lost, though a part of the log's end is left");
}

#[test]
fn a_power_loss_takes_nothing_that_a_store_has_flushed() {
    assert_eq!(lose_power(300, 0, 0), 0);
}

#[test]
fn a_store_whose_log_is_older_is_refused_until_its_log_is_back() {
    for missing in [1, 40] {
        let (dir, older, newest) = (folder(), folder(), folder());
        let cluster = start(dir.path(), Fsync::Always);
        let keyspace = create(&cluster, "rows", 1);
        (0..50).for_each(|number| drop(put(&cluster, keyspace, number)));
        cluster.stop().expect("it stops");
        drop(cluster);
        copy(&dir.path().join("log"), older.path());
        let cluster = start(dir.path(), Fsync::Always);
        (50..50 + missing).for_each(|number| drop(put(&cluster, keyspace, number)));
        cluster.stop().expect("it stops");
        drop(cluster);
        copy(&dir.path().join("log"), newest.path());

        replace(older.path(), &dir.path().join("log"));
        let cluster = start(dir.path(), Fsync::Always);
        let reason = broken(&cluster, keyspace);
        for part in [format!("{}", 49 + missing), "50".into(), "rehome up".into()] {
            assert!(reason.contains(&part), "{part}: {reason}");
        }
        let read = get(&cluster, keyspace, 0, Duration::from_millis(300));
        assert!(read.is_err(), "nothing is served: {read:?}");
        // It may say once more why a store cannot be flushed.
        let _ = cluster.stop();
        drop(cluster);

        replace(newest.path(), &dir.path().join("log"));
        let cluster = start(dir.path(), Fsync::Always);
        assert!((0..50 + missing).all(|number| is_there(&cluster, keyspace, number)), "nothing was overwritten");
        cluster.stop().expect("it stops");
    }
}

#[test]
fn a_store_of_another_keyspace_is_refused_until_its_own_is_back() {
    let (dir, aside) = (folder(), folder());
    let cluster = start(dir.path(), Fsync::Always);
    let [one, other] = ["one", "other"].map(|name| create(&cluster, name, 1));
    [one, other].iter().for_each(|keyspace| drop(put(&cluster, *keyspace, 7)));
    cluster.stop().expect("it stops");
    drop(cluster);
    copy(&store_dir(dir.path(), one), aside.path());
    replace(&store_dir(dir.path(), other), &store_dir(dir.path(), one));
    let cluster = start(dir.path(), Fsync::Always);
    let reason = broken(&cluster, one);
    for part in ["keyspace one", &format!("belongs to shard 0 of keyspace {other}"), "rehome up"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    assert!(is_there(&cluster, other, 7), "the other is served");
    let _ = cluster.stop();
    drop(cluster);
    replace(aside.path(), &store_dir(dir.path(), one));
    let cluster = start(dir.path(), Fsync::Always);
    assert!(is_there(&cluster, one, 7));
    cluster.stop().expect("it stops");
}

#[test]
fn a_store_that_a_newer_version_wrote_is_refused() {
    let dir = folder();
    let cluster = start(dir.path(), Fsync::Always);
    let keyspace = create(&cluster, "rows", 1);
    put(&cluster, keyspace, 7);
    cluster.stop().expect("it stops");
    drop(cluster);
    let write_identity = |newer: u8| {
        let stores = RocksNode::open(&dir.path().join("stores")).expect("the stores open");
        let store = stores.store(keyspace, ShardId(0)).expect("a store opens");
        let mut value = StoredIdentity { keyspace, shard: ShardId(0) }.encode();
        value[0] += newer;
        store.write(vec![rehome_ports::Change::Put { key: store_key::identity(), value }]).expect("it is written");
        store.flush().expect("it is flushed");
    };
    write_identity(1);
    let cluster = start(dir.path(), Fsync::Always);
    let reason = broken(&cluster, keyspace);
    for part in ["has format 2", "a newer version wrote it", "rehome up"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    let _ = cluster.stop();
    drop(cluster);
    write_identity(0);
    let cluster = start(dir.path(), Fsync::Always);
    assert!(is_there(&cluster, keyspace, 7));
    cluster.stop().expect("it stops");
}
