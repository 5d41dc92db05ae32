//! What lies in a store, each value in its frame.

use crate::codec::{DecodeError, Kind, decode, decode_borrowed, encode};
use crate::digest::Digest;
use crate::verdict::FirstAnswer;
use bincode::{BorrowDecode, Decode, Encode};
use rehome_keyspace::{AttemptId, Epoch, KeyRange, KeyspaceId, MoveId, Offset, Selector, ShardId, Version};

macro_rules! stored {
    ($name:ident, $kind:ident) => {
        impl $name {
            pub fn encode(&self) -> Vec<u8> {
                encode(Kind::$kind, self)
            }

            pub fn decode(bytes: &[u8]) -> Result<$name, DecodeError> {
                decode(Kind::$kind, bytes)
            }
        }
    };
}

/// A row: the version that wrote it, and its value; without one it is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StoredRow {
    pub version: Version,
    pub value: Option<Vec<u8>>,
}
stored!(StoredRow, Row);

/// A row whose value stays where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorrowDecode)]
pub struct RowView<'a> {
    pub version: Version,
    pub value: Option<&'a [u8]>,
}

impl<'a> RowView<'a> {
    /// Reads what [`StoredRow::encode`] wrote.
    pub fn decode(bytes: &'a [u8]) -> Result<RowView<'a>, DecodeError> {
        decode_borrowed(Kind::Row, bytes)
    }
}

/// A request that was judged: its answer, and a hash of what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StoredRequest {
    pub content_hash: u64,
    pub answer: FirstAnswer,
    /// Where it was judged; a `Horizon` at or above it forgets it.
    pub version: Version,
}
stored!(StoredRequest, Request);

/// The highest position of an ordered source that was accepted for a partition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StoredSource {
    pub position: u64,
    pub version: Version,
}
stored!(StoredSource, SourcePosition);

/// How far a replica has applied its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StoredApplied {
    /// The last applied record.
    pub offset: Offset,
    /// Hash of that record, compared when the replica starts again: another record there means another log.
    pub record_hash: u64,
    /// Running maximum of append times, in milliseconds since 1970.
    pub time_ms: u64,
}
stored!(StoredApplied, Applied);

/// When some records of the partition were appended, oldest first: offsets and times both grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct StoredTimes {
    pub samples: Vec<TimeSample>,
}
stored!(StoredTimes, Times);

/// Every record up to this offset was appended at or before this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TimeSample {
    /// Running maximum of append times, in milliseconds since 1970.
    pub time_ms: u64,
    pub offset: Offset,
}

/// Says whose store this is. A store is never opened as another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StoredIdentity {
    pub keyspace: KeyspaceId,
    pub shard: ShardId,
}
stored!(StoredIdentity, Identity);

/// Who may write a region of keys in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum SlotState {
    /// Not owned here; `highest` is the highest epoch it has had here.
    Closed { highest: Epoch },
    /// Owned here under `epoch`.
    Owned { epoch: Epoch },
    /// An attempt reserved `epoch`; its outcome says who owns it.
    Contested { attempt: AttemptId, epoch: Epoch },
}

impl SlotState {
    /// Returns the highest epoch that the region has had here, a reserved one included.
    pub fn highest(&self) -> Epoch {
        match *self {
            SlotState::Closed { highest } => highest,
            SlotState::Owned { epoch } | SlotState::Contested { epoch, .. } => epoch,
        }
    }
}

/// A region of keys with its state.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StateRegion {
    pub range: KeyRange,
    pub state: SlotState,
}
stored!(StateRegion, State);

/// What a source replica keeps for a move on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StoredOutbound {
    pub move_id: MoveId,
    /// Which copy of the move; a failed copy is followed by the next.
    pub copy: u32,
    pub selector: Selector,
    /// Digest of the state at the snapshot, less the change up to it; known once the snapshot was scanned.
    pub base: Option<Digest>,
    /// Change of the digest since this entry was made, kept inside each write batch.
    pub change: Digest,
    /// Attempts that fenced the selector here, with the offset of the fence.
    pub fences: Vec<(AttemptId, Offset)>,
}
stored!(StoredOutbound, Outbound);

impl StoredOutbound {
    /// Returns the digest of the selector's state now; nothing until the snapshot was scanned.
    pub fn digest(&self) -> Option<Digest> {
        self.base.map(|base| base.plus(self.change))
    }
}

/// What a destination replica keeps for a move on its way in.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StoredInbound {
    pub move_id: MoveId,
    pub copy: u32,
    pub source: ShardId,
    pub selector: Selector,
    /// Nothing until the copy is ingested, read back and flushed.
    pub replay: Option<StoredReplay>,
    /// Attempts that opened the selector here, with the offset of the mark.
    pub opens: Vec<(AttemptId, Offset)>,
}
stored!(StoredInbound, Inbound);

/// How far a destination replica has replayed the source's partition, with the states it judges by.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StoredReplay {
    /// Position X of the snapshot; nothing when the source's partition had no record yet.
    pub snapshot: Option<Offset>,
    /// The last replayed record of the source's partition; X at first.
    pub position: Option<Offset>,
    pub digest: Digest,
    pub states: Vec<StateRegion>,
    /// Attempts that fenced the selector in the source's partition, with the offset of the fence.
    pub fences: Vec<(AttemptId, Offset)>,
}
