//! The Log port itself: open, append, close.

use crate::committer::{self, Committer};
use crate::disk::Disk;
use crate::errors::OpenError;
use crate::frames::Frames;
use crate::fsync::Fsync;
use crate::options::Limits;
use crate::partition::Partition;
use crate::queue::{Append, Queue};
use crate::syncs::Syncs;
use crate::tail::EmbeddedTail;
use crate::tear;
use rehome_keyspace::Offset;
use rehome_ports::{AppendDone, EndDone, Lane, Log, PortError, Tail, Waker};
use rehome_records::{Record, TopicPartition};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Largest record, in bytes. Reason: a group of appends shall stay small enough to sync quickly.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// A log on local disk. Dropping it closes it.
pub struct EmbeddedLog {
    disk: Arc<Disk>,
    queue: Arc<Queue>,
    syncs: Arc<Syncs>,
    fsync: Fsync,
    limits: Limits,
    ring_bytes_max: Arc<AtomicUsize>,
    topics: RwLock<Topics>,
    /// Gives each partition a number of its own.
    partitions_ever: AtomicUsize,
    committer: Mutex<Option<JoinHandle<()>>>,
    /// Under `Fsync::Every`.
    syncer: Mutex<Option<JoinHandle<()>>>,
    /// One topic is grown at a time. Its own lock, so that nobody who reads or appends waits for the disk meanwhile.
    growing: Mutex<()>,
    /// One trim at a time, so that the start on disk never goes back.
    trims: Mutex<()>,
}

/// Partitions by topic, in the order of their numbers.
type Topics = BTreeMap<String, Vec<Arc<Partition>>>;

impl EmbeddedLog {
    /// Opens the log in that folder, which is made if it does not exist. Nothing is acknowledged before it is durable.
    ///
    /// Errors: `Held` when another process has it open; `Damaged` when what was synced is not whole.
    pub fn open(dir: &Path, limits: Limits) -> Result<Arc<EmbeddedLog>, OpenError> {
        EmbeddedLog::open_with(dir, limits, Fsync::Always)
    }

    /// Opens the log, and makes durable what is appended as `fsync` says.
    ///
    /// Errors: as `open`.
    pub fn open_with(dir: &Path, limits: Limits, fsync: Fsync) -> Result<Arc<EmbeddedLog>, OpenError> {
        let disk = Arc::new(Disk::open(dir, limits.log_file_bytes)?);
        let damaged = |error: PortError| OpenError::Damaged { dir: dir.to_path_buf(), reason: error.message };
        let io = |source| OpenError::Io { path: dir.to_path_buf(), source };
        let topics = load(&disk).map_err(damaged)?;
        tear::mark(dir, fsync != Fsync::Always).map_err(io)?;
        let queue = Arc::new(Queue::new(limits));
        let syncs = Arc::new(Syncs::default());
        let ring_bytes_max = Arc::new(AtomicUsize::new(limits.ring_share(count(&topics))));
        let committer = Committer {
            disk: Arc::clone(&disk),
            queue: Arc::clone(&queue),
            syncs: Arc::clone(&syncs),
            fsync,
            ring_bytes_max: Arc::clone(&ring_bytes_max),
        };
        let thread = thread::Builder::new().name("log-committer".into()).spawn(move || committer::run(&committer));
        let log = Arc::new(EmbeddedLog {
            disk,
            queue,
            syncs,
            fsync,
            limits,
            ring_bytes_max,
            partitions_ever: AtomicUsize::new(count(&topics)),
            topics: RwLock::new(topics),
            committer: Mutex::new(Some(thread.map_err(io)?)),
            syncer: Mutex::default(),
            growing: Mutex::new(()),
            trims: Mutex::new(()),
        });
        if let Fsync::Every(every) = fsync {
            let thread = log.start_syncer(every).map_err(io)?;
            log.syncer.lock().unwrap_or_else(PoisonError::into_inner).replace(thread);
        }
        Ok(log)
    }

    fn start_syncer(&self, every: Duration) -> std::io::Result<JoinHandle<()>> {
        let (disk, queue, syncs) = (Arc::clone(&self.disk), Arc::clone(&self.queue), Arc::clone(&self.syncs));
        thread::Builder::new().name("log-syncer".into()).spawn(move || {
            if let Err(error) = syncs.run(&disk, every) {
                tracing::error!(%error, "log stopped: what was appended could not be synced; mend the disk, start again");
                queue.stop(error);
            }
        })
    }

    /// Makes what was queued durable, refuses what follows, and moves everything to tables, so that opening again is
    /// quick. The folder is given back when the log and its tails are dropped.
    pub fn close(&self) -> Result<(), PortError> {
        self.queue.stop(PortError::not_applied("the log is closed"));
        let Some(committer) = self.committer.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        // A callback may hold the last reference; the committer cannot wait for itself.
        if committer.thread().id() != thread::current().id() && committer.join().is_err() {
            return Err(PortError::broken("the log's committer died"));
        }
        self.syncs.stop();
        if let Some(syncer) = self.syncer.lock().unwrap_or_else(PoisonError::into_inner).take()
            && syncer.join().is_err()
        {
            return Err(PortError::broken("the log's syncer died"));
        }
        self.sync()?;
        let partitions: Vec<_> = self.read_topics(|topics| topics.values().flatten().cloned().collect());
        self.disk.flush()?;
        // Everything is durable: no offset above the end was given.
        let reserved = partitions.iter().filter(|partition| partition.reserved() > Offset(0));
        self.disk.reserve(reserved.map(|partition| (&partition.name, partition.extent().end)))?;
        let dir = self.disk.path();
        tear::mark(&dir, false).map_err(|error| PortError::broken(format!("cannot use {}: {error}", dir.display())))
    }

