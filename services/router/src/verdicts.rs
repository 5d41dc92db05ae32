//! The newest verdicts of each shard, for producers that write to the data topic themselves and ask by position.

use rehome_keyspace::{KeyspaceId, Offset, ShardId};
use rehome_ports::{VerdictBatch, VerdictSink};
use rehome_records::Verdict;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Verdicts that are kept of each shard. Reason: seconds of a busy shard, which is when a producer asks.
const KEPT_MAX: usize = 1 << 16;
/// Questions that wait at once.
const WAITING_MAX: usize = 10_000;

/// What is told of a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Verdict(Verdict),
    /// It was passed, and its verdict is not known here: it is too old, was told before this process started, or there is
    /// no write at that position. Whoever needs to know sends the write again under its request id.
    Unknown,
    /// Too many questions wait.
    Overloaded,
}

pub type ToldDone = Box<dyn FnOnce(Told) + Send>;

/// Verdicts by position. Clones are the same.
#[derive(Clone, Default)]
pub struct Verdicts {
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    shards: BTreeMap<(KeyspaceId, ShardId), Shard>,
    /// Questions so far.
    asked: u64,
}

/// Names one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    keyspace: KeyspaceId,
    shard: ShardId,
    offset: Offset,
    number: u64,
}

#[derive(Default)]
struct Shard {
    /// By offset, ascending.
    kept: VecDeque<(Offset, Verdict)>,
    applied: Option<Offset>,
    /// By position, then in the order in which they were asked.
    waiting: BTreeMap<(Offset, u64), ToldDone>,
}

impl Shard {
    /// Verdicts come in the order of offsets, but for those that another replica tells late or again.
    fn keep(&mut self, offset: Offset, verdict: Verdict) {
        match self.kept.back() {
            Some((newest, _)) if *newest >= offset => match self.find(offset) {
                Ok(at) => self.kept[at].1 = verdict,
                Err(at) => self.kept.insert(at, (offset, verdict)),
            },
            _ => self.kept.push_back((offset, verdict)),
        }
    }

    fn find(&self, offset: Offset) -> Result<usize, usize> {
        self.kept.binary_search_by_key(&offset, |(kept, _)| *kept)
    }

    fn get(&self, offset: Offset) -> Option<Verdict> {
        self.find(offset).ok().map(|at| self.kept[at].1.clone())
    }
}

impl Verdicts {
    /// Returns where replicas tell their verdicts; each goes on to `next`.
    pub fn sink(&self, next: VerdictSink) -> VerdictSink {
        let verdicts = self.clone();
        Arc::new(move |batch| {
            verdicts.note(&batch);
            next(batch);
        })
    }

    fn note(&self, batch: &VerdictBatch) {
        let mut known = self.lock();
        let shard = known.shards.entry((batch.keyspace, batch.shard)).or_default();
        for (offset, verdict) in &batch.verdicts {
            shard.keep(*offset, verdict.clone());
        }
        while shard.kept.len() > KEPT_MAX {
            shard.kept.pop_front();
        }
        shard.applied = shard.applied.max(Some(batch.applied));
        let later = shard.waiting.split_off(&(batch.applied.next(), 0));
        let due = std::mem::replace(&mut shard.waiting, later).into_iter();
        let told = due.map(|((offset, _), done)| (done, shard.get(offset).map_or(Told::Unknown, Told::Verdict)));
        let told: Vec<_> = told.collect();
        drop(known);
        told.into_iter().for_each(|(done, told)| done(told));
    }

    /// Tells the verdict on that position, once it was passed.
    pub fn ask(&self, keyspace: KeyspaceId, shard: ShardId, offset: Offset, done: ToldDone) -> Question {
        let mut known = self.lock();
        let question = Question { keyspace, shard, offset, number: known.asked };
        known.asked += 1;
        let waiting: usize = known.shards.values().map(|shard| shard.waiting.len()).sum();
        let shard = known.shards.entry((keyspace, shard)).or_default();
        let told = match shard.get(offset) {
            Some(verdict) => Told::Verdict(verdict),
            None if shard.applied.is_some_and(|applied| offset <= applied) => Told::Unknown,
            None if waiting >= WAITING_MAX => Told::Overloaded,
            None => {
                shard.waiting.insert((offset, question.number), done);
                return question;
            }
        };
        drop(known);
        done(told);
        question
    }

    /// Forgets the shards of keyspaces that are gone. Whoever waits for a verdict there is told that it is not known.
    pub fn keep(&self, exists: impl Fn(KeyspaceId) -> bool) {
        let mut known = self.lock();
        let gone = known.shards.extract_if(.., |(keyspace, _), _| !exists(*keyspace));
        let waiting: Vec<ToldDone> = gone.flat_map(|(_, shard)| shard.waiting.into_values()).collect();
        drop(known);
        waiting.into_iter().for_each(|done| done(Told::Unknown));
    }

