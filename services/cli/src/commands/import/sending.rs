//! Rows on their way to the server, batch by batch.

use super::Imported;
use crate::client::{Client, segment};
use crate::commands::command_again;
use crate::exit::{Exit, Failure};
use crate::wire::{Encoding, ImportBody, ImportRow, ImportShape, KeyspaceShape};
use rehome_sources::SourceRow;

/// Rows of one request. Reason: a few milliseconds of work, some hundred kilobytes.
const BATCH: usize = 2_000;
/// Bytes of keys and values of one request. Reason: escaped as JSON they may take six times as much, which the server
/// must still take. A larger row goes as base64, which takes a third more.
const BATCH_BYTES: usize = 4 << 20;
/// Times a batch is sent before the import gives up. Reason: the server itself retries for its deadline each time.
const TRIES_MAX: u32 = 20;

/// Gathers rows of one source, in the order of their positions.
pub struct Sender<'a> {
    client: &'a Client,
    path: String,
    source: String,
    keyspace_id: u64,
    batch: Vec<(u64, SourceRow)>,
    bytes: usize,
}

impl<'a> Sender<'a> {
    pub fn new(client: &'a Client, keyspace: &KeyspaceShape, source: &str) -> Sender<'a> {
        let path = format!("/v1/keyspaces/{}/import", segment(&keyspace.name));
        let (source, batch) = (source.to_owned(), Vec::with_capacity(BATCH));
        Sender { client, path, source, keyspace_id: keyspace.id, batch, bytes: 0 }
    }

    /// Takes a row; sends what there is when a batch is full, and tells whether it did.
    pub fn push(&mut self, position: u64, row: SourceRow, imported: &mut Imported) -> Result<bool, Failure> {
        let bytes = row.partition_key.len() + row.sort_key.len() + row.value.len();
        // A row that is larger goes alone.
        let is_full = self.batch.len() == BATCH || self.bytes + bytes > BATCH_BYTES;
        if is_full {
            self.flush(imported)?;
        }
        self.bytes += bytes;
        self.batch.push((position, row));
        Ok(is_full)
    }

    /// Sends rows until the server has taken them all; what it had taken before is done once.
    pub fn flush(&mut self, imported: &mut Imported) -> Result<(), Failure> {
        let Some((first, _)) = self.batch.first() else { return Ok(()) };
        let first = *first;
        let parts = self.batch.iter().flat_map(|(_, row)| [&row.partition_key[..], &row.sort_key, &row.value]);
        let fits = Encoding::that_fits(&parts.collect::<Vec<_>>());
        let encoding = if self.bytes > BATCH_BYTES { Encoding::Base64 } else { fits };
        let shape = |(position, row): &(u64, SourceRow)| ImportRow {
            position: *position,
            key: encoding.write(&row.partition_key),
            sort: encoding.write(&row.sort_key),
            value: encoding.write(&row.value),
        };
        let rows = self.batch.iter().map(shape).collect();
        let body = ImportBody { source: self.source.clone(), keyspace_id: Some(self.keyspace_id), encoding, rows };
        let mut done_once = None;
        for _ in 0..TRIES_MAX {
            let answer: ImportShape = self.client.post(&self.path, &body).map_err(cut_short)?;
            // Rows that were taken by an earlier try of this very batch are not from an earlier import.
            let done_before = *done_once.get_or_insert(answer.done_before);
            let Some(refusal) = answer.refused.iter().find(|refusal| !refusal.retry).or(answer.refused.first()) else {
                imported.done_before += done_before;
                imported.accepted += self.batch.len() as u64 - done_before;
                self.batch.clear();
                self.bytes = 0;
                return Ok(());
            };
            if !refusal.retry {
                let message = format!("row {}: {}", refusal.position, refusal.message);
                return Err(Failure::new(Exit::Refused, refusal.code.clone(), message));
            }
        }
        let message = format!("the server took no rows from row {first} on, {TRIES_MAX} times");
        Err(cut_short(Failure::new(Exit::TimedOut, "import_stuck", message).next("rehome status")))
    }
}

/// Says what helps when the server went away half-way: nothing is lost, and nothing has to be undone.
fn cut_short(failure: Failure) -> Failure {
    if matches!(failure.exit, Exit::Usage | Exit::NotFound | Exit::Refused) {
        return failure;
    }
    let message = format!("{}; then run the same import again, it doubles nothing", failure.message);
    Failure { message, ..failure }.next(command_again(&[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_that_was_cut_short_says_that_it_can_be_run_again() {
        let cut = cut_short(Failure::new(Exit::Unreachable, "unreachable", "no answer").next("rehome up"));
        assert!(cut.message.contains("it doubles nothing") && cut.next_steps.len() == 2, "{cut}");
        assert_eq!(cut_short(Failure::usage("wrong")).next_steps.len(), 0);
    }
}
