//! A control log in the making, and the state that follows it.

use crate::{Accepted, ControlState, Decision, Keyspace, Move, Phase};
use rehome_keyspace::{
    AttemptId, JobId, KeyspaceId, MoveId, NodeId, Nonce, Offset, Placement, RequestId, ShardId, Side, SlotId,
};
use rehome_records::control::{JobOptions, JobSubmitted, MoveWanted, SlotSpan};
use rehome_records::{ControlEvent, ControlRecord, Digest, Logged};

/// The node that hosts the shards with even numbers, and the one that hosts the others.
pub const EVEN: NodeId = NodeId(1);
pub const ODD: NodeId = NodeId(2);
/// Registered after the keyspace was created, so that it hosts nothing.
pub const IDLE: NodeId = NodeId(3);
pub const SLOTS: u32 = 16;
pub const KEEP: JobOptions = JobOptions { complete: false, ..JobOptions::STANDARD };

/// Source, destination, and spans of slots, both ends included.
pub type Asked<'a> = (u32, u32, &'a [(u32, u32)]);

#[derive(Clone)]
pub struct World {
    pub state: ControlState,
    pub log: Vec<Logged>,
    command: u128,
}

impl World {
    pub fn empty() -> World {
        World { state: ControlState::new(), log: Vec::new(), command: 0 }
    }

    /// Two nodes, and a keyspace of 2 shards with 8 slots each: shard 0 on `EVEN`, shard 1 on `ODD`.
    pub fn new() -> World {
        let mut world = World::empty();
        world.tell(ControlEvent::NodeRegistered { node: EVEN, address: "here:1".into() });
        world.tell(ControlEvent::NodeRegistered { node: ODD, address: "here:2".into() });
        world.tell(create("flights", SLOTS, 2));
        world.tell(ControlEvent::NodeRegistered { node: IDLE, address: "here:3".into() });
        world
    }

    /// A job with one move of slots 4 to 7 from shard 0 to shard 1.
    pub fn with_move(options: JobOptions) -> World {
        let mut world = World::new();
        let decision = world.submit(&[(0, 1, &[(4, 7)])], options);
        assert!(matches!(decision, Decision::Accepted(Accepted::JobSubmitted(..))), "{decision:?}");
        world
    }

    pub fn tell(&mut self, event: ControlEvent) -> Decision {
        self.command += 1;
        self.tell_as(self.command, event)
    }

    /// Appends a record after a gap now and then, and folds it.
    pub fn tell_as(&mut self, command: u128, event: ControlEvent) -> Decision {
        let next = self.log.last().map_or(0, |last| last.offset.0 + 1 + u64::from(self.log.len() % 3 == 2));
        let record = ControlRecord { command, event }.into_record();
        let logged = Logged { offset: Offset(next), append_time_ms: 1_000 + next * 10, record };
        let decision = self.state.fold(&logged);
        self.log.push(logged);
        decision
    }

    pub fn keyspace(&self) -> &Keyspace {
        self.state.keyspaces().next().expect("created at the start")
    }

    pub fn submit(&mut self, moves: &[Asked], options: JobOptions) -> Decision {
        let moves = moves.iter().map(|(from, to, slots)| wanted(*from, *to, slots)).collect();
        let event = job(self.keyspace().id, moves, options);
        self.tell(event)
    }

    pub fn first(&self) -> &Move {
        self.state.move_(MoveId(1)).expect("submitted at the start")
    }

    pub fn job(&self) -> JobId {
        self.first().job
    }

