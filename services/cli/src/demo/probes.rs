//! The pause of one move, as one closed-loop writer and one closed-loop reader on a key that moves see it.

use super::client::{Client, Shared, Written};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rehome_keyspace::{Epoch, RequestId};
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
    pub fn start(runtime: &Runtime, shared: &Shared, partition_key: &[u8]) -> Probes {
        let stopping = Arc::new(AtomicBool::new(false));
        let writer = write(Client::new(shared.clone()), partition_key.to_vec(), Arc::clone(&stopping));
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
        let answers: Vec<(Epoch, u64)> = written.iter().map(|one| (one.epoch, one.answered_at)).collect();
        let write_pause = write_pause(&answers);
        let changes = changes(&answers).map(|at| (answers[at - 1].1, answers[at].1 + AROUND_NS)).collect::<Vec<_>>();
        Ok(Seen { write_pause, read_pause: read_pause(&read, &changes), history, errors })
    }
}

async fn write(mut client: Client, partition_key: Vec<u8>, stopping: Arc<AtomicBool>) -> (Client, Vec<Written>) {
    let mut random = SmallRng::seed_from_u64(client.shared.placement.hash(&partition_key));
    let mut written = Vec::new();
    while !stopping.load(Ordering::Relaxed) {
        let value = format!("probe {}", written.len()).into_bytes();
        let change = RowChange { sort_key: SORT_KEY.to_vec(), value: Some(value) };
        let Some(one) = client.write(&partition_key, change, RequestId(random.random())).await else { break };
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
fn changes(answers: &[(Epoch, u64)]) -> impl Iterator<Item = usize> + '_ {
    (1..answers.len()).filter(|&at| answers[at].0 != answers[at - 1].0)
}

/// Returns the longest time between two answers around a change of epoch, less the median of the times before it.
fn write_pause(answers: &[(Epoch, u64)]) -> Option<u64> {
    let gap = |at: usize| answers[at].1 - answers[at - 1].1;
    let pause = |change: usize| {
        let start = change.saturating_sub(AROUND).max(1);
        let end = (change + AROUND).min(answers.len() - 1);
        let longest = (start..=end).map(gap).max()?;
        Some(longest.saturating_sub(median((1..start).map(gap).collect())))
    };
    changes(answers).filter_map(pause).max()
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

    #[test]
    fn the_pause_is_the_longest_time_around_the_change_less_the_usual_one() {
        // 2 apart, a slow one far before the change, 40 at the change.
        let mut now = 0;
        let times = |at: usize| {
            if at == 10 {
                500
            } else if at == 50 {
                40
            } else {
                2
            }
        };
        let answers: Vec<(Epoch, u64)> = (0..60)
            .map(|at| {
                now += times(at);
                (Epoch(if at < 50 { 1 } else { 7 }), now)
            })
            .collect();
        assert_eq!(write_pause(&answers), Some(38));
        assert_eq!(write_pause(&answers[..50]), None);
    }

    #[test]
    fn reads_count_where_they_overlap_the_change() {
        let answered = [0, 3, 6, 100, 103, 106, 136, 139];
        assert_eq!(read_pause(&answered, &[(105, 120)]), Some(27));
        assert_eq!(read_pause(&answered, &[]), None);
    }
}
