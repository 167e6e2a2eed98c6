"""Produces and consumes over TLS with kafka-python; arguments: address, certificate to trust, topic, records, key log.

The context writes the key log: with ``ssl_cafile`` alone kafka-python would create its own context.
"""

from __future__ import annotations

import ssl
import sys

from kafka import KafkaConsumer, KafkaProducer

address, certificate, topic, count, keylog = sys.argv[1:]

context = ssl.create_default_context(cafile=certificate)
context.keylog_filename = keylog
common = {"bootstrap_servers": address, "security_protocol": "SSL", "ssl_context": context}

producer = KafkaProducer(client_id="kafka-python", **common)
for number in range(int(count)):
    producer.send(topic, f"record {number}".encode()).get(30)
producer.close()

consumer = KafkaConsumer(
    topic,
    client_id="kafka-python",
    group_id=topic,
    auto_offset_reset="earliest",
    consumer_timeout_ms=20000,
    **common,
)
seen = 0
for _ in consumer:
    seen += 1
    if seen == int(count):
        break
consumer.close()
sys.exit(seen != int(count))
