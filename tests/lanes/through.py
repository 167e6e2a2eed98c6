"""Clients that use a proxy: their dependencies, commands and output.

They are the programs in ``clients/proxy``, whose arguments and output are described in ``common.py`` there, and Kafka's
own verifiable producer and consumer.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lanes.broker import JVM, java, kafka_class_path
from tests.lanes.cluster import NODES
from tests.lanes.jobs import CONFIGURATION, GROUP, GROUPS, JOBS, TOPICS, TRANSACTION
from tests.lanes.tools import CannotRun, Wrong, cache, need, run, wait_for

_CLIENTS = Path(__file__).parent / "clients"
_PROGRAMS = _CLIENTS / "proxy"
_VERIFIABLE = "org.apache.kafka.tools.Verifiable"
_ERRAND_S = 120
_END_S = 120
_BUILD_S = 600
_MEMBERS = 2
_YES, _NO = "yes", "-"


@dataclass(frozen=True)
class Command:
    """The command of a program.

    :ivar env: additional environment variables
    """

    words: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Client:
    """A kind of client.

    :ivar versions: versions of its components, for the report
    :ivar prepare: function that downloads and builds it
    :ivar lacks: jobs that it cannot do -> reason
    :ivar kinds: kinds of values that it consumes
    :ivar endures: whether it can be told to keep running through failures
    :ivar tells_brokers: whether its API reveals the brokers of the cluster
    """

    versions: str
    prepare: Callable[[], Command]
    lacks: Mapping[str, str] = field(default_factory=dict)
    kinds: Sequence[str] = ("plain", "committed")
    endures: bool = True
    tells_brokers: bool = True

    def expected(self, count: int) -> list[str]:
        """Return the values that it has to consume."""
        return sorted(f"{kind} {n}" for kind in self.kinds for n in range(count))

    @property
    def members(self) -> int:
        """Required number of group members."""
        return 0 if GROUP in self.lacks else _MEMBERS


def _python(program: str, requirement: str) -> Callable[[], Command]:
    def prepare() -> Command:
        python = cache() / "venv" / "bin" / "python"
        if not python.exists():
            run([sys.executable, "-m", "venv", cache() / "venv"])
        run([python, "-m", "pip", "install", "-q", requirement])
        return Command([python, _PROGRAMS / program])

    return prepare


def _node() -> Command:
    need("node", "npm")
    folder = cache() / "kafkajs"
    folder.mkdir(exist_ok=True)
    package = _CLIENTS / "kafkajs" / "package.json"
    (folder / "package.json").write_bytes(package.read_bytes())
    run(["npm", "install", "--silent", "--no-package-lock"], cwd=folder)
    return Command(["node", _PROGRAMS / "kafkajs.js"], {"NODE_PATH": str(folder / "node_modules")})


def _go(module: str) -> Callable[[], Command]:
    def prepare() -> Command:
        need("go")
        program = cache() / f"{module}-errand"
        run(["go", "build", "-o", program, "./errand"], cwd=_CLIENTS / module)
        return Command([program])

    return prepare


def _rust(crate: str, *tools: str) -> Callable[[], Command]:
    """Return a function that builds with cargo.

    :param tools: other programs that the crates need
    """

    def prepare() -> Command:
        need("cargo", *tools)
        target = cache() / "rust" / crate
        options = ("--quiet", "--locked", "--release", "--target-dir")
        run(["cargo", "build", *options, target], cwd=_CLIENTS / crate, timeout=_BUILD_S)
        return Command([target / "release" / f"{crate}-errand"])

    return prepare


def _kcat() -> Command:
    need("kcat")
    return Command([sys.executable, _PROGRAMS / "kcat_client.py"])


def _java() -> Command:
    need("java", "javac")
    classes = cache() / "errand"
    run(["javac", "-d", classes, "-cp", kafka_class_path(), _PROGRAMS / "Errand.java"])
    path = f"{classes}:{kafka_class_path()}"
    return Command(["java", "-Xmx150m", *JVM, "-cp", path, "Errand"])


CLIENTS = {
    "java": Client("Kafka's Java client 4.3.0", _java),
    "confluent-kafka": Client(
        "librdkafka, confluent-kafka 2.16.1", _python("confluent_client.py", "confluent-kafka==2.16.1")
    ),
    "kafka-python": Client("kafka-python 3.0.12", _python("kafka_python_client.py", "kafka-python==3.0.12")),
    "aiokafka": Client("aiokafka 0.14.0", _python("aiokafka_client.py", "aiokafka==0.14.0")),
    "kafkajs": Client("kafkajs 2.2.4", _node),
    "franz-go": Client("franz-go 1.22.2", _go("franz-go"), endures=False),
    "sarama": Client("sarama 1.61.1", _go("sarama"), endures=False),
    # its reader returns aborted records even with read_committed: segmentio/kafka-go issue 1332
    "kafka-go": Client(
        "segmentio kafka-go 0.4.51", _go("kafka-go"), kinds=("plain", "committed", "aborted"), endures=False
    ),
    "rdkafka": Client(
        "rust-rdkafka 0.39.0, with librdkafka 2.12.1", _rust("rdkafka", "gcc", "make"), endures=False
    ),
    "rskafka": Client(
        "rskafka 0.6.0",
        _rust("rskafka", "gcc"),
        {
            **dict.fromkeys((GROUP, TRANSACTION), "by design: it reads and writes single partitions"),
            **dict.fromkeys((CONFIGURATION, GROUPS), "it administers only topics and records"),
        },
        kinds=("plain",),
        endures=False,
        tells_brokers=False,
    ),
    "kcat": Client(
        "kcat, with librdkafka",
        _kcat,
        {
            TOPICS: "it has no administration; brokers create a topic when it asks for one",
            **dict.fromkeys((CONFIGURATION, GROUPS), "it has no administration"),
        },
        endures=False,
    ),
}


def errand(name: str, command: Command, bootstrap: str, ports: Collection[int], count: int) -> None:
    """Have a client do everything that it can.

    :param ports: ports of kproxy; the client may learn of no others
    :raises CannotRun: if it fails
    :raises Wrong: if it prints nothing, does not consume the expected values or not in a group of two, or learns of
        brokers other than kproxy
    """
    client = CLIENTS[name]
    told = _sent(command, bootstrap, f"errand-{name}", count)
    if sorted(told["consumed"]) != client.expected(count):
        raise Wrong(f"consumed {told['consumed']}")
    if told["members"] != client.members:
        raise Wrong(f"the group had {told['members']} members, not {client.members}")
    strange = [each for each in told["brokers"] if each[2] not in ports]
    if strange or len(told["brokers"]) != len(NODES) * client.tells_brokers:
        raise Wrong(f"it was told of brokers {told['brokers']}")


def _sent(command: Command, bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    """Send a client on its errand; return its output."""
    said = run([*command.words, "errand", bootstrap, topic, str(count)], env=command.env, timeout=_ERRAND_S)
    facts = [line for line in said.splitlines() if line.startswith("{")]
    if not facts:
        raise Wrong(f"it said nothing: {said[-500:]}")
    told: dict[str, Any] = json.loads(facts[-1])
    return told


def table() -> str:
    """Return the documentation's table of jobs that each client does through kproxy, with reasons for gaps."""
    rows = [
        f"| {client.versions} | " + " | ".join(_NO if job in client.lacks else _YES for job in JOBS) + " |"
        for client in CLIENTS.values()
    ]
    reasons = [
        f"- {name}, {', '.join(job for job in JOBS if client.lacks.get(job) == why)}: {why}."
        for name, client in CLIENTS.items()
        for why in dict.fromkeys(client.lacks.values())
    ]
    head = [f"| client | {' | '.join(JOBS)} |", "|---" * (1 + len(JOBS)) + "|"]
    return "\n".join([*head, *rows, "", *reasons])


