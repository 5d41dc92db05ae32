//! One thread per role, and one per long job.

use super::Clock;
use super::holds::Holds;
use crate::exit::Exit;
use rehome_keyspace::{KeyspaceId, ShardId};
use rehome_node::{Host, Jobs};
use rehome_ports::{PortError, Role, Signal, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// The threads of a cluster.
pub struct Threads {
    clock: Clock,
    holds: Holds,
    /// Threads that help jobs now.
    helping: AtomicUsize,
    stopping: Arc<AtomicBool>,
    running: Mutex<Vec<Running>>,
}

/// What a job unwinds with that is cut off because everything stops. No panic: its hook says nothing.
struct JobCut;

struct Running {
    /// A job has none: it ends by itself.
    signal: Option<Arc<Signal>>,
    thread: JoinHandle<()>,
}

impl Threads {
    pub fn new(clock: Clock) -> Arc<Threads> {
        Arc::new(Threads {
            clock,
            holds: Holds::default(),
            helping: AtomicUsize::new(0),
            stopping: Arc::default(),
            running: Mutex::default(),
        })
    }

    /// Runs the role until the end: turns while there is something to do, else waits for its signal or its time.
    pub fn run(&self, name: &str, signal: Arc<Signal>, role: Box<dyn Role + Send>) {
        let (clock, stopping, waiting) = (self.clock, Arc::clone(&self.stopping), Arc::clone(&signal));
        self.spawn(name.to_owned(), Some(signal), move || run_role(role, &waiting, clock, &stopping));
    }

    /// Ends every role after its turn and every job where it next gives way, and waits for them.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        loop {
            // A role that ends may have started another thread just before.
            let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
            if running.is_empty() {
                return;
            }
            running.iter().filter_map(|one| one.signal.as_ref()).for_each(|signal| signal.give());
            for one in running {
                // Its panic was logged when it happened.
                let _ = one.thread.join();
            }
        }
    }

    fn spawn(&self, name: String, signal: Option<Arc<Signal>>, work: impl FnOnce() + Send + 'static) {
        let told = name.clone();
        let work = move || {
            let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else { return };
            if !panic.is::<JobCut>() {
                // A broken invariant: nothing that this process says from here on can be trusted.
                tracing::error!(thread = told, "thread panicked, the process ends");
                std::process::abort();
            }
        };
        let thread =
            thread::Builder::new().name(name).spawn(work).expect("the machine has room for a few dozen threads");
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|one| !one.thread.is_finished());
        running.push(Running { signal, thread });
    }
}

fn run_role(mut role: Box<dyn Role + Send>, signal: &Signal, clock: Clock, stopping: &AtomicBool) {
    while !stopping.load(Ordering::SeqCst) {
        let turn = role.turn(clock.now_ms());
        if let Some(reason) = role.fatal() {
            tracing::error!(
                reason,
                "the process ends, since a role of it cannot go on; look at its disk, then start it again"
            );
            std::process::exit(Exit::Failed as i32);
        }
        if role.has_ended() {
            return;
        }
        if !turn.progressed {
            signal.wait(turn.wake_at_ms.map(|at_ms| clock.instant(at_ms)));
        }
    }
}

impl Host for Threads {
    fn host(&self, name: String, make: rehome_node::MakeRole) -> Result<(), PortError> {
        let signal = Signal::new();
        let wake: Waker = signal.waker();
        let role = make(wake)?;
        self.run(&name, signal, role);
        Ok(())
    }
}

/// How much a job's thread yields to roles: copies let the live tail go first.
const JOB_NICENESS: i32 = 10;

fn be_nice() {
    // On Linux a thread has a priority of its own; elsewhere, or where it is refused, the job runs as it is.
    let thread = rustix::thread::gettid();
    if let Err(error) = rustix::process::setpriority_process(Some(thread), JOB_NICENESS) {
        tracing::debug!(%error, "the job keeps its priority");
    }
}

