//! What controllers and nodes do about moves.

use super::{Sim, pick};
use crate::world::{KEYS, World, forged_nonce};
use rehome_invariants as seen;
use rehome_keyspace::{AttemptId, MoveId, Offset, Outcome, ShardId, Side};
use rehome_records::Mark;

impl Sim {
    pub(super) fn start_move(&mut self, key: usize, more: &[bool; 8], destination: u32) {
        let source = self.world.routes[key].0;
        let open: Vec<usize> =
            self.world.moves.values().filter(|a_move| !a_move.ended).flat_map(|a_move| a_move.keys.clone()).collect();
        let wanted = (0..KEYS).filter(|other| *other == key || *more.get(*other).unwrap_or(&false));
        let keys: Vec<usize> =
            wanted.filter(|key| self.world.routes[*key].0 == source && !open.contains(key)).collect();
        if !keys.is_empty() && source.0 != destination {
            self.world.start_move(source.0, destination, &keys);
        }
    }

    pub(super) fn export(&mut self, index: usize) {
        let shard = self.replicas[index].shard;
        let moves: Vec<MoveId> = {
            let open = |move_id: &MoveId| {
                let a_move = &self.world.moves[move_id];
                a_move.source == shard && !a_move.switched && !a_move.cancelled
            };
            self.world.moves.keys().copied().filter(open).collect()
        };
        for move_id in moves {
            if let Some(copy) = self.replicas[index].export(&self.world, move_id) {
                self.world.moves.get_mut(&move_id).expect("listed").copy = Some(copy);
            }
        }
    }

    /// Ingests every copy that a replica lacks.
    pub(super) fn ingest(&mut self, index: usize) -> bool {
        let mut any = false;
        for (move_id, a_move) in &self.world.moves {
            let replica = &mut self.replicas[index];
            let Some(copy) = a_move.copy.as_ref().filter(|_| a_move.destination == replica.shard) else { continue };
            let replayed = replica.core.inbound(*move_id).is_some_and(|inbound| inbound.replay.is_some());
            let newest = a_move.attempts.last().map(|attempt| self.world.control.facts(*attempt));
            let passed = a_move.switched && newest.is_some_and(|facts| replica.core.passed(&facts));
            let attempts = self.world.control.seen(replica.folded);
            let may = replica.core.may_ingest(*move_id, &a_move.selector, &attempts);
            if may && !replayed && !passed && !a_move.cancelled {
                replica.ingest(&self.world, copy);
                any = true;
            }
        }
        any
    }

    pub(super) fn start_attempt(&mut self, number: u16) {
        let ready = |(move_id, a_move): &(&MoveId, &crate::world::Move)| {
            let copied = a_move.copy.is_some() && !a_move.switched && !a_move.cancelled;
            copied && self.world.undecided(**move_id).is_none()
        };
        let moves: Vec<MoveId> = self.world.moves.iter().filter(ready).map(|(move_id, _)| *move_id).collect();
        if let Some(move_id) = pick(number, moves) {
            self.world.start_attempt(move_id);
        }
    }

    /// Appends a mark of any attempt, for the first time or again.
    pub(super) fn mark(&mut self, number: u16, append: impl FnOnce(&mut World, AttemptId) -> Offset) {
        let attempts: Vec<AttemptId> = self.world.control.all().map(|facts| facts.attempt).collect();
        if let Some(attempt) = pick(number, attempts) {
            append(&mut self.world, attempt);
        }
    }

    pub(super) fn forge(&mut self, number: u16, shard: u32, how: u8, open: bool) {
        let attempts: Vec<AttemptId> = self.world.control.all().map(|facts| facts.attempt).collect();
        let Some(attempt) = pick(number, attempts) else { return };
        let mut mark = self.world.mark(attempt);
        match how {
            0 => mark = forged_nonce(mark),
            1 => mark.selector = self.world.selector(&[usize::from(number) % KEYS]),
            2 => mark.epoch.0 += 1,
            // An attempt that is not started yet, or never.
            3 => mark.attempt.0 += 1 + u64::from(number % 3),
            4 => {
                mark.attempt.0 += 90;
                mark.control_offset = Offset(u64::MAX - u64::from(number));
            }
            _ => mark.control_offset.0 += 1,
        }
        let partition = if how == 1 { self.world.control.facts(attempt).source } else { ShardId(shard) };
        if mark == self.world.mark(attempt) {
            return;
        }
        let mark = if open { Mark::Open(mark) } else { Mark::Fence(mark) };
        self.world.append(partition, mark.into_record(), 0);
    }

