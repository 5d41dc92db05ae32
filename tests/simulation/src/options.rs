//! What a run does, drawn from its seed.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What a run does.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub nodes: u64,
    pub routers: usize,
    pub controllers: usize,
    pub clients: usize,
    pub buckets: u32,
    /// Shard counts, one after the other; the first is that of the keyspace's creation.
    pub plan: Vec<u32>,
    /// Steps of the scheduler before faults stop.
    pub steps_faulty: u64,
    /// Chance of each fault, in one of 10,000 steps.
    pub crash_per_10k: u32,
    pub append_fault_per_10k: u32,
    pub read_lost_per_10k: u32,
    pub freeze_per_10k: u32,
    pub damage_per_10k: u32,
    pub clock_jump_per_10k: u32,
    pub cancel_per_10k: u32,
    pub pause_per_10k: u32,
    /// Most records of one poll: few make roles start over many turns.
    pub poll_records_max: usize,
    /// Chance that a job of a crashing process is done in part, in one of 10,000.
    pub job_cut_per_10k: u32,
    /// Data is acknowledged before it is durable, and durable at most so many milliseconds later; else before.
    pub fsync_every_ms: Option<u64>,
    pub power_loss_per_10k: u32,
    /// Chance that a store flushes by itself.
    pub flush_per_10k: u32,
    /// Lag of tails, drawn anew now and then, at most this.
    pub lag_ms_max: u64,
    /// Ops that each client does.
    pub ops_per_client: u32,
    /// How long request ids are kept.
    pub retention_ms: u64,
    /// A client rests between two ops, at most this long.
    pub client_rest_ms_max: u64,
    /// The operator rests before each job, at most this long.
    pub operator_rest_ms_max: u64,
    /// Plain records in the keyspace's inbox; 0: it has none.
    pub inbox_records: u32,
}

/// So long that no run lasts until a request id is forgotten, in milliseconds.
const RETENTION_MS_LONG: u64 = 24 * 3_600_000;

/// Shard counts that runs draw from.
const PLANS: [&[u32]; 6] = [&[3, 5, 2], &[1, 2], &[2, 1, 3], &[3, 5, 2, 4], &[4, 1], &[2, 3, 2, 3]];

impl Options {
    /// Draws the options of a run; the same seed draws the same.
    pub fn from_seed(seed: u64) -> Options {
        let mut rng = StdRng::seed_from_u64(seed ^ 0x5EED_0F09_7101_2500);
        let calm = rng.random_range(0..5) == 0;
        let chance = |rng: &mut StdRng, most: u32| if calm { 0 } else { rng.random_range(0..=most) };
        let mut options = Options {
            seed,
            nodes: rng.random_range(1..=3),
            routers: rng.random_range(1..=2),
            controllers: rng.random_range(1..=2),
            clients: rng.random_range(2..=6),
            buckets: [8, 16, 64][rng.random_range(0..3)],
            plan: PLANS[rng.random_range(0..PLANS.len())].to_vec(),
            steps_faulty: rng.random_range(4_000..16_000),
            crash_per_10k: chance(&mut rng, 30),
            append_fault_per_10k: chance(&mut rng, 300),
            read_lost_per_10k: chance(&mut rng, 200),
            freeze_per_10k: chance(&mut rng, 20),
            damage_per_10k: chance(&mut rng, 10),
            clock_jump_per_10k: chance(&mut rng, 20),
            cancel_per_10k: chance(&mut rng, 3),
            pause_per_10k: 0,
            poll_records_max: [1, 2, 5, usize::MAX][rng.random_range(0..4)],
            job_cut_per_10k: chance(&mut rng, 500),
            lag_ms_max: if calm { 0 } else { [0, 0, 5, 50][rng.random_range(0..4)] },
            ops_per_client: rng.random_range(30..120),
            retention_ms: RETENTION_MS_LONG,
            client_rest_ms_max: 0,
            operator_rest_ms_max: 0,
            inbox_records: 0,
            fsync_every_ms: None,
            power_loss_per_10k: 0,
            flush_per_10k: 0,
        };
        if rng.random_range(0..3) == 0 {
            options.retention_ms = rng.random_range(16_000..24_000);
            options.client_rest_ms_max = rng.random_range(500..3_000);
            options.operator_rest_ms_max = [0, options.retention_ms * 2][rng.random_range(0..2)];
        }
        options.pause_per_10k = chance(&mut rng, 10);
        // Every second run acknowledges before it syncs; power is lost in both kinds.
        options.fsync_every_ms = [None, Some(rng.random_range(1..400))][rng.random_range(0..2)];
        options.power_loss_per_10k = chance(&mut rng, 8);
        options.flush_per_10k = chance(&mut rng, 100);
        options.inbox_records = [0, 0, 0, 100][rng.random_range(0..4)];
        options
    }

    /// How long a client may ask under one request id. Reason: what it asked last may still wait in a router up to its
    /// deadline, in a frozen process, and through a jump of the clock, before it is in the log.
    pub fn ask_ms_max(&self) -> u64 {
        self.retention_ms - 12_000
    }
}
