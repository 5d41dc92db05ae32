//! Everything that a controller can do. Closed, so that a new effect gets its fail points by itself.

use rehome_keyspace::{AttemptFacts, AttemptId, Epoch, KeyspaceId, MoveId, Offset, Selector, ShardId};
use rehome_ports::Hook;
use rehome_records::TopicPartition;
use std::time::Duration;

/// What the shell must do. Each is idempotent, or refused by the fold the second time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerEffect {
    /// Give the data topic as many partitions as the keyspace has shards.
    EnsurePartitions { keyspace: KeyspaceId, topic: String, count: u32 },
    /// Remove the topics of a dropped keyspace, of which no node has anything left.
    RemoveTopics { keyspace: KeyspaceId, topics: Vec<String> },
    /// Say that they are gone, so that no later controller asks for it again.
    ProposeTopicRemoved { keyspace: KeyspaceId },
    /// planned -> copying.
    StartMove { move_id: MoveId },
    /// catching-up -> cutting-over.
    StartCutover { move_id: MoveId, predicted_pause: Duration },
    /// Put the attempt's `Open` into the destination's partition.
    AppendOpen { facts: AttemptFacts, partition: TopicPartition },
    /// Put the attempt's `Fence` into the source's partition.
    AppendFence { facts: AttemptFacts, partition: TopicPartition },
    /// Give the attempt up. Requires: its fence is in the source's partition, at or below `fence`.
    AbortCutover { attempt: AttemptId, fence: Offset, reason: String },
    /// The move cannot go on.
    FailMove { move_id: MoveId, reason: String },
    /// Put `Horizon`s into the shard's partition: one for the keys of each epoch, up to that offset.
    AppendHorizon {
        keyspace: KeyspaceId,
        shard: ShardId,
        up_to: Offset,
        owned: Vec<(Epoch, Selector)>,
        partition: TopicPartition,
    },
}

/// What an effect is about: never twice in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Partitions(KeyspaceId),
    RemoveTopics(KeyspaceId),
    TopicRemoved(KeyspaceId),
    Start(MoveId),
    Cutover(MoveId),
    Open(AttemptId),
    Fence(AttemptId),
    Abort(AttemptId),
    Fail(MoveId),
    Horizon { keyspace: KeyspaceId, shard: ShardId, up_to: Offset },
}

macro_rules! kinds {
    ($($name:ident => $text:literal,)+) => {
        /// An effect without its data: what fail points are named for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum EffectKind { $($name,)+ }

        impl EffectKind {
            pub const ALL: &'static [EffectKind] = &[$(EffectKind::$name,)+];

            pub fn name(self) -> &'static str {
                match self { $(EffectKind::$name => $text,)+ }
            }
        }

        impl ControllerEffect {
            pub fn kind(&self) -> EffectKind {
                match self { $(ControllerEffect::$name { .. } => EffectKind::$name,)+ }
            }
        }
    };
}

kinds! {
    EnsurePartitions => "ensure-partitions",
    RemoveTopics => "remove-topic",
    ProposeTopicRemoved => "propose-topic-removed",
    StartMove => "start-move",
    StartCutover => "start-cutover",
    AppendOpen => "append-open",
    AppendFence => "append-fence",
    AbortCutover => "abort-cutover",
    FailMove => "fail-move",
    AppendHorizon => "append-horizon",
}

impl ControllerEffect {
    pub fn step(&self) -> Step {
        match self {
            ControllerEffect::EnsurePartitions { keyspace, .. } => Step::Partitions(*keyspace),
            ControllerEffect::RemoveTopics { keyspace, .. } => Step::RemoveTopics(*keyspace),
            ControllerEffect::ProposeTopicRemoved { keyspace } => Step::TopicRemoved(*keyspace),
            ControllerEffect::StartMove { move_id } => Step::Start(*move_id),
            ControllerEffect::StartCutover { move_id, .. } => Step::Cutover(*move_id),
            ControllerEffect::AppendOpen { facts, .. } => Step::Open(facts.attempt),
            ControllerEffect::AppendFence { facts, .. } => Step::Fence(facts.attempt),
            ControllerEffect::AbortCutover { attempt, .. } => Step::Abort(*attempt),
            ControllerEffect::FailMove { move_id, .. } => Step::Fail(*move_id),
            ControllerEffect::AppendHorizon { keyspace, shard, up_to, .. } => {
                Step::Horizon { keyspace: *keyspace, shard: *shard, up_to: *up_to }
            }
        }
    }
}

/// Called around every effect of a controller.
pub type EffectHook = Hook<EffectKind>;
