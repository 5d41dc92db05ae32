//! The one table of what the API can say: a stable code, its status, when asking the same again makes sense, and what
//! it means. `docs/http.md` holds the same table, checked by a test.
//!
//! A code is spelled with underscores, wherever the crate that gives it spells it with hyphens.

use rehome_router::Refused;
use std::sync::atomic::{AtomicU64, Ordering};

/// One answer's kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Stable.
    pub code: &'static str,
    /// HTTP status.
    pub status: u16,
    /// When to ask the same again, in milliseconds; nothing when that never helps.
    pub retry_after_ms: Option<u64>,
    pub meaning: &'static str,
}

const fn kind(code: &'static str, status: u16, retry_after_ms: Option<u64>, meaning: &'static str) -> Kind {
    Kind { code, status, retry_after_ms, meaning }
}

/// Every kind, in the order of the document.
#[rustfmt::skip]
pub const KINDS: &[Kind] = &[
    // Verdicts on a write.
    kind("accepted", 200, None, "written; told again, with `repeated`, to the same request id"),
    kind("source_done", 200, None, "the ordered source had reached this position before; nothing is changed"),
    kind("condition_failed", 412, None, "the row is not as `if` wants it; nothing is changed, `write` tells what was found"),
    kind("request_conflict", 422, None, "the request id was used for other content of this partition key; nothing is changed"),
    kind("write_invalid", 422, None, "the record cannot be applied; nothing is changed"),
    kind("stale_route", 503, Some(50), "the slot has another owner; nothing is changed"),
    // Passing: the same again may work.
    kind("paused", 503, Some(50), "the slot is changing its owner and had none in time; nothing is changed"),
    kind("not_owner", 503, Some(50), "the shard asked does not own the slot, and no newer owner is known in time"),
    kind("overloaded", 503, Some(20), "too much is waiting already; nothing is changed"),
    kind("deadline", 503, Some(100), "not done before the deadline; nothing is changed"),
    kind("outcome_unknown", 504, Some(100), "no answer in time, it may be done yet: ask again with the same request id"),
    kind("source_order", 503, Some(1), "an earlier position of the source was refused: send from that one on"),
    kind("replica_unavailable", 503, Some(200), "the replica that would answer is starting, or has stopped"),
    kind("keyspace_not_ready", 503, Some(50), "the keyspace is so new that its routes are not known here yet"),
    kind("log_failed", 503, Some(1_000), "the log took nothing; nothing is changed"),
    kind("verdict_pending", 503, Some(100), "the record was not judged in time"),
    kind("not_ready", 503, Some(500), "some replica is behind, or has stopped"),
    kind("stopping", 503, Some(500), "the server is stopping; nothing is changed"),
    // Wrong questions.
    kind("bad_request", 400, None, "the request cannot be read: its JSON, a parameter, base64"),
    kind("bad_cursor", 400, None, "the cursor is not one that this list, or a scan of this keyspace, gave"),
    kind("bad_limit", 400, None, "more rows than one batch or one answer holds, or an answer of none"),
    kind("not_one_key", 400, None, "the read is about more than one partition key"),
    kind("route_unknown", 404, None, "there is nothing at this path"),
    kind("not_a_router", 421, None, "this process has no router: ask one that has"),
    kind("method_not_allowed", 405, None, "the path does not take this method"),
    kind("body_too_large", 413, None, "the body is over 32 MiB"),
    kind("media_type_unsupported", 415, None, "the body's `Content-Type` is not `application/json`"),
    kind("empty_key", 422, None, "a partition key has at least one byte"),
    kind("key_too_large", 422, None, "a partition key or a sort key has at most 4096 bytes"),
    kind("value_too_large", 422, None, "the value has more bytes than `rehome up --value-bytes-max` says; 1048576 without it"),
    kind("empty_batch", 422, None, "the batch names no row"),
    kind("batch_too_large", 422, None, "the batch is larger than one record"),
    kind("bad_source", 422, None, "the name of a source has 1 to 255 bytes"),
    // What is not there.
    kind("keyspace_unknown", 404, None, "there is no such keyspace"),
    kind("reject_unknown", 404, None, "there is no such reject, or it was sent again"),
    kind("verdict_unknown", 404, None, "the verdict is not known (any more): send the write again under the same request id"),
    kind("job_unknown", 404, None, "there is no such job"),
    kind("move_unknown", 404, None, "there is no such move"),
    kind("attempt_unknown", 404, None, "there is no such attempt"),
    kind("node_unknown", 404, None, "there is no such node"),
    // What an operator asked for and cannot be now.
    kind("plan_no_shards", 409, None, "a keyspace has at least one shard"),
    kind("plan_more_shards_than_slots", 409, None, "a shard owns at least one slot"),
    kind("plan_nothing_to_move", 409, None, "the keyspace has that many shards already"),
    kind("name_invalid", 409, None, "a keyspace cannot have this name"),
    kind("name_taken", 409, None, "a keyspace of this name exists"),
    kind("placement_invalid", 409, None, "keys cannot be placed like this"),
    kind("shard_count_invalid", 409, None, "a keyspace cannot have this number of shards"),
    kind("replicas_invalid", 409, None, "a keyspace cannot have this number of replicas"),
    kind("label_invalid", 409, None, "a node cannot have such a label"),
    kind("inbox_partitions_invalid", 409, None, "an inbox cannot have this number of partitions"),
    kind("inbox_fixed", 409, None, "the keyspace has an inbox with another number of partitions"),
    kind("keyspace_moving", 409, None, "some of the keyspace's keys are in a move that has not ended"),
    kind("job_empty", 409, None, "the job moves nothing"),
    kind("slots_invalid", 409, None, "the move names slots that are not there"),
    kind("same_shard", 409, None, "source and destination are the same shard"),
    kind("destination_retired", 409, None, "the destination is no longer used"),
    kind("slot_not_owned", 409, None, "the source does not own a slot that is to move"),
    kind("keys_named_twice", 409, None, "two moves of the job name the same keys"),
    kind("keys_in_open_move", 409, None, "some of the keys are moving already"),
    kind("keys_kept_at_source", 409, None, "rows of an earlier move are kept at its source"),
    kind("keys_in_cleanup", 409, None, "rows of an earlier move are being dropped"),
    kind("phase_other", 409, None, "the move is in another phase"),
    kind("cancel_too_late", 409, None, "everything of the job has switched"),
    kind("complete_too_early", 409, None, "the job has not switched yet"),
    kind("keys_in_paused_job", 409, None, "some of the keys are in a move of a paused job"),
    kind("reshard_under_way", 409, None, "another job is on its way to another number of shards"),
    kind("pause_too_late", 409, None, "nothing of the job is left to pause"),
    kind("not_paused", 409, None, "the job is not paused"),
    kind("job_paused", 409, None, "the move takes no further step while its job is paused"),
    kind("complete_too_late", 409, None, "the job has ended"),
    // Records of the system itself, which no request makes.
    kind("record_unreadable", 409, None, "the control record cannot be read"),
    kind("record_already_folded", 409, None, "the control record was folded before"),
    kind("command_reused", 409, None, "the command's id was used for another one"),
    kind("keyspace_not_dropped", 409, None, "the keyspace was not dropped"),
    kind("keyspace_kept", 409, None, "a node may still keep stores of the dropped keyspace"),
    kind("copy_other", 409, None, "the record is about another copy"),
    kind("snapshot_missing", 409, None, "no snapshot was taken"),
    kind("not_replica", 409, None, "the node has no replica of the shard"),
    kind("replica_leaving", 409, None, "the node still has something of the shard, which it left"),
    kind("replica_last", 409, None, "no other node hosts the shard"),
    kind("replica_in_cutover", 409, None, "the shard is being cut over"),
    kind("replica_holds_copy", 409, None, "no other replica of the shard holds what a move brought"),
    kind("hosting_other", 409, None, "the node is not on its way to host the shard, or on another one"),
    kind("attempt_decided", 409, None, "the attempt has its outcome"),
    kind("open_missing", 409, None, "the cutover has not started at the destination"),
    kind("ready_changed", 409, None, "the replica has reported something else before"),
    // Ours to mend.
    kind("broken", 500, None, "a human must look: the log or a replica has stopped for good"),
    kind("internal", 500, None, "something is wrong in the server"),
];

