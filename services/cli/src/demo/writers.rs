//! The load: closed-loop writers that put, overwrite, delete, send again on purpose, and read back.

use super::Options;
use super::client::{Client, Shared};
use super::latency::Latencies;
use crate::workload::{Phases, RowKey};
use anyhow::Context;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rehome_keyspace::RequestId;
use rehome_oracle::ClientHistory;
use rehome_records::RowChange;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Of a hundred asks of a writer.
const READS: u32 = 15;
const RETRIES: u32 = 8;
const DELETES: u32 = 12;
const NEW_ROWS: u32 = 15;
/// Bytes of a written value.
const VALUE_BYTES: usize = 100;

/// What the writers did, by kind. Every count is of answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub acked: u64,
    pub deletes: u64,
    pub retries: u64,
    pub reads: u64,
    pub errors: u64,
}

/// What the writers saw.
pub struct Written {
    pub counts: Counts,
    pub latencies: Latencies,
    pub history: ClientHistory,
}

/// Writers that run.
pub struct Writers {
    runtime: Runtime,
    stopping: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Writer>>,
}

struct Writer {
    number: u32,
    client: Client,
    phases: Arc<Phases>,
    sample: Arc<Vec<RowKey>>,
    random: SmallRng,
    latencies: Latencies,
    counts: Counts,
    /// The last write, to be sent again.
    last: Option<(Vec<u8>, RowChange, RequestId)>,
    asked: u64,
}

impl Writers {
    pub fn start(
        shared: Shared,
        phases: Arc<Phases>,
        sample: Vec<RowKey>,
        options: &Options,
    ) -> anyhow::Result<Writers> {
        anyhow::ensure!(!sample.is_empty(), "the input has no rows, so there is nothing to write to");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .thread_name("writers")
            .build()
            .context("cannot start the writers' thread")?;
        let (stopping, sample) = (Arc::new(AtomicBool::new(false)), Arc::new(sample));
        let tasks = (0..options.writers.max(1)).map(|number| {
            let writer = Writer {
                number,
                client: Client::new(shared.clone()),
                phases: Arc::clone(&phases),
                sample: Arc::clone(&sample),
                random: SmallRng::seed_from_u64(options.seed.wrapping_mul(1_000_003) + u64::from(number)),
                latencies: Latencies::new(),
                counts: Counts::default(),
                last: None,
                asked: 0,
            };
            runtime.spawn(writer.run(Arc::clone(&stopping)))
        });
        let tasks = tasks.collect();
        Ok(Writers { runtime, stopping, tasks })
    }

    /// Ends every writer after its answer.
    pub fn stop(self) -> anyhow::Result<Written> {
        self.stopping.store(true, Ordering::SeqCst);
        let mut all = Written { counts: Counts::default(), latencies: Latencies::new(), history: ClientHistory::new() };
        for task in self.tasks {
            let writer = self.runtime.block_on(task).context("a writer died")?;
            all.counts.acked += writer.counts.acked;
            all.counts.deletes += writer.counts.deletes;
            all.counts.retries += writer.counts.retries;
            all.counts.reads += writer.counts.reads;
            all.counts.errors += writer.client.errors.len() as u64;
            writer.client.errors.iter().take(1).for_each(|error| super::say(&format!("a client was told: {error}")));
            all.latencies.add(&writer.latencies);
            all.history.extend(writer.client.history);
        }
        Ok(all)
    }
}

impl Writer {
    async fn run(mut self, stopping: Arc<AtomicBool>) -> Writer {
        while !stopping.load(Ordering::Relaxed) && self.client.errors.is_empty() {
            let dice = self.random.random_range(0..100);
            match self.last.clone() {
                Some((partition_key, change, _)) if dice < READS => {
                    let read = self.client.read(&partition_key, &change.sort_key).await;
                    self.counts.reads += u64::from(read.is_some());
                }
                Some((partition_key, change, request)) if dice < READS + RETRIES => {
                    let answered = self.write(&partition_key, change, request).await;
                    self.counts.retries += u64::from(answered);
                }
                _ => {
                    let (partition_key, change, request) = self.choose(dice);
                    let is_delete = change.value.is_none();
                    let answered = self.write(&partition_key, change.clone(), request).await;
                    self.counts.deletes += u64::from(answered && is_delete);
                    self.last = Some((partition_key, change, request));
                }
            }
        }
        self
    }

    /// Chooses a row like the loaded ones are spread, and what to do with it.
    fn choose(&mut self, dice: u32) -> (Vec<u8>, RowChange, RequestId) {
        self.asked += 1;
        let row = &self.sample[self.random.random_range(0..self.sample.len())];
        let partition_key = row.partition_key.clone();
        let deletes = dice < READS + RETRIES + DELETES;
        let sort_key = if !deletes && dice >= 100 - NEW_ROWS {
            format!("writer-{}-{}", self.number, self.asked).into_bytes()
        } else {
            row.sort_key.clone()
        };
        let value = (!deletes).then(|| {
            let mut value = format!(r#"{{"writer":{},"write":{},"#, self.number, self.asked).into_bytes();
            value.resize(VALUE_BYTES, b' ');
            value
        });
        (partition_key, RowChange { sort_key, value }, RequestId(self.random.random()))
    }

    async fn write(&mut self, partition_key: &[u8], change: RowChange, request: RequestId) -> bool {
        let slot = self.client.shared.placement.slot(partition_key);
        let before = (self.phases.of(slot), self.phases.any());
        let Some(written) = self.client.write(partition_key, change, request).await else { return false };
        // A write that met a cutover at either end counts for it.
        let phase = before.0.max(self.phases.of(slot));
        self.latencies.note(phase, before.1 || self.phases.any(), written.answered_at - written.issued_at);
        self.counts.acked += 1;
        true
    }
}
