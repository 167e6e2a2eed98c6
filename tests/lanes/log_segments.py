"""Log segments of a real broker with dumps by Kafka's own tool: ``python -m tests.lanes.log_segments FOLDER``.

A broker stores records with several codecs, in transactions that are committed, aborted or left open, and compacts a
topic. A broker of 0.10.2 stores messages of magic 0 and 1. After they stop, their partition folders and a dump of each
are copied to FOLDER and compared batch by batch and record by record; ``tests/data/log_segments`` is such a folder.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from tests.captures.log_segments.test_reference import compare
from tests.lanes.broker import Broker, java
from tests.lanes.eras.releases import RunningBroker, started
from tests.lanes.tools import run, wait_for

_CODECS = (None, "gzip", "lz4", "zstd")
_OUTCOMES = ("commit", "abort", "commit", "open")
_DECODERS = {
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
}
_KEPT = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_PROPERTIES = {
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.interval.bytes": "400",
}
_COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "86400000",
}
_SMALL = {"internal.segment.bytes": "6000"}
_ITEMS = 13
_OLD = "0.10.2.2"
_OLD_TOPICS = {"magic0": ["--config", "message.format.version=0.9.0.1"], "magic1": []}
_OLD_CODECS = ("none", "gzip", "snappy", "lz4")


def main(folder: Path) -> None:
    """Write the folders and dumps, and compare them."""
    work = folder / "broker"
    with Broker(work, {"PLAINTEXT": "PLAINTEXT"}, properties=_PROPERTIES) as broker:
        producers = _write(broker.address("PLAINTEXT"))
        prices = work / "data" / "prices-0"
        wait_for("the compaction", lambda: list(prices.glob("*.log.deleted")), timeout=60)
        broker.stop()
        for producer in producers:
            producer.close(timeout=0)
        _keep(work / "data", folder)
    with started(_OLD, folder / "old") as old:
        _write_old(old)
        old.node.stop()
        _keep(folder / "old" / "broker" / "data", folder)
    for partition in sorted(folder.glob("*-*[0-9]")):
        _dump(partition)
        print(f"{partition.name}: {compare(partition):,} records are equal")  # noqa: T201


def _write(server: str) -> list[KafkaProducer]:
    """Write to both topics; return the producers, because closing them would end their transactions."""
    admin = KafkaAdminClient(bootstrap_servers=server)
    admin.create_topics(
        [
            NewTopic("orders", 1, 1, topic_configs=_SMALL),
            NewTopic("prices", 1, 1, topic_configs=_SMALL | _COMPACTED),
        ]
    )
    for codec in _CODECS:
        producer = KafkaProducer(bootstrap_servers=server, compression_type=codec, linger_ms=20)
        for at in range(20):
            headers = [("source", b"lane")] if at % 2 else []
            producer.send(
                "orders", key=f"k{at % 5}".encode(), value=_value(f"order {codec}-{at}"), headers=headers
            )
        for at in range(120):
            item = at % _ITEMS
            value = None if item == 7 else _value(f"price {codec}-{at}")
            producer.send("prices", key=f"item-{item}".encode(), value=value)
            if at % 7 == 0:
                producer.flush()
        producer.close()
    transactional = []
    for number, outcome in enumerate(_OUTCOMES):
        producer = KafkaProducer(bootstrap_servers=server, transactional_id=f"tx-{number}")
        transactional.append(producer)
        producer.init_transactions()
        producer.begin_transaction()
        for at in range(6):
            for topic in ("orders", "prices"):
                producer.send(topic, key=f"tx-{at}".encode(), value=_value(f"{outcome} {at}"))
        producer.flush()
        if outcome == "commit":
            producer.commit_transaction()
        elif outcome == "abort":
            producer.abort_transaction()
    producer = KafkaProducer(bootstrap_servers=server)
    for at in range(60):
        producer.send("prices", key=f"item-{at % _ITEMS}".encode(), value=_value(f"last {at}"))
        producer.flush()
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=server, group_id="billing", auto_offset_reset="earliest"
    )
    wait_for("a record", lambda: consumer.poll(250), timeout=60)
    consumer.commit()
    consumer.close()
    return transactional


def _value(text: str) -> bytes:
    return f"{text} ".encode() * 5


def _write_old(broker: RunningBroker) -> None:
    where = ["--zookeeper", broker.zookeeper, "--partitions", "1", "--replication-factor", "1"]
    for topic, options in _OLD_TOPICS.items():
        create = java(
            "kafka.admin.TopicCommand", *where, "--create", "--topic", topic, *options, version=_OLD
        )
        run(create)
        for codec in _OLD_CODECS:
            lines = (f"k{at % 9}:{codec} value {at} {'x' * 40}\n" for at in range(40))
            options = ["--broker-list", broker.address, "--topic", topic, "--compression-codec", codec]
            options += ["--property", "parse.key=true", "--property", "key.separator=:", "--batch-size", "30"]
            run(java("kafka.tools.ConsoleProducer", *options, version=_OLD), stdin="".join(lines))


def _keep(data: Path, folder: Path) -> None:
    """Copy the partitions of a broker, limited to the files that kproxy reads."""
    for partition in sorted(data.glob("*-*[0-9]")):
        target = folder / partition.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for file in sorted(partition.iterdir()):
            if file.suffix in _KEPT:
                shutil.copy(file, target)


def _dump(partition: Path) -> None:
    topic, _, _ = partition.name.rpartition("-")
    files = ",".join(str(file) for file in sorted(partition.glob("*.log")))
    decoder = _DECODERS.get(topic, "--print-data-log")
    tool = java("org.apache.kafka.tools.DumpLogSegments", "--files", files, "--deep-iteration", decoder)
    partition.with_suffix(".dump").write_text(run(tool).replace(f"{partition.parent}/", ""))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
