"""Clients with known settings that differ from the defaults: a scenario of the questions lane.

The settings here go into the truth, in the notation of each library. Those of the Go programs are set in
``clients/*/configured/main.go`` and repeated here.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lanes.tools import CannotRun, cache, need, run
from tests.lanes.workers import Stage, Worker

#: settings of producers and consumers, by library; kafka-python writes them with underscores
PRODUCERS = {
    "java": {
        "acks": "1",
        "enable.idempotence": "false",
        "compression.type": "zstd",
        "linger.ms": "150",
        "batch.size": "4000",
        "request.timeout.ms": "12345",
        "delivery.timeout.ms": "60000",
        "metadata.max.age.ms": "3000",
    },
    "confluent": {
        "acks": "1",
        "compression.type": "lz4",
        "linger.ms": "150",
        "request.timeout.ms": "12345",
        "topic.metadata.refresh.interval.ms": "3000",
    },
    "kafka-python": {
        "acks": "1",
        "enable_idempotence": "False",
        "compression_type": "gzip",
        "linger_ms": "150",
        "request_timeout_ms": "12345",
        "metadata_max_age_ms": "3000",
    },
}
_FETCHING = {
    "fetch.min.bytes": "10",
    "fetch.max.bytes": "1234567",
    "max.partition.fetch.bytes": "234567",
    "isolation.level": "read_committed",
    "client.rack": "r1",
}
_MEMBERSHIP = {
    "session.timeout.ms": "11000",
    "heartbeat.interval.ms": "1300",
    "max.poll.interval.ms": "45678",
    "auto.commit.interval.ms": "1700",
}
CONSUMERS = {
    "java": _FETCHING
    | _MEMBERSHIP
    | {
        "fetch.max.wait.ms": "321",
        "metadata.max.age.ms": "3000",
        "group.instance.id": "java-instance",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "allow.auto.create.topics": "false",
    },
    "confluent": _FETCHING
    | _MEMBERSHIP
    | {
        "isolation.level": "read_uncommitted",  # the default is read_committed
        "fetch.wait.max.ms": "321",
        "topic.metadata.refresh.interval.ms": "3000",
        "group.instance.id": "rd-instance",
        "partition.assignment.strategy": "roundrobin",
        "allow.auto.create.topics": "true",
    },
    "kafka-python": {key.replace(".", "_"): value for key, value in (_FETCHING | _MEMBERSHIP).items()}
    | {
        "fetch_max_wait_ms": "321",
        "metadata_max_age_ms": "3000",
        "group_instance_id": "kp-instance",
        "partition_assignment_strategy": "roundrobin",
    },
}
TRANSACTIONAL = {
    "java": {"compression.type": "lz4", "transaction.timeout.ms": "23456"},
    "confluent": {"compression.type": "lz4", "transaction.timeout.ms": "23456"},
    "kafka-python": {"compression_type": "lz4", "transaction_timeout_ms": "23456"},
}
_GO_PRODUCER = {
    "acks": "1",
    "enable.idempotence": "false",
    "linger.ms": "150",
    "request.timeout.ms": "12345",
    "metadata.max.age.ms": "3000",
}
_GO_CONSUMER = _MEMBERSHIP | {
    "fetch.min.bytes": "10",
    "max.partition.fetch.bytes": "234567",
    "fetch.max.wait.ms": "321",
    "isolation.level": "read_committed",
    "client.rack": "r1",
    "metadata.max.age.ms": "3000",
}
#: the settings of the Go programs under the Java client's names, because in Go they are functions and fields
GO = {
    "franz-go": {
        "library": "franz-go 1.22.2",
        "produce": _GO_PRODUCER | {"client.id": "franz-maker", "compression.type": "lz4"},
        "consume": _GO_CONSUMER
        | {
            "client.id": "franz-taker",
            "fetch.max.bytes": "1234567",
            "group.id": "g-franz",
            "group.instance.id": "franz-instance",
            "partition.assignment.strategy": "roundrobin,range",
        },
    },
    "sarama": {
        "library": "sarama 1.61.1, Version V3_6_0_0",
        "produce": _GO_PRODUCER | {"client.id": "sarama-maker", "compression.type": "zstd"},
        "consume": _GO_CONSUMER
        | {
            "client.id": "sarama-taker",
            "group.id": "g-sarama",
            "group.instance.id": "sarama-instance",
            "partition.assignment.strategy": "roundrobin",
        },
    },
}
_SHORT = {"java": "java", "confluent": "rd", "kafka-python": "kp"}


def play(stage: Stage) -> None:
    """Run producers, consumers and transactional producers of five libraries for some seconds; the producers start
    with many records, so that lingering shows."""
    stage.untold |= {"sent", "delivered", "received", "committed"}
    makers, takers = [], []
    with _go_clients(stage):
        for kind, short in _SHORT.items():
            makers.append(_start(stage, f"{short}-maker", kind, "produce", PRODUCERS[kind]))
            takers.append(
                _start(stage, f"{short}-taker", kind, "consume", CONSUMERS[kind] | _named(kind, f"g-{short}"))
            )
        for maker in makers:
            maker.tell("send 60 40")
            maker.tell("send 25 400")
        _transactions(stage)
        for maker in makers:
            maker.until("done", 2)
        time.sleep(2)
    for worker in (*makers, *takers):
        worker.close()


def _named(kind: str, group: str) -> dict[str, str]:
    return {"group_id" if kind == "kafka-python" else "group.id": group}


def _start(stage: Stage, name: str, kind: str, role: str, settings: dict[str, str]) -> Worker:
    return stage.start(name, kind, role, **settings)


def _transactions(stage: Stage) -> None:
    for kind, short in _SHORT.items():
        joint = "_" if kind == "kafka-python" else "."
        named = TRANSACTIONAL[kind] | {f"transactional{joint}id": f"x-{short}"}
        worker = _start(stage, f"{short}-transactional", kind, "produce", named)
        worker.obey("begin", "send 5 10", "flush", "commit")
        worker.close()


@contextmanager
def _go_clients(stage: Stage) -> Iterator[None]:
    """Run the Go programs during the block."""
    running = []
    try:
        for kind, facts in GO.items():
            for role in ("produce", "consume"):
                running.append(_go(kind, stage.bootstrap, role, stage.topic))
                stage.others.append(_told(facts, role))
        yield
        if any(process.poll() is not None for process in running):
            raise CannotRun("a client in Go ended early")
    finally:
        for process in running:
            process.communicate(timeout=60)


def _told(facts: dict[str, Any], role: str) -> dict[str, Any]:
    settings = facts[role]
    return {
        "name": settings["client.id"],
        "library": facts["library"],
        "role": role,
        "settings": settings,
    }


def _go(kind: str, address: str, role: str, topic: str) -> subprocess.Popen[bytes]:
    need("go")
    program = cache() / f"{kind}-configured"
    run(["go", "build", "-o", program, "./configured"], cwd=Path(__file__).parent / "clients" / kind)
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        [program, address, role, topic], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet
    )
