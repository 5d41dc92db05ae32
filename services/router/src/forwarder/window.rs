//! The records of one inbox partition that are on their way: which may go out, in which order, and how far all is judged.
//! Pure.

use rehome_keyspace::Offset;
use rehome_records::RowChange;
use std::collections::{BTreeMap, BTreeSet};

/// Records on their way at once.
const RECORDS_MAX: usize = 4_000;
/// Bytes of keys and values of those, passed by at most one read of the inbox.
const BYTES_MAX: usize = 8 << 20;

/// One record on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    pub key: Vec<u8>,
    pub change: RowChange,
}

impl Plain {
    fn bytes(&self) -> usize {
        self.key.len() + self.change.sort_key.len() + self.change.value.as_ref().map_or(0, Vec::len)
    }
}

#[derive(Debug, Default)]
struct Line {
    /// Records of the key that a router has and has not answered.
    sent: usize,
    /// One was refused: nothing goes out before that time, and before the others have come back.
    again_at_ms: Option<u64>,
    /// All of the key, sent or not.
    count: usize,
}

/// What is on its way.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Where the reader of the partition stands.
    read_next: Offset,
    records: BTreeMap<Offset, Plain>,
    unsent: BTreeSet<Offset>,
    lines: BTreeMap<Vec<u8>, Line>,
    /// Records that go to the rejects.
    rejected: BTreeSet<Offset>,
    bytes: usize,
}

impl Window {
    pub fn starting_at(next: Offset) -> Window {
        Window { read_next: next, ..Window::default() }
    }

    pub fn has_room(&self) -> bool {
        self.records.len() + self.rejected.len() < RECORDS_MAX && self.bytes < BYTES_MAX
    }

    /// Takes in a record that was read.
    pub fn offer(&mut self, offset: Offset, plain: Plain) {
        self.lines.entry(plain.key.clone()).or_default().count += 1;
        self.bytes += plain.bytes();
        self.records.insert(offset, plain);
        self.unsent.insert(offset);
    }

    /// Takes in a record that goes to the rejects as it is.
    pub fn offer_rejected(&mut self, offset: Offset) {
        self.rejected.insert(offset);
    }

    /// The partition was read up to there.
    pub fn read_up_to(&mut self, next: Offset) {
        self.read_next = self.read_next.max(next);
    }

    /// Returns the offset below which every record was judged.
    pub fn judged_next(&self) -> Offset {
        let open = [self.records.keys().next(), self.rejected.first()];
        open.into_iter().flatten().copied().min().unwrap_or(self.read_next)
    }

    /// Takes out what may go to a router now, in the order in which it has to.
    ///
    /// Ensures: of a key, nothing goes out beside or before a record that was refused.
    pub fn sends(&mut self, now_ms: u64) -> Vec<(Offset, Plain)> {
        let mut out = Vec::new();
        for offset in &self.unsent {
            let plain = &self.records[offset];
            let line = self.lines.get_mut(&plain.key).expect("every record has its line");
            if let Some(at_ms) = line.again_at_ms {
                if line.sent > 0 || now_ms < at_ms {
                    continue;
                }
                line.again_at_ms = None;
            }
            line.sent += 1;
            out.push((*offset, plain.clone()));
        }
        for (offset, _) in &out {
            self.unsent.remove(offset);
        }
        out
    }

    /// Returns when something may go out that only waits for time.
    pub fn wake_at_ms(&self) -> Option<u64> {
        let waits = self.lines.values().filter(|line| line.sent == 0);
        waits.filter_map(|line| line.again_at_ms).min()
    }

    /// The record was accepted, now or before.
    pub fn done(&mut self, offset: Offset) {
        self.answered(offset);
        self.forget(offset);
    }

    /// The record can never be applied; it is given back and goes to the rejects.
    pub fn reject(&mut self, offset: Offset) -> Option<Plain> {
        self.answered(offset);
        self.rejected.insert(offset);
        self.forget(offset)
    }

    /// The record lies among the rejects.
    pub fn exported(&mut self, offset: Offset) {
        self.rejected.remove(&offset);
    }

    /// The record was refused, and goes out again then.
    pub fn refused(&mut self, offset: Offset, again_at_ms: u64) {
        if let Some(line) = self.answered(offset) {
            line.again_at_ms = line.again_at_ms.max(Some(again_at_ms));
            self.unsent.insert(offset);
        }
    }

    fn answered(&mut self, offset: Offset) -> Option<&mut Line> {
        let line = self.lines.get_mut(&self.records.get(&offset)?.key)?;
        line.sent -= 1;
        Some(line)
    }

    fn forget(&mut self, offset: Offset) -> Option<Plain> {
        let plain = self.records.remove(&offset)?;
        self.bytes -= plain.bytes();
        let line = self.lines.get_mut(&plain.key)?;
        line.count -= 1;
        if line.count == 0 {
            self.lines.remove(&plain.key);
        }
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(key: &str, value: &str) -> Plain {
        let change = RowChange { sort_key: Vec::new(), value: Some(value.as_bytes().to_vec()) };
        Plain { key: key.as_bytes().to_vec(), change }
    }

    fn window(keys: &[(u64, &str)]) -> Window {
        let mut window = Window::starting_at(Offset(3));
        keys.iter().for_each(|(offset, key)| window.offer(Offset(*offset), plain(key, "v")));
        window.read_up_to(Offset(20));
        window
    }

    fn sends(window: &mut Window, now_ms: u64) -> Vec<u64> {
        window.sends(now_ms).into_iter().map(|(offset, _)| offset.0).collect()
    }

    #[test]
    fn all_is_judged_below_the_first_record_that_is_not() {
        let mut window = window(&[(3, "a"), (5, "b"), (9, "a")]);
        assert_eq!(window.judged_next(), Offset(3));
        assert_eq!(sends(&mut window, 0), [3, 5, 9]);
        window.done(Offset(9));
        window.done(Offset(3));
        assert_eq!(window.judged_next(), Offset(5));
        assert_eq!(window.reject(Offset(5)), Some(plain("b", "v")));
        assert_eq!(window.judged_next(), Offset(5), "it is judged once it lies among the rejects");
        window.exported(Offset(5));
        assert_eq!(window.judged_next(), Offset(20), "offsets have gaps");
    }

    #[test]
    fn a_refused_record_goes_out_again_with_what_follows_it_once_all_have_come_back() {
        let mut window = window(&[(3, "a"), (5, "b"), (9, "a")]);
        assert_eq!(sends(&mut window, 0), [3, 5, 9]);
        window.refused(Offset(3), 50);
        window.offer(Offset(12), plain("a", "w"));
        assert_eq!(sends(&mut window, 60), [0; 0], "a later one is still out");
        window.refused(Offset(9), 40);
        assert_eq!(window.wake_at_ms(), Some(50));
        assert_eq!(sends(&mut window, 49), [0; 0]);
        assert_eq!(sends(&mut window, 50), [3, 9, 12]);
        [3, 9, 12, 5].into_iter().for_each(|offset| window.done(Offset(offset)));
        assert_eq!(window.judged_next(), Offset(20));
        assert!(window.lines.is_empty() && window.bytes == 0);
    }
}
