//! The frame around everything binary, and the only user of bincode.
//!
//! ```text
//! | format: u8 | kind: u8 | body length: u32 BE | CRC-32 of format, kind, length and body: u32 BE | body |
//! ```
//! The body is bincode (standard configuration) of exactly the type that format and kind name. Old bodies stay
//! readable for ever: a changed type gets the next format number and a reader for the old one.
//!
//! bincode is finished and unmaintained (RUSTSEC-2025-0141); it is pinned at 2.0.1 and touched here only, so that
//! another codec can take its place under the next format number.

use bincode::{BorrowDecode, Decode, Encode, config};
use thiserror::Error;

/// Format number of every body written today.
pub const FORMAT: u8 = 1;
/// Bytes before the body.
pub const HEADER_BYTES: usize = 10;
/// Largest body that is decoded, in bytes. Reason: a damaged length must not allocate the machine away.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// What a frame holds. Numbers are for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Mark = 1,
    Control = 2,
    Operation = 3,
    Batch = 4,
    LogRecord = 5,
    InboxProgress = 6,
    Row = 16,
    Request = 17,
    SourcePosition = 18,
    Applied = 19,
    State = 20,
    Identity = 21,
    Outbound = 22,
    Inbound = 23,
    Times = 24,
    Rejected = 26,
    Manifest = 32,
}

/// Why bytes cannot be read. The medium or a writer is at fault; trying again does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("{kind:?} is cut short: {bytes} bytes")]
    Short { kind: Kind, bytes: usize },
    #[error("{kind:?} has format {format}, this version reads up to {FORMAT}; a newer version wrote it")]
    Format { kind: Kind, format: u8 },
    #[error("expected {kind:?}, found kind {found}")]
    OtherKind { kind: Kind, found: u8 },
    #[error("{kind:?} has a wrong checksum")]
    Checksum { kind: Kind },
    #[error("{kind:?} does not decode: {reason}")]
    Body { kind: Kind, reason: String },
}

/// Returns the framed bytes of a value.
pub fn encode<T: Encode>(kind: Kind, value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    encode_into(kind, value, &mut out);
    out
}

/// Appends the framed bytes of a value to what is there.
pub fn encode_into<T: Encode>(kind: Kind, value: &T, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    bincode::encode_into_std_write(value, out, config::standard()).expect("writing to memory cannot fail");
    let (header, body) = out[start..].split_at_mut(HEADER_BYTES);
    let length = u32::try_from(body.len()).expect("bodies are far below 4 GiB");
    header[0] = FORMAT;
    header[1] = kind as u8;
    header[2..6].copy_from_slice(&length.to_be_bytes());
    let checksum = checksum(&header[..6], body);
    header[6..10].copy_from_slice(&checksum.to_be_bytes());
}

/// Reads a framed value; the frame must be whole, and hold exactly one value of this kind.
pub fn decode<T: Decode<()>>(kind: Kind, bytes: &[u8]) -> Result<T, DecodeError> {
    let body = body(kind, bytes)?;
    finish(kind, body, bincode::decode_from_slice(body, limited()))
}

/// Reads a framed value whose parts stay in the frame; the frame must be whole, and hold exactly one value of this kind.
pub fn decode_borrowed<'a, T: BorrowDecode<'a, ()>>(kind: Kind, bytes: &'a [u8]) -> Result<T, DecodeError> {
    let body = body(kind, bytes)?;
    finish(kind, body, bincode::borrow_decode_from_slice(body, limited()))
}

fn limited() -> impl config::Config {
    config::standard().with_limit::<BODY_BYTES_MAX>()
}

fn finish<T>(kind: Kind, body: &[u8], read: Result<(T, usize), bincode::error::DecodeError>) -> Result<T, DecodeError> {
    let (value, used) = read.map_err(|error| DecodeError::Body { kind, reason: error.to_string() })?;
    if used != body.len() {
        return Err(DecodeError::Body { kind, reason: format!("{} bytes too many", body.len() - used) });
    }
    Ok(value)
}

fn body(kind: Kind, bytes: &[u8]) -> Result<&[u8], DecodeError> {
    if bytes.len() < HEADER_BYTES {
        return Err(DecodeError::Short { kind, bytes: bytes.len() });
    }
    let (header, body) = bytes.split_at(HEADER_BYTES);
    if header[0] == 0 || header[0] > FORMAT {
        return Err(DecodeError::Format { kind, format: header[0] });
    }
    if header[1] != kind as u8 {
        return Err(DecodeError::OtherKind { kind, found: header[1] });
    }
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if word(2) as usize != body.len() {
        return Err(DecodeError::Short { kind, bytes: bytes.len() });
    }
    if word(6) != checksum(&header[..6], body) {
        return Err(DecodeError::Checksum { kind });
    }
    Ok(body)
}

fn checksum(header: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(body);
    hasher.finalize()
}
