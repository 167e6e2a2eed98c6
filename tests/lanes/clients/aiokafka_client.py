"""Produces and consumes over TLS with aiokafka; arguments: address, certificate to trust, topic, records.

It uses Python's default contexts, which write the key log named by the variable SSLKEYLOGFILE.
"""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context

address, certificate, topic, count = sys.argv[1:]


async def main() -> int:
    common = {
        "bootstrap_servers": address,
        "security_protocol": "SSL",
        "ssl_context": create_ssl_context(cafile=certificate),
        "client_id": "aiokafka",
    }
    async with AIOKafkaProducer(**common) as producer:
        for number in range(int(count)):
            await producer.send_and_wait(topic, f"record {number}".encode())
    seen = 0
    async with AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **common) as consumer:
        while seen < int(count):
            await asyncio.wait_for(consumer.getone(), 20)
            seen += 1
    return seen


sys.exit(asyncio.run(main()) != int(count))
