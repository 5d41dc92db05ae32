//! A folder that no process holds: its logs, its stores, and the three-way comparison.

use crate::memory::Memory;
use anyhow::{Context, ensure};
use rehome_embedded::{EmbeddedLog, Limits, OpenError};
use rehome_keyspace::{KeyRange, KeyspaceId, Offset, ShardId};
use rehome_oracle::{Comparison, ControlStory, Findings, KeyspaceStory, fold};
use rehome_ports::{Lane, Log, Reader, Records, Store};
use rehome_records::control::{CONTROL_TOPIC, data_topic};
use rehome_records::{ControlEvent, ControlRecord, Record, TopicPartition, store_key};
use rehome_rocks::RocksNode;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Longest time until a folder is free that somebody has just closed; it takes milliseconds.
const FREE_MAX: Duration = Duration::from_secs(10);
/// Longest time until records are read that are there.
const READ_MAX: Duration = Duration::from_secs(30);

/// An opened folder. Nobody else can open it meanwhile.
pub struct Folder {
    log: Arc<dyn Log>,
    embedded: Option<Arc<EmbeddedLog>>,
    /// Of each node, with its folder of stores.
    nodes: Vec<(PathBuf, RocksNode)>,
}

/// What the comparison found.
pub struct Compared {
    pub findings: Findings,
    pub rows_visible: u64,
    pub writes_repeated: u64,
}

/// A process that another thread of the test is just starting shares this one's open files until it has become the
/// program, and so a lock that was given back already.
pub fn wait_until_free(dir: &Path) -> anyhow::Result<()> {
    let is_free = rehome_embedded::wait_until_free(&dir.join("data/log"), FREE_MAX)?;
    ensure!(is_free, "{} is held by somebody", dir.display());
    Ok(())
}

impl Folder {
    pub fn open(dir: &Path) -> anyhow::Result<Folder> {
        let data = dir.join("data");
        let deadline = Instant::now() + FREE_MAX;
        let log = loop {
            wait_until_free(dir)?;
            match EmbeddedLog::open(&data.join("log"), Limits::default()) {
                // Looking whether it is free takes the lock as well, and another thread may have started a process then.
                Err(OpenError::Held { .. }) if Instant::now() < deadline => {}
                opened => break opened.context("cannot open the log")?,
            }
        };
        Folder::of(log.clone(), Some(log), &[data.join("stores")])
    }

    /// Opens the stores of nodes that had processes of their own, beside their log.
    pub fn apart(log: Arc<dyn Log>, stores: &[PathBuf]) -> anyhow::Result<Folder> {
        Folder::of(log, None, stores)
    }

    fn of(log: Arc<dyn Log>, embedded: Option<Arc<EmbeddedLog>>, stores: &[PathBuf]) -> anyhow::Result<Folder> {
        let open = |dir: &PathBuf| Ok((dir.clone(), RocksNode::open(dir).context("cannot open the stores")?));
        Ok(Folder { log, embedded, nodes: stores.iter().map(open).collect::<anyhow::Result<_>>()? })
    }

    pub fn close(self) -> anyhow::Result<()> {
        self.embedded.map_or(Ok(()), |log| log.close()).context("cannot close the log")
    }

    /// Returns the shard's store at the one node that hosts it.
    fn store(&self, keyspace: KeyspaceId, shard: ShardId) -> anyhow::Result<Arc<dyn Store>> {
        let hosts = |(dir, _): &&(PathBuf, RocksNode)| dir.join(format!("{keyspace}-{shard}")).is_dir();
        let (_, node) = self.nodes.iter().find(hosts).with_context(|| format!("no node hosts shard {shard}"))?;
        Ok(node.store(keyspace, shard)?)
    }

    /// Returns what the control log tells.
    pub fn story(&self) -> anyhow::Result<ControlStory> {
        let mut story = ControlStory::default();
        for logged in self.records(TopicPartition::new(CONTROL_TOPIC, 0))? {
            story.fold(&logged?);
        }
        Ok(story)
    }

