//! The hash of everything that happened, and what was counted.

use std::fmt;
use xxhash_rust::xxh3::Xxh3;

/// Hash of everything that was drawn and everything that came of it: equal for two runs of one seed.
#[derive(Default)]
pub struct Trace {
    hasher: Xxh3,
}

impl Trace {
    pub fn note(&mut self, what: &str, number: u64) {
        self.hasher.update(what.as_bytes());
        self.hasher.update(&number.to_be_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.hasher.update(&(bytes.len() as u64).to_be_bytes());
        self.hasher.update(bytes);
    }

    pub fn hash(&self) -> u64 {
        self.hasher.digest()
    }
}

/// What a run saw. All seeds together must have seen every kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub steps: u64,
    pub acks: u64,
    pub reads: u64,
    pub lists: u64,
    pub scans: u64,
    pub retries: u64,
    pub crashes: u64,
    pub freezes: u64,
    pub jobs_cut: u64,
    pub append_faults: u64,
    pub damaged: u64,
    pub cutovers: u64,
    pub aborts: u64,
    pub cancels: u64,
    pub pauses: u64,
    pub resumes: u64,
    pub drops: u64,
    pub jobs: u64,
    pub copies_again: u64,
    /// `Horizon` marks in data partitions.
    pub horizons: u64,
    /// Of those, the ones after which a move was started.
    pub horizons_before_moves: u64,
    pub power_losses: u64,
    /// Records that power losses took.
    pub records_lost: u64,
    /// Acknowledged writes among them.
    pub acks_lost: u64,
    /// States of replicas at positions at which an earlier life had been seen.
    pub states_compared: u64,
    /// Records of inboxes that were accepted; copies of them that were not; takeovers by other forwarders.
    pub inbox_accepted: u64,
    pub inbox_copies: u64,
    pub inbox_takeovers: u64,
    /// Records in topics of rejects, doubled ones included.
    pub rejects: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        for (mine, theirs) in self.fields().into_iter().zip(other.clone().fields()) {
            *mine.1 += *theirs.1;
        }
    }

    pub fn note_read(&mut self, is_list: bool) {
        *(if is_list { &mut self.lists } else { &mut self.reads }) += 1;
    }

    fn fields(&mut self) -> impl IntoIterator<Item = (&'static str, &mut u64)> {
        [
            ("steps", &mut self.steps),
            ("acks", &mut self.acks),
            ("reads", &mut self.reads),
            ("lists", &mut self.lists),
            ("scans", &mut self.scans),
            ("retries", &mut self.retries),
            ("crashes", &mut self.crashes),
            ("freezes", &mut self.freezes),
            ("jobs done in part", &mut self.jobs_cut),
            ("append faults", &mut self.append_faults),
            ("damaged snapshots", &mut self.damaged),
            ("cutovers", &mut self.cutovers),
            ("aborts", &mut self.aborts),
            ("cancels", &mut self.cancels),
            ("pauses", &mut self.pauses),
            ("resumes", &mut self.resumes),
            ("drops", &mut self.drops),
            ("jobs", &mut self.jobs),
            ("copies taken again", &mut self.copies_again),
            ("horizons", &mut self.horizons),
            ("horizons before moves", &mut self.horizons_before_moves),
            ("power losses", &mut self.power_losses),
            ("records lost", &mut self.records_lost),
            ("acknowledged writes lost", &mut self.acks_lost),
            ("states compared", &mut self.states_compared),
            ("inbox records accepted", &mut self.inbox_accepted),
            ("copies of inbox records", &mut self.inbox_copies),
            ("inboxes taken over", &mut self.inbox_takeovers),
            ("rejects", &mut self.rejects),
        ]
    }

    /// Returns the kinds of event that never happened.
    pub fn missing(&self) -> Vec<&'static str> {
        self.clone().fields().into_iter().filter(|(_, count)| **count == 0).map(|(name, _)| name).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = *self;
        let parts: Vec<String> = counts.fields().into_iter().map(|(name, count)| format!("{count} {name}")).collect();
        f.write_str(&parts.join(", "))
    }
}