    /// Forgets a question of which nobody waits for the answer; others of the same position stay.
    pub fn forget(&self, question: Question) {
        if let Some(shard) = self.lock().shards.get_mut(&(question.keyspace, question.shard)) {
            shard.waiting.remove(&(question.offset, question.number));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehome_keyspace::{Epoch, Version};
    use std::sync::mpsc;

    const KEYSPACE: KeyspaceId = KeyspaceId(1);
    const SHARD: ShardId = ShardId(2);

    fn ask(verdicts: &Verdicts, offset: u64) -> mpsc::Receiver<Told> {
        let (tell, told) = mpsc::channel();
        verdicts.ask(KEYSPACE, SHARD, Offset(offset), Box::new(move |answer| drop(tell.send(answer))));
        told
    }

    #[test]
    fn a_position_is_answered_once_it_was_passed() {
        let verdicts = Verdicts::default();
        let sink = verdicts.sink(Arc::new(drop));
        let accepted = Verdict::Accepted { version: Version { epoch: Epoch(1), offset: Offset(7) } };
        let (seven, eight, nine) = (ask(&verdicts, 7), ask(&verdicts, 8), ask(&verdicts, 9));
        let told = vec![(Offset(7), accepted.clone())];
        sink(VerdictBatch { keyspace: KEYSPACE, shard: SHARD, verdicts: told, applied: Offset(8) });
        assert_eq!(seven.try_recv(), Ok(Told::Verdict(accepted.clone())));
        assert_eq!(eight.try_recv(), Ok(Told::Unknown), "there is no write at that position");
        assert!(nine.try_recv().is_err(), "it was not passed");
        assert_eq!(ask(&verdicts, 7).try_recv(), Ok(Told::Verdict(accepted)));
        let told = vec![(Offset(9), Verdict::StaleRoute)];
        sink(VerdictBatch { keyspace: KEYSPACE, shard: SHARD, verdicts: told, applied: Offset(9) });
        assert_eq!(nine.try_recv(), Ok(Told::Verdict(Verdict::StaleRoute)));
    }

    #[test]
    fn a_question_that_is_forgotten_takes_no_other_of_its_position_along() {
        let verdicts = Verdicts::default();
        let (tell, first) = mpsc::channel();
        let question = verdicts.ask(KEYSPACE, SHARD, Offset(7), Box::new(move |told| drop(tell.send(told))));
        let second = ask(&verdicts, 7);
        verdicts.forget(question);
        let told = vec![(Offset(7), Verdict::StaleRoute)];
        let batch = VerdictBatch { keyspace: KEYSPACE, shard: SHARD, verdicts: told, applied: Offset(7) };
        verdicts.sink(Arc::new(drop))(batch);
        assert_eq!(second.try_recv(), Ok(Told::Verdict(Verdict::StaleRoute)));
        assert!(first.try_recv().is_err());
    }

    #[test]
    fn verdicts_go_with_their_keyspace_and_who_waits_is_told() {
        let verdicts = Verdicts::default();
        let told = vec![(Offset(7), Verdict::StaleRoute)];
        let batch = VerdictBatch { keyspace: KEYSPACE, shard: SHARD, verdicts: told, applied: Offset(7) };
        verdicts.sink(Arc::new(drop))(batch);
        let waiting = ask(&verdicts, 8);
        verdicts.keep(|keyspace| keyspace == KEYSPACE);
        assert_eq!(ask(&verdicts, 7).try_recv(), Ok(Told::Verdict(Verdict::StaleRoute)));
        assert!(waiting.try_recv().is_err(), "it is not known yet");
        verdicts.keep(|_| false);
        assert_eq!(waiting.try_recv(), Ok(Told::Unknown));
        assert!(verdicts.lock().shards.is_empty());
    }

    #[test]
    fn a_verdict_that_is_told_late_or_again_is_known_as_well() {
        let verdicts = Verdicts::default();
        let sink = verdicts.sink(Arc::new(drop));
        let accepted = |offset| Verdict::Accepted { version: Version { epoch: Epoch(1), offset: Offset(offset) } };
        for offsets in [[4, 9], [5, 7], [7, 9]] {
            let told = offsets.map(|offset| (Offset(offset), accepted(offset))).to_vec();
            sink(VerdictBatch { keyspace: KEYSPACE, shard: SHARD, verdicts: told, applied: Offset(offsets[1]) });
        }
        for offset in [4, 5, 7, 9] {
            assert_eq!(ask(&verdicts, offset).try_recv(), Ok(Told::Verdict(accepted(offset))), "{offset}");
        }
        assert_eq!(ask(&verdicts, 6).try_recv(), Ok(Told::Unknown));
    }

    #[test]
    fn old_verdicts_are_forgotten_and_new_questions_are_not_kept_without_end() {
        let verdicts = Verdicts::default();
        let sink = verdicts.sink(Arc::new(drop));
        let count = KEPT_MAX as u64 + 1;
        let told = (0..count).map(|offset| (Offset(offset), Verdict::StaleRoute)).collect();
        sink(VerdictBatch { keyspace: KEYSPACE, shard: SHARD, verdicts: told, applied: Offset(count) });
        assert_eq!(ask(&verdicts, 0).try_recv(), Ok(Told::Unknown));
        assert_eq!(ask(&verdicts, 1).try_recv(), Ok(Told::Verdict(Verdict::StaleRoute)));
        let waiting: Vec<_> = (0..WAITING_MAX as u64).map(|more| ask(&verdicts, count + 1 + more)).collect();
        assert!(waiting.iter().all(|one| one.try_recv().is_err()));
        assert_eq!(ask(&verdicts, 1 << 40).try_recv(), Ok(Told::Overloaded));
    }
}
