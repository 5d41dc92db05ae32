//! Closed-loop clients that remember every answer.
//!
//! Each client has rows of its own, so that it knows what each must be; several clients share partition keys, so that
//! their request ids and slots meet. A client asks again under the same request id until it is answered, but only for
//! as long as the id is certainly kept; then it does the same under a new one.

use crate::options::Options;
use crate::process::lock;
use crate::trace::{Counts, Trace};
use rand::Rng;
use rand::rngs::StdRng;
use rehome_invariants::{self as invariants, Ack, Moment};
use rehome_keyspace::{Epoch, KeyspaceId, Offset, Placement, RequestId, ShardId, SlotId, Version};
use rehome_oracle::history::{ReadSeen, WriteAnswered};
use rehome_oracle::{ClientHistory, Fingerprint, ValueHash};
use rehome_ports::{ReadAnswer, ReadKind, ReadLevel};
use rehome_records::{Condition, Operation, RowChange, SourcePosition};
use rehome_router::{Covered, ReadAsk, Refused, RouterHandle, ScanAnswer, ScanAsk, ScanCursor, WriteAnswer, WriteAsk};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const PARTITION_KEYS: u32 = 12;
const ROWS_PER_CLIENT: u32 = 6;
/// How long a client waits for a router, in milliseconds; then it asks again.
const PATIENCE_MS: u64 = 3_000;
/// Rows of a list: more than a partition key has.
const LIST_LIMIT: usize = 1_000;
/// Rows of a page of a scan: few, so that moves come between pages.
const PAGE_ROWS: usize = 7;

#[derive(Clone, Debug)]
enum Op {
    Write {
        row: Row,
        operation: Operation,
        request: Option<RequestId>,
        source: Option<SourcePosition>,
        value: Option<ValueHash>,
    },
    Read {
        row: Row,
        freshness: Freshness,
    },
    /// Rows of one partition key.
    List {
        partition_key: Vec<u8>,
        reverse: bool,
    },
    /// Every row, page by page.
    Scan,
}

/// How fresh a read is asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freshness {
    Eventual,
    /// At or after the client's own last write of the row.
    OwnWrites,
    Linearizable,
}

/// A scan that is not at its end.
#[derive(Debug, Default)]
struct Pages {
    after: Option<ScanCursor>,
    rows: Vec<Seen>,
    covered: Vec<Covered>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    partition_key: Vec<u8>,
    sort_key: Vec<u8>,
}

enum Answer {
    Wrote(Result<WriteAnswer, Refused>),
    Read(Result<ReadAnswer, Refused>),
    Scanned(Result<ScanAnswer, Refused>),
}

/// An op, and when it was first asked for under its request id.
#[derive(Clone, Debug)]
struct Asked {
    op: Op,
    first_ms: u64,
    /// The moment at which it was first asked for, under any request id.
    first_at: u64,
}

/// What a client is about.
struct Current {
    asked: Asked,
    /// The moment it was asked for.
    issued_at: u64,
    /// It waits until then.
    until_ms: u64,
}

/// One client.
pub struct Client {
    number: u32,
    keyspace: KeyspaceId,
    placement: Placement,
    ops_left: u32,
    current: Option<Current>,
    /// It does nothing before.
    rests_until_ms: u64,
    rest_ms_max: u64,
    /// How long it may ask under one request id.
    ask_ms_max: u64,
    answer: Arc<Mutex<Option<Answer>>>,
    /// Names the question that is open; an answer to an older one is not taken.
    question: u64,
    done_before: Vec<Asked>,
    source_next: Vec<u64>,
    /// Where the client's last write of each row was judged.
    tokens: BTreeMap<Row, (ShardId, Offset)>,
    pages: Pages,
    pub history: ClientHistory,
    /// The same, as the invariants take it.
    pub acks: Vec<Ack>,
    pub reads: Vec<invariants::Read>,
    pub scans: Vec<invariants::Scan>,
    /// A scan that showed a row twice, if one has.
    pub doubled: Option<String>,
}

impl Client {
    pub fn new(number: u32, keyspace: KeyspaceId, placement: Placement, options: &Options) -> Client {
        Client {
            number,
            keyspace,
            placement,
            ops_left: options.ops_per_client,
            current: None,
            rests_until_ms: 0,
            rest_ms_max: options.client_rest_ms_max,
            ask_ms_max: options.ask_ms_max(),
            answer: Arc::default(),
            question: 0,
            done_before: Vec::new(),
            source_next: vec![1; PARTITION_KEYS as usize],
            tokens: BTreeMap::new(),
            pages: Pages::default(),
            history: ClientHistory::new(),
            acks: Vec::new(),
            reads: Vec::new(),
            scans: Vec::new(),
            doubled: None,
        }
    }

