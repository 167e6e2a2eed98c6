"""A real Kafka broker of one node, for lanes: jars by Maven, format, start, stop.

    with Broker(work, {"PLAINTEXT": "PLAINTEXT"}) as broker:
        client(broker.address("PLAINTEXT"))

It runs on the loopback interface, in KRaft mode, with a small heap; its data goes when it stops. Kafka's own command
line tools are on the same class path (:func:`java`).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.lanes.tools import CannotRun, Command, class_path, free_ports, listens, need, run, wait_for

KAFKA = "4.3.0"

_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
#: quick to start, and small: lanes run several Java programs one after the other
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"

#: one node can hold all replicas there are, and a group need not wait for more members
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


def kafka_class_path(version: str = KAFKA) -> str:
    """Return the class path of broker, clients and tools of a release with KRaft (3.9, 4.x).

    :raises CannotRun: if Maven is missing or cannot resolve it
    """
    kafka = [f"org.apache.kafka:{name}:{version}" for name in ("kafka_2.13", "kafka-tools")]
    return class_path([*kafka, "org.slf4j:slf4j-simple:1.7.36"])


def java(main: str, *arguments: str | Path, version: str = KAFKA, jvm: Sequence[str] = ()) -> Command:
    """Return the command that runs a class of Kafka's."""
    return ["java", "-Xmx150m", *JVM, _QUIET, *jvm, "-cp", kafka_class_path(version), main, *arguments]


class Broker:
    """A running broker, as a context manager.

    :param folder: where its configuration, data and log go
    :param listeners: name -> security protocol, such as ``{"TLS12": "SSL"}``; the first is also for the broker itself
    :param properties: what else to configure
    :param jvm: options of its virtual machine
    :ivar ports: of the listeners, by name
    """

    def __init__(
        self,
        folder: Path,
        listeners: Mapping[str, str],
        *,
        version: str = KAFKA,
        properties: Mapping[str, str] | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        self.version = version
        *ports, self._controller = free_ports(len(listeners) + 1)
        self.ports = dict(zip(listeners, ports, strict=True))
        self._folder = folder
        self._jvm = jvm
        self._configuration = self._configure(listeners) | dict(properties or {})
        self._process: subprocess.Popen[bytes] | None = None

    def _configure(self, listeners: Mapping[str, str]) -> dict[str, str]:
        bound = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        advertised = bound.replace("127.0.0.1", "localhost")
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in listeners.items())
        return _SINGLE_NODE | {
            "listeners": f"{bound},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": next(iter(listeners)),
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller}",
            "log.dirs": str(self._folder / "data"),
        }

    def __enter__(self) -> Broker:
        need("java")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        file = self._folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self._configuration.items()))
        storage = ("format", "-t", _CLUSTER_ID, "--standalone", "-c", file)
        run(java("kafka.tools.StorageTool", *storage, version=self.version))
        command = java("kafka.Kafka", file, version=self.version, jvm=["-Xmx400m", *self._jvm])
        with (self._folder / "broker.log").open("wb") as log:
            self._process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            wait_for("the start of the broker", lambda: all(map(self._listens, self.ports.values())))
        except CannotRun:
            self.stop()
            raise
        return self

    def _listens(self, port: int) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self._folder / "broker.log").read_text(errors="replace")
            raise CannotRun(f"the broker ended: {log[-2000:]}")
        return listens(port)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop it, if it runs, and remove its data."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self._folder / "data", ignore_errors=True)

    @property
    def pid(self) -> int:
        """Number of its process."""
        assert self._process is not None
        return self._process.pid

    def address(self, listener: str) -> str:
        """Return ``host:port`` of a listener; the host is a name that certificates are for."""
        return f"localhost:{self.ports[listener]}"