    /// Appends a control record, as its author would have done just before the process was killed.
    pub fn propose(&self, event: ControlEvent) -> anyhow::Result<Offset> {
        let record = ControlRecord { command: rand::random(), event };
        self.append(TopicPartition::new(CONTROL_TOPIC, 0), record.into_record())
    }

    pub fn append(&self, partition: TopicPartition, record: Record) -> anyhow::Result<Offset> {
        let (tell, told) = mpsc::sync_channel(1);
        let done = Box::new(move |result| drop(tell.send(result)));
        self.log.append(&partition, Lane::Protocol, vec![record], done);
        let offsets = told.recv().context("the log has stopped")??;
        offsets.first().copied().context("the log told no offset")
    }

    /// Compares what clients were answered, what lies in the stores, and what the logs say must be.
    pub fn compare(&self, keyspace: &str, memory: &Memory) -> anyhow::Result<Compared> {
        let story = self.story()?;
        let known = named(&story, keyspace)?;
        let (topic, shards) = (data_topic(&known.name, known.id), known.shards);
        let of_shard = |shard| {
            let records = self.records(TopicPartition::new(topic.clone(), shard))?;
            Ok(records.map(|logged| logged.map_err(|error| error.message)))
        };
        let partitions = (0..shards).map(of_shard);
        let folded = fold(&story, known.id, partitions.collect::<anyhow::Result<Vec<_>>>()?)?;
        let writes_repeated = folded.repeated.len();
        let mut comparison = Comparison::new(&story, folded);
        comparison.history(&memory.history);
        for shard in (0..shards).map(ShardId) {
            let store = self.store(known.id, shard)?;
            scan(&*store, &KeyRange::all(), |key, value| comparison.store_entry(shard, key, value))?;
        }
        let (findings, rows_visible) = comparison.finish();
        Ok(Compared { findings, rows_visible, writes_repeated })
    }

    /// Errors: the control log tells of a topic that it is gone, and it is there.
    pub fn removed_topics_are_gone(&self, story: &ControlStory) -> anyhow::Result<()> {
        for (id, dropped) in story.dropped.iter().filter(|(_, dropped)| dropped.topic_removed) {
            let topic = data_topic(&dropped.name, *id);
            ensure!(self.log.partitions(&topic)?.is_none(), "{topic} is told to be gone");
        }
        Ok(())
    }

    /// Counts the entries of keys (rows, tombstones, request ids, source positions) in each store.
    pub fn entries(&self, keyspace: &str) -> anyhow::Result<BTreeMap<ShardId, u64>> {
        let story = self.story()?;
        let known = named(&story, keyspace)?;
        let count = |shard: ShardId| {
            let store = self.store(known.id, shard)?;
            let mut entries = 0;
            for kind in store_key::KINDS_OF_KEYS {
                scan(&*store, &store_key::kind_range(kind), |_, _| entries += 1)?;
            }
            Ok((shard, entries))
        };
        (0..known.shards).map(ShardId).map(count).collect()
    }

    /// Returns every record of a partition, up to its end now.
    pub fn records(&self, partition: TopicPartition) -> anyhow::Result<Records> {
        records(&*self.log, &partition)
    }
}

/// Returns every record of a partition, up to its end now.
pub fn records(log: &dyn Log, partition: &TopicPartition) -> anyhow::Result<Records> {
    Ok(Records::up_to_now(log, partition, Offset(0), READ_MAX)?)
}

pub fn named<'a>(story: &'a ControlStory, keyspace: &str) -> anyhow::Result<&'a KeyspaceStory> {
    story.keyspace_named(keyspace).with_context(|| format!("the control log knows no keyspace {keyspace}"))
}

fn scan(store: &dyn Store, range: &KeyRange, mut visit: impl FnMut(&[u8], &[u8])) -> anyhow::Result<()> {
    store.snapshot(&mut |entries: &dyn Reader| {
        entries.scan(range, false, &mut |key, value| {
            visit(key, value);
            ControlFlow::Continue(())
        })
    })?;
    Ok(())
}
