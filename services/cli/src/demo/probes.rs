//! The pause of one move, as one closed-loop writer and one closed-loop reader on a key that moves see it.

use super::client::{Client, Shared, Written};
use crate::workload::{Moving, Phases};
use rehome_keyspace::RequestId;
use rehome_oracle::ClientHistory;
use rehome_records::RowChange;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// Answers on both sides of a change of epoch that count as around it.
const AROUND: usize = 5;
/// Time after a change of epoch that counts as around it, for reads, in nanoseconds.
const AROUND_NS: u64 = 50_000_000;
/// Shortest time between two reads of a probe. Reason: reads take a tenth of that, and a probe that never rests takes
/// a whole processor from those it measures.
const READ_PACE: Duration = Duration::from_millis(1);
/// Shortest time between two writes while the key's move is far from its cutover. Reason: every write leaves a request
/// id that each later move carries, and only those around a cutover measure anything.
const WRITE_PACE: Duration = Duration::from_millis(5);
const SORT_KEY: &[u8] = b"probe";

/// The probes of one move, running.
pub struct Probes {
    stopping: Arc<AtomicBool>,
    writer: JoinHandle<(Client, Vec<Written>)>,
    reader: JoinHandle<(Client, Vec<u64>)>,
}

/// What the probes of one move saw.
pub struct Seen {
    /// In nanoseconds; nothing when the move did not change the epoch of the key.
    pub write_pause: Option<u64>,
    pub read_pause: Option<u64>,
    pub history: ClientHistory,
    pub errors: u64,
}

impl Probes {
    /// Starts them on the key.
    pub fn start(runtime: &Runtime, shared: &Shared, phases: &Arc<Phases>, partition_key: &[u8]) -> Probes {
        let stopping = Arc::new(AtomicBool::new(false));
        let (client, phases) = (Client::new(shared.clone()), Arc::clone(phases));
        let writer = write(client, phases, partition_key.to_vec(), Arc::clone(&stopping));
        let reader = read(Client::new(shared.clone()), partition_key.to_vec(), Arc::clone(&stopping));
        Probes { stopping, writer: runtime.spawn(writer), reader: runtime.spawn(reader) }
    }

    pub fn stop(self, runtime: &Runtime) -> anyhow::Result<Seen> {
        self.stopping.store(true, Ordering::SeqCst);
        let (writer, written) = runtime.block_on(self.writer)?;
        let (reader, read) = runtime.block_on(self.reader)?;
        let errors = (writer.errors.len() + reader.errors.len()) as u64;
        let mut history = writer.history;
        history.extend(reader.history);
        let write_pause = write_pause(&written);
        let around = |at: usize| (written[at - 1].answered_at, written[at].answered_at + AROUND_NS);
        let changes = changes(&written).map(around).collect::<Vec<_>>();
        Ok(Seen { write_pause, read_pause: read_pause(&read, &changes), history, errors })
    }
}

async fn write(
    mut client: Client,
    phases: Arc<Phases>,
    partition_key: Vec<u8>,
    stopping: Arc<AtomicBool>,
) -> (Client, Vec<Written>) {
    let slot = client.shared.placement.slot(&partition_key);
    let mut written = Vec::new();
    while !stopping.load(Ordering::Relaxed) {
        if phases.of(slot) < Moving::CatchingUp {
            // tidy: sleep because a probe is to rest here, and waits for nothing.
            tokio::time::sleep(WRITE_PACE).await;
        }
        let value = format!("probe {}", written.len()).into_bytes();
        let change = RowChange { sort_key: SORT_KEY.to_vec(), value: Some(value) };
        // Never one that an earlier probe of the key used: a repeated write is no write of the new owner.
        let Some(one) = client.write(&partition_key, change, RequestId(rand::random())).await else { break };
        written.push(one);
    }
    (client, written)
}

async fn read(mut client: Client, partition_key: Vec<u8>, stopping: Arc<AtomicBool>) -> (Client, Vec<u64>) {
    let mut answered = Vec::new();
    let mut pace = tokio::time::interval(READ_PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stopping.load(Ordering::Relaxed) {
        pace.tick().await;
        let Some(at) = client.read(&partition_key, SORT_KEY).await else { break };
        answered.push(at);
    }
    (client, answered)
}

/// Returns where the epoch of an answer is another than that of the answer before.
fn changes(written: &[Written]) -> impl Iterator<Item = usize> + '_ {
    (1..written.len()).filter(|&at| written[at].epoch != written[at - 1].epoch)
}

/// Returns the longest wait for an answer around a change of epoch, less the median of the waits before it.
fn write_pause(written: &[Written]) -> Option<u64> {
    let wait = |one: &Written| one.answered_at - one.issued_at;
    let pause = |change: usize| {
        let start = change.saturating_sub(AROUND).max(1);
        let end = (change + AROUND).min(written.len() - 1);
        let longest = written[start..=end].iter().map(wait).max()?;
        Some(longest.saturating_sub(median(written[..start].iter().map(wait).collect())))
    };
    changes(written).filter_map(pause).max()
}

/// Returns the longest time between two answers that overlaps a change, less the median of the times before it.
fn read_pause(answered: &[u64], changes: &[(u64, u64)]) -> Option<u64> {
    let pause = |&(from, to): &(u64, u64)| {
        let gaps = || answered.windows(2).map(|pair| (pair[0], pair[1]));
        let longest = gaps().filter(|gap| gap.1 >= from && gap.0 <= to).map(|gap| gap.1 - gap.0).max()?;
        let before = gaps().filter(|gap| gap.1 < from).map(|gap| gap.1 - gap.0).collect();
        Some(longest.saturating_sub(median(before)))
    };
    changes.iter().filter_map(pause).max()
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehome_keyspace::Epoch;

    #[test]
    fn the_pause_is_the_longest_wait_around_the_change_less_the_usual_one() {
        // Each waits 2 and comes 10 after the one before; a slow one far before the change, 40 at the change.
        let wait = |at: u64| match at {
            10 => 500,
            50 => 40,
            _ => 2,
        };
        let one = |at: u64| {
            let epoch = Epoch(if at < 50 { 1 } else { 7 });
            Written { epoch, issued_at: at * 1_000, answered_at: at * 1_000 + wait(at) }
        };
        let written: Vec<Written> = (0..60).map(one).collect();
        assert_eq!(write_pause(&written), Some(38));
        assert_eq!(write_pause(&written[..50]), None);
    }

    #[test]
    fn reads_count_where_they_overlap_the_change() {
        let answered = [0, 3, 6, 100, 103, 106, 136, 139];
        assert_eq!(read_pause(&answered, &[(105, 120)]), Some(27));
        assert_eq!(read_pause(&answered, &[]), None);
    }
}
