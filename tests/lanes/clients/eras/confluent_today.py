"""A current librdkafka (confluent-kafka) at a broker of any era; arguments: BOOTSTRAP TOPIC COUNT RELEASE.

Does the same as ``kafka_python_today.py``, as far as librdkafka can: brokers before 0.10 do not announce their
versions, so ``broker.version.fallback`` sets them. It joins a group from 0.10 on: on the Metadata v0 of a subscription,
librdkafka 2.16 fails with "tmpabuf memory shortage", with kproxy and without.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

bootstrap, topic, count, release = sys.argv[1:]
version = tuple(map(int, release.split(".")))
common: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": "confluent-kafka"}
if version < (0, 10):
    common |= {"api.version.request": False, "broker.version.fallback": release}
codecs = [
    "none",
    "gzip",
    "snappy",
    *(["lz4"] if version >= (0, 10) else []),
    *(["zstd"] if version >= (2, 1) else []),
]


def produce(values: list[str], **settings: Any) -> None:
    producer = Producer(common | {key.replace("_", "."): value for key, value in settings.items()})
    transactional = "transactional_id" in settings
    if transactional:
        producer.init_transactions(30)
    for each in (values, [f"aborted {value}" for value in values])[: 1 + transactional]:
        if transactional:
            producer.begin_transaction()
        for value in each:
            producer.produce(topic, value.encode(), key=value.encode())
        left = producer.flush(30)
        assert not left, f"{left} records were not taken"
        if transactional:
            producer.commit_transaction(30) if each is values else producer.abort_transaction(30)


def consume(wanted: int) -> tuple[list[str], list[Any]]:
    settings = {"group.id": f"{topic}-ck", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(common | settings)
    if version >= (0, 10):
        consumer.subscribe([topic])
    else:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    seen: list[str] = []
    deadline = time.monotonic() + 30
    while len(seen) < wanted and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            seen.append(message.value().decode())
    partition = TopicPartition(topic, 0)
    metadata = consumer.list_topics(topic, 20).topics[topic]
    low, high = consumer.get_watermark_offsets(partition, 20)
    facts: list[Any] = [sorted(metadata.partitions), low, high >= wanted]
    if version >= (0, 10):
        consumer.commit(asynchronous=False)
        facts += [consumer.committed([partition], 20)[0].offset >= wanted]
    if version >= (0, 10, 1):
        facts += [consumer.offsets_for_times([TopicPartition(topic, 0, 1)], 20)[0].offset]
    consumer.close()
    return sorted(seen), facts


wanted = []
for codec in codecs:
    wanted += [f"{codec} {number}" for number in range(int(count))]
    produce(wanted[-int(count) :], compression_codec=codec)
if version >= (0, 11):
    wanted += [f"committed {number}" for number in range(int(count))]
    produce(wanted[-int(count) :], transactional_id=f"{topic}-ck")
consumed, facts = consume(len(wanted))
told = {"consumed": consumed, "complete": consumed == sorted(wanted), "facts": facts}
sys.stdout.write(json.dumps(told) + "\n")