impl Kind {
    /// Tells whether asking the same again may help: nothing is wrong with the question itself.
    pub fn is_passing(&self) -> bool {
        self.retry_after_ms.is_some()
    }

    /// Returns the kind of a code, in either spelling.
    pub fn of(code: &str) -> &'static Kind {
        let known = KINDS.iter().find(|kind| is_same(kind.code, code));
        // A code without a line is a mistake of ours, which tests find; a client is told `internal`.
        debug_assert!(known.is_some(), "code {code} has no line in services/cli/src/api/codes.rs");
        known.unwrap_or(&KINDS[KINDS.len() - 1])
    }
}

/// What the router refused. Whatever may have been done is one kind: only the same request id may be sent again.
pub fn of_router(refused: &Refused) -> &'static Kind {
    use rehome_ports::Remedy;
    match refused.remedy {
        Remedy::Unknown => Kind::of("outcome_unknown"),
        Remedy::Fenced | Remedy::Broken => Kind::of("broken"),
        Remedy::NotApplied if refused.code == "router_stopped" => Kind::of("stopping"),
        Remedy::NotApplied => Kind::of(refused.code),
    }
}

fn is_same(code: &str, spelled: &str) -> bool {
    code.len() == spelled.len() && code.bytes().zip(spelled.bytes()).all(|(a, b)| a == if b == b'-' { b'_' } else { b })
}

