"""Old releases of Kafka's client at a current broker: a scenario of the questions lane.

Kafka 4 supports clients from 2.1 on (KIP-896). The truth records what older ones report themselves: whether a record
was delivered, and whether it was received.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.lanes.broker import JVM
from tests.lanes.tools import cache, class_path, need, run
from tests.lanes.workers import Stage

RELEASES = ("0.9.0.1", "0.10.2.2", "1.1.1", "2.1.1")
_PROGRAM = Path(__file__).parent / "clients" / "questions" / "OldClient.java"


def play(stage: Stage) -> None:
    """Have clients of several releases send and read a record."""
    maker = stage.start("maker", "java", "produce")
    maker.obey("send 3 0", "flush")
    maker.close()
    for release in RELEASES:
        _play(stage, release)


def _play(stage: Stage, release: str) -> None:
    need("java", "javac")
    path = class_path([f"org.apache.kafka:kafka-clients:{release}", "org.slf4j:slf4j-simple:1.7.36"])
    classes = cache() / f"old-{release}"
    run(["javac", "-nowarn", "-d", classes, "-cp", path, _PROGRAM])
    name = f"java-{release}"
    jvm = ("-Xmx100m", *JVM, "-cp", f"{classes}:{path}")
    said = run(["java", *jvm, "OldClient", stage.bootstrap, stage.topic, name], timeout=90)
    events: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    stage.events += [{"who": name} | event for event in events]
    settings = {"client.id": f"{name}-maker, {name}-taker"}
    library = f"apache-kafka-java {release}"
    stage.others.append({"name": name, "library": library, "role": "both", "settings": settings})
