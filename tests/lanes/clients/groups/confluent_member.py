"""A group member like ``Member.java``, with librdkafka (confluent-kafka)."""

from __future__ import annotations

import queue
import sys
import threading
import time

from confluent_kafka import Consumer, TopicPartition

orders: queue.Queue[str] = queue.Queue()


def say(what: str, rest: str = "") -> None:
    sys.stdout.write(f"{round(time.time() * 1000)} {what} {rest}\n")
    sys.stdout.flush()


def listed(partitions: list[TopicPartition]) -> str:
    return "[" + ", ".join(f"{each.topic}-{each.partition}" for each in partitions) + "]"


def listen() -> None:
    for line in sys.stdin:
        orders.put(line.strip())


def subscribe(consumer: Consumer, topics: str) -> None:
    consumer.subscribe(
        topics.split(","),
        on_assign=lambda _, partitions: say("assigned", listed(partitions)),
        on_revoke=lambda _, partitions: say("revoked", listed(partitions)),
        on_lost=lambda _, partitions: say("lost", listed(partitions)),
    )


def obey(consumer: Consumer, order: str) -> bool:
    word, _, rest = order.partition(" ")
    if word == "subscribe":
        say("subscribe", rest)
        subscribe(consumer, rest)
    elif word == "slow":
        say("slow-begin", rest)
        time.sleep(float(rest) / 1000)
        say("slow-end")
    return word in ("subscribe", "slow")


def main() -> None:
    consumer = Consumer(dict(setting.split("=", 1) for setting in sys.argv[2:]))
    threading.Thread(target=listen, daemon=True).start()
    subscribe(consumer, sys.argv[1])
    say("start")
    goes_on = True
    while goes_on:
        message = consumer.poll(0.2)
        if message is not None and message.error() is not None:
            say("error", str(message.error()))
        try:
            goes_on = obey(consumer, orders.get_nowait())
        except queue.Empty:
            continue
    say("closing")
    consumer.close()
    say("closed")


main()