    pub fn is_done(&self) -> bool {
        self.ops_left == 0 && self.current.is_none()
    }

    /// Tells whether it has something to do now.
    pub fn is_due(&self, now_ms: u64) -> bool {
        match &self.current {
            None => self.ops_left > 0 && now_ms >= self.rests_until_ms,
            Some(current) => lock(&self.answer).is_some() || now_ms >= current.until_ms,
        }
    }

    pub fn wake_at_ms(&self) -> Option<u64> {
        match &self.current {
            None => (self.ops_left > 0).then_some(self.rests_until_ms),
            Some(current) => Some(current.until_ms),
        }
    }

    /// Takes an answer, or asks. `moment` grows with every call of any client.
    pub fn act(
        &mut self,
        now_ms: u64,
        moment: u64,
        router: &RouterHandle,
        rng: &mut StdRng,
        counts: &mut Counts,
        trace: &mut Trace,
    ) {
        let Some(Current { mut asked, issued_at, until_ms }) = self.current.take() else {
            self.ops_left -= 1;
            let asked = self.draw(now_ms, moment, rng);
            return self.ask(asked, moment, now_ms, router);
        };
        let answer = lock(&self.answer).take();
        let again = match answer {
            Some(Answer::Wrote(Ok(answer))) => {
                trace.bytes(format!("{answer:?}").as_bytes());
                counts.acks += 1;
                self.wrote(&asked, &answer, issued_at, moment);
                false
            }
            Some(Answer::Read(Ok(answer))) => {
                trace.bytes(format!("{answer:?}").as_bytes());
                counts.note_read(matches!(asked.op, Op::List { .. }));
                self.saw(&asked.op, &answer, issued_at, moment);
                false
            }
            Some(Answer::Scanned(Ok(answer))) => {
                trace.bytes(format!("{answer:?}").as_bytes());
                if !self.turned_page(answer, issued_at) {
                    return self.ask(asked, issued_at, now_ms, router);
                }
                counts.scans += 1;
                false
            }
            Some(Answer::Wrote(Err(_)) | Answer::Read(Err(_)) | Answer::Scanned(Err(_))) => true,
            None => now_ms >= until_ms,
        };
        if again {
            counts.retries += 1;
            self.renew(&mut asked, now_ms, rng);
            return self.ask(asked, issued_at, now_ms, router);
        }
        if matches!(asked.op, Op::Write { .. }) {
            self.done_before.push(asked);
        }
        if self.rest_ms_max > 0 {
            self.rests_until_ms = now_ms + rng.random_range(0..=self.rest_ms_max);
        }
    }

    /// Gives a write that was asked for so long that its request id may be forgotten a new one.
    fn renew(&self, asked: &mut Asked, now_ms: u64, rng: &mut StdRng) {
        if let Op::Write { request: Some(request), .. } = &mut asked.op
            && now_ms >= asked.first_ms + self.ask_ms_max
        {
            *request = RequestId(rng.random::<[u8; 16]>());
            asked.first_ms = now_ms;
        }
    }

    fn draw(&mut self, now_ms: u64, moment: u64, rng: &mut StdRng) -> Asked {
        let kind = rng.random_range(0..100);
        if (25..32).contains(&kind) {
            // A retry whose answer the client has forgotten. Positions of sources are kept for ever.
            let ask_ms_max = self.ask_ms_max;
            self.done_before.retain(|asked| match asked.op {
                Op::Write { request: Some(_), .. } => now_ms < asked.first_ms + ask_ms_max,
                _ => true,
            });
            if !self.done_before.is_empty() {
                return self.done_before[rng.random_range(0..self.done_before.len())].clone();
            }
        }
        Asked { op: self.draw_op(kind, rng), first_ms: now_ms, first_at: moment }
    }

