//! Stories of reads and scans through a router core.

mod world;

use proptest::prelude::*;
use rehome_control_core::Route;
use rehome_keyspace::{Epoch, KeyRange, Offset, ShardId, SlotId, Version};
use rehome_ports::{ReadAnswer, ReadKind, ReadLevel, ReadRefused, ReadRequest, Remedy, Row};
use rehome_records::store_key;
use rehome_router::{
    AskId, Effect, Input, ReadAsk, ReadTry, Refused, RouterCore, RouterLimits, ScanAnswer, ScanAsk, ScanCursor,
};
use world::{KEYSPACE, Rng, SHARDS, SLOTS, first_routes, key_in, placement, routes};

const SLOT: SlotId = SlotId(0);
const LATE_MS: u64 = 1_000_000;

/// A read as it went to a shard.
type Asked = (ReadTry, ShardId, ReadRequest);

struct Story {
    now_ms: u64,
    core: RouterCore,
    asked: Vec<Asked>,
    reads: Vec<Result<ReadAnswer, Refused>>,
    scans: Vec<Result<ScanAnswer, Refused>>,
}

impl Story {
    fn new() -> Story {
        Story::with(RouterLimits::STANDARD)
    }

    fn with(limits: RouterLimits) -> Story {
        let core = RouterCore::new(limits);
        let mut story = Story { now_ms: 0, core, asked: Vec::new(), reads: Vec::new(), scans: Vec::new() };
        story.step(Input::Routes(routes(1, first_routes())));
        story
    }

