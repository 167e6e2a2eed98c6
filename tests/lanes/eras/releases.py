"""The releases of Apache Kafka in the lane, from 0.8.2 to the newest, and how to start each.

Brokers before 3.3 need ZooKeeper; those from 4.0 on do not support it. Releases between support both: here 3.3 and 3.9
run without ZooKeeper, and a cluster of 3.9 with it (:mod:`tests.lanes.eras.clusters`). :func:`configuration` has the
other differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lanes.broker import Node, kafka_class_path, number
from tests.lanes.tools import free_ports, need

#: era -> its last release on Maven Central
RELEASES = {
    "0.8.2": "0.8.2.2",
    "0.9": "0.9.0.1",
    "0.10.2": "0.10.2.2",
    "0.11": "0.11.0.3",
    "1.1": "1.1.1",
    "2.0": "2.0.1",
    "2.4": "2.4.1",
    "2.8": "2.8.2",
    "3.3": "3.3.2",
    "3.9": "3.9.2",
    "4.0": "4.0.2",
    "4.4": "4.4.0",
}
NEWEST = RELEASES["4.4"]
#: its ZooKeeper (3.5.9) works with brokers of every release
_ZOOKEEPER_OF = "2.8.2"
_WITHOUT_ZOOKEEPER = (3, 3)
_HOST = "127.0.0.1"
NODE_ID = "1"
HEAP = "256m"

#: Java 17 encapsulates internals that brokers and clients before 2.x access
OPENED = ("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")

#: for brokers and ZooKeepers: their warnings are in their logs
NODE_OPTIONS = (*OPENED, f"-Dlog4j.configuration=file:{Path(__file__).with_name('log4j.properties')}")

_SMALL = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "num.partitions": "1",
    "log.retention.check.interval.ms": "60000",
    "auto.create.topics.enable": "true",
}
_TRANSACTIONS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
_SHARE_GROUPS = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


@dataclass(frozen=True)
class RunningBroker:
    """A running broker.

    :ivar release: its version
    :ivar address: address of the listener for clients
    :ivar zookeeper: address of its ZooKeeper, or empty
    """

    release: str
    address: str
    node: Node
    zookeeper: str = ""

    @property
    def version(self) -> tuple[int, ...]:
        """The release as a comparable tuple."""
        return number(self.release)


class ZooKeeper(Node):
    """A ZooKeeper with one node."""

    main = "org.apache.zookeeper.server.ZooKeeperServerMain"

    def __init__(self, folder: Path) -> None:
        [port] = free_ports(1)
        self.address = f"{_HOST}:{port}"
        configuration = {
            "tickTime": "2000",
            "dataDir": str(folder / "data"),
            "clientPort": str(port),
            "clientPortAddress": _HOST,
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
        }
        super().__init__(folder, configuration, [port], version=_ZOOKEEPER_OF, heap=HEAP)


def configuration(release: str, port: int, zookeeper: str, controller: int) -> dict[str, str]:
    """Return the configuration of a broker of a release.

    :param zookeeper: address of its ZooKeeper, or empty
    :param controller: port of its controller, if there is no ZooKeeper
    """
    version = number(release)
    common = dict(_SMALL)
    if version < (0, 9):
        common |= {"host.name": _HOST, "port": str(port)}
    else:
        common |= {"listeners": f"PLAINTEXT://{_HOST}:{port}"}
    if version >= (0, 11):
        common |= _TRANSACTIONS
    if zookeeper:
        common |= {"broker.id": NODE_ID, "zookeeper.connect": zookeeper}
    else:
        common |= {
            "process.roles": "broker,controller",
            "node.id": NODE_ID,
            "listeners": f"PLAINTEXT://{_HOST}:{port},CONTROLLER://{_HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
        }
        if version < (4, 0):
            common["controller.quorum.voters"] = f"{NODE_ID}@{_HOST}:{controller}"
        else:
            common["controller.quorum.bootstrap.servers"] = f"{_HOST}:{controller}"
    common |= _security(version, zookeeper)
    return common if zookeeper else common | _experimental(version)


def _security(version: tuple[int, ...], zookeeper: str) -> dict[str, str]:
    """Return settings that permit everything to everyone, but allow ACLs to be stored."""
    if version < (0, 9):
        return {}
    if not zookeeper:
        name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    elif version < (2, 4):
        name = "kafka.security.auth.SimpleAclAuthorizer"
    else:
        name = "kafka.security.authorizer.AclAuthorizer"
    return {"authorizer.class.name": name, "super.users": "User:ANONYMOUS"}


def _experimental(version: tuple[int, ...]) -> dict[str, str]:
    """Return settings that enable experimental features of a release."""
    if version < (3, 9):
        return {}
    wanted = {"unstable.api.versions.enable": "true", "unstable.feature.versions.enable": "true"}
    if version < (4, 0):
        return wanted | {"group.coordinator.rebalance.protocols": "classic,consumer"}
    groups = "classic,consumer,share,streams" if version >= (4, 1) else "classic,consumer,share"
    return wanted | _SHARE_GROUPS | {"group.coordinator.rebalance.protocols": groups}


@contextmanager
def started(release: str, folder: Path) -> Iterator[RunningBroker]:
    """Start a broker with one node, and a ZooKeeper if it needs one; its data is deleted when it stops.

    :raises CannotRun: without Java or its jars, or if it does not start
    """
    need("java")
    kafka_class_path(release)
    version = number(release)
    port, controller = free_ports(2)
    with ExitStack() as stack:
        zookeeper = (
            stack.enter_context(_zookeeper(folder / "zookeeper")) if version < _WITHOUT_ZOOKEEPER else ""
        )
        settings = configuration(release, port, zookeeper, controller)
        node = Node(folder / "broker", settings, [port], version=release, heap=HEAP, jvm=NODE_OPTIONS)
        if zookeeper:
            node.write()
        else:
            node.format(*(["--standalone"] if version >= (4, 0) else []))
        stack.callback(node.remove)
        stack.callback(node.stop)
        node.start()
        node.wait_until_it_listens()
        yield RunningBroker(release, f"{_HOST}:{port}", node, zookeeper)


@contextmanager
def _zookeeper(folder: Path) -> Iterator[str]:
    zookeeper = ZooKeeper(folder)
    zookeeper.write()
    zookeeper.start()
    try:
        zookeeper.wait_until_it_listens()
        yield zookeeper.address
    finally:
        zookeeper.kill()
        zookeeper.remove()
