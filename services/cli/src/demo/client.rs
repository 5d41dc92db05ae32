//! One client: asks until it is answered, and remembers every answer.

use super::cutovers::Writes;
use crate::cluster::Cluster;
use rehome_keyspace::{Epoch, KeyspaceId, Placement, RequestId};
use rehome_oracle::{ClientHistory, Fingerprint, ReadSeen, ValueHash, WriteAnswered};
use rehome_ports::{ReadKind, ReadLevel, Remedy};
use rehome_records::{Operation, RowChange, Verdict};
use rehome_router::{ReadAsk, WriteAsk};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const DEADLINE_MS: u64 = 10_000;
/// How long a client asks for one answer. Reason: nothing here is away for longer, and a demo must end.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a client waits before it asks again, when the router does not say.
const AGAIN_AFTER_MS: u64 = 10;

/// What all clients share.
#[derive(Clone)]
pub struct Shared {
    pub cluster: Arc<Cluster>,
    pub keyspace: KeyspaceId,
    pub placement: Placement,
    /// From here on time is told in nanoseconds.
    pub epoch: Instant,
    /// What the log's clock showed then, in milliseconds since 1970.
    pub epoch_ms: u64,
    pub writes: Arc<Writes>,
}

/// A client with its memory.
pub struct Client {
    pub shared: Shared,
    pub history: ClientHistory,
    /// Answers that were neither a yes nor worth asking again; there should be none.
    pub errors: Vec<String>,
}

/// One answered write.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub epoch: Epoch,
    pub issued_at: u64,
    pub answered_at: u64,
}

impl Shared {
    pub fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

impl Client {
    pub fn new(shared: Shared) -> Client {
        Client { shared, history: ClientHistory::new(), errors: Vec::new() }
    }

    /// Writes under the request id until a verdict is there; nothing when that can never be.
    pub async fn write(&mut self, partition_key: &[u8], change: RowChange, request: RequestId) -> Option<Written> {
        let shared = self.shared.clone();
        let row = Fingerprint::row(&shared.placement, partition_key, &change.sort_key);
        let value = change.value.as_deref().map(ValueHash::of);
        let issued_at = shared.now();
        let started = Instant::now();
        loop {
            let ask = WriteAsk {
                keyspace: shared.keyspace,
                partition_key: partition_key.to_vec(),
                operation: Operation::Change(change.clone()),
                request: Some(request),
                source: None,
                deadline_ms: shared.cluster.clock().now_ms() + DEADLINE_MS,
            };
            let (tell, told) = oneshot::channel();
            shared.cluster.router().write(ask, Box::new(move |result| drop(tell.send(result))));
            match told.await {
                Ok(Ok(answer)) => {
                    let answered_at = shared.now();
                    let Some(version) = answer.version() else {
                        self.errors.push(answer.verdict.to_string());
                        return None;
                    };
                    if !matches!(answer.verdict, Verdict::Repeated { .. }) && version.epoch == answer.epoch {
                        let slot = shared.placement.slot(partition_key);
                        shared.writes.note(slot, version, issued_at, answered_at);
                    }
                    let request = Some(Fingerprint::request(&shared.placement, partition_key, request));
                    self.history.writes.push(WriteAnswered { row, request, version, value, issued_at, answered_at });
                    return Some(Written { epoch: answer.epoch, issued_at, answered_at });
                }
                Ok(Err(refused)) => {
                    self.ask_again(started, refused.remedy, &refused.message, refused.retry_after_ms).await?
                }
                Err(_) => self.ask_again(started, Remedy::Broken, "the router is gone", None).await?,
            }
        }
    }

    /// Reads one row at the linearizable level until it is answered; returns when the answer came.
    pub async fn read(&mut self, partition_key: &[u8], sort_key: &[u8]) -> Option<u64> {
        let shared = self.shared.clone();
        let row = Fingerprint::row(&shared.placement, partition_key, sort_key);
        let started = Instant::now();
        loop {
            // A read that was refused saw nothing, so only the last one counts.
            let issued_at = shared.now();
            let ask = ReadAsk {
                keyspace: shared.keyspace,
                kind: ReadKind::Get { partition_key: partition_key.to_vec(), sort_key: sort_key.to_vec() },
                level: ReadLevel::Linearizable,
                deadline_ms: shared.cluster.clock().now_ms() + DEADLINE_MS,
            };
            let (tell, told) = oneshot::channel();
            shared.cluster.router().read(ask, Box::new(move |result| drop(tell.send(result))));
            match told.await {
                Ok(Ok(answer)) => {
                    let answered_at = shared.now();
                    let found = answer.rows.first().map(|row| (row.version, ValueHash::of(&row.value)));
                    self.history.reads.push(ReadSeen { row, found, issued_at, answered_at });
                    return Some(answered_at);
                }
                Ok(Err(refused)) => {
                    self.ask_again(started, refused.remedy, &refused.message, refused.retry_after_ms).await?
                }
                Err(_) => self.ask_again(started, Remedy::Broken, "the router is gone", None).await?,
            }
        }
    }

    /// Waits until asking again makes sense; nothing when it never does.
    async fn ask_again(
        &mut self,
        started: Instant,
        remedy: Remedy,
        message: &str,
        after_ms: Option<u64>,
    ) -> Option<()> {
        if matches!(remedy, Remedy::Fenced | Remedy::Broken) || started.elapsed() > PATIENCE {
            self.errors.push(message.to_owned());
            return None;
        }
        // tidy: sleep because a client that was refused backs off before it asks again
        tokio::time::sleep(Duration::from_millis(after_ms.unwrap_or(AGAIN_AFTER_MS))).await;
        Some(())
    }
}