    fn draw_op(&mut self, kind: u32, rng: &mut StdRng) -> Op {
        let key = rng.random_range(0..PARTITION_KEYS);
        let sort_key = format!("{}-{}", self.number, rng.random_range(0..ROWS_PER_CLIENT)).into_bytes();
        let row = Row { partition_key: format!("key {key}").into_bytes(), sort_key };
        match kind {
            0..11 => return Op::Read { row, freshness: Freshness::Linearizable },
            11..15 => return Op::Read { row, freshness: Freshness::OwnWrites },
            15..18 => return Op::Read { row, freshness: Freshness::Eventual },
            18..22 => return Op::List { partition_key: row.partition_key, reverse: kind.is_multiple_of(2) },
            22..25 => return Op::Scan,
            _ => {}
        }
        // A source's retry is told only that it is done, not as which version; so a source only puts.
        let value = (kind >= 45 || kind == 40).then(|| format!("{}:{}", self.number, rng.random::<u32>()).into_bytes());
        let hash = value.as_deref().map(ValueHash::of);
        let change = RowChange { sort_key: row.sort_key.clone(), value };
        let operation = match kind {
            90.. => Operation::ChangeIf {
                change,
                condition: [Condition::Absent, Condition::Present][rng.random_range(0..2)],
            },
            85.. => Operation::Batch(vec![
                RowChange { sort_key: row.sort_key.clone(), value: Some(b"overwritten".to_vec()) },
                change,
            ]),
            _ => Operation::Change(change),
        };
        let (request, source) = if kind.is_multiple_of(10) {
            let next = &mut self.source_next[key as usize];
            *next += 1;
            (None, Some(SourcePosition { source: format!("client {}", self.number), position: *next - 1 }))
        } else {
            (Some(RequestId(rng.random::<[u8; 16]>())), None)
        };
        Op::Write { row, operation, request, source, value: hash }
    }

    fn ask(&mut self, asked: Asked, issued_at: u64, now_ms: u64, router: &RouterHandle) {
        // A fresh cell: what an older question is answered now is not heard.
        self.answer = Arc::default();
        self.question += 1;
        let cell = Arc::clone(&self.answer);
        let deadline_ms = now_ms + PATIENCE_MS;
        match &asked.op {
            Op::Write { row, operation, request, source, .. } => {
                let ask = WriteAsk {
                    keyspace: self.keyspace,
                    partition_key: row.partition_key.clone(),
                    operation: operation.clone(),
                    request: *request,
                    source: source.clone(),
                    deadline_ms,
                };
                router.write(ask, Box::new(move |result| *lock(&cell) = Some(Answer::Wrote(result))));
            }
            Op::Read { row, freshness } => {
                let kind = ReadKind::Get { partition_key: row.partition_key.clone(), sort_key: row.sort_key.clone() };
                let level = match (freshness, self.tokens.get(row)) {
                    (Freshness::Eventual, _) => ReadLevel::Eventual,
                    (Freshness::OwnWrites, Some(&(shard, offset))) => ReadLevel::Token { shard, offset },
                    (Freshness::OwnWrites, None) | (Freshness::Linearizable, _) => ReadLevel::Linearizable,
                };
                let ask = ReadAsk { keyspace: self.keyspace, kind, level, deadline_ms };
                router.read(ask, Box::new(move |result| *lock(&cell) = Some(Answer::Read(result))));
            }
            Op::List { partition_key, reverse } => {
                let (partition_key, reverse) = (partition_key.clone(), *reverse);
                let kind = ReadKind::List { partition_key, from: Vec::new(), to: None, reverse, limit: LIST_LIMIT };
                let ask = ReadAsk { keyspace: self.keyspace, kind, level: ReadLevel::Linearizable, deadline_ms };
                router.read(ask, Box::new(move |result| *lock(&cell) = Some(Answer::Read(result))));
            }
            Op::Scan => {
                let (level, after) = (ReadLevel::Linearizable, self.pages.after.clone());
                let ask = ScanAsk { keyspace: self.keyspace, level, limit: PAGE_ROWS, after, deadline_ms };
                router.scan(ask, Box::new(move |result| *lock(&cell) = Some(Answer::Scanned(result))));
            }
        }
        self.current = Some(Current { asked, issued_at, until_ms: deadline_ms + PATIENCE_MS });
    }

    /// Power is lost: the answer to an open question never comes, and what was read since that moment may have been lost.
    /// Writes stay: whether they were lost is in the log.
    pub fn power_lost(&mut self, now_ms: u64, lost_since: Option<u64>) {
        self.answer = Arc::default();
        if let Some(current) = &mut self.current {
            current.until_ms = now_ms;
        }
        if let Some(since) = lost_since {
            self.history.reads.retain(|read| read.answered_at < since);
            // When these were answered is not kept.
            self.reads.clear();
            self.scans.clear();
            // The pages of a scan that were read before may show what was lost: it starts again.
            self.pages = Pages::default();
        }
    }

