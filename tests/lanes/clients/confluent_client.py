"""Produces and consumes over TLS with confluent-kafka; arguments: address, certificate to trust, topic, records.

The wheel contains its own OpenSSL, which writes no key log: secrets have to come from the broker's side.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer

address, certificate, topic, count = sys.argv[1:]
common = {
    "bootstrap.servers": address,
    "security.protocol": "ssl",
    "ssl.ca.location": certificate,
    "client.id": "confluent-kafka",
}

producer = Producer(common)
for number in range(int(count)):
    producer.produce(topic, f"record {number}".encode())
    producer.flush(30)

consumer = Consumer(common | {"group.id": topic, "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
seen = 0
for _ in range(60):
    message = consumer.poll(0.5)
    seen += message is not None and message.error() is None
    if seen == int(count):
        break
consumer.close()
sys.exit(seen != int(count))
