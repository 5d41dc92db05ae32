//! Writes that arrive on a schedule, whether or not earlier ones are answered. A latency counts from the scheduled time,
//! so that a system that stands still cannot hide how many it kept waiting (no coordinated omission).

use super::target::Target;
use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rehome_keyspace::SlotId;
use rehome_ports::Signal;
use rehome_router::WriteDone;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Arrivals that are due within this time are sent together. Reason: waking up for each would take the processor from
/// what is measured; whoever waited for it has that in its latency.
const PACE: Duration = Duration::from_micros(250);
/// How long answers are waited for once nothing arrives any more.
const LAST_ANSWER_MAX: Duration = Duration::from_secs(60);

/// One answered write. Times are in microseconds, the scheduled one since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub slot: SlotId,
    pub scheduled_us: u32,
    pub latency_us: u32,
}

/// What a load saw.
pub struct Seen {
    /// When it started, in milliseconds of the log's clock.
    pub started_ms: u64,
    pub samples: Vec<Sample>,
    pub refused: u64,
    /// Until the last answer.
    pub took: Duration,
}

/// A load that runs.
pub struct OpenLoop {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

#[derive(Default)]
struct Answers {
    samples: Mutex<Vec<Sample>>,
    refused: AtomicU64,
    answered: AtomicU64,
}

impl OpenLoop {
    /// Starts writes at that many a second.
    pub fn start(target: &Target, writes_per_sec: u32, seed: u64) -> anyhow::Result<OpenLoop> {
        anyhow::ensure!(target.has_rows(), "there is no row to write to");
        let stopping = Arc::new(AtomicBool::new(false));
        let (target, stop) = (target.clone(), Arc::clone(&stopping));
        let work = move || arrive(&target, f64::from(writes_per_sec), seed, &stop);
        let thread = std::thread::Builder::new().name("arrivals".into()).spawn(work)?;
        Ok(OpenLoop { stopping, thread })
    }

    /// Ends the arrivals, and waits for every answer.
    pub fn stop(self) -> Seen {
        self.stopping.store(true, Ordering::Relaxed);
        self.thread.join().expect("the load does not panic")
    }
}

fn arrive(target: &Target, writes_per_sec: f64, seed: u64, stopping: &AtomicBool) -> Seen {
    let mut random = SmallRng::seed_from_u64(seed);
    let answers = Arc::new(Answers::default());
    let signal = Signal::new();
    let started_ms = target.cluster.clock().now_ms();
    let started = Instant::now();
    let mut arrived = 0u64;
    while !stopping.load(Ordering::Relaxed) {
        let due = (started.elapsed().as_secs_f64() * writes_per_sec) as u64;
        let asks = (arrived..due).map(|number| {
            let scheduled = Duration::from_secs_f64(number as f64 / writes_per_sec);
            let (slot, ask) = target.overwrite(&mut random);
            (ask, noting(&answers, slot, started, scheduled))
        });
        let asks: Vec<_> = asks.collect();
        arrived = due;
        if !asks.is_empty() {
            target.cluster.router().write_many(asks);
        }
        let next = started + Duration::from_secs_f64((arrived + 1) as f64 / writes_per_sec);
        signal.wait(Some(next.max(Instant::now() + PACE)));
    }
    let deadline = Instant::now() + LAST_ANSWER_MAX;
    while answers.answered.load(Ordering::SeqCst) < arrived && Instant::now() < deadline {
        signal.wait(Some(Instant::now() + Duration::from_millis(1)));
    }
    let took = started.elapsed();
    let samples = std::mem::take(&mut *answers.samples.lock().unwrap_or_else(PoisonError::into_inner));
    let unanswered = arrived - answers.answered.load(Ordering::SeqCst);
    Seen { started_ms, samples, refused: answers.refused.load(Ordering::SeqCst) + unanswered, took }
}

/// Returns what notes the answer of one write.
fn noting(answers: &Arc<Answers>, slot: SlotId, started: Instant, scheduled: Duration) -> WriteDone {
    let answers = Arc::clone(answers);
    Box::new(move |result| {
        let latency = started.elapsed().saturating_sub(scheduled);
        if result.is_ok_and(|answer| answer.is_done()) {
            let (scheduled_us, latency_us) = (scheduled.as_micros() as u32, latency.as_micros() as u32);
            let sample = Sample { slot, scheduled_us, latency_us };
            answers.samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        } else {
            answers.refused.fetch_add(1, Ordering::SeqCst);
        }
        answers.answered.fetch_add(1, Ordering::SeqCst);
    })
}

/// Returns the latencies, in microseconds.
pub fn histogram<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).expect("three digits are possible");
    for sample in samples {
        histogram.record(u64::from(sample.latency_us)).expect("an auto-resizing histogram takes any value");
    }
    histogram
}
