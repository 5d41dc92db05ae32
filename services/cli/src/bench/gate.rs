//! Holds an ingest back, so that there is something to replay.

use rehome_node::{Step, StepHook};
use rehome_ports::When;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

#[derive(Default)]
struct State {
    is_shut: bool,
    /// When the last copy was read back.
    read_back: Option<Instant>,
}

/// A gate before each ingest; open at first.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

impl Gate {
    pub fn shut(&self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).is_shut = true;
    }

    pub fn open(&self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).is_shut = false;
        self.0.1.notify_all();
    }

    /// Returns when the last copy was read back: a replay starts right then.
    pub fn read_back(&self) -> Option<Instant> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).read_back
    }

    /// Returns what a node calls around its steps.
    pub fn hook(&self) -> StepHook {
        let gate = self.clone();
        Arc::new(move |step, when| gate.pass(step, when))
    }

    fn pass(&self, step: Step, when: When) {
        let (state, opened) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        match (step, when) {
            (Step::Ingest, When::Before) => {
                while state.is_shut {
                    state = opened.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
            (Step::ReadBack, When::After) => state.read_back = Some(Instant::now()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_ingest_waits_for_the_gate_and_nothing_else_does() {
        let gate = Gate::default();
        gate.pass(Step::Ingest, When::Before);
        gate.shut();
        gate.pass(Step::ReadBack, When::After);
        assert!(gate.read_back().is_some());
        let (passed, passes) = mpsc::channel();
        let waiting = gate.clone();
        let ingest = std::thread::spawn(move || {
            waiting.pass(Step::Ingest, When::Before);
            passed.send(()).expect("the test listens");
        });
        assert_eq!(passes.try_recv(), Err(mpsc::TryRecvError::Empty));
        gate.open();
        assert_eq!(passes.recv(), Ok(()));
        ingest.join().expect("no panic");
    }
}
