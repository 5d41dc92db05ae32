//! Reads the small texts in requests: versions, tokens, conditions, request ids, cursors.

use super::errors::Refusal;
use axum::http::HeaderMap;
use rehome_keyspace::{Epoch, Offset, RequestId, ShardId, Version};
use rehome_ports::ReadLevel;
use rehome_records::Condition;
use xxhash_rust::xxh3::xxh3_128;

/// Longest text of an `Idempotency-Key`.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Reads `EPOCH@OFFSET`.
fn version(text: &str) -> Option<Version> {
    let (epoch, offset) = text.split_once('@')?;
    Some(Version { epoch: Epoch(epoch.parse().ok()?), offset: Offset(offset.parse().ok()?) })
}

pub fn condition(text: Option<&str>) -> Result<Option<Condition>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let condition = match text {
        "absent" => Some(Condition::Absent),
        "present" => Some(Condition::Present),
        text => version(text).map(Condition::VersionIs),
    };
    let wrong =
        || Refusal::bad_request(format!("{text:?} is no condition: absent, present, or a version such as 4@811"));
    condition.map(Some).ok_or_else(wrong)
}

/// Reads `linearizable`, `eventual` or the token `SHARD:OFFSET`.
pub fn level(text: Option<&str>) -> Result<ReadLevel, Refusal> {
    let token = |text: &str| {
        let (shard, offset) = text.split_once(':')?;
        Some(ReadLevel::Token { shard: ShardId(shard.parse().ok()?), offset: Offset(offset.parse().ok()?) })
    };
    match text {
        None | Some("linearizable") => Ok(ReadLevel::Linearizable),
        Some("eventual") => Ok(ReadLevel::Eventual),
        Some(text) => token(text).ok_or_else(|| {
            Refusal::bad_request(format!("{text:?} is no level: linearizable, eventual, or a token such as 3:811"))
        }),
    }
}

pub fn request(text: Option<&str>) -> Result<Option<RequestId>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let bytes = unhex(text).and_then(|bytes| bytes.try_into().ok());
    bytes.map(|bytes| Some(RequestId(bytes))).ok_or_else(|| Refusal::bad_request("a request id is 32 hex digits"))
}

/// Reads the request id that the header `Idempotency-Key` gives: 32 hex digits as they are, any other text by its hash.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<RequestId>, Refusal> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if text.is_empty() || text.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        let message = format!("an Idempotency-Key has 1 to {IDEMPOTENCY_KEY_BYTES_MAX} visible ASCII characters");
        return Err(Refusal::bad_request(message));
    }
    Ok(Some(request(Some(text)).ok().flatten().unwrap_or_else(|| RequestId(xxh3_128(text.as_bytes()).to_be_bytes()))))
}

/// Returns the request id that a write has: its own, or the header's.
///
/// Errors: they differ.
pub fn one_request(own: Option<&str>, header: Option<RequestId>) -> Result<Option<RequestId>, Refusal> {
    match (request(own)?, header) {
        (Some(own), Some(header)) if own != header => {
            Err(Refusal::bad_request("`request` and the header Idempotency-Key name different ids"))
        }
        (own, header) => Ok(own.or(header)),
    }
}

/// Returns the request id of one write of several: the same place under the same id has the same one.
pub fn request_of_place(of_all: RequestId, place: usize) -> RequestId {
    let mut bytes = of_all.0.to_vec();
    bytes.extend_from_slice(&(place as u64).to_be_bytes());
    RequestId(xxh3_128(&bytes).to_be_bytes())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_texts_are_read_and_wrong_ones_refused() {
        let found = Version { epoch: Epoch(4), offset: Offset(811) };
        assert_eq!(condition(Some("4@811")).ok(), Some(Some(Condition::VersionIs(found))));
        assert_eq!(condition(Some(&found.to_string())).ok(), Some(Some(Condition::VersionIs(found))));
        let token = ReadLevel::Token { shard: ShardId(3), offset: Offset(811) };
        assert_eq!(level(Some("3:811")).ok(), Some(token));
        assert_eq!(level(None).ok(), Some(ReadLevel::Linearizable));
        assert_eq!(request(Some(&"0f".repeat(16))).ok(), Some(Some(RequestId([15; 16]))));
        assert!(condition(Some("newest")).is_err() && level(Some("3")).is_err() && request(Some("0f")).is_err());
    }

    #[test]
    fn an_idempotency_key_is_a_request_id_or_stands_for_one() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("Idempotency-Key", text.parse().expect("a header"));
            idempotency_key(&headers).map_err(drop)
        };
        assert_eq!(of(&"0f".repeat(16)), Ok(Some(RequestId([15; 16]))));
        let order = of("order-17").expect("a key").expect("a key");
        assert_eq!(of("\"order-17\""), Ok(Some(order)));
        assert_ne!(of("order-18"), Ok(Some(order)));
        assert!(of("").is_err() && of(&"x".repeat(256)).is_err());
        assert_ne!(request_of_place(order, 0), request_of_place(order, 1));
        let id = RequestId([15; 16]);
        assert!(
            one_request(Some(&"0f".repeat(16)), Some(id)).is_ok()
                && one_request(Some(&"0e".repeat(16)), Some(id)).is_err()
        );
    }

    #[test]
    fn hex_is_undone() {
        assert_eq!(unhex(&hex(b"\x00\xffa")).as_deref(), Some(b"\x00\xffa".as_slice()));
        assert!(unhex("abc").is_none() && unhex("zz").is_none());
    }
}
