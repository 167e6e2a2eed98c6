"""Group members for lanes: clients in their own processes that obey orders and report their events.

    stage = Stage("upgrade", story, bootstrap, quiet)
    with stage.of(replicas=1):
        m1 = stage.join("m1", "java")
        m1.send(signal.SIGSTOP)

All actions on members, and all calls of their listeners, are in the :class:`Story` with their times.
"""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tests.lanes.broker import JVM, KAFKA, kafka_class_path
from tests.lanes.network import Network
from tests.lanes.tools import cache, class_path, need, run, wait_for

SESSION_S = 6
LOCK_S = 5
"""How long a member of a share group may hold records (``group.share.record.lock.duration.ms``)."""
RANGE = {"java": "org.apache.kafka.clients.consumer.RangeAssignor", "confluent": "range"}
_PROGRAMS = Path(__file__).parent / "clients" / "groups"
_CONFLUENT = "confluent-kafka==2.16.1"
_STRATEGY = "partition.assignment.strategy"
_CLASSIC = {"session.timeout.ms": str(SESSION_S * 1000), "heartbeat.interval.ms": "1000"}
_SETTINGS = {
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": "1000",
    "max.poll.interval.ms": "60000",
    "metadata.max.age.ms": "3000",
}


@dataclass(slots=True)
class Story:
    """The actions and the listeners' calls, as stored in the truth.

    :ivar over: end of the scenario in seconds since the epoch; later broker logs are ignored
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    over: float = float("inf")

    def note(self, who: str, what: str, **more: Any) -> None:
        """Record an event with the current time."""
        self.events.append({"t": round(time.time(), 3), "who": who, "what": what} | more)


class Member:
    """A client in its own process.

    :param kind: one of :data:`COMMANDS`
    :param where: function that turns a command into one that runs elsewhere, such as on another host
    """

    def __init__(
        self,
        story: Story,
        name: str,
        kind: str,
        settings: Mapping[str, str],
        topics: str,
        where: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._story = story
        self._said: list[str] = []
        arguments = [f"{key}={value}" for key, value in settings.items()]
        story.note(name, "spawn", config=[each for each in arguments if each.startswith("group.instance.id")])
        self._process = subprocess.Popen(
            [*where, *map(str, COMMANDS[kind]()), topics, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            time_ms, what, rest = f"{line.strip()}  ".split(" ", 2)
            event = {"t": int(time_ms) / 1000, "who": self.name, "what": what}
            self._story.events.append(event | ({"data": rest.strip()} if rest.strip() else {}))
            self._said.append(what)

    def count(self, what: str) -> int:
        """Return the number of events of one kind that its listener reported."""
        return self._said.count(what)

    def tell(self, order: str) -> None:
        """Send it an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its process."""
        self._story.note(self.name, number.name)
        self._process.send_signal(number)

    def freeze(self, number: signal.Signals) -> None:
        """Stop or continue its process without an entry of its own: the story has that of its host."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Make it leave the group, and wait until it exits."""
        self._story.note(self.name, "clean close")
        self.tell("close")
        self._process.wait(30)
        self._story.note(self.name, "process ended")

    @property
    def lives(self) -> bool:
        """Whether its process is alive."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill its process if it is alive."""
        self._process.kill()
        self._process.wait()


def _confluent() -> list[str | Path]:
    python = cache() / "venv" / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", cache() / "venv"])
    if not list((cache() / "venv").glob("lib/*/site-packages/confluent_kafka")):
        run([python, "-m", "pip", "install", "-q", _CONFLUENT])
    return [python, _PROGRAMS / "confluent_member.py"]


def _java(main: str, path: Callable[[], str] = kafka_class_path) -> list[str | Path]:
    need("java", "javac")
    classes = cache() / "member"
    run(["javac", "-d", classes, "-cp", path(), _PROGRAMS / f"{main}.java"])
    return ["java", "-Xmx100m", *JVM, "-cp", f"{classes}:{path()}", main]


def _streams_class_path() -> str:
    return class_path([f"org.apache.kafka:kafka-streams:{KAFKA}", "org.slf4j:slf4j-simple:1.7.36"])


