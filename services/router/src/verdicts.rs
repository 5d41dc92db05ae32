//! The newest verdicts of each shard, for producers that write to the data topic themselves and ask by position.

use rehome_keyspace::{KeyspaceId, Offset, ShardId};
use rehome_ports::{VerdictBatch, VerdictSink};
use rehome_records::Verdict;
use std::collections::BTreeMap;
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
    shards: Arc<Mutex<BTreeMap<(KeyspaceId, ShardId), Shard>>>,
}

#[derive(Default)]
struct Shard {
    kept: BTreeMap<Offset, Verdict>,
    applied: Option<Offset>,
    waiting: BTreeMap<Offset, Vec<ToldDone>>,
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
        let mut shards = self.lock();
        let shard = shards.entry((batch.keyspace, batch.shard)).or_default();
        for (offset, verdict) in &batch.verdicts {
            shard.kept.insert(*offset, verdict.clone());
        }
        while shard.kept.len() > KEPT_MAX {
            shard.kept.pop_first();
        }
        shard.applied = shard.applied.max(Some(batch.applied));
        let later = shard.waiting.split_off(&batch.applied.next());
        let due = std::mem::replace(&mut shard.waiting, later);
        let told = due.into_iter().flat_map(|(offset, waiting)| {
            let told = shard.kept.get(&offset).cloned().map_or(Told::Unknown, Told::Verdict);
            waiting.into_iter().map(move |done| (done, told.clone()))
        });
        let told: Vec<_> = told.collect();
        drop(shards);
        told.into_iter().for_each(|(done, told)| done(told));
    }

    /// Tells the verdict on that position, once it was passed.
    pub fn ask(&self, keyspace: KeyspaceId, shard: ShardId, offset: Offset, done: ToldDone) {
        let mut shards = self.lock();
        let waiting: usize = shards.values().map(|shard| shard.waiting.len()).sum();
        let shard = shards.entry((keyspace, shard)).or_default();
        let told = match shard.kept.get(&offset) {
            Some(verdict) => Told::Verdict(verdict.clone()),
            None if shard.applied.is_some_and(|applied| offset <= applied) => Told::Unknown,
            None if waiting >= WAITING_MAX => Told::Overloaded,
            None => return shard.waiting.entry(offset).or_default().push(done),
        };
        drop(shards);
        done(told);
    }

    /// Forgets questions of which nobody waits for the answer, at or before that position.
    pub fn forget(&self, keyspace: KeyspaceId, shard: ShardId, offset: Offset) {
        if let Some(shard) = self.lock().get_mut(&(keyspace, shard)) {
            shard.waiting.remove(&offset);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(KeyspaceId, ShardId), Shard>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
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
