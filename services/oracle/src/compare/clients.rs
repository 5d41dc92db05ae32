//! What clients were answered against the fold.

use super::Comparison;
use crate::findings::Finding;
use crate::fingerprint::Fingerprint;
use crate::history::{ClientHistory, ReadSeen, WriteAnswered};
use rehome_keyspace::Version;
use rehome_records::FirstAnswer;
use std::ops::Range;

pub(super) fn compare(all: &mut Comparison<'_>, history: &ClientHistory) {
    let lost: Vec<_> = history.loaded.missing_in(&all.folded.accepted).collect();
    for (shard, offset) in lost {
        all.findings.note(Finding::Lost, || format!("shard {shard}, offset {offset}: acknowledged, not accepted"));
    }
    for write in &history.writes {
        check_write(all, write);
    }
    let answers = Answers::new(&history.writes);
    for read in &history.reads {
        if let Some(reason) = answers.stale(all, read) {
            all.findings.note(Finding::StaleRead, || format!("slot {}: {reason}", read.row.slot()));
        }
    }
}

fn check_write(all: &mut Comparison<'_>, write: &WriteAnswered) {
    let slot = write.row.slot();
    let first = write.request.and_then(|request| all.folded.requests.get(&request)).map(|fact| fact.answer);
    let is_first = match first {
        Some(first) => first == FirstAnswer::Accepted { version: write.version },
        None => write.request.is_none() || all.is_accepted(slot, write.version),
    };
    if is_first && all.is_accepted(slot, write.version) {
        let stored = all.folded.rows.get(&write.row).map(|row| row.version);
        let newest = stored.or_else(|| all.folded.forgotten.get(&write.row).copied());
        if newest >= Some(write.version) {
            return;
        }
    }
    let finding = if all.is_repeated(slot, write.version) || (first.is_some() && !is_first) {
        Finding::Duplicated
    } else {
        Finding::Lost
    };
    all.findings
        .note(finding, || format!("slot {slot}: acknowledged as version {}, the log says {first:?}", write.version));
}

/// The answered writes of each row, found by time and by version.
struct Answers<'a> {
    writes: &'a [WriteAnswered],
    /// By row, then time of the answer; with the newest write of that row answered so far.
    by_time: Vec<(u32, u32)>,
    /// By row, then version.
    by_version: Vec<u32>,
}

impl<'a> Answers<'a> {
    fn new(writes: &'a [WriteAnswered]) -> Answers<'a> {
        let at = |index: u32| &writes[index as usize];
        let mut by_version: Vec<u32> = (0..u32::try_from(writes.len()).expect("fewer than 2^32 answers")).collect();
        let mut by_time: Vec<(u32, u32)> = by_version.iter().map(|&index| (index, index)).collect();
        by_version.sort_unstable_by_key(|&index| (at(index).row, at(index).version));
        by_time.sort_unstable_by_key(|&(index, _)| (at(index).row, at(index).answered_at));
        for next in 1..by_time.len() {
            let (before, here) = (by_time[next - 1].1, by_time[next].1);
            if at(before).row == at(here).row && at(before).version > at(here).version {
                by_time[next].1 = before;
            }
        }
        Answers { writes, by_time, by_version }
    }

    /// Returns the newest write of the row that was answered before that time.
    fn newest_before(&self, row: Fingerprint, time: u64) -> Option<&'a WriteAnswered> {
        let after = self.by_time.partition_point(|&(index, _)| {
            let write = &self.writes[index as usize];
            (write.row, write.answered_at) < (row, time)
        });
        let newest = &self.writes[self.by_time[after.checked_sub(1)?].1 as usize];
        (newest.row == row).then_some(newest)
    }

    /// Returns the answered writes of the row from that version on.
    fn at_or_after(&self, row: Fingerprint, version: Version) -> impl Iterator<Item = &'a WriteAnswered> {
        let at = |index: u32| &self.writes[index as usize];
        let start = self.by_version.partition_point(|&index| (at(index).row, at(index).version) < (row, version));
        let found: Range<usize> = start..self.by_version.len();
        self.by_version[found].iter().map(move |&index| at(index)).take_while(move |write| write.row == row)
    }

    /// Says what is wrong with a read, if anything.
    fn stale(&self, all: &Comparison<'_>, read: &ReadSeen) -> Option<String> {
        let newest = self.newest_before(read.row, read.issued_at);
        let Some((version, value)) = read.found else { return self.missing(read, newest?) };
        if let Some(newest) = newest.filter(|newest| newest.version > version) {
            return Some(format!("read version {version} after {} was acknowledged", newest.version));
        }
        if !all.is_accepted(read.row.slot(), version) {
            return Some(format!("read version {version}, which nobody was acknowledged"));
        }
        let mut answers = self.at_or_after(read.row, version).take_while(|write| write.version == version).peekable();
        let agrees = if answers.peek().is_some() {
            answers.any(|write| write.value == Some(value) && write.issued_at <= read.answered_at)
        } else {
            all.folded.rows.get(&read.row).is_none_or(|row| row.version != version || row.value == Some(value))
        };
        (!agrees).then(|| format!("read version {version} with a value that was not written then"))
    }

    /// A row that was not there must have been deleted by a write that was asked for before the read ended.
    fn missing(&self, read: &ReadSeen, newest: &WriteAnswered) -> Option<String> {
        let deleted = self
            .at_or_after(read.row, newest.version)
            .any(|write| write.value.is_none() && write.issued_at <= read.answered_at);
        (!deleted).then(|| format!("read nothing after version {} was acknowledged", newest.version))
    }
}
