//! The JSON that server and client speak. Field names are for ever; unknown fields in requests are refused.
//!
//! Keys and values are strings: UTF-8 as they stand, or base64 where `"encoding": "base64"` says so, for the whole
//! object. Answers use base64 only for rows that are not UTF-8.

mod foreign;
mod health;
mod jobs;
mod keyspaces;
mod rows;

pub use foreign::*;
pub use health::*;
pub use jobs::*;
pub use keyspaces::*;
pub use rows::*;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the keys and values of an object are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    #[default]
    Utf8,
    Base64,
}

impl Encoding {
    /// Returns UTF-8 if every part is, else base64.
    pub fn that_fits(parts: &[&[u8]]) -> Encoding {
        let text = parts.iter().all(|part| std::str::from_utf8(part).is_ok());
        if text { Encoding::Utf8 } else { Encoding::Base64 }
    }

    pub fn write(self, bytes: &[u8]) -> String {
        match self {
            Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            Encoding::Base64 => STANDARD.encode(bytes),
        }
    }

    /// Errors: the text is not base64.
    pub fn read(self, text: &str) -> Result<Vec<u8>, String> {
        match self {
            Encoding::Utf8 => Ok(text.as_bytes().to_vec()),
            Encoding::Base64 => STANDARD.decode(text).map_err(|error| format!("{text:?} is not base64: {error}")),
        }
    }
}

/// The body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    pub error: ErrorShape,
    /// Commands to run next.
    pub next_steps: Vec<String>,
    /// The write that it is about, when that was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<WriteShape>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorShape {
    /// Stable.
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_text_travel_as_base64() {
        for bytes in [b"plain".as_slice(), b"\xff\x00"] {
            let encoding = Encoding::that_fits(&[b"x", bytes]);
            assert_eq!(encoding == Encoding::Base64, bytes[0] == 0xff);
            assert_eq!(encoding.read(&encoding.write(bytes)).as_deref(), Ok(bytes));
        }
        assert!(Encoding::Base64.read("***").is_err());
    }

    #[test]
    fn unknown_fields_of_a_request_are_refused() {
        let good = serde_json::from_str::<PutBody>(r#"{"key":"k","value":"v"}"#).unwrap();
        assert_eq!((good.sort.as_str(), good.encoding), ("", Encoding::Utf8));
        assert!(serde_json::from_str::<PutBody>(r#"{"key":"k","value":"v","ttl":1}"#).is_err());
    }

    #[test]
    fn the_shapes_of_answers_do_not_change() {
        let row = RowShape {
            key: "k".into(),
            sort: "s".into(),
            value: "v".into(),
            version: "4@811".into(),
            encoding: Encoding::Utf8,
        };
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(text, r#"{"key":"k","sort":"s","value":"v","version":"4@811","encoding":"utf8"}"#);
        let error = ErrorShape { code: "row_unknown".into(), message: "m".into(), retry_after_ms: None };
        let text = serde_json::to_string(&ErrorBody { error, next_steps: vec![], write: None }).unwrap();
        assert_eq!(text, r#"{"error":{"code":"row_unknown","message":"m"},"next_steps":[]}"#);
    }
}
