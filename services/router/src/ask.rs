//! What clients ask and what they are told.

use crate::limits::{BATCH_BYTES_MAX, SCAN_ROWS_MAX};
use rehome_keyspace::{Epoch, KeyRange, KeyspaceId, Offset, RequestId, ShardId, Version};
use rehome_ports::{ReadAnswer, ReadKind, ReadLevel, Remedy, Row};
use rehome_records::{FirstAnswer, Operation, SourcePosition, Verdict, data};
use thiserror::Error;

/// A write, before it has a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteAsk {
    pub keyspace: KeyspaceId,
    pub partition_key: Vec<u8>,
    pub operation: Operation,
    /// Given by the client, so that its own retry is done once; the router gives one to a write that has none.
    pub request: Option<RequestId>,
    /// Position in an ordered source: one sender per partition key, in order. After a refusal the sender starts again
    /// from the refused position; until then every later position of that key is refused too (`source_order`).
    pub source: Option<SourcePosition>,
    /// When the client stops waiting, in milliseconds of the router's clock.
    pub deadline_ms: u64,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteAnswer {
    /// Never `StaleRoute`. A `Repeated` of a copy that the router sent itself is told as the first answer.
    pub verdict: Verdict,
    /// Where that was judged: a read at this token sees the write.
    pub shard: ShardId,
    pub offset: Offset,
    pub epoch: Epoch,
}

impl WriteAnswer {
    /// Tells whether the write is done, by this or an earlier sending.
    pub fn is_done(&self) -> bool {
        matches!(
            self.verdict,
            Verdict::Accepted { .. } | Verdict::SourceDone | Verdict::Repeated { first: FirstAnswer::Accepted { .. } }
        )
    }

    /// Returns the version that the write made; nothing when it made none, or when only its source knows.
    pub fn version(&self) -> Option<Version> {
        match self.verdict {
            Verdict::Accepted { version } | Verdict::Repeated { first: FirstAnswer::Accepted { version } } => {
                Some(version)
            }
            _ => None,
        }
    }
}

/// Why an ask was not answered, and what the caller may do now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refused {
    /// `NotApplied`: ask again freely. `Unknown`: only with the same request id or source position.
    pub remedy: Remedy,
    /// Stable; named in the documentation.
    pub code: &'static str,
    pub message: String,
    /// When asking again makes sense; nothing when it never does, or at once.
    pub retry_after_ms: Option<u64>,
}

pub type WriteRefused = Refused;

impl Refused {
    pub(crate) fn not_applied(code: &'static str, message: impl Into<String>) -> Refused {
        Refused { remedy: Remedy::NotApplied, code, message: message.into(), retry_after_ms: None }
    }

    /// Tells whether the write breaks a limit, so that it never helps to ask the same again.
    pub fn never_fits(&self) -> bool {
        let limits = ["empty_key", "key_too_large", "value_too_large", "bad_source", "empty_batch", "batch_too_large"];
        limits.contains(&self.code)
    }

    pub(crate) fn unknown(code: &'static str, message: impl Into<String>) -> Refused {
        Refused { remedy: Remedy::Unknown, ..Refused::not_applied(code, message) }
    }

    pub(crate) fn retry_after(self, retry_after_ms: u64) -> Refused {
        Refused { retry_after_ms: Some(retry_after_ms), ..self }
    }
}

/// A read of rows of one partition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAsk {
    pub keyspace: KeyspaceId,
    /// `Get` or `List`; a `Scan` is refused, see [`ScanAsk`].
    pub kind: ReadKind,
    pub level: ReadLevel,
    pub deadline_ms: u64,
}

/// A read over all shards, a page at a time, in the order of placed keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanAsk {
    pub keyspace: KeyspaceId,
    pub level: ReadLevel,
    /// Rows of this page, 1 to [`SCAN_ROWS_MAX`].
    pub limit: usize,
    /// Where an earlier page ended.
    pub after: Option<ScanCursor>,
    pub deadline_ms: u64,
}

