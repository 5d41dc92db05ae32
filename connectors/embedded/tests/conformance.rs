//! The embedded log keeps the promises of the Log port.

use rehome_embedded::{EmbeddedLog, Limits};
use rehome_ports::Log;
use rehome_ports::conformance::log::LogBed;
use std::sync::Arc;
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

/// Groups of a few records, so that appends are split over many syncs.
mod in_small_groups {
    use super::*;

    fn limits() -> Limits {
        Limits { group_records_max: 3, ..Limits::default() }
    }

    rehome_ports::log_conformance!(Bed::new(limits()));
}