/// How often each kind was told.
#[derive(Debug)]
pub struct Told(Vec<AtomicU64>);

impl Default for Told {
    fn default() -> Told {
        Told(KINDS.iter().map(|_| AtomicU64::new(0)).collect())
    }
}

impl Told {
    pub fn count(&self, kind: &'static Kind) {
        let told = KINDS.iter().zip(&self.0).find(|(known, _)| known.code == kind.code);
        if let Some((_, count)) = told {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns each kind with its count.
    pub fn counts(&self) -> impl Iterator<Item = (&'static Kind, u64)> {
        KINDS.iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    fn file(path: &str) -> PathBuf {
        let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo tells every test where it belongs");
        PathBuf::from(here).join("../..").join(path)
    }

    fn text(path: &str) -> String {
        std::fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns what stands in quotes right after the mark, blanks left out.
    fn quoted_after<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = String> + 'a {
        text.split(mark).skip(1).filter_map(|rest| {
            let code = rest.trim_start().strip_prefix('"')?.split('"').next()?;
            Some(code.replace('-', "_"))
        })
    }

    #[test]
    fn every_code_of_fold_planner_and_router_has_a_line() {
        let known: BTreeSet<&str> = KINDS.iter().map(|kind| kind.code).collect();
        assert_eq!(known.len(), KINDS.len(), "a code stands in the table twice");
        let mut seen = BTreeSet::new();
        for path in ["services/control-core/src/refusal.rs", "services/planner/src/even.rs"] {
            seen.extend(quoted_after(&text(path), "=>"));
        }
        for path in ["answers.rs", "ask.rs", "core.rs", "reads.rs", "scans.rs", "writes.rs"] {
            let text = text(&format!("services/router/src/{path}"));
            for mark in ["not_applied(", "unknown("] {
                seen.extend(quoted_after(&text, mark));
            }
        }
        assert!(seen.len() > 40, "only {} codes were found: has their spelling changed?", seen.len());
        let lacking: Vec<&String> = seen.iter().filter(|code| !known.contains(code.as_str())).collect();
        assert!(lacking.is_empty(), "without a line in services/cli/src/api/codes.rs: {lacking:?}");
    }

    #[test]
    fn every_passing_kind_is_one_that_clients_ask_again_for() {
        for kind in KINDS {
            assert_eq!(kind.is_passing(), matches!(kind.status, 503 | 504), "{kind:?}");
        }
        assert_eq!(Kind::of("keyspace-unknown").status, 404);
    }

    #[test]
    fn the_document_shows_the_table() {
        let mut table = String::from("| code | status | again after | meaning |\n|---|---|---|---|\n");
        for kind in KINDS {
            let again = kind.retry_after_ms.map_or(String::from("never"), |after_ms| format!("{after_ms} ms"));
            table += &format!("| `{}` | {} | {again} | {} |\n", kind.code, kind.status, kind.meaning);
        }
        let path = "docs/http.md";
        let (begin, end) = ("<!-- codes: written by a test -->\n", "<!-- end of codes -->");
        let document = text(path);
        let (before, rest) = document.split_once(begin).expect("where the table begins");
        let (found, after) = rest.split_once(end).expect("where the table ends");
        if std::env::var_os("REHOME_BLESS").is_some() {
            std::fs::write(file(path), format!("{before}{begin}{table}{end}{after}")).expect("it can be written");
            return;
        }
        assert_eq!(found, table, "{path} shows another table; REHOME_BLESS=1 writes it");
    }
}