class Process:
    """A running program, with a thread that reads the JSON lines it prints."""

    def __init__(self, command: Command, log: Path, note: Callable[[dict[str, Any]], None]) -> None:
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                list(map(str, command.words)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=os.environ | command.env,
                text=True,
            )
        self._note = note
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._note(json.loads(line))

    def end_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self) -> None:
        """Wait until it exits and all its output has been read.

        :raises Wrong: if it takes too long
        """
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Wrong("it did not end") from None
        self._reader.join()


class Endurer:
    """A client that produces and consumes through all failures.

    :ivar topic: its topic, which no other client uses
    :ivar acknowledged: number of acknowledged records
    :ivar consumed: number of distinct consumed records
    :ivar failures: errors that the library reported to the application, by name
    """

    def __init__(self, name: str, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.acknowledged = 0
        self.consumed = 0
        self.failures: dict[str, int] = {}

    def finish(self) -> list[int]:
        """Let it finish, and return the numbers of the records that it missed.

        :raises Wrong: if it does not exit
        """
        raise NotImplementedError

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        raise NotImplementedError


class ProgramEndurer(Endurer):
    """One of the programs in ``clients/proxy``."""

    def __init__(self, name: str, command: Command, bootstrap: str, topic: str, folder: Path) -> None:
        super().__init__(name, topic)
        self._missed: list[int] | None = None
        words = [*command.words, "endure", bootstrap, topic]
        self._process = Process(Command(words, command.env), folder / f"{topic}.log", self._note)

    def _note(self, told: dict[str, Any]) -> None:
        self.acknowledged = told.get("acknowledged", self.acknowledged)
        self.consumed = told.get("consumed", self.consumed)
        self.failures = told.get("failures", self.failures)
        self._missed = told.get("missed", self._missed)  # a report may follow it

    @property
    def pid(self) -> int:
        return self._process.pid

    def finish(self) -> list[int]:
        self._process.end_input()
        self._process.wait()
        if self._missed is None:
            raise Wrong(f"{self.name} ended without a word")
        return self._missed

    def kill(self) -> None:
        self._process.kill()


class JavaEndurer(Endurer):
    """Kafka's verifiable producer and consumer."""

    def __init__(self, name: str, bootstrap: str, topic: str, folder: Path) -> None:
        super().__init__(name, topic)
        self._acknowledged: set[int] = set()
        self._consumed: set[int] = set()
        cluster = ("--bootstrap-server", bootstrap, "--topic", topic)
        retrying = folder / f"{topic}.properties"
        retrying.write_text(f"retries={2**31 - 1}\n")  # the default of producers; this one's is 0
        paced = ("--throughput", "50", "--acks", "-1", "--command-config", retrying)
        producer = java(f"{_VERIFIABLE}Producer", *cluster, *paced)
        consumer = java(
            f"{_VERIFIABLE}Consumer",
            *cluster,
            *("--group-id", topic, "--reset-policy", "earliest", "--session-timeout", "6000", "--verbose"),
        )
        self._producer = Process(Command(producer), folder / f"{topic}.producer.log", self._note)
        self._consumer = Process(Command(consumer), folder / f"{topic}.consumer.log", self._note)

    def _note(self, told: dict[str, Any]) -> None:
        if told["name"] == "producer_send_success":
            self._acknowledged.add(int(told["value"]))
            self.acknowledged = len(self._acknowledged)
        elif told["name"] == "record_data":
            self._consumed.add(int(told["value"]))
            self.consumed = len(self._consumed)
        elif told["name"] == "producer_send_error":
            name = told["exception"].rpartition(".")[2]
            self.failures = self.failures | {name: self.failures.get(name, 0) + 1}

    def finish(self) -> list[int]:
        self._producer.terminate()
        self._producer.wait()
        with contextlib.suppress(CannotRun):
            wait_for("the last record", lambda: self._acknowledged <= self._consumed)
        self._consumer.terminate()
        self._consumer.wait()
        return sorted(self._acknowledged - self._consumed)

    def kill(self) -> None:
        self._producer.kill()
        self._consumer.kill()