/// A thread that helps a job, while it lives.
struct Helper<'a>(&'a AtomicUsize);

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Threads {
    /// Returns leave for one more thread that helps a job: all jobs together have one less than there are processors.
    fn helper(&self) -> Option<Helper<'_>> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let one_more = |helping: usize| (helping + 1 < processors).then_some(helping + 1);
        self.helping.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Helper(&self.helping))
    }
}

impl Jobs for Threads {
    fn spawn(&self, name: String, job: Box<dyn FnOnce() + Send>) {
        let told = name.clone();
        let polite = move || {
            be_nice();
            let began = Instant::now();
            job();
            tracing::debug!(job = told, took_ms = began.elapsed().as_millis() as u64, "job has ended");
        };
        Threads::spawn(self, name, None, polite);
    }

    fn together(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let run = || {
            while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < count) {
                work(number);
            }
        };
        thread::scope(|scope| {
            let run = &run;
            let help = move |helper: Helper<'_>| {
                be_nice();
                run();
                drop(helper);
            };
            let helpers = (1..count).map_while(|_| self.helper());
            let helpers: Vec<_> = helpers.map(|helper| scope.spawn(move || help(helper))).collect();
            run();
            for helper in helpers {
                // Cut off, or a panic: the job ends as its helper did.
                helper.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
    }

    fn hold(&self, holder: (KeyspaceId, ShardId), held: bool) {
        self.holds.set(holder, held);
    }

    fn give_way(&self) {
        if self.stopping.load(Ordering::SeqCst) {
            // Nobody waits for what it would tell, and a move goes on after a job that a crash cut: so does it after this.
            resume_unwind(Box::new(JobCut));
        }
        self.holds.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehome_ports::Turn;
    use std::sync::mpsc;
    use std::time::Duration;

    struct Counting(mpsc::Sender<u64>, u64);

    impl Role for Counting {
        fn turn(&mut self, now_ms: u64) -> Turn {
            self.1 += 1;
            self.0.send(self.1).expect("the test listens");
            Turn { progressed: self.1 == 1, wake_at_ms: (self.1 == 2).then_some(now_ms + 5) }
        }
    }

    #[test]
    fn a_role_takes_turns_while_it_progresses_then_by_its_time_then_by_its_signal_until_the_end() {
        let threads = Threads::new(Clock::start());
        let signal = Signal::new();
        let (turned, turns) = mpsc::channel();
        threads.run("counting", Arc::clone(&signal), Box::new(Counting(turned, 0)));
        assert_eq!(turns.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
        signal.give();
        assert_eq!(turns.recv(), Ok(4));
        threads.stop();
        assert!(turns.iter().count() <= 1, "it ends, after at most one more turn");
    }

    #[test]
    fn work_of_a_job_is_all_done_once_whoever_helps() {
        let threads = Threads::new(Clock::start());
        for count in [0, 1, 7] {
            let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            threads.together(count, &|number| {
                done[number].fetch_add(1, Ordering::Relaxed);
            });
            assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{done:?}");
            assert_eq!(threads.helping.load(Ordering::Relaxed), 0, "who helped helps others again");
        }
    }

    #[test]
    fn a_job_ends_as_its_helper_did() {
        let threads = Threads::new(Clock::start());
        threads.stopping.store(true, Ordering::SeqCst);
        let cut = catch_unwind(AssertUnwindSafe(|| threads.together(4, &|_| threads.give_way())));
        assert!(cut.is_err_and(|panic| panic.is::<JobCut>()));
        assert_eq!(threads.helping.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_job_ends_where_it_gives_way_once_everything_stops() {
        let threads = Threads::new(Clock::start());
        let (tell, told) = mpsc::channel();
        let jobs = Arc::clone(&threads);
        let endless = move || {
            loop {
                jobs.give_way();
                // Nobody listens any more once the test has its first word.
                let _ = tell.send(());
            }
        };
        Jobs::spawn(&*threads, "endless".into(), Box::new(endless));
        assert_eq!(told.recv(), Ok(()));
        let (tell_stopped, stopped) = mpsc::channel();
        thread::spawn(move || {
            threads.stop();
            tell_stopped.send(())
        });
        assert_eq!(stopped.recv_timeout(Duration::from_secs(30)), Ok(()));
    }
}
