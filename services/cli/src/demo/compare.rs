//! The three-way comparison: what clients were answered, a raw scan of each store, an independent fold of the logs.

use crate::cluster::Cluster;
use anyhow::{Context, anyhow};
use rehome_keyspace::{KeyspaceId, Offset, ShardId};
use rehome_oracle::{ClientHistory, Comparison, ControlStory, Findings, fold};
use rehome_ports::{Log, ReadLimits, Reader, Store, Tail};
use rehome_records::control::{CONTROL_TOPIC, data_topic};
use rehome_records::{Logged, TopicPartition};
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};

const LIMITS: ReadLimits = ReadLimits { records_max: 4_096, bytes_max: 4 << 20 };

/// What the comparison found.
pub struct Compared {
    pub findings: Findings,
    pub rows_visible: u64,
    pub writes_accepted: u64,
    pub writes_repeated: u64,
}

/// Compares a keyspace that nobody writes to any more.
pub fn compare(cluster: &Cluster, keyspace: KeyspaceId, history: &ClientHistory) -> anyhow::Result<Compared> {
    let mut story = ControlStory::default();
    for logged in Records::of(cluster.log(), TopicPartition::new(CONTROL_TOPIC, 0))? {
        story.fold(&logged.map_err(|error| anyhow!(error))?);
    }
    let known = story.keyspaces.get(&keyspace).context("the control log does not know the keyspace")?;
    let (topic, shards) = (data_topic(&known.name, keyspace), known.shards);
    let partitions = (0..shards).map(|shard| Records::of(cluster.log(), TopicPartition::new(topic.clone(), shard)));
    let folded = fold(&story, keyspace, partitions.collect::<anyhow::Result<Vec<_>>>()?)?;
    let (writes_accepted, writes_repeated) = (folded.accepted.len(), folded.repeated.len());
    let mut comparison = Comparison::new(&story, folded);
    comparison.history(history);
    for shard in (0..shards).map(ShardId) {
        let store = cluster.store(keyspace, shard)?;
        scan(&*store, |key, value| comparison.store_entry(shard, key, value))?;
    }
    let (findings, rows_visible) = comparison.finish();
    Ok(Compared { findings, rows_visible, writes_accepted, writes_repeated })
}

fn scan(store: &dyn Store, mut visit: impl FnMut(&[u8], &[u8])) -> anyhow::Result<()> {
    store.snapshot(&mut |entries: &dyn Reader| {
        entries.scan(&rehome_keyspace::KeyRange::all(), false, &mut |key, value| {
            visit(key, value);
            ControlFlow::Continue(())
        })
    })?;
    Ok(())
}

/// Every record of a partition up to the end it had when this was made.
struct Records {
    tail: Box<dyn Tail>,
    end: Offset,
    next: Offset,
    batch: std::vec::IntoIter<Logged>,
}

impl Records {
    fn of(log: &dyn Log, partition: TopicPartition) -> anyhow::Result<Records> {
        let (tell, told) = mpsc::sync_channel(1);
        log.end(&partition, Box::new(move |end| drop(tell.send(end))));
        let end = told.recv().context("the log has stopped")??;
        let tail = log.tail(&partition, Offset(0), Arc::new(|| ()))?;
        Ok(Records { tail, end, next: Offset(0), batch: Vec::new().into_iter() })
    }
}

impl Iterator for Records {
    type Item = Result<Logged, String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(logged) = self.batch.next() {
                return Some(Ok(logged));
            }
            if self.next >= self.end {
                return None;
            }
            match self.tail.poll(LIMITS) {
                // Everything up to the end is durable, so a tail that stands still has lost something.
                Ok(batch) if batch.next == self.next => {
                    self.next = self.end;
                    return Some(Err(format!("nothing can be read from offset {}", batch.next)));
                }
                Ok(batch) => {
                    self.next = batch.next;
                    self.batch = batch.records.into_iter();
                }
                Err(error) => {
                    self.next = self.end;
                    return Some(Err(error.message));
                }
            }
        }
    }
}
