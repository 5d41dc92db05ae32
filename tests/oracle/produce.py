"""A foreign producer, with confluent-kafka: plain records, transactions, and writes that know their routes.

    produce.py --broker HOST:PORT --keyspace NAME --server http://HOST:PORT --rounds N

Each round sends plain records to the inbox, a transaction that is committed, one that is aborted, and some writes to the
data topic with headers, each until its verdict says that it is done. Prints a line a round; the last line counts.
"""

import argparse
import json
import os
import urllib.error
import urllib.parse
import urllib.request

from confluent_kafka import KafkaException, Producer

KEYS = 12
PLAIN, IN_TRANSACTION, AWARE = 20, 10, 3
COMMON = {"acks": "all", "linger.ms": 1, "allow.auto.create.topics": False}


class Api:
    def __init__(self, server, keyspace):
        self.base = "%s/v1/keyspaces/%s" % (server, keyspace)

    def get(self, path, **query):
        url = "%s%s?%s" % (self.base, path, urllib.parse.urlencode(query))
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)


def send(producer, topic, key, value, **more):
    """Sends one record and returns the offset it was acknowledged with."""
    told = []
    answer = lambda error, message: told.append((error, message))
    while True:
        try:
            producer.produce(topic, key=key, value=value, on_delivery=answer, **more)
            break
        except KafkaException as error:
            # A reshard added partitions that this client has not heard of: it asks the broker only now and then.
            if error.args[0].name() != "_UNKNOWN_PARTITION":
                raise
            producer.list_topics(topic, timeout=30)
    producer.flush()
    error, message = told[0]
    if error is not None:
        raise RuntimeError(str(error))
    return message.offset()


def aware_write(producer, api, topic, key, value):
    """Writes to the data topic under the route of the moment, again under the same request id while that is stale."""
    request, tries = os.urandom(16), 0
    while True:
        tries += 1
        route = api.get("/key", key=key)
        headers = [("rh-epoch", route["epoch"].to_bytes(8, "big")), ("rh-request", request), ("rh-sort", b"aware")]
        offset = send(producer, topic, key, value, partition=route["shard"], headers=headers)
        try:
            verdict = api.get("/verdicts", shard=route["shard"], offset=offset)["verdict"]
        except urllib.error.HTTPError as error:
            if json.load(error)["error"]["code"] not in ("verdict_unknown", "verdict_pending"):
                raise
            continue
        if verdict == "accepted":
            return tries
        if verdict != "stale_route":
            raise RuntimeError("%s is %s" % (value, verdict))


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--broker", "--keyspace", "--server", "--rounds"):
        parser.add_argument(flag, required=True)
    args = parser.parse_args()
    api = Api(args.server, args.keyspace)
    inbox = api.get("")["inbox"]["topic"]
    data = inbox[: -len("inbox")] + "data"
    plain = Producer({"bootstrap.servers": args.broker, "enable.idempotence": True, **COMMON})
    aware = Producer({"bootstrap.servers": args.broker, "enable.idempotence": True, **COMMON})
    transactional = Producer({"bootstrap.servers": args.broker, "transactional.id": "foreign", **COMMON})
    transactional.init_transactions()
    counts = {"plain": 0, "committed": 0, "aborted": 0, "aware": 0, "aware_tries": 0}
    number = 0
    for round in range(int(args.rounds)):
        for _ in range(PLAIN):
            number += 1
            key = "plain-%d" % (number % KEYS)
            # Some overwrite the row of their key, some have one of their own.
            headers = [("rh-sort", str(number).encode())] if number % 3 else None
            plain.produce(inbox, key=key, value=str(number), headers=headers)
        plain.flush()
        counts["plain"] += PLAIN
        for is_kept in (True, False):
            transactional.begin_transaction()
            for _ in range(IN_TRANSACTION):
                number += 1
                value = "%s-%d" % ("kept" if is_kept else "aborted", number)
                transactional.produce(inbox, key="transaction-%d" % (number % KEYS), value=value)
            transactional.flush()
            transactional.commit_transaction() if is_kept else transactional.abort_transaction()
            counts["committed" if is_kept else "aborted"] += IN_TRANSACTION
        for _ in range(AWARE):
            number += 1
            counts["aware_tries"] += aware_write(aware, api, data, "aware-%d" % (number % KEYS), str(number))
            counts["aware"] += 1
        print("round %d" % round, flush=True)
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    main()
