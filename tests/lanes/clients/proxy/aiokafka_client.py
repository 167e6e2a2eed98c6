"""aiokafka; see common.py."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError
from common import PAUSE_S, Endurance, Group, committed, say, values

bootstrap, topic = sys.argv[2:4]
common: dict[str, Any] = {"bootstrap_servers": bootstrap, "client_id": "aiokafka"}
reading = common | {"group_id": topic, "auto_offset_reset": "earliest", "session_timeout_ms": 6000}
reading |= {"heartbeat_interval_ms": 1000, "isolation_level": "read_committed"}


async def produce(count: int) -> None:
    async with AIOKafkaProducer(enable_idempotence=True, **common) as producer:
        for value in values("plain", count):
            await producer.send(topic, value.encode())
        await producer.flush()
    async with AIOKafkaProducer(transactional_id=topic, **common) as producer:
        for kind, end in (
            ("committed", producer.commit_transaction),
            ("aborted", producer.abort_transaction),
        ):
            await producer.begin_transaction()
            for value in values(kind, count):
                await producer.send(topic, value.encode())
            await producer.flush()
            await end()


async def consume(group: Group) -> None:
    async with AIOKafkaConsumer(topic, **reading) as consumer:
        while not group.left:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                group.note(consumer, True, [record.value for record in records])
            group.note(consumer, bool(consumer.assignment()), [])


async def errand(count: int) -> None:
    admin = AIOKafkaAdminClient(**common)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 3, 3)])
    await produce(count)
    group = Group(committed(count))
    async with asyncio.TaskGroup() as members:
        for _ in range(group.SIZE):
            members.create_task(consume(group))
        while group.waiting:
            await asyncio.sleep(0.1)
        cluster = await admin.describe_cluster()
        brokers = [[node["node_id"], node["host"], node["port"]] for node in cluster["brokers"]]
        assert topic in str(await admin.list_consumer_groups())
        [described] = await admin.describe_consumer_groups([topic])
        size = len(described.groups[0][5])  # error, group, state, protocol type, protocol, members
        configured = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        assert topic in str(configured)
        group.left = True
    await admin.delete_topics([topic])
    await admin.close()
    say(brokers=brokers, members=size, consumed=sorted(group.seen))


async def endure() -> None:
    endurance = Endurance()

    async def keep_producing() -> None:
        number = 0
        async with AIOKafkaProducer(enable_idempotence=True, **common) as producer:
            pending = set()
            while endurance.producing:
                await asyncio.sleep(PAUSE_S)
                number += 1
                try:
                    sent = await producer.send(topic, str(number).encode())
                except KafkaError as error:
                    endurance.fail(error)
                    continue
                pending.add(sent)

                def delivered(done: asyncio.Future[Any], number: int = number) -> None:
                    pending.discard(done)
                    if not done.cancelled() and (error := done.exception()):
                        endurance.fail(error)
                    elif not done.cancelled():
                        endurance.acknowledged.add(number)

                sent.add_done_callback(delivered)

    producing = asyncio.create_task(keep_producing())
    async with AIOKafkaConsumer(topic, **reading) as consumer:
        while not producing.done() or endurance.consuming:
            try:
                polled = await consumer.getmany(timeout_ms=200)
            except KafkaError as error:
                endurance.fail(error)
                await asyncio.sleep(1)
                continue
            for records in polled.values():
                endurance.consumed |= {int(record.value) for record in records}
    await producing
    endurance.close()


if __name__ == "__main__":
    asyncio.run(errand(int(sys.argv[4])) if sys.argv[1] == "errand" else endure())
