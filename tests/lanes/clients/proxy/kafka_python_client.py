"""kafka-python; see common.py."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from common import PAUSE_S, Endurance, Group, committed, say, values
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import KafkaError

bootstrap, topic = sys.argv[2:4]
common: dict[str, Any] = {"bootstrap_servers": bootstrap.split(","), "client_id": "kafka-python"}
reading = common | {"group_id": topic, "auto_offset_reset": "earliest", "session_timeout_ms": 6000}
reading |= {"heartbeat_interval_ms": 1000, "isolation_level": "read_committed"}


def produce(count: int) -> None:
    producer = KafkaProducer(**common)
    for value in values("plain", count):
        producer.send(topic, value.encode())
    producer.flush(30)
    producer.close()
    transactional = KafkaProducer(transactional_id=topic, **common)
    transactional.init_transactions()
    for kind, end in (
        ("committed", transactional.commit_transaction),
        ("aborted", transactional.abort_transaction),
    ):
        transactional.begin_transaction()
        for value in values(kind, count):
            transactional.send(topic, value.encode())
        transactional.flush(30)
        end()
    transactional.close()


def consume(group: Group) -> None:
    consumer = KafkaConsumer(topic, **reading)
    while not group.left:
        # 3.0.12 can lose a SyncGroup when a poll of 0.2 s ends during it
        for records in consumer.poll(1000).values():
            group.note(consumer, True, [record.value for record in records])
        group.note(consumer, bool(consumer.assignment()), [])
    consumer.close()


def errand(count: int) -> None:
    admin = KafkaAdminClient(**common)
    admin.create_topics([NewTopic(topic, 3, 3)])
    produce(count)
    group = Group(committed(count))
    members = [threading.Thread(target=consume, args=(group,)) for _ in range(group.SIZE)]
    for each in members:
        each.start()
    while group.waiting:
        time.sleep(0.1)
    brokers = [
        [node["broker_id"], node["host"], node["port"]] for node in admin.describe_cluster()["brokers"]
    ]
    assert topic in str(admin.list_groups())
    size = len(admin.describe_groups([topic])[topic]["members"])
    assert topic in str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
    group.left = True
    for each in members:
        each.join()
    admin.delete_topics([topic])
    admin.close()
    say(brokers=brokers, members=size, consumed=sorted(group.seen))


def endure() -> None:
    endurance = Endurance()

    def keep_producing() -> None:
        producer = KafkaProducer(delivery_timeout_ms=300000, **common)
        number = 0
        while endurance.producing:
            try:
                sent = producer.send(topic, str(number).encode())
                sent.add_callback(lambda _, number=number: endurance.acknowledged.add(number))
                sent.add_errback(endurance.fail)
            except KafkaError as error:
                endurance.fail(error)
            time.sleep(PAUSE_S)
            number += 1
        producer.flush(60)
        producer.close()

    thread = threading.Thread(target=keep_producing)
    thread.start()
    consumer = KafkaConsumer(topic, **reading)
    while thread.is_alive() or endurance.consuming:
        try:
            polled = consumer.poll(1000)
        except KafkaError as error:
            endurance.fail(error)
            time.sleep(1)
            continue
        for records in polled.values():
            endurance.consumed |= {int(record.value) for record in records}
    consumer.close()
    endurance.close()


if __name__ == "__main__":
    errand(int(sys.argv[4])) if sys.argv[1] == "errand" else endure()
