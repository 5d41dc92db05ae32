//! As many writes as the system takes: each answer asks for the next write.

use super::target::Target;
use anyhow::Context;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rehome_router::WriteDone;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const ANSWER_MAX: Duration = Duration::from_secs(60);

/// When to stop asking.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    After(Duration),
    Writes(u64),
}

/// Keeps so many writes on their way; returns how many were acknowledged, which is after they were applied, and how long
/// that took.
///
/// Errors: a write was refused, or is not answered.
pub fn run(target: &Target, in_flight: u32, until: Until, seed: u64) -> anyhow::Result<(u64, Duration)> {
    anyhow::ensure!(target.has_rows(), "there is no row to write to");
    let mut random = SmallRng::seed_from_u64(seed);
    let (tell, told) = mpsc::channel();
    let (mut asked, mut answered) = (0u64, 0u64);
    let began = Instant::now();
    loop {
        let wanted = match until {
            Until::After(time) => {
                if began.elapsed() < time {
                    u64::MAX
                } else {
                    asked
                }
            }
            Until::Writes(writes) => writes,
        };
        let free = (answered + u64::from(in_flight) - asked).min(wanted - asked);
        let asks = (0..free).map(|_| {
            let tell = tell.clone();
            let done: WriteDone = Box::new(move |result| drop(tell.send(result.map(|answer| answer.is_done()))));
            (target.overwrite(&mut random).1, done)
        });
        let asks: Vec<_> = asks.collect();
        asked += free;
        if !asks.is_empty() {
            target.cluster.router().write_many(asks);
        }
        if answered == asked {
            return Ok((answered, began.elapsed()));
        }
        // One answer at least, and whatever has come with it.
        let first = told.recv_timeout(ANSWER_MAX).context("the router does not answer")?;
        for answer in std::iter::once(first).chain(told.try_iter()) {
            anyhow::ensure!(answer.context("a write was refused")?, "a write was not accepted");
            answered += 1;
        }
    }
}
