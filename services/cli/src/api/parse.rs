//! Reads the small texts in requests: versions, tokens, conditions, request ids, cursors.

use super::errors::Refusal;
use rehome_keyspace::{Epoch, Offset, RequestId, ShardId, Version};
use rehome_ports::ReadLevel;
use rehome_records::Condition;

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
    fn hex_is_undone() {
        assert_eq!(unhex(&hex(b"\x00\xffa")).as_deref(), Some(b"\x00\xffa".as_slice()));
        assert!(unhex("abc").is_none() && unhex("zz").is_none());
    }
}
