//! A folded control log with one job, and what replicas report.

use crate::{ControllerEffect, Memory, Observed, decide};
use rehome_control_core::{ControlState, Move};
use rehome_keyspace::{AttemptId, KeyspaceId, MoveId, NodeId, Nonce, Offset, Placement, ShardId, Side, SlotId};
use rehome_ports::{InboundProgress, ReplicaProgress};
use rehome_records::control::{JobOptions, JobSubmitted, MoveWanted, SlotSpan};
use rehome_records::{ControlEvent, ControlRecord, Digest, Logged};

pub const NODE: NodeId = NodeId(1);
/// The keyspace's id: it is created by the second record.
pub const KEYSPACE: KeyspaceId = KeyspaceId(1);
pub const FIRST: MoveId = MoveId(1);

/// Time of the log and of the controller alike, in milliseconds.
#[derive(Clone)]
pub struct Fixture {
    pub state: ControlState,
    pub observed: Observed,
    pub memory: Memory,
    pub now_ms: u64,
}

impl Fixture {
    /// 3 shards of 4 slots on one node, whose topic has 5 partitions, and a job with those moves.
    pub fn new(moves: &[(u32, u32, u32)], options: JobOptions) -> Fixture {
        let mut fixture = Fixture {
            state: ControlState::new(),
            observed: Observed::default(),
            memory: Memory::default(),
            now_ms: 10_000,
        };
        events(moves, options).into_iter().for_each(|event| fixture.tell(event));
        fixture.observed.note_partitions(KEYSPACE, 5);
        fixture
    }

    /// One move of slot 0 from shard 0 to shard 1.
    pub fn one() -> Fixture {
        Fixture::new(&[(0, 1, 0)], JobOptions::STANDARD)
    }

    /// Appends at the present time, folds, and looks.
    pub fn tell(&mut self, event: ControlEvent) {
        let offset = self.state.folded_next();
        let record = ControlRecord { command: u128::from(offset.0), event }.into_record();
        let decision = self.state.fold(&Logged { offset, append_time_ms: self.now_ms, record });
        assert!(decision.done().is_some(), "{decision:?}");
        self.memory.folded(self.state.folded_next(), self.now_ms);
        self.memory.look(&self.state, self.now_ms);
    }

    pub fn first(&self) -> &Move {
        self.state.move_(FIRST).expect("submitted at the start")
    }

    pub fn attempt(&self) -> AttemptId {
        *self.first().attempts.last().expect("a cutover was started")
    }

    pub fn copied(mut self) -> Fixture {
        self.tell(ControlEvent::MoveStarted { move_id: FIRST });
        let (position, digest) = (Some(Offset(9)), Digest::default());
        self.tell(ControlEvent::SnapshotTaken { move_id: FIRST, copy: 1, node: NODE, position, digest, bytes: 0 });
        self.tell(ControlEvent::CopyIngested { move_id: FIRST, copy: 1, node: NODE, digest });
        self
    }

    pub fn cutting_over(self) -> Fixture {
        let mut fixture = self.copied();
        fixture.start_attempt();
        fixture
    }

    pub fn start_attempt(&mut self) {
        let nonce = Nonce(self.state.folded_next().0);
        self.tell(ControlEvent::CutoverStarted { move_id: FIRST, nonce, predicted_pause_us: 1 });
    }

    pub fn abort_attempt(&mut self) {
        let attempt = self.attempt();
        self.tell(ControlEvent::CutoverAborted { attempt, fence: Offset(70), reason: "no outcome".into() });
    }

    /// Both replicas of the first move report, now.
    pub fn report(&mut self, source_lag: u64, replay_lag: u64) {
        let now_ms = self.now_ms;
        self.observed.note_progress(progress(0, source_lag, None), now_ms);
        self.observed.note_progress(progress(1, 0, Some(replay_lag)), now_ms);
    }

    pub fn decide(&self) -> Vec<ControllerEffect> {
        decide(&self.state, &self.observed, &self.memory, self.now_ms)
    }

    /// Returns the names of what is decided.
    pub fn names(&self) -> Vec<&'static str> {
        self.decide().iter().map(|effect| effect.kind().name()).collect()
    }
}

/// Node, keyspace, and a job whose moves are given as source, destination and slot.
pub fn events(moves: &[(u32, u32, u32)], options: JobOptions) -> Vec<ControlEvent> {
    let wanted = |(source, destination, slot): &(u32, u32, u32)| MoveWanted {
        source: ShardId(*source),
        destination: ShardId(*destination),
        slots: vec![SlotSpan { first: SlotId(*slot), last: SlotId(*slot) }],
    };
    vec![
        ControlEvent::NodeRegistered { node: NODE, address: "here:1".into() },
        ControlEvent::KeyspaceCreated {
            name: "flights".into(),
            placement: Placement::buckets(12).expect("12 buckets are fine"),
            shards: 3,
            request_retention_ms: 1,
        },
        ControlEvent::JobSubmitted(JobSubmitted {
            keyspace: KEYSPACE,
            shards: 5,
            moves: moves.iter().map(wanted).collect(),
            options,
            requested_by: "ann".into(),
        }),
    ]
}

pub fn progress(shard: u32, lag_records: u64, replay_lag: Option<u64>) -> ReplicaProgress {
    let inbound =
        |lag_records| InboundProgress { move_id: FIRST, replayed_next: Offset(0), lag_records, replayed_records: 0 };
    ReplicaProgress {
        keyspace: KEYSPACE,
        shard: ShardId(shard),
        node: NODE,
        applied_next: Offset(0),
        lag_records,
        horizon: None,
        inbound: replay_lag.map(inbound).into_iter().collect(),
        troubles: Vec::new(),
        broken: None,
    }
}

pub fn ready(attempt: AttemptId, side: Side, fence: Offset, open: Option<Offset>) -> ControlEvent {
    ControlEvent::Ready { attempt, node: NODE, side, fence, open, digest: Digest::default() }
}
