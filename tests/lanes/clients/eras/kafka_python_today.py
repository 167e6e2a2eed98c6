"""A current kafka-python at a broker of any era; arguments: BOOTSTRAP TOPIC COUNT RELEASE.

Produces COUNT records with each codec of the release, looks them up by offset and by timestamp, and consumes them: in a
group from 0.9 on, where group coordinators exist. From 0.11 on it also produces in transactions, one of which is
aborted. Prints ``{"consumed": [values], "complete": whether all were consumed, "facts": [...]}``; the facts are
partitions and offsets, and are the same each time.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

bootstrap, topic, count, release = sys.argv[1:]
version = tuple(map(int, release.split(".")))
common: dict[str, Any] = {"bootstrap_servers": bootstrap, "client_id": "kafka-python"}
if version < (3, 0):
    # with later releases the client asks the broker for its version; before 0.10 it cannot
    common["api_version"] = version[:3] if version < (1, 0) else version[:2]
codecs = [None, "gzip", "snappy"]
codecs += ["lz4"] if version >= (0, 10) else []  # before, the frame had a different checksum (KIP-57)
codecs += ["zstd"] if version >= (2, 1) else []


def produce(values: list[str], **settings: Any) -> None:
    producer = KafkaProducer(acks=1 if version < (0, 11) else "all", **common, **settings)
    if "transactional_id" in settings:
        producer.init_transactions()
        for each in (values, [f"aborted {value}" for value in values]):
            producer.begin_transaction()
            for value in each:
                producer.send(topic, value.encode(), key=value.encode())
            producer.commit_transaction() if each is values else producer.abort_transaction()
    else:
        headers = {"headers": [("h", b"1")]} if version >= (0, 11) else {}
        for value in values:
            producer.send(topic, value.encode(), key=value.encode(), **headers).get(20)
    producer.close()


def consume(wanted: int) -> tuple[list[str], list[Any]]:
    # as a group member if group coordinators exist
    group = {"group_id": f"{topic}-kp", "enable_auto_commit": False} if version >= (0, 9) else {}
    group |= {"isolation_level": "read_committed"} if version >= (0, 11) else {}
    consumer = KafkaConsumer(auto_offset_reset="earliest", **common, **group)
    if version >= (0, 9):
        consumer.subscribe([topic])
    else:
        consumer.assign([TopicPartition(topic, 0)])
    seen: list[str] = []
    deadline = time.monotonic() + 30
    while len(seen) < wanted and time.monotonic() < deadline:
        # 3.0.12 can lose a SyncGroup when a poll of 0.2 s ends during it
        for records in consumer.poll(1000).values():
            seen += [record.value.decode() for record in records]
    partition = TopicPartition(topic, 0)
    facts: list[Any] = [sorted(consumer.partitions_for_topic(topic))]
    # the end offset depends on when the transaction marker arrives: later numbers are not printed
    end = consumer.end_offsets([partition])[partition]
    facts += [consumer.beginning_offsets([partition])[partition], end >= wanted]
    if version >= (0, 10, 1):
        found = consumer.offsets_for_times({partition: 1})[partition]
        facts.append(found and found.offset)
    if group:
        consumer.commit()
        facts.append((consumer.committed(partition) or 0) >= wanted)
    consumer.close()
    return sorted(seen), facts


def administer() -> list[Any]:
    admin = KafkaAdminClient(**common)
    listed = admin.list_groups()
    described = admin.describe_groups([f"{topic}-kp"])
    facts = [f"{topic}-kp" in str(listed), len(described)]
    admin.close()
    return facts


wanted = []
for codec in codecs:
    wanted += [f"{codec} {number}" for number in range(int(count))]
    produce(wanted[-int(count) :], compression_type=codec)
if version >= (0, 11):
    wanted += [f"committed {number}" for number in range(int(count))]
    produce(wanted[-int(count) :], transactional_id=f"{topic}-kp")
consumed, facts = consume(len(wanted))
if version >= (0, 11):
    facts += administer()
told = {"consumed": consumed, "complete": consumed == sorted(wanted), "facts": facts}
sys.stdout.write(json.dumps(told) + "\n")
