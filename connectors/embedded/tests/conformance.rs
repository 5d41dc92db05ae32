//! The embedded log keeps the promises of the Log port.

use rehome_embedded::{EmbeddedLog, Fsync, Limits};
use rehome_ports::Log;
use rehome_ports::conformance::log::LogBed;
use rehome_ports::conformance::power::PowerBed;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

struct Bed {
    dir: TempDir,
    limits: Limits,
}

impl Bed {
    fn new(limits: Limits) -> Bed {
        Bed { dir: tempfile::tempdir().expect("a temporary folder can be made"), limits }
    }
}

impl LogBed for Bed {
    fn open(&mut self) -> Arc<dyn Log> {
        EmbeddedLog::open(self.dir.path(), self.limits).expect("the log opens")
    }
}

mod as_usual {
    use super::*;

    rehome_ports::log_conformance!(Bed::new(Limits::default()));
}

/// Acknowledged before it is synced, and nothing is synced unless it must be.
mod before_it_is_synced {
    use super::*;

    struct Weak {
        dir: TempDir,
        torn: usize,
        log: Option<Arc<EmbeddedLog>>,
    }

    impl LogBed for Weak {
        fn open(&mut self) -> Arc<dyn Log> {
            self.log = None;
            let fsync = Fsync::Every(Duration::from_secs(3600));
            let log = EmbeddedLog::open_with(self.dir.path(), Limits::default(), fsync).expect("the log opens");
            self.log = Some(Arc::clone(&log));
            log
        }
    }

    impl PowerBed for Weak {
        fn lose_power(&mut self, log: Arc<dyn Log>) -> Arc<dyn Log> {
            let copy = tempfile::tempdir().expect("a temporary folder can be made");
            let opened = self.log.take().expect("it was opened");
            opened.copy_after_power_loss(copy.path(), self.torn).expect("a log can be copied");
            drop((log, opened));
            self.dir = copy;
            self.open()
        }
    }

    fn weak(torn: usize) -> Weak {
        Weak { dir: tempfile::tempdir().expect("a temporary folder can be made"), torn, log: None }
    }

    rehome_ports::log_conformance!(weak(0));

    mod and_all_of_it_is_lost {
        use super::*;

        rehome_ports::power_conformance!(weak(0));
    }

    mod and_it_is_lost_from_within_a_record_on {
        use super::*;

        rehome_ports::power_conformance!(weak(700));
    }
}

/// Groups of a few records, so that appends are split over many syncs.
mod in_small_groups {
    use super::*;

    fn limits() -> Limits {
        Limits { group_records_max: 3, ..Limits::default() }
    }

    rehome_ports::log_conformance!(Bed::new(limits()));
}