    fn step(&mut self, input: Input) {
        for effect in self.core.step(self.now_ms, input) {
            match effect {
                Effect::Read { read, shard, request, .. } => self.asked.push((read, shard, request)),
                Effect::AnswerRead { answer, .. } => self.reads.push(answer),
                Effect::AnswerScan { answer, .. } => self.scans.push(answer),
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn get(&mut self, number: u64, deadline_ms: u64) {
        let kind = ReadKind::Get { partition_key: key_in(SLOT, 0), sort_key: b"s".to_vec() };
        let read = ReadAsk { keyspace: KEYSPACE, kind, level: ReadLevel::Linearizable, deadline_ms };
        self.step(Input::Read { ask: AskId(number), read });
    }

    fn scan(&mut self, number: u64, limit: usize, after: Option<ScanCursor>, deadline_ms: u64) {
        let scan = ScanAsk { keyspace: KEYSPACE, level: ReadLevel::Linearizable, limit, after, deadline_ms };
        self.step(Input::Scan { ask: AskId(number), scan });
    }

    /// Returns the one read that went out since the last time.
    fn asked(&mut self) -> Asked {
        assert_eq!(self.asked.len(), 1, "{:?}", self.asked);
        self.asked.remove(0)
    }

    fn end(&mut self, read: ReadTry, result: Result<ReadAnswer, ReadRefused>) {
        self.step(Input::ReadEnded { read, result });
    }

    fn reroute(&mut self, position: u64, slot: SlotId, shard: u32, epoch: u64) {
        let mut all = first_routes();
        all[slot.0 as usize] = Route { shard: ShardId(shard), epoch: Epoch(epoch) };
        self.step(Input::Routes(routes(position, all)));
    }
}

fn row(partition_key: &[u8], sort_key: &[u8]) -> Row {
    let version = Version { epoch: Epoch(1), offset: Offset(1) };
    Row { partition_key: partition_key.to_vec(), sort_key: sort_key.to_vec(), value: b"v".to_vec(), version }
}

fn answer(rows: Vec<Row>) -> ReadAnswer {
    ReadAnswer { rows, shard: ShardId(0), applied: None, covered: Vec::new(), more_after: None }
}

#[test]
fn a_read_goes_to_the_owner_with_the_epoch_and_the_level() {
    let mut story = Story::new();
    story.get(1, LATE_MS);
    let (read, shard, request) = story.asked();
    assert_eq!((shard, request.epoch, request.level), (ShardId(0), Some(Epoch(1)), ReadLevel::Linearizable));
    story.end(read, Ok(answer(vec![row(b"k", b"s")])));
    assert_eq!(story.reads[0].as_ref().unwrap().rows.len(), 1);
    let token = ReadLevel::Token { shard: ShardId(2), offset: Offset(9) };
    let kind = ReadKind::List { partition_key: key_in(SLOT, 0), from: Vec::new(), to: None, reverse: false, limit: 10 };
    let read = ReadAsk { keyspace: KEYSPACE, kind, level: token, deadline_ms: LATE_MS };
    story.step(Input::Read { ask: AskId(2), read });
    let (_, shard, request) = story.asked();
    assert_eq!((shard, request.level), (ShardId(0), token));
}

#[test]
fn a_read_compares_the_epoch_not_the_shard() {
    let mut story = Story::new();
    story.get(1, LATE_MS);
    let (read, ..) = story.asked();
    story.end(read, Err(ReadRefused::NotOwner));
    assert!(story.asked.is_empty() && story.reads.is_empty(), "the read waits for another owner");
    // An abort: the same shard owns the slot again, under another epoch.
    story.reroute(2, SLOT, 0, 4);
    let (read, shard, request) = story.asked();
    assert_eq!((shard, request.epoch), (ShardId(0), Some(Epoch(4))));
    story.end(read, Ok(answer(Vec::new())));
    assert!(story.reads[0].is_ok());
    assert_eq!(story.core.counters().reads_retried, 1);
}

#[test]
fn the_time_for_which_a_read_had_no_owner_is_counted() {
    let mut story = Story::new();
    story.get(1, LATE_MS);
    let (read, ..) = story.asked();
    story.now_ms = 100;
    story.end(read, Err(ReadRefused::NotOwner));
    story.now_ms = 130;
    story.reroute(2, SLOT, 1, 4);
    let (read, ..) = story.asked();
    story.now_ms = 131;
    story.end(read, Err(ReadRefused::NotOwner));
    story.now_ms = 140;
    story.reroute(3, SLOT, 2, 5);
    let (read, ..) = story.asked();
    story.end(read, Ok(answer(Vec::new())));
    // One that nothing held up.
    story.get(2, LATE_MS);
    let (read, ..) = story.asked();
    story.end(read, Ok(answer(Vec::new())));
    let pauses = story.core.counters().read_pauses;
    assert_eq!((pauses.count(), pauses.sum_ms()), (1, 40));
}

#[test]
fn a_read_that_was_refused_after_the_routes_changed_goes_on_at_once() {
    let mut story = Story::new();
    story.get(1, LATE_MS);
    let (read, ..) = story.asked();
    story.reroute(2, SLOT, 1, 4);
    assert!(story.asked.is_empty(), "the try under way may still be answered");
    story.end(read, Err(ReadRefused::NotOwner));
    let (_, shard, request) = story.asked();
    assert_eq!((shard, request.epoch), (ShardId(1), Some(Epoch(4))));
    assert_eq!(story.core.wake_at_ms(), Some(LATE_MS), "no other try is planned");
}

#[test]
fn an_unavailable_replica_is_tried_again_until_the_deadline() {
    let mut story = Story::new();
    story.get(1, 100);
    let mut tries = 0;
    while story.reads.is_empty() {
        let (read, ..) = story.asked();
        tries += 1;
        story.end(read, Err(ReadRefused::Unavailable { reason: "starting".into() }));
        story.now_ms = story.core.wake_at_ms().unwrap();
        story.step(Input::TurnEnded);
    }
    assert_eq!((tries, story.now_ms), (5, 100));
    let refused = story.reads[0].clone().unwrap_err();
    assert_eq!((refused.remedy, refused.code), (Remedy::NotApplied, "replica_unavailable"));
    assert!(refused.message.contains("starting"), "{refused}");
    assert_eq!(story.core.wake_at_ms(), None);
}

#[test]
fn a_late_answer_of_an_earlier_try_is_ignored() {
    let mut story = Story::new();
    story.get(1, LATE_MS);
    let (first, ..) = story.asked();
    story.end(first, Err(ReadRefused::NotOwner));
    story.end(first, Ok(answer(Vec::new())));
    assert!(story.reads.is_empty());
    story.reroute(2, SLOT, 1, 4);
    let (second, ..) = story.asked();
    story.end(first, Ok(answer(Vec::new())));
    assert!(story.reads.is_empty());
    story.end(second, Ok(answer(Vec::new())));
    story.end(second, Ok(answer(Vec::new())));
    assert_eq!(story.reads.len(), 1);
}

#[test]
fn reads_and_scans_are_bounded() {
    let mut story = Story::with(RouterLimits { reads_max: 1, scans_max: 1, ..RouterLimits::STANDARD });
    story.get(1, LATE_MS);
    story.get(2, LATE_MS);
    assert_eq!(story.reads[0].clone().unwrap_err().code, "overloaded");
    story.scan(3, 1, None, LATE_MS);
    story.scan(4, 1, None, LATE_MS);
    assert_eq!(story.scans[0].clone().unwrap_err().code, "overloaded");
}

#[test]
fn a_read_that_its_replica_has_no_room_for_is_told_when_to_come_back() {
    let mut story = Story::new();
    story.get(1, LATE_MS);
    let (read, ..) = story.asked();
    story.end(read, Err(ReadRefused::Overloaded));
    let refused = story.reads[0].clone().unwrap_err();
    assert_eq!((refused.code, refused.retry_after_ms.is_some()), ("overloaded", true));
}

#[test]
fn a_page_of_large_rows_ends_by_its_bytes() {
    let mut story = Story::new();
    story.scan(1, 10_000, None, LATE_MS);
    let mut rows = 0;
    while story.scans.is_empty() {
        let (read, _, request) = story.asked();
        let ReadKind::Scan { range, .. } = request.kind else { panic!("a part of a scan") };
        let large = |number| Row { value: vec![7; 1 << 20], ..row(&key_in(SlotId(rows), number), b"s") };
        let answer = ReadAnswer {
            covered: vec![(range, Epoch(u64::from(rows % SHARDS) + 1))],
            ..answer((0..3).map(large).collect())
        };
        story.end(read, Ok(answer));
        rows += 1;
    }
    let page = story.scans[0].clone().unwrap();
    assert_eq!((page.rows.len(), page.next.is_some(), page.missing.len()), (6, true, 0));
}

#[test]
fn a_scan_is_not_a_read_of_one_key_and_bad_pages_are_refused() {
    let mut story = Story::new();
    let kind = ReadKind::Scan { range: KeyRange::all(), after: None, limit: 1 };
    let read = ReadAsk { keyspace: KEYSPACE, kind, level: ReadLevel::Eventual, deadline_ms: LATE_MS };
    story.step(Input::Read { ask: AskId(1), read });
    assert_eq!(story.reads[0].clone().unwrap_err().code, "not_one_key");
    story.scan(2, 0, None, LATE_MS);
    story.scan(3, 10_001, None, LATE_MS);
    for (number, bytes) in
        [vec![], vec![0, 1], vec![0, 0, 0, 0, 4], vec![1, 0x11, 0, 0, 0, 0], vec![2]].iter().enumerate()
    {
        story.scan(4 + number as u64, 1, Some(ScanCursor(bytes.clone())), LATE_MS);
    }
    let codes: Vec<_> = story.scans.iter().map(|answer| answer.clone().unwrap_err().code).collect();
    assert_eq!(codes[..2], ["bad_limit"; 2]);
    assert_eq!(codes[2..], ["bad_cursor"; 5]);
}

#[test]
fn a_slot_whose_owner_changes_in_the_middle_of_a_page_is_read_again_from_its_start() {
    let mut story = Story::new();
    story.scan(1, 100, None, LATE_MS);
    let (read, shard, _) = story.asked();
    assert_eq!(shard, ShardId(0));
    let key = key_in(SLOT, 0);
    let more_after = Some(store_key::row(&placement().place(&key), b"b"));
    let covered = vec![(placement().slot_range(SLOT), Epoch(1))];
    story.end(read, Ok(ReadAnswer { more_after, covered, ..answer(vec![row(&key, b"a"), row(&key, b"b")]) }));
    let (second, _, request) = story.asked();
    assert!(matches!(request.kind, ReadKind::Scan { after: Some(_), limit: 98, .. }), "{request:?}");
    story.reroute(2, SLOT, 2, 4);
    story.end(second, Ok(answer(Vec::new())));
    let (third, shard, request) = story.asked();
    assert_eq!(shard, ShardId(2));
    assert!(matches!(request.kind, ReadKind::Scan { after: None, limit: 100, .. }), "{request:?}");
    let covered = vec![(placement().slot_range(SLOT), Epoch(4))];
    story.end(third, Ok(ReadAnswer { covered, ..answer(vec![row(&key, b"a"), row(&key, b"c")]) }));
    story.now_ms = LATE_MS;
    story.step(Input::TurnEnded);
    let answer = story.scans[0].clone().unwrap();
    let sort_keys: Vec<_> = answer.rows.iter().map(|row| row.sort_key.as_slice()).collect();
    assert_eq!(sort_keys, [b"a", b"c"]);
}

#[test]
fn a_part_that_was_not_owned_under_the_epoch_that_was_believed_is_read_again() {
    let key = key_in(SLOT, 0);
    let placed = placement().place(&key);
    let slot = placement().slot_range(SLOT);
    let half = KeyRange { start: store_key::placed_range(&placed).end.unwrap(), end: slot.end.clone() };
    let more_after = Some(store_key::row(&placed, b"a"));
    let cases = [
        (vec![(slot.clone(), Epoch(9))], None, "another epoch"),
        (vec![(slot.clone(), Epoch(9))], more_after.clone(), "another epoch, and more to come"),
        (vec![(half.clone(), Epoch(1))], None, "half of the slot"),
        (vec![(half, Epoch(1))], more_after, "half of the slot, and more to come"),
    ];
    for (covered, more_after, what) in cases {
        let mut story = Story::new();
        story.scan(1, 100, None, 50);
        let (read, ..) = story.asked();
        story.end(read, Ok(ReadAnswer { covered, more_after, ..answer(vec![row(&key, b"a")]) }));
        assert!(story.asked.is_empty(), "{what}");
        story.now_ms = story.core.wake_at_ms().unwrap();
        story.step(Input::TurnEnded);
        let (_, shard, request) = story.asked();
        assert_eq!(shard, ShardId(0));
        assert!(matches!(request.kind, ReadKind::Scan { after: None, limit: 100, .. }), "{what}: {request:?}");
        story.now_ms = 50;
        story.step(Input::TurnEnded);
        assert_eq!(story.scans[0].clone().unwrap().rows, [], "{what}");
    }
}

#[test]
fn a_scan_that_meets_its_deadline_says_what_is_missing() {
    let mut story = Story::new();
    story.scan(1, 100, None, 50);
    let (read, ..) = story.asked();
    let covered = vec![(placement().slot_range(SLOT), Epoch(1))];
    story.end(read, Ok(ReadAnswer { covered, ..answer(vec![row(&key_in(SLOT, 0), b"a")]) }));
    let (second, shard, _) = story.asked();
    assert_eq!(shard, ShardId(1));
    story.end(second, Err(ReadRefused::Unavailable { reason: "down".into() }));
    story.now_ms = 50;
    story.step(Input::TurnEnded);
    let answer = story.scans[0].clone().unwrap();
    assert_eq!(answer.rows.len(), 1);
    assert_eq!(answer.missing, [KeyRange { start: placement().slot_range(SlotId(1)).start, end: None }]);
    story.asked.clear();
    story.scan(2, 100, answer.next, LATE_MS);
    assert_eq!(story.asked().1, ShardId(1), "the next page goes on there");
}

/// Shards that own slots, rows that everybody agrees on, and owners that change between any two answers.
struct Shards {
    rng: Rng,
    routes: Vec<Route>,
    epoch_last: u64,
    rows: Vec<(Vec<u8>, Row)>,
}

impl Shards {
    fn new(seed: u64) -> Shards {
        let mut rng = Rng(seed);
        let mut rows = Vec::new();
        for slot in (0..SLOTS).map(SlotId) {
            for number in 0..rng.below(3) as u32 {
                let key = key_in(slot, number);
                for sort_key in 0..rng.below(5) as u8 {
                    rows.push((store_key::row(&placement().place(&key), &[sort_key]), row(&key, &[sort_key])));
                }
            }
        }
        rows.sort_by(|(a, _), (b, _)| a.cmp(b));
        Shards { rng, routes: first_routes(), epoch_last: u64::from(SHARDS), rows }
    }

    fn move_a_slot(&mut self) {
        let slot = self.rng.below(u64::from(SLOTS)) as usize;
        self.epoch_last += 1;
        let shard = ShardId(self.rng.below(u64::from(SHARDS)) as u32);
        self.routes[slot] = Route { shard, epoch: Epoch(self.epoch_last) };
    }

    /// Answers a part as a replica does: rows of what it owns, in small chunks.
    fn read(&mut self, shard: ShardId, kind: &ReadKind) -> Result<ReadAnswer, ReadRefused> {
        if self.rng.chance(100) {
            return Err(ReadRefused::Unavailable { reason: "busy".into() });
        }
        let ReadKind::Scan { range, after, limit } = kind else { panic!("only scans go to shards here") };
        let owned = |slot: SlotId| self.routes[slot.0 as usize].shard == shard;
        let covered: Vec<(KeyRange, Epoch)> = (0..SLOTS)
            .map(SlotId)
            .filter(|slot| owned(*slot) && placement().slot_range(*slot).overlaps(range))
            .map(|slot| (placement().slot_range(slot), self.routes[slot.0 as usize].epoch))
            .collect();
        let limit = (*limit).min(1 + self.rng.below(5) as usize);
        let mut found = self.rows.iter().filter(|(key, row)| {
            range.contains(&key[1..])
                && after.as_ref().is_none_or(|after| key > after)
                && covered.iter().any(|(range, _)| range.contains(&placement().place(&row.partition_key).0))
        });
        let taken: Vec<_> = found.by_ref().take(limit).cloned().collect();
        let more_after = found.next().and_then(|_| taken.last().map(|(key, _)| key.clone()));
        let rows = taken.into_iter().map(|(_, row)| row).collect();
        Ok(ReadAnswer { rows, shard, applied: None, covered, more_after })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_bring_every_row_exactly_once_in_order_whatever_moves(seed: u64, limit in 1usize..12) {
        let mut shards = Shards::new(seed);
        let mut story = Story::new();
        let (mut pages, mut rows, mut covered, mut after, mut position) = (0, Vec::new(), Vec::new(), None, 1);
        loop {
            pages += 1;
            story.scan(pages, limit, after.take(), u64::MAX);
            while story.scans.is_empty() {
                if position < 40 && shards.rng.chance(300) {
                    shards.move_a_slot();
                }
                if shards.rng.chance(400) || position >= 40 {
                    position += 1;
                    story.step(Input::Routes(routes(position, shards.routes.clone())));
                }
                if let Some((read, shard, request)) = story.asked.pop() {
                    let result = shards.read(shard, &request.kind);
                    story.end(read, result);
                }
                prop_assert!(story.asked.len() <= 1);
                story.now_ms += 3;
                story.step(Input::TurnEnded);
                prop_assert!(story.now_ms < 100_000, "the scan never ends");
            }
            let page = story.scans.pop().unwrap().unwrap();
            prop_assert!(page.rows.len() <= limit && page.missing.is_empty());
            rows.extend(page.rows);
            covered.extend(page.covered);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let expected: Vec<Row> = shards.rows.iter().map(|(_, row)| row.clone()).collect();
        prop_assert_eq!(rows, expected);
        // Side by side, from the first key to the last.
        let (first, last) = (placement().slot_range(SlotId(0)), placement().slot_range(SlotId(SLOTS - 1)));
        let starts: Vec<_> = covered.iter().map(|(range, ..)| Some(range.start.clone())).chain([last.end]).collect();
        let ends: Vec<_> = [Some(first.start)].into_iter().chain(covered.into_iter().map(|(range, ..)| range.end)).collect();
        prop_assert_eq!(starts, ends);
    }
}