    /// Takes what a replica has to report, and switches whatever is complete by that.
    pub(super) fn ready(&mut self, index: usize) {
        for attempt in self.undecided() {
            let Some(ready) = self.replicas[index].ready(&self.world, attempt) else { continue };
            assert_eq!(Some(ready.fence), self.world.fenced_at(attempt), "the first fence is F");
            let readies = self.readies.entry(attempt).or_default();
            match ready.side {
                Side::Source => readies.0 = Some(ready),
                Side::Destination => readies.1.push(ready),
            }
            if let (Some(source), [_, ..]) = (readies.0, readies.1.as_slice()) {
                let destinations = readies.1.iter().map(|ready| ready.digest).collect();
                self.history.cutovers.push(seen::Cutover { attempt, source: Some(source.digest), destinations });
                self.world.switch(attempt);
                self.grant(attempt);
            }
        }
    }

    pub(super) fn abort(&mut self, number: u16) {
        if let Some(attempt) = pick(number, self.undecided()) {
            self.world.abort(attempt);
            self.grant(attempt);
        }
    }

    fn undecided(&self) -> Vec<AttemptId> {
        self.world.moves.keys().filter_map(|move_id| self.world.undecided(*move_id)).collect()
    }

    fn grant(&mut self, attempt: AttemptId) {
        let facts = self.world.control.facts(attempt);
        let shard = match facts.outcome.expect("just decided") {
            Outcome::Switched { .. } => facts.destination,
            Outcome::Aborted { .. } => facts.source,
        };
        self.history.grants.push(seen::Grant { epoch: facts.epoch, shard, selector: (*facts.selector).clone() });
    }

    pub(super) fn cancel(&mut self, number: u16) {
        let may = |move_id: &MoveId| {
            let a_move = &self.world.moves[move_id];
            !a_move.switched && !a_move.ended && self.world.undecided(*move_id).is_none()
        };
        let moves: Vec<MoveId> = self.world.moves.keys().copied().filter(may).collect();
        if let Some(move_id) = pick(number, moves) {
            self.world.moves.get_mut(&move_id).expect("listed").cancelled = true;
        }
    }

    /// Drops what a switched move left at its source, or a cancelled one at its destination; a move has ended once
    /// every replica has done its part.
    pub(super) fn clean_up(&mut self, index: usize) {
        let world = &self.world;
        let replica = &mut self.replicas[index];
        for (move_id, a_move) in world.moves.iter().filter(|(_, a_move)| !a_move.ended) {
            let (source, destination) = (a_move.source == replica.shard, a_move.destination == replica.shard);
            let newest = a_move.attempts.last().map(|attempt| world.control.facts(*attempt));
            let passed = newest.as_ref().is_none_or(|facts| replica.core.passed(facts));
            if a_move.switched && source && passed && replica.core.all_closed(&a_move.selector)
                || a_move.cancelled && destination && replica.core.all_closed(&a_move.selector)
            {
                replica.forget(world, *move_id);
                replica.wipe(&a_move.selector);
                self.cleaned.insert((*move_id, index));
            } else if a_move.switched && destination && passed || a_move.cancelled && source {
                replica.forget(world, *move_id);
                self.cleaned.insert((*move_id, index));
            }
        }
        for (move_id, a_move) in &mut self.world.moves {
            let mut theirs = (0..Sim::REPLICAS)
                .filter(|index| [a_move.source, a_move.destination].contains(&self.replicas[*index].shard));
            a_move.ended |= theirs.all(|index| self.cleaned.contains(&(*move_id, index)));
        }
    }

    /// Brings one move on as far as it goes: up to the fence, or to its end.
    pub(super) fn hurry(&mut self, number: u16, finish: bool) {
        let open = |(_, a_move): &(&MoveId, &crate::world::Move)| !a_move.ended && !a_move.cancelled;
        let moves: Vec<MoveId> = self.world.moves.iter().filter(open).map(|(move_id, _)| *move_id).collect();
        let Some(move_id) = pick(number, moves) else { return };
        let concerned: Vec<usize> = {
            let a_move = &self.world.moves[&move_id];
            let theirs = [a_move.source, a_move.destination];
            (0..Sim::REPLICAS).filter(|index| theirs.contains(&self.replicas[*index].shard)).collect()
        };
        let all = |sim: &mut Sim, run: fn(&mut Sim, usize)| concerned.iter().for_each(|index| run(sim, *index));
        let catch_up = |sim: &mut Sim, index: usize| {
            sim.replicas[index].fold(&sim.world);
            while sim.apply(index, 4) || sim.replay(index, 4) || sim.replicas[index].settle(&sim.world) {}
        };
        all(self, catch_up);
        if self.world.moves[&move_id].copy.is_none() {
            all(self, Sim::export);
        }
        all(self, |sim, index| _ = sim.ingest(index));
        if self.world.moves[&move_id].copy.is_none() || self.world.moves[&move_id].switched {
            return;
        }
        let attempt = self.world.undecided(move_id).unwrap_or_else(|| self.world.start_attempt(move_id));
        self.world.open(attempt);
        self.world.fence(attempt);
        all(self, catch_up);
        if finish {
            all(self, Sim::ready);
            all(self, catch_up);
            all(self, Sim::clean_up);
        }
    }
}
