//! The rows of one partition key, a page at a time.
//!
//! ```text
//! cursor = 01, hash of what the list asks for: u64 BE, sort key     base64 without padding, for URLs
//! ```
//! A page goes on at a sort key, whatever is written, deleted or moved to another shard meanwhile: every row that is
//! there all the time comes exactly once.

use crate::wire::RowsQuery;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rehome_control_core::Keyspace;
use rehome_ports::ReadKind;
use xxhash_rust::xxh3::Xxh3;

const VERSION: u8 = 1;

/// What a list asks for, apart from its pages.
pub struct List {
    pub partition_key: Vec<u8>,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    reverse: bool,
    hash: u64,
}

impl List {
    /// Errors: a key or a bound is not base64.
    pub fn of(keyspace: &Keyspace, query: &RowsQuery) -> Result<List, String> {
        let read = |text: &String| query.encoding.read(text);
        let partition_key = read(&query.key)?;
        let from = query.from.as_ref().map(read).transpose()?.unwrap_or_default();
        let to = query.to.as_ref().map(read).transpose()?;
        let mut hasher = Xxh3::new();
        hasher.update(&keyspace.id.0.to_be_bytes());
        hasher.update(&[u8::from(query.reverse), u8::from(to.is_some())]);
        for part in [&partition_key, &from, to.as_ref().unwrap_or(&Vec::new())] {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Ok(List { partition_key, from, to, reverse: query.reverse, hash: hasher.digest() })
    }

    /// Returns where a page ended: everything up to the sort key was read.
    pub fn cursor(&self, sort_key: &[u8]) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.hash.to_be_bytes());
        bytes.extend_from_slice(sort_key);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns the read of a page; nothing when the cursor is not one of this list.
    pub fn kind(&self, after: Option<&str>, limit: usize) -> Option<ReadKind> {
        let (mut from, mut to) = (self.from.clone(), self.to.clone());
        if let Some(after) = after {
            let bytes = URL_SAFE_NO_PAD.decode(after).ok()?;
            let rest = bytes.strip_prefix(&[VERSION])?.strip_prefix(&self.hash.to_be_bytes())?;
            if self.reverse {
                to = Some(rest.to_vec());
            } else {
                // The lowest key above it.
                from = [rest, &[0]].concat();
            }
        }
        Some(ReadKind::List { partition_key: self.partition_key.clone(), from, to, reverse: self.reverse, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(reverse: bool, hash: u64) -> List {
        List { partition_key: b"k".to_vec(), from: b"a".to_vec(), to: Some(b"x".to_vec()), reverse, hash }
    }

    fn bounds(list: &List, after: Option<&str>) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        match list.kind(after, 1)? {
            ReadKind::List { from, to, .. } => Some((from, to)),
            _ => None,
        }
    }

    #[test]
    fn a_page_goes_on_right_after_the_last_sort_key_in_either_order() {
        let (up, down) = (list(false, 7), list(true, 7));
        let cursor = up.cursor(b"m\xff");
        assert_eq!(bounds(&up, None), Some((b"a".to_vec(), Some(b"x".to_vec()))));
        assert_eq!(bounds(&up, Some(&cursor)), Some((b"m\xff\0".to_vec(), Some(b"x".to_vec()))));
        assert_eq!(bounds(&down, Some(&cursor)), Some((b"a".to_vec(), Some(b"m\xff".to_vec()))));
    }

    #[test]
    fn a_cursor_of_another_list_is_refused() {
        let cursor = list(false, 8).cursor(b"m");
        for wrong in [cursor.as_str(), "", "AQ", "***"] {
            assert_eq!(bounds(&list(false, 7), Some(wrong)), None, "{wrong:?}");
        }
    }
}
