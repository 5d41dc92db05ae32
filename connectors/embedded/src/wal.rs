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
    let mut contents = Contents::default();
    let mut at = 0;
    loop {
        match reader.write_at(at) {
            Found::Write(write) => {
                at = write.bytes.end;
                contents.writes.extend((write.records > 0).then_some(write));
            }
            Found::Torn(bytes) => {
                at = bytes.start + 1;
                contents.torn = Some(bytes);
                break;
            }
            Found::End => break,
        }
    }
    while let Some(found) = (at..file.len()).find(|at| reader.may_start(*at)) {
        at = found + 1;
        if let Found::Write(write) = reader.write_at(found) {
            at = write.bytes.end;
            contents.beyond.extend((write.records > 0).then_some(write));
        }
    }
    contents
}

struct Reader<'a> {
    file: &'a [u8],
    number: [u8; 4],
}

enum Found {
    Write(Write),
    Torn(Range<usize>),
    End,
}

enum Piece {
    Good { kind: u8, bytes: Range<usize> },
    Bad { end: usize },
    None,
}

impl Reader<'_> {
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
                Piece::Bad { end } => return Found::Torn(start..end),
                Piece::None if begun => return Found::Torn(start..at.min(self.file.len())),
                Piece::None => return Found::End,
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
                (WHOLE | FIRST | MIDDLE | LAST, _) => return Found::Torn(start..end),
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
        if !TYPES.contains(&header[6]) || header[7..] != self.number {
            return Piece::None;
        }
        let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let bytes = at + HEADER..at + HEADER + length;
        if bytes.end > self.file.len() || at % BLOCK + HEADER + length > BLOCK {
            return Piece::Bad { end: bytes.end.min(self.file.len()) };
        }
        let checksum = crc32c::crc32c(&self.file[at + 6..bytes.end]);
        let masked = checksum.rotate_right(15).wrapping_add(0xa282_ead8);
        match masked.to_le_bytes() == header[..4] {
            true => Piece::Good { kind: header[6], bytes },
            false => Piece::Bad { end: bytes.end },
        }
    }

    /// Tells whether a write may start here, as the cheap parts of a header say.
    fn may_start(&self, at: usize) -> bool {
        self.file.get(at + 7..at + HEADER).is_some_and(|number| *number == self.number)
            && matches!(self.file[at + 6], WHOLE | FIRST)
    }
}

fn write(bytes: Range<usize>, batch: &[u8]) -> Write {
    let number = |from: usize, to: usize| {
        let part = batch.get(from..to).unwrap_or_default();
        part.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    Write { bytes, sequence: number(0, 8), records: number(8, 12) as u32, filling: batch.ends_with(FILLING) }
}
