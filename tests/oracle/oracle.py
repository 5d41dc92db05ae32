"""Folds the topics of a keyspace with another client library by the documented rule, and compares.

    oracle.py --broker HOST:PORT --keyspace NAME --server http://HOST:PORT

1. Every row that a router shows is the one that the topics say, with its version, and none is missing.
2. Every committed record of the inbox that can be applied was accepted exactly once, those of a key in their order.
Prints what was compared as JSON; ends with 1 when anything differs.
"""

import argparse
import base64
import json
import pathlib
import sys
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "schemas" / "vectors"))

from control import Control
from rehome_fold import Fold
from rehome_formats import Invalid, Write, read_data
from topics import partitions, records

SOURCE = "rehome.inbox/"


def rows_of_router(server, keyspace):
    """Returns {(key, sort): (version, value)} of a scan."""
    found, after = {}, None
    while True:
        query = {"limit": 1000, **({"after": after} if after else {})}
        url = "%s/v1/keyspaces/%s/scan?%s" % (server, keyspace, urllib.parse.urlencode(query))
        with urllib.request.urlopen(url, timeout=60) as answer:
            page = json.load(answer)
        for row in page["rows"]:
            read = base64.b64decode if row["encoding"] == "base64" else str.encode
            version = tuple(int(part) for part in row["version"].split("@"))
            found[read(row["key"]), read(row["sort"])] = (version, read(row["value"]))
        after = page.get("next")
        if page.get("missing"):
            raise RuntimeError("ranges are missing: %s" % page["missing"])
        if not after:
            return found


def accepted_of_inbox(data, fold):
    """Returns {(inbox partition, key): [(version, position)]} in the order of versions."""
    found = {}
    for shard, of_shard in data.items():
        for offset, *record in of_shard:
            if fold.verdicts.get((shard, offset), ("",))[0] != "accepted":
                continue
            write = read_data(*record)
            if isinstance(write, Write) and write.source and write.source[0].startswith(SOURCE):
                partition = int(write.source[0][len(SOURCE) :])
                found.setdefault((partition, write.key), []).append(((write.epoch, offset), write.source[1]))
    return {name: [position for _, position in sorted(of_key)] for name, of_key in found.items()}


def expected_of_inbox(inbox):
    """Returns {(inbox partition, key): [position]} of what can be applied."""
    found = {}
    for partition, of_partition in inbox.items():
        for offset, key, _, _ in of_partition:
            if key:
                found.setdefault((partition, key), []).append(offset)
    return found


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--broker", "--keyspace", "--server"):
        parser.add_argument(flag, required=True)
    args = parser.parse_args()
    control = Control(records(args.broker, "rehome.control", 0))
    keyspace = control.keyspaces[args.keyspace]
    whole = lambda topic: {number: records(args.broker, topic, number) for number in partitions(args.broker, topic)}
    data, inbox = whole(keyspace.topic("data")), whole(keyspace.topic("inbox"))
    attempts = list(control.attempts(keyspace, data))
    fold = Fold(keyspace.place, keyspace.granted(), attempts).fold(data)
    differs = ["partition %d waits at %d" % waits for waits in fold.waiting.items()]
    expected, found = expected_of_inbox(inbox), accepted_of_inbox(data, fold)
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            differs.append("inbox %s: %s, accepted %s" % (name, expected.get(name), found.get(name)))
    told = {name: (version, value) for name, (version, value, _) in fold.rows.items() if value is not None}
    shown = rows_of_router(args.server, args.keyspace)
    for name in sorted(told.keys() | shown.keys()):
        if told.get(name) != shown.get(name):
            differs.append("row %s: %s by the topics, %s by the router" % (name, told.get(name), shown.get(name)))
    said = {
        "accepted": sum(1 for verdict in fold.verdicts.values() if verdict[0] == "accepted"),
        "verdicts": len(fold.verdicts),
        "switched": sum(1 for attempt in attempts if attempt.outcome == "switched"),
        "inbox_records": sum(map(len, expected.values())),
        "rows": len(told),
        "differs": differs[:20],
        "differences": len(differs),
    }
    print(json.dumps(said))
    sys.exit(1 if differs else 0)


if __name__ == "__main__":
    main()
