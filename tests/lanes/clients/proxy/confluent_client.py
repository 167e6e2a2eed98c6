"""librdkafka (confluent-kafka); see common.py."""

from __future__ import annotations

import sys
import threading
import time

from common import PAUSE_S, Endurance, Group, committed, say, values
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

bootstrap, topic = sys.argv[2:4]
common = {"bootstrap.servers": bootstrap, "client.id": "confluent-kafka"}
reading = common | {"group.id": topic, "auto.offset.reset": "earliest", "session.timeout.ms": 6000}


def produce(count: int) -> None:
    producer = Producer(common | {"enable.idempotence": True})
    for value in values("plain", count):
        producer.produce(topic, value.encode())
    producer.flush(30)
    transactional = Producer(common | {"transactional.id": topic})
    transactional.init_transactions(30)
    for kind, end in (
        ("committed", transactional.commit_transaction),
        ("aborted", transactional.abort_transaction),
    ):
        transactional.begin_transaction()
        for value in values(kind, count):
            transactional.produce(topic, value.encode())
        transactional.flush(30)
        end(30)


def consume(group: Group) -> None:
    consumer = Consumer(reading)
    consumer.subscribe([topic])
    while not group.left:
        message = consumer.poll(0.2)
        record = message is not None and message.error() is None
        group.note(consumer, bool(consumer.assignment()), [message.value()] if record else [])
    consumer.close()


def errand(count: int) -> None:
    admin = AdminClient(common)
    admin.create_topics([NewTopic(topic, 3, 3)])[topic].result(30)
    produce(count)
    group = Group(committed(count))
    members = [threading.Thread(target=consume, args=(group,)) for _ in range(group.SIZE)]
    for each in members:
        each.start()
    while group.waiting:
        time.sleep(0.1)
    brokers = [[node.id, node.host, node.port] for node in admin.describe_cluster().result(30).nodes]
    assert topic in [each.group_id for each in admin.list_consumer_groups().result(30).valid]
    size = len(admin.describe_consumer_groups([topic])[topic].result(30).members)
    described = ConfigResource(ResourceType.TOPIC, topic)
    assert admin.describe_configs([described])[described].result(30)
    group.left = True
    for each in members:
        each.join()
    admin.delete_topics([topic])[topic].result(30)
    say(brokers=brokers, members=size, consumed=sorted(group.seen))


def endure() -> None:
    endurance = Endurance()

    def keep_producing() -> None:
        producer = Producer(common | {"enable.idempotence": True, "delivery.timeout.ms": 300000})
        number = 0
        while endurance.producing:

            def delivered(error: object, message: object, number: int = number) -> None:
                if error is None:
                    endurance.acknowledged.add(number)
                else:
                    endurance.fail(error.name())

            try:
                producer.produce(topic, str(number).encode(), on_delivery=delivered)
            except KafkaException as error:
                endurance.fail(error.args[0].name())
            producer.poll(PAUSE_S)
            number += 1
        producer.flush(60)

    thread = threading.Thread(target=keep_producing)
    thread.start()
    consumer = Consumer(reading)
    consumer.subscribe([topic])
    while thread.is_alive() or endurance.consuming:
        message = consumer.poll(0.2)
        if message is not None and message.error() is not None:
            endurance.fail(message.error().name())
        elif message is not None:
            endurance.consumed.add(int(message.value()))
    consumer.close()
    endurance.close()


if __name__ == "__main__":
    errand(int(sys.argv[4])) if sys.argv[1] == "errand" else endure()
