//! Scatter reads: one part after the other, in the order of placed keys, so that every slot is read exactly once (R12).
//!
//! ```text
//! slots   0 . . . . . . . . . . . . . . . n
//!         |--- shard 0 ---|- shard 3 -|- 1 -|     a part: the longest run of slots of one owner
//!              ^ at, after: everything before is in `rows`
//! ```
//! A part's answer counts up to the first key that its shard did not own under the epoch that the router believed in;
//! from there on the part is tried again, by newer routes. If the owner changes inside a slot of which this page has
//! rows already, that slot starts again: a key is never read half here and half there.

use crate::ask::{Covered, Refused, ScanAnswer, ScanAsk, check_scan};
use crate::core::{AskId, Effect, ReadTry, Turn, dropped, not_ready, overloaded};
use crate::limits::{RouterLimits, SCAN_BYTES_MAX};
use crate::routes::Routes;
use crate::scan_position::{Part, Position};
use crate::timers::{Retry, Timers};
use rehome_keyspace::{Epoch, KeyRange, KeyspaceId, ShardId, SlotId};
use rehome_ports::{ReadAnswer, ReadKind, ReadRefused, ReadRequest, Row};
use std::collections::BTreeMap;

/// A scan without an answer.
#[derive(Debug)]
struct Waiting {
    scan: ScanAsk,
    /// Where this page began.
    start: Position,
    at: Position,
    /// Under which epoch this page has read the rows of the slot before `at`.
    opened: Option<Epoch>,
    rows: Vec<Row>,
    /// Who owned the keys between `start` and `at` when they were read.
    covered: Vec<Covered>,
    /// The part under way.
    part: Option<Part>,
    tries: u32,
    retry: Retry,
}

#[derive(Debug)]
pub(crate) struct Scans {
    scans_max: usize,
    waiting: BTreeMap<AskId, Waiting>,
    timers: Timers,
}

impl Scans {
    pub(crate) fn new(limits: RouterLimits) -> Scans {
        Scans { scans_max: limits.scans_max, waiting: BTreeMap::new(), timers: Timers::default() }
    }

    pub(crate) fn ask(&mut self, turn: &mut Turn<'_>, ask: AskId, scan: ScanAsk) {
        match self.admit(turn, &scan) {
            Ok(start) => {
                self.timers.set_deadline(scan.deadline_ms, ask);
                let (at, retry) = (start.clone(), Retry::default());
                let (rows, covered) = (Vec::new(), Vec::new());
                let waiting = Waiting { scan, start, at, opened: None, rows, covered, part: None, tries: 0, retry };
                self.waiting.insert(ask, waiting);
                self.go_on(turn, ask);
            }
            Err(refused) => {
                turn.counters.scans_refused += 1;
                turn.effects.push(Effect::AnswerScan { ask, answer: Err(refused) });
            }
        }
    }

    fn admit(&self, turn: &Turn<'_>, scan: &ScanAsk) -> Result<Position, Refused> {
        check_scan(scan)?;
        let routes = turn.table.get(scan.keyspace).ok_or_else(|| not_ready(scan.keyspace))?;
        if self.waiting.len() >= self.scans_max {
            return Err(overloaded("scans"));
        }
        let Some(cursor) = &scan.after else { return Ok(Position::first()) };
        Position::read(cursor, routes).ok_or_else(|| {
            Refused::not_applied("bad_cursor", "the cursor is not one that a scan of this keyspace gave")
        })
    }

    /// Asks for the next part, or answers when the page is full or everything was read.
    fn go_on(&mut self, turn: &mut Turn<'_>, ask: AskId) {
        let Some(waiting) = self.waiting.get_mut(&ask) else { return };
        if let Some(at_ms) = waiting.retry.at_ms.take() {
            self.timers.unset_retry(at_ms, ask);
        }
        let routes = turn.table.get(waiting.scan.keyspace).expect("an admitted scan's keyspace is known");
        if waiting.at.slot.0 >= routes.slot_count() {
            return self.answer(turn, ask, false);
        }
        waiting.start_slot_again_if_moved(routes);
        if waiting.rows.len() >= waiting.scan.limit || waiting.bytes() >= SCAN_BYTES_MAX {
            return self.answer(turn, ask, false);
        }
        waiting.tries += 1;
        turn.counters.reads_retried += u64::from(waiting.part.is_some());
        let part = Part::from(routes, waiting.at.slot);
        let kind = ReadKind::Scan {
            range: part.range.clone(),
            after: waiting.at.after.clone(),
            limit: waiting.scan.limit - waiting.rows.len(),
        };
        let request = ReadRequest { kind, epoch: None, level: waiting.scan.level };
        let read = ReadTry { ask, number: waiting.tries };
        turn.effects.push(Effect::Read { read, keyspace: waiting.scan.keyspace, shard: part.shard, request });
        waiting.part = Some(part);
    }

    /// A replica answered a part.
    pub(crate) fn ended(&mut self, turn: &mut Turn<'_>, read: ReadTry, result: Result<ReadAnswer, ReadRefused>) {
        let Some(waiting) = self.waiting.get_mut(&read.ask) else { return };
        if waiting.tries != read.number || waiting.retry.at_ms.is_some() {
            return;
        }
        let routes = turn.table.get(waiting.scan.keyspace).expect("an admitted scan's keyspace is known");
        let whole = result.is_ok_and(|answer| waiting.take(routes, answer));
        if whole {
            waiting.part = None;
            waiting.retry = Retry::default();
            return self.go_on(turn, read.ask);
        }
        let moved = waiting.part.as_ref().is_some_and(|part| part.is_outdated(routes, waiting.at.slot));
        let at_ms = waiting.retry.wait(turn.now_ms);
        self.timers.set_retry(at_ms, read.ask);
        if moved {
            self.go_on(turn, read.ask);
        }
    }

