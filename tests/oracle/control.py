"""Reads of the control log what the accept rule needs: keyspaces, and how each attempt ended."""

from typing import NamedTuple

import xxhash

from rehome_fold import Attempt
from rehome_formats import CONTROL, AttemptMark, Invalid, read_data, unframe

# Places of the events in schemas/records/src/control.rs; all others are passed over.
KEYSPACE_CREATED, CUTOVER_STARTED, READY, CUTOVER_ABORTED, KEYSPACE_CREATED_WITH = 1, 7, 8, 9, 20
SOURCE, DESTINATION = 0, 1


class Keyspace(NamedTuple):
    id: int
    name: str
    buckets: int
    shards: int
    # Destination replicas that must be ready before a move switches.
    ready_replicas: int

    def topic(self, what):
        return "rehome.%s-%d.%s" % (self.name, self.id, what)

    def slot(self, key):
        return xxhash.xxh3_64_intdigest(key) % self.buckets

    def place(self, key):
        """Returns where a partition key lies in the order on which ranges are defined."""
        rest = (xxhash.xxh3_64_intdigest(key) // self.buckets) & 0xFFFFFFFF
        rest = int("{:032b}".format(rest)[::-1], 2)
        escaped = key.replace(b"\x00", b"\x00\xff") + b"\x00\x01"
        return self.slot(key).to_bytes(4, "big") + rest.to_bytes(4, "big") + escaped

    def granted(self):
        """Returns (shard, epoch, range) of its creation."""
        first = lambda shard: (shard * self.buckets // self.shards).to_bytes(4, "big")
        return [(shard, shard + 1, (first(shard), first(shard + 1))) for shard in range(self.shards)]


class Control:
    def __init__(self, records):
        self.keyspaces = {}  # by name: the newest
        self.started = {}  # control offset -> (move, nonce)
        self.told = {}  # attempt -> what was said of it, in order: a report of a replica, or nothing for an abort
        commands = set()
        for offset, _, value, _ in records:
            body = unframe(CONTROL, value)
            command, event = body.number(), body.number()
            # One that is told twice is done once.
            if (command, event) not in commands:
                commands.add((command, event))
                self.fold(offset, event, body)

    def fold(self, offset, event, body):
        if event in (KEYSPACE_CREATED, KEYSPACE_CREATED_WITH):
            name, placement, buckets, function = body.text(), body.number(), body.number(), body.number()
            if (placement, function) != (0, 0):
                raise Invalid("a placement that is not known here")
            shards, _, ready_replicas = body.number(), body.number(), 1
            if event == KEYSPACE_CREATED_WITH:
                _, ready_replicas = body.number(), body.number()
            self.keyspaces[name] = Keyspace(offset, name, buckets, shards, ready_replicas)
        elif event == CUTOVER_STARTED:
            self.started[offset] = (body.number(), body.number())
        elif event == READY:
            attempt, node, side, fence = body.number(), body.number(), body.number(), body.number()
            opened = body.optional(body.number)
            digest = tuple(body.number() for _ in range(4))
            if side == SOURCE or opened is not None:
                self.told.setdefault(attempt, []).append(((node, side), (fence, digest)))
        elif event == CUTOVER_ABORTED:
            self.told.setdefault(body.number(), []).append(None)

    def outcome(self, attempt, required):
        """The first outcome stays: the source's report and enough of the destination, all equal, or a different one."""
        reports = {}
        for said in self.told.get(attempt, []):
            if said is None:
                return "aborted"
            reports.setdefault(*said)
            sides = [side for _, side in reports]
            if SOURCE in sides and len(set(reports.values())) > 1:
                return "aborted"
            if SOURCE in sides and sides.count(DESTINATION) >= required:
                return "switched"
        return None

    def attempts(self, keyspace, partitions):
        """Returns the attempts of a keyspace, given its data partitions: their marks tell the rest of what they cite."""
        sides = {}
        for shard, records in partitions.items():
            for offset, key, value, headers in records:
                try:
                    mark = read_data(key, value, headers)
                except Invalid:
                    continue
                if isinstance(mark, AttemptMark) and self.started.get(mark.control_offset) == (mark.move, mark.nonce):
                    sides.setdefault(mark.attempt, {}).setdefault(mark.kind, (shard, mark))
        for attempt, told in sides.items():
            mark = next(iter(told.values()))[1]
            source, destination = (told.get(kind, (None, None))[0] for kind in ("fence", "open"))
            yield Attempt(
                attempt, mark.move, mark.epoch, source, destination, mark.ranges,
                mark.control_offset, mark.nonce, self.outcome(attempt, keyspace.ready_replicas),
            )
