"""A worker with kafka-python; see common.py. Settings have kafka-python's names."""

from __future__ import annotations

import sys
import time
from typing import Any

from common import Orders, pairs, say, settings
from kafka import KafkaConsumer, KafkaProducer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition


def read(value: str) -> Any:
    """Return a setting as kafka-python needs it, with numbers and booleans converted."""
    if value == "roundrobin":
        return [RoundRobinPartitionAssignor]
    if value in ("True", "False"):
        return value == "True"
    return int(value) if value.lstrip("-").isdigit() else value


topic, orders = sys.argv[2], Orders()
config = {name: read(value) for name, value in settings().items()}


# ---------------------------------------------------------------- producer
class Sender:
    """A producer that counts its records."""

    def __init__(self) -> None:
        self.producer = KafkaProducer(**config)
        self.count = self.transaction = 0
        self.open = False
        if "transactional_id" in config:
            self.producer.init_transactions()

    def send(self, count: int, pause_ms: float) -> None:
        for _ in range(count):
            name = f"{config['client_id']}-{self.count:04d}"
            self.count += 1
            say("sent", id=name, transaction=self.transaction if self.open else None)
            future = self.producer.send(topic, f"value of {name}".encode(), name.encode())
            future.add_callback(
                lambda done, name=name: say(
                    "delivered", id=name, partition=done.partition, offset=done.offset
                )
            )
            future.add_errback(lambda error, name=name: say("failed", id=name, error=repr(error)))
            time.sleep(pause_ms / 1000)

    def obey(self, order: list[str]) -> None:
        if order[0] == "send":
            self.send(int(order[1]), float(order[2]))
        elif order[0] == "begin":
            self.producer.begin_transaction()
            self.open, self.transaction = True, self.transaction + 1
        elif order[0] == "commit":
            self.producer.commit_transaction()
        elif order[0] == "abort":
            self.producer.abort_transaction()
        if order[0] in ("commit", "abort"):
            self.open = False
        if order[0] == "flush":
            self.producer.flush(90)


def produce() -> None:
    sender = Sender()
    say("ready")
    for order in orders:
        sender.obey(order)
        say("done", order=order[0])
    sender.producer.flush(90)
    sender.producer.close()


# ---------------------------------------------------------------- consumer
class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        say("assigned", partitions=[each.partition for each in assigned])

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        say("revoked", partitions=[each.partition for each in revoked])


def committed(offsets: dict[TopicPartition, OffsetAndMetadata], outcome: object) -> None:
    if not isinstance(outcome, Exception):
        say("committed", offsets=pairs({each.partition: at.offset for each, at in offsets.items()}))


def commit(consumer: KafkaConsumer, next_offsets: dict[int, int]) -> None:
    say("committing", offsets=pairs(next_offsets))
    try:
        consumer.commit(
            {
                TopicPartition(topic, number): OffsetAndMetadata(at, "", -1)
                for number, at in next_offsets.items()
            }
        )
    except KafkaError as refused:
        say("refused", error=repr(refused))
    else:
        say("committed", offsets=pairs(next_offsets), ordered=True)


def skip(consumer: KafkaConsumer, next_offsets: dict[int, int], count: int) -> None:
    for partition in consumer.assignment():
        next_offsets[partition.partition] = next_offsets.get(partition.partition, 0) + count
        consumer.seek(partition, next_offsets[partition.partition])
    say("skipped", offsets=pairs(next_offsets))


def consume() -> None:
    consumer = KafkaConsumer(default_offset_commit_callback=committed, **config)
    consumer.subscribe([topic], listener=Listener())
    next_offsets: dict[int, int] = {}
    say("ready")
    order = None
    while order != ["close"]:
        # 3.0.12 can lose a SyncGroup when a poll of 0.2 s ends during it
        try:
            polled = consumer.poll(1000)
        except KafkaConnectionError:  # no broker is reachable
            time.sleep(0.5)
            continue
        for records in polled.values():
            for record in records:
                say("received", id=record.key.decode(), partition=record.partition, offset=record.offset)
                next_offsets[record.partition] = record.offset + 1
        if not polled and (order := orders.now()) is not None:
            if order[0] == "commit":
                commit(consumer, next_offsets)
            elif order[0] == "skip":
                skip(consumer, next_offsets, int(order[1]))
            say("done", order=order[0])
    consumer.close()


produce() if sys.argv[1] == "produce" else consume()
say("closed")