    /// Returns when what is appended is made durable.
    pub fn fsync(&self) -> Fsync {
        self.fsync
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    fn read_topics<T>(&self, read: impl FnOnce(&Topics) -> T) -> T {
        read(&self.topics.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn partition(&self, name: &TopicPartition) -> Result<Arc<Partition>, PortError> {
        let missing = || PortError::not_applied(format!("there is no partition {name}"));
        self.read_topics(|topics| topics.get(&name.topic)?.get(name.partition as usize).cloned()).ok_or_else(missing)
    }
}

impl Log for EmbeddedLog {
    fn ensure_topic(&self, topic: &str, partitions: u32) -> Result<(), PortError> {
        let _one = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.partitions(topic)?;
        if known.is_some_and(|existing| existing >= partitions) {
            return Ok(());
        }
        let existing = known.unwrap_or(0);
        self.disk.grow_topic(topic, partitions)?;
        let mut grown = Vec::new();
        for partition in existing..partitions {
            let name = TopicPartition::new(topic, partition);
            let extent = self.disk.extent(&name)?;
            let number = self.partitions_ever.fetch_add(1, Ordering::Relaxed);
            grown.push(Arc::new(Partition::new(name, number, extent)));
        }
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        topics.entry(topic.to_string()).or_default().extend(grown);
        let share = self.limits.ring_share(count(&topics));
        self.ring_bytes_max.store(share, Ordering::Relaxed);
        topics.values().flatten().for_each(|partition| partition.shrink(share));
        Ok(())
    }

    fn remove_topic(&self, topic: &str) -> Result<(), PortError> {
        let _one = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = self.topics.write().unwrap_or_else(PoisonError::into_inner).remove(topic);
        let Some(partitions) = removed else { return Ok(()) };
        partitions.iter().for_each(|partition| partition.remove());
        let gone = self.disk.remove_topic(topic);
        if gone.is_err() {
            // It is asked for again: then it has to be found.
            self.topics.write().unwrap_or_else(PoisonError::into_inner).insert(topic.to_owned(), partitions);
        }
        gone
    }

    fn partitions(&self, topic: &str) -> Result<Option<u32>, PortError> {
        Ok(self.read_topics(|topics| topics.get(topic).map(|partitions| partitions.len() as u32)))
    }

    fn append(&self, partition: &TopicPartition, lane: Lane, records: Vec<Record>, done: AppendDone) {
        let partition = match self.partition(partition) {
            Ok(partition) => partition,
            Err(error) => return done(Err(error)),
        };
        if records.iter().any(|record| record.bytes() > RECORD_BYTES_MAX) {
            return done(Err(PortError::not_applied(format!("a record is larger than {RECORD_BYTES_MAX} bytes"))));
        }
        if records.is_empty() {
            return done(Ok(Vec::new()));
        }
        let append_time_ms = now_ms();
        let frames = Frames::encode(&records, append_time_ms);
        self.queue.push(Append { partition, lane, frames, append_time_ms, done });
    }

    fn tail(&self, partition: &TopicPartition, from: Offset, wake: Waker) -> Result<Box<dyn Tail>, PortError> {
        let partition = self.partition(partition)?;
        let number = partition.follow(from, wake)?;
        Ok(Box::new(EmbeddedTail { disk: Arc::clone(&self.disk), partition, number, next: from }))
    }

    fn end(&self, partition: &TopicPartition, done: EndDone) {
        // Published before it is acknowledged: so everything acknowledged lies below.
        done(self.partition(partition).map(|partition| partition.extent().end));
    }

    fn start(&self, partition: &TopicPartition) -> Result<Offset, PortError> {
        Ok(self.partition(partition)?.extent().start)
    }

    fn sync(&self) -> Result<(), PortError> {
        self.syncs.sync(&self.disk)
    }

    fn trim(&self, partition: &TopicPartition, before: Offset) -> Result<(), PortError> {
        let partition = self.partition(partition)?;
        let _one = self.trims.lock().unwrap_or_else(PoisonError::into_inner);
        match partition.trim(before) {
            Some(extent) => self.disk.trim(&partition.name, extent),
            None => Ok(()),
        }
    }
}

impl Drop for EmbeddedLog {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, dir = %self.disk.path().display(), "log did not close cleanly");
        }
    }
}

fn load(disk: &Disk) -> Result<Topics, PortError> {
    let mut topics = Topics::new();
    let mut number = 0;
    disk.drop_strays()?;
    for (topic, partitions) in disk.topics() {
        let mut list = Vec::with_capacity(partitions as usize);
        for partition in 0..partitions {
            let name = TopicPartition::new(topic.clone(), partition);
            let extent = disk.extent(&name)?;
            list.push(Arc::new(Partition::new(name, number, extent)));
            number += 1;
        }
        topics.insert(topic, list);
    }
    Ok(topics)
}

fn count(topics: &Topics) -> usize {
    topics.values().map(Vec::len).sum()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
