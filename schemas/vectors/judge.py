"""Judges the published traces of the accept rule by the documented rule, and says where it disagrees.

    python3 schemas/vectors/judge.py schemas/vectors/accept-rule.json
"""

import json
import sys

from rehome_fold import Attempt, Fold


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def span(pair):
    return (unhex(pair[0]), unhex(pair[1]))


class VectorFold(Fold):
    def __init__(self, vector, attempts):
        placed = {unhex(key): unhex(value) for key, value in vector["placed_keys"].items()}
        granted = [(one["shard"], one["epoch"], span(one["range"])) for one in vector["granted"]]
        super().__init__(placed.__getitem__, granted, attempts)
        self.keys = list(placed)

    def known_keys(self):
        return self.keys


def attempts_of(log):
    outcomes = {one["outcome"]["attempt"]: one["outcome"]["is"] for one in log if "outcome" in one}
    for one in (one["attempt"] for one in log if "attempt" in one):
        yield Attempt(
            one["attempt"], one["move"], one["epoch"], one["source"], one["destination"],
            [span(pair) for pair in one["ranges"]], one["control_offset"], one["nonce"],
            outcomes.get(one["attempt"]),
        )


def told(verdict):
    """A verdict of the file, as the fold tells it."""
    what = verdict["is"]
    if what == "accepted":
        return (what, tuple(verdict["version"]))
    if what == "condition-failed":
        current = verdict["current"]
        return (what, current and tuple(current))
    return (what, told(verdict["first"])) if what == "repeated" else (what,)


def judge(vector):
    """Returns how many records were judged, and what differs."""
    log, partitions = vector["log"], {}
    for one in (one["record"] for one in log if "record" in one):
        headers = [(name, unhex(value)) for name, value in one["headers"]]
        partitions.setdefault(one["shard"], []).append((one["offset"], unhex(one["key"]), unhex(one["value"]), headers))
    fold = VectorFold(vector, attempts_of(log)).fold(partitions)
    differs, count = [], 0
    for one in (one for one in log if "record" in one):
        at = (one["record"]["shard"], one["record"]["offset"])
        wanted = told(one["verdict"]) if "verdict" in one else one["effect"]
        found = fold.verdicts.get(at) if "verdict" in one else fold.effects.get(at)
        count += 1
        if wanted != found:
            differs.append("%s: shard %d, offset %d: %s in the file, %s by the rule" % (vector["name"], *at, wanted, found))
    rows = {
        (unhex(row["key"]), unhex(row["sort"])): (tuple(row["version"]), unhex(row["value"]), row["shard"])
        for row in vector["rows"]
    }
    found = {name: row for name, row in fold.rows.items()}
    owned = {name: (version, value) for name, (version, value, _) in rows.items()}
    if owned != {name: (version, value) for name, (version, value, _) in found.items()}:
        differs.append("%s: rows %s in the file, %s by the rule" % (vector["name"], rows, found))
    return count, differs


def main():
    judged, differs = 0, []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for vector in json.load(file)["vectors"]:
                count, wrong = judge(vector)
                judged += count
                differs += wrong
    print("\n".join(differs + ["records judged: %d" % judged]))
    sys.exit(1 if differs or not judged else 0)


if __name__ == "__main__":
    main()
