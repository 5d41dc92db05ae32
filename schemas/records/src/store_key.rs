//! Where things lie in a store. Hand-encoded, big-endian, never bincode.
//!
//! ```text
//! 01 name                          about the whole store: identity, applied position, times
//! 02 start of region               slot state of a region of keys
//! 03 move: u64, part: u8           what a replica keeps for a move
//! 04 offset: u64                   record of the partition that could not be applied, until it is exported
//! 10 placed key, sort key          row
//! 11 placed key, request id        request id
//! 12 placed key, name of source    highest position of an ordered source
//! ```
//! A placed key is never the prefix of another, so what follows it needs no length.

use rehome_keyspace::{KeyRange, MoveId, Offset, PlacedKey, RequestId, Selector};

pub const KIND_META: u8 = 0x01;
pub const KIND_STATE: u8 = 0x02;
pub const KIND_MOVE: u8 = 0x03;
pub const KIND_REJECT: u8 = 0x04;
pub const KIND_ROW: u8 = 0x10;
pub const KIND_REQUEST: u8 = 0x11;
pub const KIND_SOURCE: u8 = 0x12;

/// The kinds that belong to keys and move with them, in key order.
pub const KINDS_OF_KEYS: [u8; 3] = [KIND_ROW, KIND_REQUEST, KIND_SOURCE];

pub fn identity() -> Vec<u8> {
    meta("identity")
}

pub fn applied() -> Vec<u8> {
    meta("applied")
}

/// When records of the partition were appended, now and then.
pub fn times() -> Vec<u8> {
    meta("times")
}

pub fn state(region_start: &[u8]) -> Vec<u8> {
    join(KIND_STATE, region_start, &[])
}

pub fn outbound(move_id: MoveId) -> Vec<u8> {
    join(KIND_MOVE, &move_id.0.to_be_bytes(), b"o")
}

pub fn inbound(move_id: MoveId) -> Vec<u8> {
    join(KIND_MOVE, &move_id.0.to_be_bytes(), b"i")
}

pub fn reject(offset: Offset) -> Vec<u8> {
    join(KIND_REJECT, &offset.0.to_be_bytes(), &[])
}

/// Returns the offset of a rejected record, from its key.
pub fn reject_offset(key: &[u8]) -> Option<Offset> {
    let (kind, offset) = key.split_first()?;
    Some(Offset(u64::from_be_bytes(offset.try_into().ok()?))).filter(|_| *kind == KIND_REJECT)
}

pub fn row(placed: &PlacedKey, sort_key: &[u8]) -> Vec<u8> {
    join(KIND_ROW, &placed.0, sort_key)
}

pub fn request(placed: &PlacedKey, id: RequestId) -> Vec<u8> {
    join(KIND_REQUEST, &placed.0, &id.0)
}

pub fn source(placed: &PlacedKey, name: &str) -> Vec<u8> {
    join(KIND_SOURCE, &placed.0, name.as_bytes())
}

/// Returns the range of store keys of one kind, everything of it.
pub fn kind_range(kind: u8) -> KeyRange {
    KeyRange::new(vec![kind], Some(vec![kind + 1]))
}

/// Returns the range of store keys of one kind for a range of placed keys.
pub fn kind_of_range(kind: u8, range: &KeyRange) -> KeyRange {
    let start = join(kind, &range.start, &[]);
    let end = match &range.end {
        Some(end) => join(kind, end, &[]),
        None => vec![kind + 1],
    };
    KeyRange::new(start, Some(end))
}

/// Returns every range of store keys that moves with the selector, in key order.
pub fn selector_ranges(selector: &Selector) -> Vec<KeyRange> {
    KINDS_OF_KEYS.iter().flat_map(|&kind| kind_ranges(kind, selector)).collect()
}

/// Returns every range of store keys of one kind that moves with the selector, in key order.
pub fn kind_ranges(kind: u8, selector: &Selector) -> Vec<KeyRange> {
    selector.ranges().iter().map(|range| kind_of_range(kind, range)).collect()
}

/// Returns the range of all rows of one partition key.
pub fn rows_of(placed: &PlacedKey) -> KeyRange {
    kind_of_range(KIND_ROW, &placed_range(placed))
}

/// Returns the range of placed keys that holds just this one.
pub fn placed_range(placed: &PlacedKey) -> KeyRange {
    let mut end = placed.0.clone();
    *end.last_mut().expect("a placed key ends with its terminator") += 1;
    KeyRange::new(placed.0.clone(), Some(end))
}

fn meta(name: &str) -> Vec<u8> {
    join(KIND_META, name.as_bytes(), &[])
}

fn join(kind: u8, a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + a.len() + b.len());
    key.push(kind);
    key.extend_from_slice(a);
    key.extend_from_slice(b);
    key
}