    /// Returns the event that brings the move on, as nodes, controller and operator would do it.
    pub fn next_event(&self, id: MoveId) -> Option<ControlEvent> {
        let one = self.state.move_(id)?;
        let keyspace = self.state.keyspace(one.keyspace)?;
        if self.state.is_paused(one.job) && matches!(one.phase, Phase::Planned | Phase::CatchingUp) {
            return Some(ControlEvent::ResumeRequested { job: one.job });
        }
        let (source, destination) = (keyspace.replicas_of(one.source)[0], keyspace.replicas_of(one.destination)[0]);
        Some(match &one.phase {
            Phase::Planned => ControlEvent::MoveStarted { move_id: id },
            Phase::Copying if one.snapshot.is_none() => snapshot(id, one.copy, source, 7),
            Phase::Copying => {
                ControlEvent::CopyIngested { move_id: id, copy: one.copy, node: destination, digest: digest(7) }
            }
            Phase::CatchingUp => {
                ControlEvent::CutoverStarted { move_id: id, nonce: Nonce(id.0), predicted_pause_us: 900 }
            }
            Phase::CuttingOver { attempt } => {
                let told = self.state.attempt_record(*attempt)?.fence_seen().is_some();
                if told {
                    ready(*attempt, destination, Side::Destination, 50, 8)
                } else {
                    ready(*attempt, source, Side::Source, 50, 8)
                }
            }
            Phase::Switched { .. } => ControlEvent::CompleteRequested { job: one.job },
            Phase::Completing { .. } | Phase::Cancelling | Phase::Failing { .. } => {
                ControlEvent::CleanupDone { move_id: id, node: *one.cleanup_awaited.first()? }
            }
            Phase::Completed | Phase::Cancelled | Phase::Failed { .. } => return None,
        })
    }

    /// Brings the first move on until it is in that phase.
    pub fn bring_to(&mut self, phase: &str) {
        for _ in 0..20 {
            if self.first().phase.name() == phase {
                return;
            }
            let event = self.next_event(MoveId(1)).expect("the phase lies ahead");
            let decision = self.tell(event.clone());
            assert!(matches!(decision, Decision::Accepted(_)), "{event:?}: {decision:?}");
        }
        panic!("{phase} is not reached from {}", self.first().phase);
    }

    /// Returns shard and epoch of a slot.
    pub fn route(&self, slot: u32) -> (u32, u64) {
        let route = self.keyspace().route(SlotId(slot)).expect("a slot of the keyspace");
        (route.shard.0, route.epoch.0)
    }

    pub fn attempt(&self) -> AttemptId {
        *self.first().attempts.last().expect("a cutover was started")
    }
}

pub fn create(name: &str, slots: u32, shards: u32) -> ControlEvent {
    let placement = Placement::buckets(slots).unwrap();
    ControlEvent::KeyspaceCreated { name: name.into(), placement, shards, request_retention_ms: 86_400_000 }
}

pub fn wanted(source: u32, destination: u32, slots: &[(u32, u32)]) -> MoveWanted {
    let span = |(first, last): &(u32, u32)| SlotSpan { first: SlotId(*first), last: SlotId(*last) };
    MoveWanted { source: ShardId(source), destination: ShardId(destination), slots: slots.iter().map(span).collect() }
}

pub fn job(keyspace: KeyspaceId, moves: Vec<MoveWanted>, options: JobOptions) -> ControlEvent {
    ControlEvent::JobSubmitted(JobSubmitted { keyspace, shards: 4, moves, options, requested_by: "ann".into() })
}

pub fn digest(content: u64) -> Digest {
    let mut digest = Digest::default();
    digest.add_row(b"key", &RequestId([content as u8; 16]).0, false);
    digest
}

pub fn snapshot(move_id: MoveId, copy: u32, node: NodeId, content: u64) -> ControlEvent {
    ControlEvent::SnapshotTaken {
        move_id,
        copy,
        node,
        position: Some(Offset(40)),
        digest: digest(content),
        bytes: 1_000,
    }
}

pub fn ready(attempt: AttemptId, node: NodeId, side: Side, fence: u64, content: u64) -> ControlEvent {
    let open = (side == Side::Destination).then_some(Offset(9));
    ControlEvent::Ready { attempt, node, side, fence: Offset(fence), open, digest: digest(content) }
}

pub fn aborted(attempt: AttemptId, fence: u64) -> ControlEvent {
    ControlEvent::CutoverAborted { attempt, fence: Offset(fence), reason: "no outcome after 2000 ms".into() }
}

pub fn cancel(job: JobId) -> ControlEvent {
    ControlEvent::CancelRequested { job, reason: "ann changed her mind".into() }
}

pub fn pause(job: JobId) -> ControlEvent {
    ControlEvent::PauseRequested { job, reason: "ann has to think".into() }
}

/// Returns the code of a refusal, or how it was accepted.
pub fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Accepted(_) => "accepted",
        Decision::AlreadyDone(_) => "done",
        Decision::Refused(refusal) => refusal.code(),
    }
}