COMMANDS: dict[str, Callable[[], list[str | Path]]] = {
    "java": functools.cache(functools.partial(_java, "Member")),
    "share": functools.cache(functools.partial(_java, "ShareMember")),
    "streams": functools.cache(functools.partial(_java, "StreamsMember", _streams_class_path)),
    "confluent": _confluent,
}
_READY = {"share": "records", "streams": "tasks"}
"""First event of a member that has work; other members report an assignment of partitions."""


class StageMember(Protocol):
    """A process that a stage ends after its scenario.

    :ivar lives: whether its process is alive
    """

    @property
    def lives(self) -> bool: ...

    def close(self) -> None:
        """Make it leave the group, and wait until it exits."""

    def end(self) -> None:
        """Kill its process if it is alive."""


class Stage:
    """The environment of a scenario: a group and its topics.

    :param bootstrap: address for the members; its traffic is recorded
    :param quiet: address for everything else
    :param network: network with a host for each member; without it, all run on this host
    """

    def __init__(
        self, name: str, story: Story, bootstrap: str, quiet: str, network: Network | None = None
    ) -> None:
        self.story = story
        self._network = network
        self.group, self.topic = f"g-{name}", f"t-{name}"
        self.members: list[StageMember] = []
        self.bootstrap, self._quiet = bootstrap, quiet
        self._over = threading.Event()
        self._producing = threading.Thread(target=self._produce, daemon=True)

    @contextmanager
    def of(self, replicas: int) -> Iterator[None]:
        """Create the topics, and write to the first during the block; end all members after it."""
        admin = KafkaAdminClient(bootstrap_servers=self._quiet)
        admin.create_topics([NewTopic(name, 6, replicas) for name in (self.topic, f"{self.topic}-more")])
        admin.close()
        self._producing.start()
        try:
            yield
        finally:
            self._over.set()
            for member in self.members:
                member.end()
            self._producing.join(5)

    def _produce(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._quiet)
        while not self._over.wait(0.5):
            producer.send(self.topic, b"something")
        producer.close()

    def start(self, name: str, kind: str, topics: str = "", **settings: str) -> Member:
        """Start a member, by default subscribed to the first topic."""
        named = {key.replace("_", "."): value for key, value in settings.items()}
        # with the newer group types, the broker decides on timeouts and assignments
        modern = named.get("group.protocol", "classic") != "classic" or kind == "share"
        protocol = {} if modern else _CLASSIC
        if kind in RANGE and not modern:
            protocol = protocol | {_STRATEGY: RANGE[kind]}
        group = "application.id" if kind == "streams" else "group.id"
        who = {"bootstrap.servers": self.bootstrap, group: self.group, "client.id": name}
        settings = who | _SETTINGS | protocol | named
        if kind == "share":
            del settings["auto.offset.reset"]  # the group has a setting for it, and members must not have one
        where = [] if self._network is None else self._network.host(name)
        member = Member(self.story, name, kind, settings, topics or self.topic, where)
        self.members.append(member)
        return member

    def join(self, name: str, kind: str, topics: str = "", **settings: str) -> Member:
        """Start a member, and wait until it has an assignment."""
        member = self.start(name, kind, topics, **settings)
        wait_for(f"{name} joining", lambda: member.count(_READY.get(kind, "assigned")) > 0)
        time.sleep(2)
        return member

    def add_partitions(self) -> None:
        """Add partitions to the first topic."""
        self.story.note("quiet", "partitions", data=f"{self.topic} 6 to 8")
        admin = KafkaAdminClient(bootstrap_servers=self._quiet)
        admin.create_partitions({self.topic: 8})
        admin.close()

    def again(self, *members: Member, after: Callable[[], None]) -> None:
        """Perform an action, and wait until the members have received a new assignment."""
        before = [member.count("assigned") for member in members]
        after()
        for member, count in zip(members, before, strict=True):
            wait_for(f"{member.name}'s partitions", lambda m=member, c=count: m.count("assigned") > c)  # type: ignore[misc]

    def close(self) -> None:
        """Make all live members leave, one after the other."""
        for member in self.members:
            if member.lives:
                member.close()
                time.sleep(1.5)
