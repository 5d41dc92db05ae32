//! The memory adapters keep the promises of their ports.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rehome_memory::{Broker, Faults, MemorySnapshots, MemoryStore};
use rehome_ports::conformance::log::LogBed;
use rehome_ports::conformance::power::PowerBed;
use rehome_ports::conformance::snapshots::SnapshotBed;
use rehome_ports::conformance::store::StoreBed;
use rehome_ports::{BeforeFlush, Log, SnapshotStore, Store};
use rehome_records::RunInfo;
use std::sync::Arc;

mod log {
    use super::*;

    struct Bed(Broker);

    impl LogBed for Bed {
        fn open(&mut self) -> Arc<dyn Log> {
            self.0.cut("tested");
            self.0.handle("tested")
        }
    }

    rehome_ports::log_conformance!(Bed(Broker::new(7, Faults::gaps())));

    /// Acknowledged before it is durable.
    mod before_it_is_synced {
        use super::*;

        impl PowerBed for Bed {
            fn lose_power(&mut self, _log: Arc<dyn Log>) -> Arc<dyn Log> {
                self.0.lose_power();
                self.0.handle("tested")
            }
        }

        fn weak() -> Bed {
            let broker = Broker::new(7, Faults::gaps());
            broker.set_fsync_every_ms(Some(100));
            Bed(broker)
        }

        rehome_ports::log_conformance!(weak());
        rehome_ports::power_conformance!(weak());
    }
}

mod store {
    use super::*;

    struct Bed {
        store: Arc<MemoryStore>,
        snapshots: Arc<MemorySnapshots>,
        chance: StdRng,
    }

    fn bed() -> Bed {
        Bed { store: MemoryStore::new(), snapshots: MemorySnapshots::new(), chance: StdRng::seed_from_u64(7) }
    }

    impl StoreBed for Bed {
        fn open(&mut self) -> Arc<dyn Store> {
            self.store.clone()
        }

        fn open_guarded(&mut self, before_flush: BeforeFlush) -> Arc<dyn Store> {
            self.store = MemoryStore::guarded(before_flush);
            self.store.clone()
        }

        fn crash(&mut self) -> Arc<dyn Store> {
            self.store.crash(&mut self.chance);
            self.store.clone()
        }

        fn snapshots(&mut self) -> Arc<dyn SnapshotStore> {
            self.snapshots.clone()
        }

        fn alter(&mut self, name: &str, run: &RunInfo) {
            assert!(self.snapshots.damage_run(name, &run.name));
        }
    }

    rehome_ports::store_conformance!(bed());
}

mod snapshots {
    use super::*;

    struct Bed(Arc<MemorySnapshots>);

    impl SnapshotBed for Bed {
        fn open(&mut self) -> Arc<dyn SnapshotStore> {
            self.0.clone()
        }

        fn alter(&mut self, name: &str, run: &RunInfo) {
            assert!(self.0.damage_run(name, &run.name));
        }

        fn lose(&mut self, name: &str, run: &RunInfo) {
            assert!(self.0.lose_run(name, &run.name));
        }
    }

    rehome_ports::snapshots_conformance!(Bed(MemorySnapshots::new()));
}
