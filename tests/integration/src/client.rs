//! A client that asks until it is answered, and knows what every answer must be.
//!
//! Most rows are its own: nobody else writes them, and it asks one thing at a time, so it knows each of them exactly.
//! A few are shared by all clients: what became of those is for the comparison to judge.

use crate::bench::KEYSPACE;
use crate::endpoint::Endpoint;
use crate::http::{Answer, Http};
use crate::memory::{Fact, Memory, RowName, ticks, version};
use anyhow::{Context, bail, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rehome_keyspace::{RequestId, Version};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Rows that belong to one client.
const ROWS_OWN: u32 = 150;
/// Rows that all clients write.
const ROWS_SHARED: u32 = 30;
/// Partition keys over which all rows are spread.
const PARTITION_KEYS: u32 = 120;
/// Requests that may be sent again on purpose.
const REMEMBERED: usize = 8;
/// Longest time without an answer. Reason: longer than any start, hold or abort in these tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client with its memory. A clone goes on by itself, on a copy of the folder.
#[derive(Clone, Debug)]
pub struct Client {
    number: u32,
    random: SmallRng,
    requests: u64,
    pub memory: Memory,
    recent: VecDeque<(Request, Judged)>,
}

/// A write as it is sent, however often.
#[derive(Clone, Debug)]
struct Request {
    id: RequestId,
    name: RowName,
    /// Nothing: delete.
    value: Option<String>,
    condition: Option<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Absent,
    Present,
    Is(Version),
}

/// The verdict on a write: accepted as a version, or refused because of the version that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    Accepted(Version),
    ConditionFailed(Option<Version>),
}

impl Client {
    pub fn new(number: u32, seed: u64) -> Client {
        let random = SmallRng::seed_from_u64(seed ^ (u64::from(number) << 32));
        Client { number, random, requests: 0, memory: Memory::default(), recent: VecDeque::new() }
    }

    /// Writes every row of its own once.
    pub fn fill(&mut self, http: &Http, endpoint: &Endpoint) -> anyhow::Result<()> {
        (0..ROWS_OWN).try_for_each(|row| {
            let (name, value) = (self.own(row), Some(self.new_value()));
            self.write(http, endpoint, name, value, None)
        })
    }

    /// Does one thing, until it is answered.
    pub fn act(&mut self, http: &Http, endpoint: &Endpoint) -> anyhow::Result<()> {
        let own = self.random.random_range(0..ROWS_OWN);
        let own = self.own(own);
        let shared = self.random.random_range(0..ROWS_SHARED);
        let shared = (format!("key-{shared}"), format!("shared-{shared}"));
        let value = Some(self.new_value());
        match self.random.random_range(0..100) {
            0..30 => self.write(http, endpoint, own, value, None),
            30..42 => self.write(http, endpoint, own, None, None),
            42..52 => self.write(http, endpoint, shared, value, None),
            52..56 => self.write(http, endpoint, shared, None, None),
            56..68 => {
                let value = value.filter(|_| self.random.random_ratio(2, 3));
                let condition = self.some_condition(&own, value.is_none());
                self.write(http, endpoint, own, value, Some(condition))
            }
            68..76 => self.send_again(http, endpoint),
            76..90 => self.read_own(http, endpoint, &own),
            90..97 => self.read(http, endpoint, &shared).map(drop),
            _ => self.scan(http, endpoint),
        }
    }

    fn own(&self, row: u32) -> RowName {
        (format!("key-{}", (row * 7 + self.number * 31) % PARTITION_KEYS), format!("own-{}-{row}", self.number))
    }

    fn new_value(&mut self) -> String {
        format!("value {} of client {}, {:08x}", self.requests, self.number, self.random.random::<u32>())
    }

    /// Returns a condition that may hold or not; which, the client knows. No delete is of what is absent.
    fn some_condition(&mut self, name: &RowName, is_delete: bool) -> Condition {
        let newest = self.memory.rows.get(name).map(|fact| fact.version);
        match (self.random.random_range(0..4), newest) {
            (0, _) if !is_delete => Condition::Absent,
            (0 | 1, _) | (_, None) => Condition::Present,
            (_, Some(newest)) => Condition::Is(newest),
        }
    }

