"""Kafka Connect workers for the rebalance lane, and failures injected into them: one function per scenario.

A worker logs when it starts and stops connectors and tasks. The truth contains these events, and the actions on workers
and connectors.
"""

from __future__ import annotations

import functools
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.lanes.broker import JVM, KAFKA
from tests.lanes.members import SESSION_S, Stage
from tests.lanes.tools import CannotRun, class_path, free_ports, wait_for

DELAY_S = 10
"""How long a group waits for a lost worker to return (``scheduled.rebalance.max.delay.ms``)."""
SINK_GROUP = "connect-sink1"
"""Group of the sink connector's consumers."""
_STARTED = re.compile(r"^(\S+) .*?(Starting|Stopping) (connector|task) (\S+?)(?: with .*)?$")
_FILE = "org.apache.kafka.connect.file.FileStream"


@functools.cache
def _class_path() -> str:
    names = ("connect-runtime", "connect-file")
    return class_path(
        [*(f"org.apache.kafka:{name}:{KAFKA}" for name in names), "org.slf4j:slf4j-simple:1.7.36"]
    )


class Worker:
    """A worker in its own process.

    :param folder: folder for its configuration and log
    :ivar name: its client ID
    """

    def __init__(self, stage: Stage, name: str, folder: Path) -> None:
        self.name = name
        self._story = stage.story
        (self.port,) = free_ports(1)
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "bootstrap.servers": stage.bootstrap,
            "group.id": stage.group,
            "client.id": name,
            "listeners": f"http://127.0.0.1:{self.port}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "session.timeout.ms": SESSION_S * 1000,
            "heartbeat.interval.ms": 1000,
            "scheduled.rebalance.max.delay.ms": DELAY_S * 1000,
            "offset.flush.interval.ms": 5000,
        }
        for store in ("config", "offset", "status"):
            settings |= {
                f"{store}.storage.topic": f"{stage.group}-{store}",
                f"{store}.storage.replication.factor": 1,
            }
            if store != "config":
                settings[f"{store}.storage.partitions"] = 1
        properties = folder / f"{name}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._log = folder / f"{name}-{time.time_ns()}.log"
        self._story.note(name, "spawn", config=[])
        logging = [
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXX",
        ]
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["java", "-Xmx200m", *JVM, *logging, "-cp", _class_path(), main, str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        stage.members.append(self)

    def wait(self) -> None:
        """Wait until it has joined and received an assignment."""
        joined = "Finished starting connectors and tasks"
        wait_for(f"{self.name}'s assignment", lambda: joined in self._said(), timeout=120)

    def _said(self) -> str:
        return self._log.read_text(errors="replace")

    def ask(self, method: str, path: str, body: Any = None) -> None:
        """Send a request to its REST endpoint, repeatedly while the group rebalances."""
        self._story.note(self.name, f"{method} {path}")
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(f"http://127.0.0.1:{self.port}{path}", data, headers, method=method)

        def done() -> bool:
            try:
                with urlopen(request, timeout=30) as response:
                    return response.status < 300
            except OSError:
                return False

        wait_for(f"{method} {path}", done)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its process."""
        self._story.note(self.name, number.name)
        self._process.send_signal(number)

    def close(self) -> None:
        """Make it leave the group, and wait until it exits."""
        self._story.note(self.name, "clean close")
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            raise CannotRun(f"{self.name} did not end within 30 s") from None
        self._story.note(self.name, "process ended")

    @property
    def lives(self) -> bool:
        """Whether its process is alive."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill its process if it is alive, and record what it started and stopped."""
        self._process.kill()
        self._process.wait()
        for line in self._said().splitlines():
            if (match := _STARTED.match(line)) is not None:
                told = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S.%f%z").astimezone(UTC)
                event = {"t": round(told.timestamp(), 3), "who": self.name}
                self._story.events.append(
                    event | {"what": f"{match[2].lower()} {match[3]}", "data": match[4]}
                )


def _source(stage: Stage, folder: Path, more: str = "") -> dict[str, str]:
    (folder / "lines").touch()
    return {
        "connector.class": f"{_FILE}SourceConnector",
        "tasks.max": "1",
        "file": str(folder / "lines"),
        "topic": f"{stage.topic}-more",
        "batch.size": more or "2000",
    }


def _sink(stage: Stage, folder: Path, tasks: int) -> dict[str, str]:
    return {
        "connector.class": f"{_FILE}SinkConnector",
        "tasks.max": str(tasks),
        "file": str(folder / "out"),
        "topics": stage.topic,
    }


def _second_killed(stage: Stage, folder: Path) -> None:
    """Start two workers with a source and a sink, and kill the second one."""
    w1, w2 = (Worker(stage, name, folder) for name in ("w1", "w2"))
    w1.wait()
    w2.wait()
    w1.ask("PUT", "/connectors/src1/config", _source(stage, folder))
    time.sleep(2)
    w1.ask("PUT", "/connectors/sink1/config", _sink(stage, folder, 3))
    time.sleep(6)
    w2.send(signal.SIGKILL)


def connect_workers_lost(stage: Stage, folder: Path) -> None:
    """Connect: of two workers one is killed and is back within the delay, then is killed for good."""
    _second_killed(stage, folder)
    time.sleep(1)
    w2 = Worker(stage, "w2", folder)
    w2.wait()
    time.sleep(DELAY_S + 6)
    w2.send(signal.SIGKILL)
    time.sleep(SESSION_S + DELAY_S + 6)
    stage.close()


def connect_worker_late(stage: Stage, folder: Path) -> None:
    """Connect: of two workers one is killed and returns after the delay, when the other has its tasks."""
    _second_killed(stage, folder)
    time.sleep(SESSION_S + DELAY_S + 6)
    w2 = Worker(stage, "w2", folder)
    w2.wait()
    time.sleep(DELAY_S + 6)
    stage.close()


def connect_changes(stage: Stage, folder: Path) -> None:
    """Connect: connectors are created, get other tasks, are paused, and deleted; a second worker joins and leaves."""
    w1 = Worker(stage, "w1", folder)
    w1.wait()
    w1.ask("PUT", "/connectors/sink1/config", _sink(stage, folder, 1))
    time.sleep(3)
    w1.ask("PUT", "/connectors/src1/config", _source(stage, folder))
    time.sleep(3)
    w1.ask("PUT", "/connectors/sink1/config", _sink(stage, folder, 3))
    time.sleep(3)
    w2 = Worker(stage, "w2", folder)
    w2.wait()
    time.sleep(4)
    w1.ask("PUT", "/connectors/src1/config", _source(stage, folder, "100"))
    time.sleep(3)
    w1.ask("DELETE", "/connectors/src1")
    time.sleep(4)
    w2.close()
    time.sleep(DELAY_S + 4)
    stage.close()


SCENARIOS: dict[str, Callable[[Stage, Path], None]] = {
    "47_k430_connect_workers_lost": connect_workers_lost,
    "47_k430_connect_changes": connect_changes,
    "52_k430_connect_worker_late": connect_worker_late,
}
