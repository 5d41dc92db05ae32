//! The numbers that name things. An index, a count and a position never share a type.

use bincode::{Decode, Encode};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $show:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $show, self.0)
            }
        }
    };
}

number!(
    /// Names a keyspace for ever: the control offset of the record that created it, so that a dropped and
    /// re-created name shares nothing with its past.
    KeyspaceId(u64), "{}"
);
number!(
    /// Names an owner of slots: the number of its partition in the keyspace's data topic.
    ShardId(u32), "{}"
);
number!(
    /// Names a process that hosts replicas. A restarted node is the same node.
    NodeId(u64), "{}"
);
number!(
    /// The unit of ownership. For a bucket placement: the bucket's number.
    SlotId(u32), "{}"
);
number!(
    /// The ownership number of a slot, drawn from one increasing counter per keyspace (R1). Zero is never granted.
    Epoch(u64), "{}"
);
number!(
    /// The offset of one record in one partition. Offsets have gaps: never assume `offset + 1` exists.
    Offset(u64), "{}"
);
number!(
    /// An ordered set of moves that an operator asked for: the control offset of its submission.
    JobId(u64), "{}"
);
number!(
    /// One selector on its way from one source shard to one destination shard; numbered over all keyspaces.
    MoveId(u64), "{}"
);
number!(
    /// One try to cut a move over; numbered, growing; has one outcome for ever.
    AttemptId(u64), "{}"
);
number!(
    /// Random number that a mark cites to show which control record allowed it.
    Nonce(u64), "{:016x}"
);

impl Offset {
    /// Returns the smallest offset that a later record can have.
    pub fn next(self) -> Offset {
        Offset(self.0 + 1)
    }
}

/// Names a write for ever within its partition key, so that it is done once however often it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct RequestId(pub [u8; 16]);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Version of a row: the write that made it. Ordered by epoch, then offset (R8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Version {
    pub epoch: Epoch,
    pub offset: Offset,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.epoch, self.offset)
    }
}

/// Which side of a move a shard is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Side {
    Source,
    Destination,
}
