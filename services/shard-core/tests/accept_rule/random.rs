//! Random logs, replicas and crashes: late and doubled marks, forged epochs and marks, gaps, aborts and second
//! attempts, mixed epochs, retries. At the end everything is compared with the oracle, and with R1 to R12.

use crate::sim::Sim;
use proptest::prelude::*;

/// One thing that happens. Numbers pick among what there is at that moment.
#[derive(Clone, Debug)]
pub enum Step {
    Write(WriteStep),
    Horizon {
        key: usize,
        pick: u16,
    },
    StartMove {
        key: usize,
        more: [bool; 8],
        destination: u32,
    },
    Export {
        replica: usize,
    },
    Ingest {
        replica: usize,
    },
    StartAttempt {
        pick: u16,
    },
    /// Of any attempt, however old.
    Open {
        pick: u16,
    },
    Fence {
        pick: u16,
    },
    ForgedMark {
        pick: u16,
        shard: u32,
        how: u8,
        open: bool,
    },
    Ready {
        replica: usize,
    },
    Abort {
        pick: u16,
    },
    Cancel {
        pick: u16,
    },
    CleanUp {
        replica: usize,
    },
    Apply {
        replica: usize,
        records: usize,
    },
    Replay {
        replica: usize,
        records: usize,
    },
    Fold {
        replica: usize,
        back: u64,
    },
    Settle {
        replica: usize,
    },
    Flush {
        replica: usize,
    },
    Crash {
        replica: usize,
        batches: usize,
    },
    Read {
        replica: usize,
        key: usize,
    },
    /// Brings one move on as far as it goes.
    Hurry {
        pick: u16,
        finish: bool,
    },
}

#[derive(Clone, Debug)]
pub struct WriteStep {
    pub key: usize,
    /// Where to and under which epoch, when not as routed.
    pub astray: Option<(u32, u64)>,
    pub operation: OperationStep,
    pub identity: IdentityStep,
    pub gap: u64,
}

#[derive(Clone, Debug)]
pub enum OperationStep {
    Put { sort_key: u8 },
    Delete { sort_key: u8 },
    If { sort_key: u8, condition: u8, pick: u16, delete: bool },
    Batch { changes: Vec<(u8, bool)> },
}

#[derive(Clone, Debug)]
pub enum IdentityStep {
    None,
    NewRequest,
    /// An earlier request of the key again.
    Retry {
        pick: u16,
    },
    /// An earlier request id of the key with other content.
    Conflict {
        pick: u16,
    },
    /// The next position of the key's source, or one some way back.
    Source {
        back: u64,
    },
}

fn operation() -> impl Strategy<Value = OperationStep> {
    let sort_key = 0u8..3;
    prop_oneof![
        5 => sort_key.clone().prop_map(|sort_key| OperationStep::Put { sort_key }),
        2 => sort_key.clone().prop_map(|sort_key| OperationStep::Delete { sort_key }),
        2 => (sort_key.clone(), 0u8..3, any::<u16>(), any::<bool>()).prop_map(|(sort_key, condition, pick, delete)| {
            OperationStep::If { sort_key, condition, pick, delete }
        }),
        1 => prop::collection::vec((sort_key, any::<bool>()), 0..4).prop_map(|changes| OperationStep::Batch { changes }),
    ]
}

fn identity() -> impl Strategy<Value = IdentityStep> {
    prop_oneof![
        2 => Just(IdentityStep::None),
        3 => Just(IdentityStep::NewRequest),
        3 => any::<u16>().prop_map(|pick| IdentityStep::Retry { pick }),
        1 => any::<u16>().prop_map(|pick| IdentityStep::Conflict { pick }),
        2 => (0u64..3).prop_map(|back| IdentityStep::Source { back }),
    ]
}

fn write() -> impl Strategy<Value = Step> {
    let astray = prop::option::weighted(0.3, (0..Sim::SHARDS, 0u64..6));
    (0..crate::world::KEYS, astray, operation(), identity(), 0u64..3).prop_map(
        |(key, astray, operation, identity, gap)| Step::Write(WriteStep { key, astray, operation, identity, gap }),
    )
}

fn step() -> impl Strategy<Value = Step> {
    let replica = 0..Sim::REPLICAS;
    let pick = any::<u16>();
    prop_oneof![
        24 => write(),
        1 => (0..crate::world::KEYS, pick).prop_map(|(key, pick)| Step::Horizon { key, pick }),
        4 => (0..crate::world::KEYS, any::<[bool; 8]>(), 0..Sim::SHARDS)
            .prop_map(|(key, more, destination)| Step::StartMove { key, more, destination }),
        3 => replica.clone().prop_map(|replica| Step::Export { replica }),
        3 => replica.clone().prop_map(|replica| Step::Ingest { replica }),
        3 => pick.prop_map(|pick| Step::StartAttempt { pick }),
        3 => pick.prop_map(|pick| Step::Open { pick }),
        3 => pick.prop_map(|pick| Step::Fence { pick }),
        1 => (pick, 0..Sim::SHARDS, 0u8..6, any::<bool>())
            .prop_map(|(pick, shard, how, open)| Step::ForgedMark { pick, shard, how, open }),
        3 => replica.clone().prop_map(|replica| Step::Ready { replica }),
        1 => pick.prop_map(|pick| Step::Abort { pick }),
        1 => pick.prop_map(|pick| Step::Cancel { pick }),
        2 => replica.clone().prop_map(|replica| Step::CleanUp { replica }),
        12 => (replica.clone(), 1usize..6).prop_map(|(replica, records)| Step::Apply { replica, records }),
        6 => (replica.clone(), 1usize..6).prop_map(|(replica, records)| Step::Replay { replica, records }),
        5 => (replica.clone(), 0u64..4).prop_map(|(replica, back)| Step::Fold { replica, back }),
        2 => replica.clone().prop_map(|replica| Step::Settle { replica }),
        2 => replica.clone().prop_map(|replica| Step::Flush { replica }),
        2 => (replica.clone(), 0usize..6).prop_map(|(replica, batches)| Step::Crash { replica, batches }),
        4 => (replica, 0..crate::world::KEYS).prop_map(|(replica, key)| Step::Read { replica, key }),
        6 => (pick, any::<bool>()).prop_map(|(pick, finish)| Step::Hurry { pick, finish }),
    ]
}

/// More cases than these with `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let standard = ProptestConfig::default();
    ProptestConfig { cases: standard.cases.max(3_000), failure_persistence: None, ..standard }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_logs_are_judged_as_the_oracle_says_and_break_no_invariant(
        steps in prop::collection::vec(step(), 1..160)
    ) {
        let mut sim = Sim::new();
        for step in &steps {
            sim.step(step);
        }
        sim.finish();
    }
}

#[test]
fn random_logs_reach_what_they_are_meant_to_reach() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    // A fixed seed: this says what the generator reaches, not what holds.
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    let strategy = prop::collection::vec(step(), 80..160);
    let mut reached = crate::sim::Reached::default();
    for _ in 0..60 {
        let mut sim = Sim::new();
        for step in &strategy.new_tree(&mut runner).expect("a strategy without filters").current() {
            sim.step(step);
        }
        sim.finish();
        reached.add(&sim);
    }
    reached.check();
}
