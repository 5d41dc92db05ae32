//! Reads RocksDB's write-ahead log files as far as telling needs: where each write lies, and where the file ends.
//!
//! ```text
//! file      blocks of 32 KiB; pieces do not cross them
//! piece     checksum: u32 | bytes: u16 | type: u8 | number of the file: u32 | the bytes      (little endian)
//! write     one piece, or a first, any middle and a last one:  sequence: u64 | records: u32 | ...
//! ```
//! A file that is written over holds pieces of an earlier life behind its end, under another number. Source: RocksDB,
//! `db/log_format.h`; the version is pinned, and the tests here read files that it wrote.

use crate::disk::FILLING;
use std::ops::Range;

const BLOCK: usize = 32 << 10;
const HEADER: usize = 11;
/// Types of pieces that carry a file's number: whole, first, middle, last; and what holds no records.
const WHOLE: u8 = 5;
const FIRST: u8 = 6;
const MIDDLE: u8 = 7;
const LAST: u8 = 8;
const TYPES: [u8; 6] = [WHOLE, FIRST, MIDDLE, LAST, 11, 131];

/// One write that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where its pieces lie.
    pub bytes: Range<usize>,
    /// Number of its first record over the life of the database.
    pub sequence: u64,
    pub records: u32,
    /// Written only to make room ahead.
    pub filling: bool,
}

/// What a file holds of its present life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Whole writes from the start on.
    pub writes: Vec<Write>,
    /// The bytes that are no whole write and yet of this life, where the writes stop.
    pub torn: Option<Range<usize>>,
    /// Whole writes behind that, or behind where the file seems to end: a file that was torn only at its end has none.
    pub beyond: Vec<Write>,
    /// Number of the record that comes where the writes stop. Where not even the first one is whole, what that says of
    /// itself.
    pub next: Option<u64>,
}

/// Records of a write at most: far more than a group has.
const RECORDS_MAX: u64 = 1 << 16;

impl Write {
    /// Tells whether just one write may lie between this one and the record that comes next.
    fn may_follow(&self, next: Option<u64>) -> bool {
        next.is_some_and(|next| (next..=next + RECORDS_MAX).contains(&self.sequence))
    }

    /// Returns the number of the record that comes next.
    pub fn end(&self) -> u64 {
        self.sequence + u64::from(self.records)
    }
}

impl Contents {
    /// Returns where the writes end that can be read from the start on.
    pub fn end(&self) -> usize {
        self.writes.last().map_or(0, |write| write.bytes.end)
    }
}

/// Reads a file of that number.
pub fn read(file: &[u8], number: u64) -> Contents {
    let reader = Reader { file, number: (number as u32).to_le_bytes() };
    let Chain { writes, torn, stopped } = reader.chain(0);
    // Where the first write is not whole, nothing but its own bytes tells its number.
    let claimed = torn.as_ref().filter(|torn| torn.start == 0).and_then(|_| reader.number_at(0));
    let next = writes.last().map(Write::end).or(claimed);
    let mut beyond = Vec::new();
    let mut from = reader.behind(stopped, next);
    while let Some(Place { at, is_sure }) = from {
        let Chain { writes, stopped, .. } = reader.chain(at);
        let is_sound = is_sure || writes.first().is_some_and(|first| first.may_follow(next));
        from = reader.next_block(if is_sound { stopped } else { at });
        beyond.extend(writes.into_iter().filter(|_| is_sound));
    }
    Contents { writes, torn, beyond, next }
}

/// Whole writes that follow one another.
struct Chain {
    writes: Vec<Write>,
    /// What is no whole write behind them, and yet of this life.
    torn: Option<Range<usize>>,
    /// Where the piece lies with which they stop.
    stopped: usize,
}

/// Where a write may begin behind what is damaged.
struct Place {
    at: usize,
    /// Not told by what is damaged.
    is_sure: bool,
}

struct Reader<'a> {
    file: &'a [u8],
    number: [u8; 4],
}

