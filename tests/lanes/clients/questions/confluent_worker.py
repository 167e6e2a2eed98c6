"""A worker with librdkafka (confluent-kafka); see common.py."""

from __future__ import annotations

import sys
import time
from typing import Any

from common import Orders, pairs, say, settings
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

topic, config, orders = sys.argv[2], settings(), Orders()


# ---------------------------------------------------------------- producer
class Sender:
    """A producer that counts its records."""

    def __init__(self) -> None:
        self.producer = Producer(config)
        self.count = self.transaction = 0
        self.open = False
        if "transactional.id" in config:
            self.producer.init_transactions(60)

    def send(self, count: int, pause_ms: float) -> None:
        for _ in range(count):
            name = f"{config['client.id']}-{self.count:04d}"
            self.count += 1
            say("sent", id=name, transaction=self.transaction if self.open else None)
            self.producer.produce(topic, f"value of {name}".encode(), name.encode(), on_delivery=delivered)
            deadline = time.monotonic() + pause_ms / 1000
            while (left := deadline - time.monotonic()) > 0:
                self.producer.poll(left)

    def obey(self, order: list[str]) -> None:
        if order[0] == "send":
            self.send(int(order[1]), float(order[2]))
        elif order[0] == "begin":
            self.producer.begin_transaction()
            self.open, self.transaction = True, self.transaction + 1
        elif order[0] == "commit":
            self.producer.commit_transaction(60)
        elif order[0] == "abort":
            self.producer.abort_transaction(60)
        if order[0] in ("commit", "abort"):
            self.open = False
        if order[0] == "flush":
            self.producer.flush(90)


def delivered(error: object, message: Message) -> None:
    name = message.key().decode()
    if error is not None:
        say("failed", id=name, error=str(error))
    else:
        say("delivered", id=name, partition=message.partition(), offset=message.offset())


def produce() -> None:
    sender = Sender()
    say("ready")
    for order in orders:
        sender.obey(order)
        say("done", order=order[0])
    sender.producer.flush(90)


# ---------------------------------------------------------------- consumer
def committed(error: object, partitions: list[TopicPartition]) -> None:
    if error is None:
        offsets = {each.partition: each.offset for each in partitions if each.offset >= 0}
        say("committed", offsets=pairs(offsets))


def commit(consumer: Consumer, next_offsets: dict[int, int]) -> None:
    say("committing", offsets=pairs(next_offsets))
    wanted = [TopicPartition(topic, number, offset) for number, offset in next_offsets.items()]
    try:
        done = consumer.commit(offsets=wanted, asynchronous=False)
    except KafkaException as refused:
        say("refused", error=str(refused))
    else:
        say("committed", offsets=pairs({each.partition: each.offset for each in done}), ordered=True)


def skip(consumer: Consumer, next_offsets: dict[int, int], count: int) -> None:
    for partition in consumer.assignment():
        next_offsets[partition.partition] = next_offsets.get(partition.partition, 0) + count
        consumer.seek(TopicPartition(topic, partition.partition, next_offsets[partition.partition]))
    say("skipped", offsets=pairs(next_offsets))


def consume() -> None:
    consumer, next_offsets = Consumer(config | {"on_commit": committed}), {}
    noted: dict[str, Any] = {
        "on_assign": lambda _, given: say("assigned", partitions=[each.partition for each in given]),
        "on_revoke": lambda _, taken: say("revoked", partitions=[each.partition for each in taken]),
    }
    consumer.subscribe([topic], **noted)
    say("ready")
    order = None
    while order != ["close"]:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            say(
                "received",
                id=message.key().decode(),
                partition=message.partition(),
                offset=message.offset(),
            )
            next_offsets[message.partition()] = message.offset() + 1
        elif (order := orders.now()) is not None:
            if order[0] == "commit":
                commit(consumer, next_offsets)
            elif order[0] == "skip":
                skip(consumer, next_offsets, int(order[1]))
            say("done", order=order[0])
    consumer.close()


produce() if sys.argv[1] == "produce" else consume()
say("closed")
