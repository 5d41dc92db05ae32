//! Loads the rows as an ordered source, many at a time.

use super::Rows;
use crate::cluster::Cluster;
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rehome_keyspace::{KeyspaceId, Offset, ShardId};
use rehome_oracle::Positions;
use rehome_records::{Operation, RowChange, SourcePosition};
use rehome_router::{WriteAnswer, WriteAsk, WriteDone, WriteRefused};
use rehome_sources::{InputDigest, SourceRow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Rows of one batch. Reason: a few appends' worth.
const BATCH: usize = 1_000;
/// Rows on their way at once. Reason: keeps the log's group commits full, far below the router's limit.
const IN_FLIGHT_MAX: usize = 16_000;
/// Rows that the writers know of.
const SAMPLE: usize = 100_000;
const DEADLINE_MS: u64 = 60_000;
/// Times that refused rows are sent again before the load gives up.
const TRIES_MAX: u32 = 10;

/// A row's keys.
#[derive(Clone, Debug)]
pub struct RowKey {
    pub partition_key: Vec<u8>,
    pub sort_key: Vec<u8>,
}

/// What was loaded.
pub struct Loaded {
    pub rows: u64,
    pub digest: InputDigest,
    pub acknowledged: Positions,
    /// Some rows, each with the same chance.
    pub sample: Vec<RowKey>,
    pub partition_keys: BTreeSet<Vec<u8>>,
    pub took: Duration,
}

type Answer = (u64, Result<WriteAnswer, WriteRefused>);

/// The rows on their way, by position.
struct Loader<'a> {
    cluster: &'a Cluster,
    keyspace: KeyspaceId,
    on_their_way: BTreeMap<u64, SourceRow>,
    refused: BTreeMap<u64, WriteRefused>,
    tell: mpsc::Sender<Answer>,
    told: mpsc::Receiver<Answer>,
    waiting: usize,
    acknowledged: Positions,
    rows: u64,
}

/// Writes every row, and returns when all are acknowledged.
///
/// `total` is how many rows there are, where that is known; `seed` is of which rows are kept as a sample.
pub fn load(
    cluster: &Cluster,
    keyspace: KeyspaceId,
    rows: Rows,
    total: Option<u64>,
    seed: u64,
) -> anyhow::Result<Loaded> {
    let started = Instant::now();
    let bar = progress_bar(total);
    let (tell, told) = mpsc::channel();
    let mut loader = Loader {
        cluster,
        keyspace,
        on_their_way: BTreeMap::new(),
        refused: BTreeMap::new(),
        tell,
        told,
        waiting: 0,
        acknowledged: Positions::new(),
        rows: 0,
    };
    let mut random = SmallRng::seed_from_u64(seed);
    let mut digest = InputDigest::default();
    let mut sample: Vec<RowKey> = Vec::new();
    let mut partition_keys = BTreeSet::new();
    let mut batch = Vec::with_capacity(BATCH);
    for (row, position) in rows.zip(1u64..) {
        let row = row?;
        digest.add(&row);
        if !partition_keys.contains(&row.partition_key) {
            partition_keys.insert(row.partition_key.clone());
        }
        keep(&mut sample, &row, position, &mut random);
        batch.push((position, row));
        if batch.len() == BATCH {
            loader.send(std::mem::take(&mut batch))?;
            bar.set_position(loader.rows);
        }
    }
    loader.send(batch)?;
    loader.finish()?;
    bar.finish_and_clear();
    let Loader { rows, acknowledged, .. } = loader;
    Ok(Loaded { rows, digest, acknowledged, sample, partition_keys, took: started.elapsed() })
}

/// Keeps each row with the same chance.
fn keep(sample: &mut Vec<RowKey>, row: &SourceRow, position: u64, random: &mut SmallRng) {
    let key = || RowKey { partition_key: row.partition_key.clone(), sort_key: row.sort_key.clone() };
    if sample.len() < SAMPLE {
        sample.push(key());
    } else {
        let at = random.random_range(0..position) as usize;
        if at < SAMPLE {
            sample[at] = key();
        }
    }
}

impl Loader<'_> {
    fn send(&mut self, batch: Vec<(u64, SourceRow)>) -> anyhow::Result<()> {
        self.ask(&batch);
        self.on_their_way.extend(batch);
        while self.waiting > IN_FLIGHT_MAX {
            self.take_answer()?;
        }
        if self.refused.is_empty() { Ok(()) } else { self.finish() }
    }

    /// Waits for every answer, and sends what was refused again, in order: the router let nothing of the same key pass
    /// a refused row.
    fn finish(&mut self) -> anyhow::Result<()> {
        for _ in 0..TRIES_MAX {
            while self.waiting > 0 {
                self.take_answer()?;
            }
            let refused = std::mem::take(&mut self.refused);
            if refused.is_empty() {
                return Ok(());
            }
            let again: Vec<(u64, SourceRow)> =
                refused.keys().map(|position| (*position, self.on_their_way[position].clone())).collect();
            self.ask(&again);
        }
        bail!("the load is stuck: the same rows were refused {TRIES_MAX} times")
    }

    fn ask(&mut self, batch: &[(u64, SourceRow)]) {
        let deadline_ms = self.cluster.clock().now_ms() + DEADLINE_MS;
        let asks = batch.iter().map(|(position, row)| {
            let change = RowChange { sort_key: row.sort_key.clone(), value: Some(row.value.clone()) };
            let ask = WriteAsk {
                keyspace: self.keyspace,
                partition_key: row.partition_key.clone(),
                operation: Operation::Change(change),
                request: None,
                source: Some(SourcePosition { source: "demo".into(), position: *position }),
                deadline_ms,
            };
            let (tell, position) = (self.tell.clone(), *position);
            let done: WriteDone = Box::new(move |result| drop(tell.send((position, result))));
            (ask, done)
        });
        self.cluster.router().write_many(asks.collect());
        self.waiting += batch.len();
    }

    fn take_answer(&mut self) -> anyhow::Result<()> {
        let answer = self.told.recv_timeout(Duration::from_millis(2 * DEADLINE_MS));
        let (position, result) = answer.context("the router does not answer")?;
        self.waiting -= 1;
        match result {
            Ok(answer) if answer.is_done() => {
                self.on_their_way.remove(&position);
                self.rows += 1;
                if let Some(at) = answer.version() {
                    self.acknowledge(answer.shard, at.offset);
                }
            }
            Ok(answer) => bail!("row {position}: {}", answer.verdict),
            Err(refused) => {
                self.refused.insert(position, refused);
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, shard: ShardId, offset: Offset) {
        self.acknowledged.insert(shard, offset);
    }
}

fn progress_bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "load {bar:30} {human_pos}/{human_len} rows  {per_sec}  {eta} left"),
        None => (ProgressBar::new_spinner(), "load {spinner} {human_pos} rows  {per_sec}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("a good template"))
}
