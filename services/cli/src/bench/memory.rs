//! Memory of this process.

use anyhow::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Returns how many bytes are resident now.
pub fn resident_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("only Linux tells resident memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kibibytes.context("the kernel tells no resident memory")? << 10)
}

/// Looks at the resident memory again and again.
pub struct Watch {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    most: Arc<AtomicU64>,
}

impl Watch {
    pub fn start() -> anyhow::Result<Watch> {
        let (stopping, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(resident_bytes()?)));
        let (stop, noted) = (Arc::clone(&stopping), Arc::clone(&most));
        let thread = std::thread::Builder::new().name("memory".into()).spawn(move || {
            let signal = rehome_ports::Signal::new();
            while !stop.load(Ordering::Relaxed) {
                noted.fetch_max(resident_bytes().unwrap_or_default(), Ordering::Relaxed);
                signal.wait(Some(Instant::now() + LOOK_EVERY));
            }
        })?;
        Ok(Watch { stopping, thread, most })
    }

    /// Returns the most that was seen, in bytes.
    pub fn stop(self) -> u64 {
        self.stopping.store(true, Ordering::Relaxed);
        self.thread.join().expect("looking at memory does not panic");
        self.most.load(Ordering::Relaxed)
    }
}
