//! Every side effect by name, so that a test can stop the process at each.

use rehome_keyspace::{KeyspaceId, ShardId};
use rehome_ports::Hook;

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)+) => {
        /// A side effect of a node. Closed: a new effect gets a name here, and with it its fail points.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Step { $($(#[$doc])* $name,)+ }

        impl Step {
            pub const ALL: &'static [Step] = &[$(Step::$name,)+];

            pub fn name(self) -> &'static str {
                match self { $(Step::$name => $text,)+ }
            }
        }
    };
}

steps! {
    /// One batch of a turn: rows, states, positions.
    Write => "write",
    /// Verdicts to routers.
    Verdicts => "verdicts",
    /// The copy's bookkeeping made durable at the destination.
    Flush => "flush",
    ProposeRegistered => "propose-registered",
    ProposeSnapshotTaken => "propose-snapshot-taken",
    ProposeCopyIngested => "propose-copy-ingested",
    ProposeCopyFailed => "propose-copy-failed",
    ProposeReady => "propose-ready",
    ProposeCleanupDone => "propose-cleanup-done",
    ExportRuns => "export-runs",
    /// The running digest of keys that move out, counted anew after a crash.
    Count => "count",
    SealSnapshot => "seal-snapshot",
    RemoveSnapshot => "remove-snapshot",
    WipeForIngest => "wipe-for-ingest",
    Ingest => "ingest",
    ReadBack => "read-back",
    WipeForCleanup => "wipe-for-cleanup",
    /// Everything of a dropped keyspace.
    RemoveStores => "remove-stores",
    RemoveSnapshots => "remove-snapshots",
    ProposeKeyspaceRemoved => "propose-keyspace-removed",
}

/// Called around every effect of a node.
pub type StepHook = Hook<Step>;

/// Runs long work beside the turns: a thread in production, a queue of the scheduler in a simulation.
pub trait Jobs: Send + Sync {
    fn spawn(&self, name: String, job: Box<dyn FnOnce() + Send>);

    /// Called by a job: does the work of each number below `count`, and returns when all of it is done. Several at once
    /// where processors are idle.
    fn together(&self, count: usize, work: &(dyn Fn(usize) + Sync));

    /// While `held`, jobs rest where they give way: somebody here needs the machine for some milliseconds.
    fn hold(&self, holder: (KeyspaceId, ShardId), held: bool);

    /// Called by jobs every few milliseconds: lets other threads go first, and rests while jobs are held. Returns after
    /// a bounded time in any case.
    fn give_way(&self);
}
