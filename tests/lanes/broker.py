"""A real Kafka broker with one node, for lanes: jars from Maven, format, start, stop.

    with Broker(work, {"PLAINTEXT": "PLAINTEXT"}) as broker:
        client(broker.address("PLAINTEXT"))

It runs on the loopback interface, in KRaft mode, with a small heap, and deletes its data when it stops. Kafka's own
command line tools are on the same class path (:func:`java`). A :class:`Node` is the process alone, with any
configuration; :mod:`tests.lanes.cluster` has several.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.lanes.tools import CannotRun, Command, class_path, free_ports, listens, need, run, wait_for

KAFKA = "4.3.0"

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
#: fast to start, and small: lanes run several Java programs one after the other
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"

#: one node holds all replicas, and groups do not wait for more members
_SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
}


#: not needed by a broker, and not on Maven Central
_UNAVAILABLE = ("com.sun.jmx:jmxri", "com.sun.jdmk:jmxtools", "javax.jms:jms")
#: up to 3.8 the broker itself uses Log4j 1; its transitive dependencies are excluded to avoid duplicates
_LOG4J = ("log4j:log4j:1.2.17", "org.slf4j:slf4j-api:1.7.25", "org.slf4j:slf4j-log4j12:1.7.25")
_OTHER_LOGGING = ("log4j:log4j", "org.slf4j:slf4j-api", "org.slf4j:slf4j-log4j12", "ch.qos.reload4j:reload4j")
_OTHER_LOGGING += ("org.slf4j:slf4j-reload4j",)
#: releases that have no ``kafka-tools`` on Maven Central, with the release whose tools are used
_TOOLS = {"4.4.0": "4.3.1"}
#: the latest Scala versions of Kafka's jars, with the first release that uses each
_SCALA = (((0, 0), "2.10"), ((0, 8, 2), "2.11"), ((1, 1), "2.12"), ((2, 5), "2.13"))
#: their ZooKeeper client cannot resolve addresses on Java 14 and later (ZOOKEEPER-3779); the version before can
_BROKEN_ZOOKEEPER = ((2, 0), (2, 4))
_OLDER_ZOOKEEPER = "org.apache.zookeeper:zookeeper:3.4.10"


def number(version: str) -> tuple[int, ...]:
    """Return a release as a comparable tuple."""
    return tuple(map(int, version.split(".")))


def kafka_class_path(version: str = KAFKA) -> str:
    """Return the class path of a release's broker, clients and tools, from 0.8 on.

    :raises CannotRun: if Maven is missing or cannot resolve the jars
    """
    release = number(version)
    scala = max(entry for entry in _SCALA if entry[0] <= release)[1]
    names = [f"kafka_{scala}", *(["kafka-tools"] if release >= (0, 9) and version not in _TOOLS else [])]
    kafka = [f"org.apache.kafka:{name}:{version}" for name in names]
    if release >= (3, 9):
        return class_path([*kafka, "org.slf4j:slf4j-simple:1.7.36"])
    more = ["javax.xml.bind:jaxb-api:2.3.0"] if release < (2, 0) else []
    left_out = [*_UNAVAILABLE, *_OTHER_LOGGING]
    if _BROKEN_ZOOKEEPER[0] <= release < _BROKEN_ZOOKEEPER[1]:
        left_out.append("org.apache.zookeeper:zookeeper")
        more.append(_OLDER_ZOOKEEPER)
    return class_path([*kafka, *more, *_LOG4J], left_out)


def tools_of(version: str) -> str:
    """Return the release whose tools are used: usually the same release."""
    return _TOOLS.get(version, version)


def java(
    main: str,
    *arguments: str | Path,
    version: str = KAFKA,
    jvm: Sequence[str] = (),
    classes: Path | None = None,
) -> Command:
    """Return the command that runs a class of Kafka, or a class from another folder that uses Kafka's."""
    if main.startswith("org.apache.kafka.tools."):
        version = tools_of(version)
    path = kafka_class_path(version)
    if classes is not None:
        path = f"{classes}:{path}"
    return ["java", "-Xmx150m", *JVM, _QUIET, *jvm, "-cp", path, main, *arguments]


