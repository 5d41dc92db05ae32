"""Reads whole topics with confluent-kafka, committed records only."""

from confluent_kafka import Consumer, TopicPartition

# Nothing comes for so long only when the broker is gone.
WAIT_SECONDS = 30


def consumer(broker):
    return Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )


def partitions(broker, topic):
    """Returns the numbers of the topic's partitions; none when there is no such topic."""
    reader = consumer(broker)
    try:
        found = reader.list_topics(topic, timeout=WAIT_SECONDS).topics[topic]
        return sorted(found.partitions) if found.error is None else []
    finally:
        reader.close()


def records(broker, topic, partition):
    """Returns [(offset, key, value, headers)] of everything that the partition holds now."""
    reader = consumer(broker)
    try:
        first, _ = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_SECONDS)
        reader.assign([TopicPartition(topic, partition, first)])
        found = []
        while True:
            message = reader.poll(WAIT_SECONDS)
            if message is None:
                raise RuntimeError("%s/%d is silent" % (topic, partition))
            if message.error() is not None:
                if message.error().name() == "_PARTITION_EOF":
                    return found
                raise RuntimeError(str(message.error()))
            found.append((message.offset(), message.key(), message.value(), message.headers() or []))
    finally:
        reader.close()