    fn write(
        &mut self,
        http: &Http,
        endpoint: &Endpoint,
        name: RowName,
        value: Option<String>,
        condition: Option<Condition>,
    ) -> anyhow::Result<()> {
        self.requests += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&u64::from(self.number).to_be_bytes());
        id[8..].copy_from_slice(&self.requests.to_be_bytes());
        let request = Request { id: RequestId(id), name, value, condition };
        let expected = self.expected(&request);
        let issued_at = ticks();
        let judged = self.send(http, endpoint, &request)?;
        match (expected, judged) {
            (Some(Expected::Accepted) | None, Judged::Accepted(_)) => {}
            (Some(Expected::Failed(found)), Judged::ConditionFailed(told)) if found == told => {}
            _ => bail!("{request:?}: expected {expected:?}, answered {judged:?}"),
        }
        self.remember(&request, judged, issued_at);
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((request, judged));
        Ok(())
    }

    /// Returns what must come of the request; nothing for a row that others write too.
    fn expected(&self, request: &Request) -> Option<Expected> {
        let Some(condition) = request.condition else { return Some(Expected::Accepted) };
        let known = self.memory.rows.get(&request.name);
        let found = known.filter(|fact| fact.value.is_some()).map(|fact| fact.version);
        let holds = match condition {
            Condition::Absent => found.is_none(),
            Condition::Present => found.is_some(),
            Condition::Is(version) => found == Some(version),
        };
        Some(if holds { Expected::Accepted } else { Expected::Failed(found) })
    }

    /// Sends a request that was answered before; the answer must be the same.
    fn send_again(&mut self, http: &Http, endpoint: &Endpoint) -> anyhow::Result<()> {
        let Some(last) = self.recent.len().checked_sub(1) else { return Ok(()) };
        let chosen = self.random.random_range(0..=last);
        let (request, first) = self.recent[chosen].clone();
        let issued_at = ticks();
        let judged = self.send(http, endpoint, &request)?;
        ensure!(judged == first, "{request:?}: answered {first:?} at first, and {judged:?} again");
        self.memory.counts.resent += 1;
        if let Judged::Accepted(version) = judged {
            let fact = Fact { version, value: request.value.clone() };
            self.memory.wrote(&request.name, request.id, fact, issued_at);
        }
        Ok(())
    }

    fn remember(&mut self, request: &Request, judged: Judged, issued_at: u64) {
        let counts = &mut self.memory.counts;
        match judged {
            Judged::ConditionFailed(_) => counts.conditions_failed += 1,
            Judged::Accepted(version) => {
                *(if request.value.is_some() { &mut counts.puts } else { &mut counts.deletes }) += 1;
                let fact = Fact { version, value: request.value.clone() };
                self.memory.wrote(&request.name, request.id, fact, issued_at);
            }
        }
    }

    fn send(&mut self, http: &Http, endpoint: &Endpoint, request: &Request) -> anyhow::Result<Judged> {
        let path = format!("/v1/keyspaces/{KEYSPACE}/rows");
        let id: String = request.id.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let condition = request.condition.map(|condition| condition.to_string());
        let (key, sort) = (request.name.0.as_str(), request.name.1.as_str());
        let (answer, _) = self.ask(endpoint, |server| match &request.value {
            Some(value) => {
                let mut body = json!({ "key": key, "sort": sort, "value": value, "request": id });
                if let Some(condition) = &condition {
                    body["if"] = json!(condition);
                }
                http.post(server, &path, &body)
            }
            None => {
                let mut query = vec![("key", key), ("sort", sort), ("request", id.as_str())];
                query.extend(condition.as_deref().map(|condition| ("if", condition)));
                http.delete(server, &path, &query)
            }
        })?;
        let found = answer["version"].as_str().map(version).transpose()?;
        match (answer["verdict"].as_str(), found) {
            (Some("accepted"), Some(version)) => Ok(Judged::Accepted(version)),
            (Some("condition_failed"), found) => Ok(Judged::ConditionFailed(found)),
            _ => bail!("{request:?} was answered {answer}"),
        }
    }

    fn read_own(&mut self, http: &Http, endpoint: &Endpoint, name: &RowName) -> anyhow::Result<()> {
        let found = self.read(http, endpoint, name)?;
        let known = self.memory.rows.get(name).filter(|fact| fact.value.is_some());
        ensure!(found.as_ref() == known, "{name:?}: read {found:?}, and {known:?} was acknowledged last");
        Ok(())
    }

    /// Reads one row at the linearizable level.
    pub fn read(&mut self, http: &Http, endpoint: &Endpoint, name: &RowName) -> anyhow::Result<Option<Fact>> {
        let path = format!("/v1/keyspaces/{KEYSPACE}/rows");
        let query = [("key", name.0.as_str()), ("sort", name.1.as_str())];
        let (answer, issued_at) = self.ask(endpoint, |server| http.get(server, &path, &query))?;
        let found = answer["rows"].as_array().context("no rows")?.first().map(fact).transpose()?;
        self.memory.read(name, found.as_ref(), issued_at);
        Ok(found)
    }

    /// Reads a page of all rows; each of its own rows on it must be one that it wrote.
    fn scan(&mut self, http: &Http, endpoint: &Endpoint) -> anyhow::Result<()> {
        let path = format!("/v1/keyspaces/{KEYSPACE}/scan");
        let (answer, _) = self.ask(endpoint, |server| http.get(server, &path, &[("limit", "200")]))?;
        self.memory.counts.scans += 1;
        let mine = format!("own-{}-", self.number);
        for row in answer["rows"].as_array().context("no rows")? {
            let name = row_name(row)?;
            if name.1.starts_with(&mine) {
                let (found, known) = (fact(row)?, self.memory.rows.get(&name));
                ensure!(Some(&found) == known, "{name:?}: scanned {found:?}, and {known:?} was acknowledged last");
            }
        }
        Ok(())
    }

    /// Asks until there is an answer, whatever happens to the process meanwhile; returns it, and when the question was
    /// put the last time.
    fn ask(
        &mut self,
        endpoint: &Endpoint,
        put: impl Fn(&str) -> anyhow::Result<Answer>,
    ) -> anyhow::Result<(Value, u64)> {
        let deadline = Instant::now() + PATIENCE;
        let mut last: Option<String> = None;
        let mut failed = String::new();
        loop {
            let Some(server) = endpoint.next(last.as_deref(), deadline).filter(|_| Instant::now() < deadline) else {
                bail!("no answer within {PATIENCE:?}; the last try said: {failed}");
            };
            self.memory.counts.retries += u64::from(last.is_some());
            let issued_at = ticks();
            match put(&server) {
                Ok(answer) if answer.is_passing() => failed = format!("{answer:?}"),
                Ok(answer) => return Ok((answer.judged()?, issued_at)),
                Err(error) => failed = format!("{error:#}"),
            }
            last = Some(server);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Accepted,
    Failed(Option<Version>),
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Condition::Absent => f.write_str("absent"),
            Condition::Present => f.write_str("present"),
            Condition::Is(version) => write!(f, "{version}"),
        }
    }
}

/// Reads a row's keys as the API shows them.
pub fn row_name(row: &Value) -> anyhow::Result<RowName> {
    let text = |field: &str| row[field].as_str().map(str::to_owned).with_context(|| format!("{row} has no {field}"));
    Ok((text("key")?, text("sort")?))
}

/// Reads a row's version and value as the API shows them.
pub fn fact(row: &Value) -> anyhow::Result<Fact> {
    let text = |field: &str| row[field].as_str().with_context(|| format!("{row} has no {field}"));
    Ok(Fact { version: version(text("version")?)?, value: Some(text("value")?.to_owned()) })
}