/// Where a page ended. Opaque; holds on whatever moves meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanCursor(pub Vec<u8>);

/// One page of a scan (R12): every key from the page's start up to `next` was read at one owner, exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanAnswer {
    pub rows: Vec<Row>,
    /// Who was asked for which keys, and under which epoch it owned them; in order. With keys in the middle of a slot
    /// as where rows lie.
    pub covered: Vec<Covered>,
    /// Where to go on; nothing when everything was read.
    pub next: Option<ScanCursor>,
    /// Keys that this page wanted to read and could not before its deadline. They lie from `next` on.
    pub missing: Vec<KeyRange>,
}

/// Keys that were read at one owner: its shard, and the epoch under which it owned them.
pub type Covered = (KeyRange, ShardId, Epoch);

pub type WriteDone = Box<dyn FnOnce(Result<WriteAnswer, WriteRefused>) + Send>;
pub type ReadAskDone = Box<dyn FnOnce(Result<ReadAnswer, Refused>) + Send>;
pub type ScanDone = Box<dyn FnOnce(Result<ScanAnswer, Refused>) + Send>;

/// Refuses a write that breaks a limit; it never helps to ask the same again.
pub(crate) fn check_write(ask: &WriteAsk, value_bytes_max: usize) -> Result<(), Refused> {
    check_partition_key(&ask.partition_key)?;
    if let Some(source) = &ask.source {
        data::check_source(&source.source).map_err(|invalid| Refused::not_applied("bad_source", invalid.0))?;
    }
    let changes = match &ask.operation {
        Operation::Change(change) | Operation::ChangeIf { change, .. } => std::slice::from_ref(change),
        Operation::Batch(changes) if changes.is_empty() => {
            return Err(Refused::not_applied("empty_batch", "the batch names no row"));
        }
        Operation::Batch(changes) => changes,
    };
    let mut bytes = 0;
    for change in changes {
        data::check_key("sort key", &change.sort_key)
            .map_err(|invalid| Refused::not_applied("key_too_large", invalid.0))?;
        let value_bytes = change.value.as_ref().map_or(0, Vec::len);
        if value_bytes > value_bytes_max {
            let message = format!("a value has at most {value_bytes_max} bytes here, not {value_bytes}");
            return Err(Refused::not_applied("value_too_large", message));
        }
        bytes += change.sort_key.len() + value_bytes;
    }
    if changes.len() > 1 && bytes > BATCH_BYTES_MAX {
        let message = format!("a batch has at most {BATCH_BYTES_MAX} bytes of keys and values, not {bytes}");
        return Err(Refused::not_applied("batch_too_large", message));
    }
    Ok(())
}

/// Refuses a read that breaks a limit, else returns the partition key that it is about.
pub(crate) fn check_read(ask: &ReadAsk) -> Result<&[u8], Refused> {
    let partition_key = match &ask.kind {
        ReadKind::Get { partition_key, .. } | ReadKind::List { partition_key, .. } => partition_key,
        ReadKind::Scan { .. } => {
            return Err(Refused::not_applied("not_one_key", "a scan reads many keys: ask for it as a scan"));
        }
    };
    check_partition_key(partition_key)?;
    Ok(partition_key)
}

pub(crate) fn check_scan(ask: &ScanAsk) -> Result<(), Refused> {
    if ask.limit == 0 || ask.limit > SCAN_ROWS_MAX {
        let message = format!("a scan returns 1 to {SCAN_ROWS_MAX} rows a page, not {}", ask.limit);
        return Err(Refused::not_applied("bad_limit", message));
    }
    Ok(())
}

fn check_partition_key(key: &[u8]) -> Result<(), Refused> {
    let code = if key.is_empty() { "empty_key" } else { "key_too_large" };
    data::check_partition_key(key).map_err(|invalid| Refused::not_applied(code, invalid.0))
}
