//! The three-way comparison: what clients were answered, a raw scan of each store, an independent fold of the logs.

use anyhow::Context;
use rehome_keyspace::{KeyspaceId, Offset, ShardId};
use rehome_oracle::{ClientHistory, Comparison, ControlStory, Findings, fold};
use rehome_ports::{Log, Reader, Records, Store};
use rehome_records::TopicPartition;
use rehome_records::control::{CONTROL_TOPIC, data_topic};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Longest time until records can be read that are there.
const READ_MAX: Duration = Duration::from_secs(30);

/// What the comparison found.
pub struct Compared {
    pub findings: Findings,
    pub rows_visible: u64,
    pub writes_accepted: u64,
    pub writes_repeated: u64,
}

/// Finds the store of a shard.
type Stores<'a> = dyn Fn(ShardId) -> anyhow::Result<Arc<dyn Store>> + 'a;

/// Compares a keyspace that nobody writes to any more.
pub fn compare(
    log: &dyn Log,
    stores: &Stores<'_>,
    keyspace: KeyspaceId,
    history: &ClientHistory,
) -> anyhow::Result<Compared> {
    let mut story = ControlStory::default();
    for logged in records(log, TopicPartition::new(CONTROL_TOPIC, 0))? {
        story.fold(&logged?);
    }
    let known = story.keyspaces.get(&keyspace).context("the control log does not know the keyspace")?;
    let (topic, shards) = (data_topic(&known.name, keyspace), known.shards);
    let of_shard = |shard| {
        let records = records(log, TopicPartition::new(topic.clone(), shard))?;
        Ok(records.map(|logged| logged.map_err(|error| error.message)))
    };
    let partitions = (0..shards).map(of_shard);
    let folded = fold(&story, keyspace, partitions.collect::<anyhow::Result<Vec<_>>>()?)?;
    let (writes_accepted, writes_repeated) = (folded.accepted.len(), folded.repeated.len());
    let mut comparison = Comparison::new(&story, folded);
    comparison.history(history);
    for shard in (0..shards).map(ShardId) {
        let store = stores(shard)?;
        scan(&*store, |key, value| comparison.store_entry(shard, key, value))?;
    }
    let (findings, rows_visible) = comparison.finish();
    Ok(Compared { findings, rows_visible, writes_accepted, writes_repeated })
}

fn records(log: &dyn Log, partition: TopicPartition) -> anyhow::Result<Records> {
    Ok(Records::up_to_now(log, &partition, Offset(0), READ_MAX)?)
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
