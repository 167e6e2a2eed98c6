"""Workers for the questions lane: clients in their own processes that produce or consume on request, and log each
record
and each commit by their own clock and callbacks.

    stage = Stage("retries", bootstrap, quiet)
    with stage.of(partitions=3):
        maker = stage.start("maker", "java", "produce", acks="all")
        maker.obey("send 20 10")
        maker.obey("flush")

``clients/questions/common.py`` describes the orders and the output.
"""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from tests.lanes.broker import JVM, KAFKA, kafka_class_path
from tests.lanes.members import COMMANDS as MEMBERS
from tests.lanes.tools import CannotRun, cache, need, run, wait_for

_PROGRAMS = Path(__file__).parent / "clients" / "questions"

#: the libraries, as named in the truth
LIBRARIES = {
    "java": f"apache-kafka-java {KAFKA}",
    "confluent": "librdkafka 2.16.0 (confluent-kafka 2.16.1)",
    "kafka-python": "kafka-python 3.0.12",
}


class Worker:
    """A client in its own process.

    :param kind: one of :data:`LIBRARIES`
    :param role: ``produce``, ``consume`` or, with ``java`` only, ``copy``
    :param settings: settings of the client, in its own notation
    """

    def __init__(self, name: str, kind: str, role: str, topic: str, settings: dict[str, str]) -> None:
        self.name, self.kind, self.role, self.settings = name, kind, role, settings
        self.said: list[dict[str, Any]] = []
        arguments = [f"{key}={value}" for key, value in settings.items()]
        self._process = subprocess.Popen(
            [*map(str, _COMMANDS[kind]()), role, topic, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.said.append({"who": self.name} | json.loads(line))

    def count(self, what: str) -> int:
        """Return the number of events of one kind in its output."""
        return sum(each["what"] == what for each in self.said)

    def tell(self, order: str) -> None:
        """Send it an order, without waiting for the result."""
        self._note("told", order=order)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()

    def obey(self, *orders: str) -> None:
        """Send it orders one after the other, and wait until they are carried out."""
        before = self.count("done")
        for order in orders:
            self.tell(order)
        self.until("done", before + len(orders))

    def until(self, what: str, count: int = 1, timeout: float = 90) -> None:
        """Wait until its output has had so many events of one kind.

        :raises CannotRun: if it takes longer than the timeout, or the process exits
        """

        def said() -> bool:
            if self.count(what) < count and self._process.poll() is not None:
                raise CannotRun(f"{self.name} ended while it was to say {what} {count} times")
            return self.count(what) >= count

        wait_for(f"{self.name}: {what} {count} times", said, timeout)

    def close(self) -> None:
        """Shut it down cleanly, and wait until it exits."""
        self._note("close")
        self.tell("close")
        self._process.wait(60)

    def crash(self) -> None:
        """Kill it with SIGKILL."""
        self._note("SIGKILL")
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _note(self, what: str, **more: str) -> None:
        self.said.append({"who": self.name, "t": time.time_ns() // 1000, "what": what} | more)

    @property
    def lives(self) -> bool:
        """Whether its process is alive."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill its process if it is alive."""
        self._process.kill()
        self._process.wait()


def _confluent() -> list[str | Path]:
    python, *_ = MEMBERS["confluent"]()
    return [python, _PROGRAMS / "confluent_worker.py"]


def _java() -> list[str | Path]:
    need("java", "javac")
    classes = cache() / "worker"
    run(["javac", "-d", classes, "-cp", kafka_class_path(), _PROGRAMS / "Worker.java"])
    return ["java", "-Xmx100m", *JVM, "-cp", f"{classes}:{kafka_class_path()}", "Worker"]


_COMMANDS: dict[str, Callable[[], list[str | Path]]] = {
    "java": functools.cache(_java),
    "confluent": functools.cache(_confluent),
    "kafka-python": lambda: [sys.executable, _PROGRAMS / "kafka_python_worker.py"],
}


class Stage:
    """The environment of a scenario: a topic, and the workers that use it.

    :param bootstrap: address for the workers; its traffic is recorded
    :param quiet: another listener of the same broker, for everything outside the scenario
    :ivar events: actions on the broker, as stored in the truth
    :ivar untold: event names that a scenario leaves out of the truth
    :ivar others: clients other than workers, as stored in the truth
    """

    def __init__(self, name: str, bootstrap: str, quiet: str) -> None:
        self.topic = f"t-{name}"
        self.workers: list[Worker] = []
        self.events: list[dict[str, Any]] = []
        self.untold = {"ready"}
        self.others: list[dict[str, Any]] = []
        self.bootstrap, self._quiet = bootstrap, quiet

    @contextmanager
    def of(self, partitions: int, replicas: int = 1) -> Iterator[None]:
        """Create the topic and its copy for the block, and end all workers after it."""
        with closing(KafkaAdminClient(bootstrap_servers=self._quiet)) as admin:
            admin.create_topics(
                [NewTopic(name, partitions, replicas) for name in (self.topic, f"{self.topic}-copy")]
            )
        try:
            yield
        finally:
            for worker in self.workers:
                worker.end()

    def start(self, name: str, kind: str, role: str, **settings: object) -> Worker:
        """Start a worker and wait until it is ready.

        :param settings: client settings, with underscores for dots
        """
        common = {"bootstrap_servers": self.bootstrap, "client_id": name}
        if role != "produce":
            common |= {"auto_offset_reset": "earliest"}
        joint = "_" if kind == "kafka-python" else "."
        named = {key.replace("_", joint): str(value) for key, value in (common | settings).items()}
        worker = Worker(name, kind, role, self.topic, named)
        self.workers.append(worker)
        worker.until("ready")
        return worker

    def note(self, what: str, **more: Any) -> None:
        """Record an action on the broker, or a fact about it, with the current time."""
        self.events.append({"who": "broker", "t": time.time_ns() // 1000, "what": what} | more)

    def truth(self) -> dict[str, Any]:
        """Return the participants and all events in chronological order."""
        told = [*self.events, *(each for worker in self.workers for each in worker.said)]
        return {
            "topic": self.topic,
            "workers": [
                {
                    "name": each.name,
                    "library": LIBRARIES[each.kind],
                    "role": each.role,
                    "settings": {
                        key: value
                        for key, value in each.settings.items()
                        if key not in ("bootstrap.servers", "bootstrap_servers")
                    },
                }
                for each in self.workers
            ]
            + self.others,
            "events": sorted(filter(self._telling, told), key=lambda each: each["t"]),
        }

    def _telling(self, event: dict[str, Any]) -> bool:
        """Whether an event belongs in the truth; of the orders, only those about transactions do."""
        if event["what"] in ("told", "done"):
            return event["order"].partition(" ")[0] in ("begin", "commit", "abort")
        return event["what"] not in self.untold
