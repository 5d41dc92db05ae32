"""The accept rule, told once more and plainly: which records of a keyspace's data topic are accepted, and what remains.

1. Ownership. Each partition is read by itself, in order, with one state a partition key:
   ("closed", h), ("owned", c) or ("contested", attempt, e). Outcomes of attempts are known beforehand.
2. Content. The writes that ownership lets through are taken key by key, over all partitions, in the order of
   (epoch, offset): request ids, source positions and conditions are judged there.
"""

from typing import NamedTuple, Optional

from rehome_formats import AttemptMark, Horizon, Invalid, Write, read_data


class Attempt(NamedTuple):
    attempt: int
    move: int
    epoch: int
    source: int
    destination: int
    ranges: list
    control_offset: int
    nonce: int
    outcome: Optional[str]  # "switched", "aborted", or None while it is open


class Waits(Exception):
    """The outcome of an attempt is not known yet: nothing behind the record can be judged."""


def within(placed, ranges):
    return any(start <= placed and (end is None or placed < end) for start, end in ranges)


class Fold:
    """`place`: from a partition key to its placed key. `granted`: (shard, epoch, range) of the keyspace's creation."""

    def __init__(self, place, granted, attempts):
        self.place, self.granted = place, granted
        self.attempts = {attempt.attempt: attempt for attempt in attempts}
        self.verdicts = {}  # (shard, offset) -> ("accepted", version), ("stale-route",), ...
        self.effects = {}  # (shard, offset) -> "opened", ...
        self.rows = {}  # (partition key, sort key) -> (version, value, shard)
        self.waiting = {}  # shard -> the offset from which nothing is judged yet

    def fold(self, partitions):
        """`partitions`: shard -> [(offset, key, value, headers)], each whole and in order."""
        passed = {}  # partition key -> [((epoch, offset), shard, Write or Horizon)]
        for shard, records in partitions.items():
            read = [(offset, self.read(shard, offset, record)) for offset, *record in records]
            self.own(shard, read, passed)
        keys = {write.key for through in passed.values() for _, _, write in through if isinstance(write, Write)}
        for key in keys:
            self.judge(key, sorted(passed[key], key=lambda one: one[0]))
        return self

    def read(self, shard, offset, record):
        try:
            return read_data(*record)
        except Invalid:
            self.verdicts[shard, offset] = ("invalid",)
            return None

    # Ownership.

    def own(self, shard, records, passed):
        keys = {record.key: self.place(record.key) for _, record in records if isinstance(record, Write)}
        keys.update({key: self.place(key) for key in self.known_keys()})
        states = {key: self.first_state(shard, placed) for key, placed in keys.items()}
        try:
            for offset, record in records:
                self.waiting[shard] = offset
                if isinstance(record, Write):
                    if self.may(shard, states, record.key, record.epoch):
                        passed.setdefault(record.key, []).append(((record.epoch, offset), shard, record))
                    else:
                        self.verdicts[shard, offset] = ("stale-route",)
                elif isinstance(record, AttemptMark):
                    self.effects[shard, offset] = self.mark(shard, states, keys, record)
                elif isinstance(record, Horizon):
                    self.horizon(shard, offset, states, keys, record, passed)
            del self.waiting[shard]
        except (Waits, KeyError) as stop:
            if not isinstance(stop, Waits) and shard in self.waiting:
                raise

    def known_keys(self):
        """Keys that marks have an effect on though nobody has written them here."""
        return ()

    def first_state(self, shard, placed):
        for owner, epoch, granted in self.granted:
            if owner == shard and within(placed, [granted]):
                return ("owned", epoch)
        return ("closed", 0)

    def resolve(self, shard, attempt, epoch):
        found = self.attempts[attempt]
        if found.outcome is None:
            raise Waits()
        winner = found.destination if found.outcome == "switched" else found.source
        return ("owned", epoch) if winner == shard else ("closed", epoch)

    def may(self, shard, states, key, epoch):
        """Judges a write, or what is judged like one."""
        state = states[key]
        if state[0] == "contested" and state[2] == epoch:
            states[key] = state = self.resolve(shard, state[1], epoch)
        return state == ("owned", epoch)

    def mark(self, shard, states, keys, mark):
        attempt = self.attempts.get(mark.attempt)
        side = attempt and (attempt.destination if mark.kind == "open" else attempt.source)
        told = attempt and (attempt.move, attempt.epoch, attempt.control_offset, attempt.nonce, attempt.ranges)
        if side != shard or told != (mark.move, mark.epoch, mark.control_offset, mark.nonce, mark.ranges):
            return "refused"
        effective = False
        for key, placed in keys.items():
            if not within(placed, mark.ranges):
                continue
            state = states[key]
            if state[0] == "contested" and state[1] < mark.attempt:
                state = self.resolve(shard, state[1], state[2])
            highest = state[-1]
            if mark.kind == "open":
                here = mark.epoch > highest
            else:
                here = state[0] == "owned" and highest < mark.epoch
            states[key] = ("contested", mark.attempt, mark.epoch) if here else state
            effective |= here
        return {"open": "opened", "fence": "fenced"}[mark.kind] if effective else "ignored"

    def horizon(self, shard, offset, states, keys, mark, passed):
        self.effects[shard, offset] = "ignored"
        for span, epoch in mark.regions:
            for key, placed in keys.items():
                if within(placed, [span]) and self.may(shard, states, key, epoch):
                    passed.setdefault(key, []).append(((epoch, offset), shard, mark))
                    self.effects[shard, offset] = "forgot"

    # Content.

    def judge(self, key, through):
        rows, requests, sources = {}, {}, {}
        for version, shard, record in through:
            if isinstance(record, Horizon):
                rows = {sort: row for sort, row in rows.items() if row[1] is not None or row[0] > record.version}
                requests = {id: seen for id, seen in requests.items() if seen[2] > record.version}
                continue
            self.verdicts[shard, version[1]] = self.answer(version, shard, record, rows, requests, sources)
        for sort, row in rows.items():
            self.rows[key, sort] = row

    def answer(self, version, shard, write, rows, requests, sources):
        seen = requests.get(write.request)
        if write.request is not None and seen:
            return ("repeated", seen[1]) if seen[0] == write.content else ("request-conflict",)
        if write.source and sources.get(write.source[0], -1) >= write.source[1]:
            return ("source-done",)
        answer = self.failed(write, rows)
        if answer is None:
            answer = ("accepted", version)
            for sort, value in write.changes:
                rows[sort] = (version, value, shard)
            if write.source:
                sources[write.source[0]] = write.source[1]
        if write.request is not None:
            requests[write.request] = (write.content, answer, version)
        return answer

    @staticmethod
    def failed(write, rows):
        if write.condition is None:
            return None
        version, value, _ = rows.get(write.changes[0][0], (None, None, None))
        current = version if value is not None else None
        what = write.condition[0]
        holds = current is None if what == "absent" else current is not None
        if what == "version":
            holds = current == write.condition[1]
        return None if holds else ("condition-failed", current)