    fn wrote(&mut self, asked: &Asked, answer: &WriteAnswer, issued_at: u64, answered_at: u64) {
        let Op::Write { row, request, value, .. } = &asked.op else { return };
        if answer.is_done() {
            self.tokens.insert(row.clone(), (answer.shard, answer.offset));
        }
        let Some(version) = answer.version() else { return };
        self.history.writes.push(WriteAnswered {
            row: Fingerprint::row(&self.placement, &row.partition_key, &row.sort_key),
            request: request.map(|request| Fingerprint::request(&self.placement, &row.partition_key, request)),
            version,
            value: *value,
            issued_at,
            answered_at,
        });
        self.acks.push(Ack {
            placed: self.placement.place(&row.partition_key),
            sort_keys: vec![row.sort_key.clone()],
            version,
            asked: Moment(asked.first_at),
            answered: Moment(answered_at),
        });
    }

    fn saw(&mut self, op: &Op, answer: &ReadAnswer, issued_at: u64, answered_at: u64) {
        let seen: Vec<Seen> = answer.rows.iter().map(seen).collect();
        match op {
            Op::Read { row, freshness } => {
                let found = seen.into_iter().next().map(|(_, version, value)| (version, value));
                // An eventual read may be old: nothing that was answered before it counts.
                let asked = if *freshness == Freshness::Eventual { 0 } else { issued_at };
                if *freshness == Freshness::Linearizable {
                    let found = found.as_ref().map(|(version, value)| (*version, ValueHash::of(value)));
                    let row = Fingerprint::row(&self.placement, &row.partition_key, &row.sort_key);
                    self.history.reads.push(ReadSeen { row, found, issued_at, answered_at });
                }
                self.note_read(row.clone(), found, asked, served_by(answer));
            }
            Op::List { partition_key, .. } => {
                let of_key = self.saw_all(seen, |row| row.partition_key == *partition_key);
                of_key.into_iter().for_each(|(row, found)| self.note_read(row, found, issued_at, served_by(answer)));
            }
            Op::Write { .. } | Op::Scan => {}
        }
    }

    /// Takes a page in, and tells whether it was the last.
    fn turned_page(&mut self, page: ScanAnswer, issued_at: u64) -> bool {
        self.pages.rows.extend(page.rows.iter().map(seen));
        self.pages.covered.extend(page.covered);
        self.pages.after = page.next;
        if self.pages.after.is_some() {
            return false;
        }
        let Pages { rows, covered, .. } = std::mem::take(&mut self.pages);
        for (row, found) in self.saw_all(rows, |_| true) {
            let key = [self.placement.place(&row.partition_key).0, row.sort_key.clone()].concat();
            let at = covered.iter().filter(|(range, ..)| range.contains(&key));
            self.note_read(row, found, issued_at, at.map(|(_, shard, epoch)| (*shard, *epoch)).collect());
        }
        let slots = (0..self.placement.slot_count()).map(SlotId);
        self.scans.push(invariants::Scan { asked: self.placement.selector(slots), covered, missing: page.missing });
        true
    }

    /// Returns what a list or a whole scan showed: each row, and of the client's own rows in it also those that it lacks.
    fn saw_all(&mut self, seen: Vec<Seen>, whether: impl Fn(&Row) -> bool) -> Vec<(Row, Found)> {
        let mut found = BTreeMap::new();
        for (row, version, value) in seen {
            if let Some((before, _)) = found.insert(row.clone(), (version, value)) {
                self.doubled.get_or_insert_with(|| format!("{row:?} is shown twice, as {before} and as {version}"));
            }
        }
        let mine = self.tokens.keys().filter(|row| whether(row));
        let lacking: Vec<Row> = mine.filter(|row| !found.contains_key(row)).cloned().collect();
        let lacking = lacking.into_iter().map(|row| (row, None));
        lacking.chain(found.into_iter().map(|(row, found)| (row, Some(found)))).collect()
    }

    fn note_read(&mut self, row: Row, found: Found, asked: u64, served_by: Vec<(ShardId, Epoch)>) {
        self.reads.push(invariants::Read {
            placed: self.placement.place(&row.partition_key),
            sort_key: row.sort_key,
            asked: Moment(asked),
            found,
            served_by,
        });
    }
}

/// Version and value, of a row that is there.
type Found = Option<(Version, Vec<u8>)>;

/// A row as a list or a scan shows it.
type Seen = (Row, Version, Vec<u8>);

fn seen(row: &rehome_ports::Row) -> Seen {
    let name = Row { partition_key: row.partition_key.clone(), sort_key: row.sort_key.clone() };
    (name, row.version, row.value.clone())
}

/// Who answered a read of one key, and under which epochs: one of each where all is well.
fn served_by(answer: &ReadAnswer) -> Vec<(ShardId, Epoch)> {
    answer.covered.iter().map(|(_, epoch)| (answer.shard, *epoch)).collect()
}