enum Found {
    Write(Write),
    /// Bytes that are no whole write, and where the piece lies that is not good.
    Torn {
        bytes: Range<usize>,
        piece: usize,
    },
    /// No write begins here.
    End(usize),
}

enum Piece {
    Good { kind: u8, bytes: Range<usize> },
    Bad { end: usize },
    None,
}

impl Reader<'_> {
    fn chain(&self, mut at: usize) -> Chain {
        let mut writes = Vec::new();
        loop {
            match self.write_at(at) {
                Found::Write(write) => {
                    at = write.bytes.end;
                    writes.extend((write.records > 0).then_some(write));
                }
                Found::Torn { bytes, piece } => return Chain { writes, torn: Some(bytes), stopped: piece },
                Found::End(stopped) => return Chain { writes, torn: None, stopped },
            }
        }
    }

    /// Returns the write whose first piece comes next.
    fn write_at(&self, at: usize) -> Found {
        let start = self.next_piece(at);
        let mut at = start;
        // A first piece holds nothing where a block has room for its header only.
        let mut begun = false;
        let mut joined: Vec<u8> = Vec::new();
        loop {
            let (kind, bytes) = match self.piece(at) {
                Piece::Good { kind, bytes } => (kind, bytes),
                Piece::Bad { end } => return Found::Torn { bytes: start..end, piece: at },
                Piece::None if begun => return Found::Torn { bytes: start..at.min(self.file.len()), piece: at },
                Piece::None => return Found::End(at),
            };
            let end = bytes.end;
            match (kind, begun) {
                (WHOLE, false) => return Found::Write(write(start..end, &self.file[bytes])),
                (FIRST, false) | (MIDDLE, true) => {
                    begun = true;
                    joined.extend_from_slice(&self.file[bytes]);
                }
                (LAST, true) => {
                    joined.extend_from_slice(&self.file[bytes]);
                    return Found::Write(write(start..end, &joined));
                }
                (WHOLE | FIRST | MIDDLE | LAST, _) => return Found::Torn { bytes: start..end, piece: at },
                // Says something of the file.
                _ => return Found::Write(write(start..end, &[])),
            }
            at = self.next_piece(end);
        }
    }

    /// Passes what is too short for a piece at the end of a block.
    fn next_piece(&self, at: usize) -> usize {
        let left = BLOCK - at % BLOCK;
        if left < HEADER { at + left } else { at }
    }

    fn piece(&self, at: usize) -> Piece {
        let Some(header) = self.file.get(at..at + HEADER) else {
            // A file that was cut within a header.
            let rest = self.file.get(at..).unwrap_or_default();
            return if rest.iter().all(|byte| *byte == 0) { Piece::None } else { Piece::Bad { end: self.file.len() } };
        };
        if !self.is_ours(at) {
            return if at.is_multiple_of(BLOCK) && !self.is_of_some_life(at) {
                Piece::Bad { end: at + HEADER }
            } else {
                Piece::None
            };
        }
        let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let bytes = at + HEADER..at + HEADER + length;
        if bytes.end > self.file.len() || at % BLOCK + HEADER + length > BLOCK {
            return Piece::Bad { end: bytes.end.min(self.file.len()) };
        }
        match self.checksum(at, bytes.end) == header[..4] {
            true => Piece::Good { kind: header[6], bytes },
            false => Piece::Bad { end: bytes.end },
        }
    }

    /// Tells whether the header there is one of this life.
    fn is_ours(&self, at: usize) -> bool {
        self.file.get(at + 6..at + HEADER).is_some_and(|end| TYPES.contains(&end[0]) && end[1..] == self.number)
    }

    /// Tells whether a block begins as it does in this life or an earlier one, or was never written. A block's first
    /// piece is written over from its start on, so that of an earlier life is whole.
    fn is_of_some_life(&self, at: usize) -> bool {
        let header = &self.file[at..at + HEADER];
        let end = at + HEADER + usize::from(u16::from_le_bytes([header[4], header[5]]));
        end <= self.file.len() && header[..4] == self.checksum(at, end)
            || self.file[at..].iter().take(BLOCK).all(|byte| *byte == 0)
    }

    /// Returns the number that the write claims whose first piece lies there.
    fn number_at(&self, at: usize) -> Option<u64> {
        self.file.get(at + HEADER..at + HEADER + 8).map(little_endian)
    }

    /// Returns where the next piece lies behind one that is not good, if anything of this life may lie there.
    ///
    /// Bytes of clients lie everywhere but where pieces begin, and may look like pieces. So only those places are looked
    /// at that RocksDB made: the start of each block, and, within a block, where the header of the damaged piece says
    /// that it ends, or where its checksum says so when its length is what was damaged.
    fn behind(&self, at: usize, next: Option<u64>) -> Option<Place> {
        let header = self.file.get(at..at + HEADER)?;
        let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let block_end = (at - at % BLOCK + BLOCK).min(self.file.len());
        let is_ours = self.is_ours(at);
        if is_ours && let Some(end) = (at + HEADER..=block_end).find(|end| self.ends_there(at, *end)) {
            return Some(Place { at: end, is_sure: false });
        }
        // Behind the end of this life lies an earlier one, cut anywhere; but where a block begins, a header does.
        let continues = self.number_at(at).is_some_and(|number| Some(number) == next);
        let end = at + HEADER + length;
        let is_header = is_ours || at.is_multiple_of(BLOCK) || continues;
        if is_header && end + HEADER <= block_end {
            // The number that the file's first write claims may itself be what was damaged, where its header is not.
            return Some(Place { at: end, is_sure: at == 0 && is_ours });
        }
        self.next_block(at)
    }

    /// Tells whether the piece has a right checksum when it ends there, and another one of this life follows.
    fn ends_there(&self, at: usize, end: usize) -> bool {
        let follows = self.file.get(end + 7..end + HEADER).is_some_and(|number| *number == self.number);
        follows && TYPES.contains(&self.file[end + 6]) && self.file[at..at + 4] == self.checksum(at, end)
    }

    /// Returns the start of the next block, behind what belongs to a write that began before it.
    fn next_block(&self, at: usize) -> Option<Place> {
        let mut at = at - at % BLOCK + BLOCK;
        while at + HEADER <= self.file.len() {
            match self.piece(at) {
                Piece::Good { kind: MIDDLE | LAST, bytes } => at = self.next_piece(bytes.end),
                Piece::Good { .. } => return Some(Place { at, is_sure: true }),
                Piece::Bad { .. } | Piece::None => at = at - at % BLOCK + BLOCK,
            }
        }
        None
    }

    /// Returns the checksum of type, number and bytes of a piece, as it stands in the header.
    fn checksum(&self, at: usize, end: usize) -> [u8; 4] {
        let checksum = crc32c::crc32c(&self.file[at + 6..end]);
        checksum.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
    }
}

fn write(bytes: Range<usize>, batch: &[u8]) -> Write {
    let number = |range: Range<usize>| little_endian(batch.get(range).unwrap_or_default());
    let records = number(8..12) as u32;
    Write { bytes, sequence: number(0..8), records, filling: records == 1 && is_filling(&batch[12..]) }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Tells whether the one change of a batch is a chunk of filling: nothing but filling, which no record is.
///
/// ```text
/// 5 | family: varint | bytes of the key: varint | key | bytes of the value: varint | value
/// ```
fn is_filling(change: &[u8]) -> bool {
    fn varint(bytes: &mut &[u8]) -> Option<usize> {
        let length = bytes.iter().take(5).position(|byte| *byte < 0x80)? + 1;
        let (number, rest) = bytes.split_at(length);
        *bytes = rest;
        Some(number.iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f)))
    }
    let Some((5, mut rest)) = change.split_first() else { return false };
    let parts = varint(&mut rest).and_then(|_family| varint(&mut rest)).and_then(|key| rest.get(key..));
    let Some(mut rest) = parts else { return false };
    let length = varint(&mut rest);
    length == Some(rest.len()) && !rest.is_empty() && rest.chunks(FILLING.len()).all(|chunk| chunk == FILLING)
}