    /// Parts that wait for another owner try it.
    pub(crate) fn routes_changed(&mut self, turn: &mut Turn<'_>, keyspace: KeyspaceId) {
        let waits = |waiting: &Waiting| waiting.scan.keyspace == keyspace && waiting.retry.at_ms.is_some();
        let asks: Vec<AskId> = self.waiting.iter().filter(|(_, waiting)| waits(waiting)).map(|(ask, _)| *ask).collect();
        for ask in asks {
            self.go_on(turn, ask);
        }
    }

    pub(crate) fn dropped(&mut self, turn: &mut Turn<'_>, keyspace: KeyspaceId) {
        let of_it = self.waiting.iter().filter(|(_, waiting)| waiting.scan.keyspace == keyspace);
        let asks: Vec<AskId> = of_it.map(|(ask, _)| *ask).collect();
        for ask in asks {
            self.take_out(ask);
            turn.counters.scans_refused += 1;
            turn.effects.push(Effect::AnswerScan { ask, answer: Err(dropped(keyspace)) });
        }
    }

    fn take_out(&mut self, ask: AskId) -> Waiting {
        let waiting = self.waiting.remove(&ask).expect("a scan is answered once");
        self.timers.unset_deadline(waiting.scan.deadline_ms, ask);
        if let Some(at_ms) = waiting.retry.at_ms {
            self.timers.unset_retry(at_ms, ask);
        }
        waiting
    }

    pub(crate) fn turn_ended(&mut self, turn: &mut Turn<'_>) {
        while let Some(ask) = self.timers.pop_deadline(turn.now_ms) {
            self.answer(turn, ask, true);
        }
        while let Some(ask) = self.timers.pop_retry(turn.now_ms) {
            self.go_on(turn, ask);
        }
    }

    fn answer(&mut self, turn: &mut Turn<'_>, ask: AskId, too_late: bool) {
        let waiting = self.take_out(ask);
        let routes = turn.table.get(waiting.scan.keyspace).expect("an admitted scan's keyspace is known");
        let next = (waiting.at.slot.0 < routes.slot_count()).then(|| waiting.at.cursor());
        let missing = if too_late { vec![waiting.at.rest(routes)] } else { Vec::new() };
        turn.counters.scans_answered += 1;
        let answer = Ok(ScanAnswer { rows: waiting.rows, covered: waiting.covered, next, missing });
        turn.effects.push(Effect::AnswerScan { ask, answer });
    }

    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        self.timers.next_ms()
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.partition_key.len() + row.sort_key.len() + row.value.len()).sum()
    }

    /// Takes the rows of a part, as far as its shard owned what it read; tells whether that was everything.
    fn take(&mut self, routes: &Routes, answer: ReadAnswer) -> bool {
        let Some(part) = &self.part else { return false };
        let read_to = match &answer.more_after {
            None => Some(Position { slot: part.end, after: None }),
            Some(key) => Position::after(key.clone(), routes)
                .filter(|position| (part.first..part.end).contains(&position.slot))
                .filter(|_| answer.more_after != self.at.after),
        };
        let Some(read_to) = read_to else { return false };
        let owned_to = part.owned_to(routes, answer.covered.clone());
        let slot_of = |row: &Row| routes.placement.slot(&row.partition_key);
        // A slot that was not owned whole counts only when the answer ended before it.
        if owned_to > read_to.slot || (owned_to == read_to.slot && read_to.after.is_none()) {
            self.opened = read_to.after.as_ref().map(|_| part.epoch(read_to.slot));
            self.rows.extend(answer.rows);
            self.went_to(routes, read_to, answer.shard, answer.covered);
            return true;
        }
        if owned_to > self.at.slot {
            self.rows.extend(answer.rows.into_iter().filter(|row| slot_of(row) < owned_to));
            self.went_to(routes, Position { slot: owned_to, after: None }, answer.shard, answer.covered);
            self.opened = None;
        }
        false
    }

    /// Everything up to there was read at the shard, which owned that much of it.
    fn went_to(&mut self, routes: &Routes, to: Position, shard: ShardId, mut covered: Vec<(KeyRange, Epoch)>) {
        let start = self.at.key(routes).expect("a scan at its end asks for nothing");
        let read = KeyRange { start, end: to.key(routes) };
        covered.sort();
        for (region, epoch) in covered {
            let Some(region) = region.intersection(&read) else { continue };
            match self.covered.last_mut() {
                Some((last, by, under))
                    if last.end.as_ref() == Some(&region.start) && (*by, *under) == (shard, epoch) =>
                {
                    last.end = region.end;
                }
                _ => self.covered.push((region, shard, epoch)),
            }
        }
        self.at = to;
    }

    /// Forgets this page's rows of a slot whose owner changed in the middle of it.
    fn start_slot_again_if_moved(&mut self, routes: &Routes) {
        let SlotId(slot) = self.at.slot;
        if self.opened.is_none_or(|epoch| epoch == routes.route(SlotId(slot)).epoch) {
            return;
        }
        let start =
            if self.start.slot == self.at.slot { &self.start } else { &Position { slot: SlotId(slot), after: None } };
        self.rows.retain(|row| routes.placement.slot(&row.partition_key) != SlotId(slot));
        let kept = KeyRange { start: Vec::new(), end: start.key(routes) };
        self.covered.retain_mut(|(range, ..)| match range.intersection(&kept) {
            Some(cut) => {
                *range = cut;
                true
            }
            None => false,
        });
        self.at = start.clone();
        self.opened = None;
    }
}
