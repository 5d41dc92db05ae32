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
use rehome_keyspace::{KeyspaceId, Placement, RequestId, Version};
use rehome_oracle::history::{ReadSeen, WriteAnswered};
use rehome_oracle::{ClientHistory, Fingerprint, ValueHash};
use rehome_ports::{ReadAnswer, ReadKind, ReadLevel};
use rehome_records::{Condition, FirstAnswer, Operation, RowChange, SourcePosition, Verdict};
use rehome_router::{ReadAsk, Refused, RouterHandle, WriteAnswer, WriteAsk};
use std::sync::{Arc, Mutex};

const PARTITION_KEYS: u32 = 12;
const ROWS_PER_CLIENT: u32 = 6;
/// How long a client waits for a router, in milliseconds; then it asks again.
const PATIENCE_MS: u64 = 3_000;

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
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    partition_key: Vec<u8>,
    sort_key: Vec<u8>,
}

enum Answer {
    Wrote(Result<WriteAnswer, Refused>),
    Read(Result<ReadAnswer, Refused>),
}

/// An op, and when it was first asked for under its request id.
#[derive(Clone, Debug)]
struct Asked {
    op: Op,
    first_ms: u64,
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
    pub history: ClientHistory,
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
            history: ClientHistory::new(),
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
            let asked = self.draw(now_ms, rng);
            return self.ask(asked, moment, now_ms, router);
        };
        let answer = lock(&self.answer).take();
        let again = match answer {
            Some(Answer::Wrote(Ok(answer))) => {
                trace.bytes(format!("{answer:?}").as_bytes());
                counts.acks += 1;
                self.wrote(&asked.op, &answer, issued_at, moment);
                false
            }
            Some(Answer::Read(Ok(answer))) => {
                counts.reads += 1;
                self.saw(&asked.op, &answer, issued_at, moment);
                false
            }
            Some(Answer::Wrote(Err(_)) | Answer::Read(Err(_))) => true,
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

    fn draw(&mut self, now_ms: u64, rng: &mut StdRng) -> Asked {
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
        Asked { op: self.draw_op(kind, rng), first_ms: now_ms }
    }

    fn draw_op(&mut self, kind: u32, rng: &mut StdRng) -> Op {
        let key = rng.random_range(0..PARTITION_KEYS);
        let sort_key = format!("{}-{}", self.number, rng.random_range(0..ROWS_PER_CLIENT)).into_bytes();
        let row = Row { partition_key: format!("key {key}").into_bytes(), sort_key };
        if kind < 25 {
            return Op::Read { row };
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
            Op::Read { row } => {
                let kind = ReadKind::Get { partition_key: row.partition_key.clone(), sort_key: row.sort_key.clone() };
                let ask = ReadAsk { keyspace: self.keyspace, kind, level: ReadLevel::Linearizable, deadline_ms };
                router.read(ask, Box::new(move |result| *lock(&cell) = Some(Answer::Read(result))));
            }
        }
        self.current = Some(Current { asked, issued_at, until_ms: deadline_ms + PATIENCE_MS });
    }

    fn wrote(&mut self, op: &Op, answer: &WriteAnswer, issued_at: u64, answered_at: u64) {
        let Op::Write { row, request, value, .. } = op else { return };
        let version = match answer.verdict {
            Verdict::Accepted { version } | Verdict::Repeated { first: FirstAnswer::Accepted { version } } => version,
            _ => return,
        };
        self.history.writes.push(WriteAnswered {
            row: Fingerprint::row(&self.placement, &row.partition_key, &row.sort_key),
            request: request.map(|request| Fingerprint::request(&self.placement, &row.partition_key, request)),
            version,
            value: *value,
            issued_at,
            answered_at,
        });
    }

    fn saw(&mut self, op: &Op, answer: &ReadAnswer, issued_at: u64, answered_at: u64) {
        let Op::Read { row } = op else { return };
        let found: Option<(Version, ValueHash)> =
            answer.rows.first().map(|row| (row.version, ValueHash::of(&row.value)));
        let row = Fingerprint::row(&self.placement, &row.partition_key, &row.sort_key);
        self.history.reads.push(ReadSeen { row, found, issued_at, answered_at });
    }
}