class Node:
    """The process of a broker, a controller, or both.

    :param folder: folder for its configuration, data and log
    :param configuration: content of ``server.properties``, without ``log.dirs``
    :param ports: the ports it listens on once it has started
    :param host: the local address to listen on
    :param heap: heap of the JVM
    :param jvm: other JVM options
    :cvar main: the main class
    """

    main = "kafka.Kafka"

    def __init__(
        self,
        folder: Path,
        configuration: Mapping[str, str],
        ports: Sequence[int],
        *,
        version: str = KAFKA,
        heap: str = "400m",
        jvm: Sequence[str] = (),
        host: str = "127.0.0.1",
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        self.version = version
        self._cluster_id = cluster_id
        self.host = host
        self._folder = folder
        self._configuration = dict(configuration) | {"log.dirs": str(folder / "data")}
        self._awaited = ports
        self._jvm = (f"-Xmx{heap}", *jvm)
        self._process: subprocess.Popen[bytes] | None = None

    def format(self, *options: str) -> None:
        """Write its configuration and format its storage, deleting any earlier data.

        :param options: options of the storage tool
        """
        self.write()
        storage = ("format", "-t", self._cluster_id, *options, "-c", self._properties)
        run(java("kafka.tools.StorageTool", *storage, version=self.version))

    def write(self) -> None:
        """Write its configuration, deleting any earlier data."""
        need("java")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        lines = (f"{key}={value}\n" for key, value in self._configuration.items())
        self._properties.write_text("".join(lines))

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    def start(self) -> None:
        """Start it, without waiting until it listens."""
        command = java(self.main, self._properties, version=self.version, jvm=self._jvm)
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_until_it_listens(self) -> None:
        """Wait until its ports are open.

        :raises CannotRun: if it takes too long or exits
        """
        try:
            wait_for("the start of the broker", lambda: all(map(self._listens, self._awaited)), timeout=120)
        except CannotRun:
            self.kill()
            raise

    def _listens(self, port: int) -> bool:
        if not self.running:
            log = (self._folder / "broker.log").read_text(errors="replace")
            raise CannotRun(f"the broker ended: {log[-2000:]}")
        return listens(port, self.host)

    @property
    def running(self) -> bool:
        """Whether its process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process ID."""
        assert self._process is not None
        return self._process.pid

    def stop(self, timeout: float = 20) -> None:
        """Stop it with SIGTERM, if it runs: a broker hands over its leaderships first."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        """End it with SIGKILL, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Remove its data, but not its configuration and log."""
        shutil.rmtree(self._folder / "data", ignore_errors=True)


class Broker(Node):
    """A running broker with its own controller, as a context manager.

    :param folder: folder for its configuration, data and log
    :param listeners: name -> security protocol, such as ``{"TLS12": "SSL"}``; the broker itself uses the first
    :param properties: additional broker configuration
    :param jvm: JVM options
    :param host: the local address to listen on
    :ivar ports: ports of the listeners, by name
    """

    def __init__(
        self,
        folder: Path,
        listeners: Mapping[str, str],
        *,
        version: str = KAFKA,
        properties: Mapping[str, str] | None = None,
        jvm: Sequence[str] = (),
        host: str = "127.0.0.1",
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        *ports, self._controller = free_ports(len(listeners) + 1)
        self.ports = dict(zip(listeners, ports, strict=True))
        configuration = self._configure(listeners, host) | dict(properties or {})
        super().__init__(
            folder, configuration, ports, version=version, jvm=jvm, host=host, cluster_id=cluster_id
        )

    def _configure(self, listeners: Mapping[str, str], host: str) -> dict[str, str]:
        bound = ",".join(f"{name}://{host}:{port}" for name, port in self.ports.items())
        advertised = bound.replace("127.0.0.1", "localhost")
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in listeners.items())
        return _SINGLE_NODE | {
            "listeners": f"{bound},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": next(iter(listeners)),
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller}",
        }

    def __enter__(self) -> Broker:
        self.format("--standalone")
        self.start()
        self.wait_until_it_listens()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self.remove()

    def address(self, listener: str) -> str:
        """Return ``host:port`` of a listener; on the loopback interface, with the host name of the certificates."""
        return f"{self.host.replace('127.0.0.1', 'localhost')}:{self.ports[listener]}"
