"""The traffic between brokers and controllers: clusters of releases that use APIs and versions that no single broker
and
no client uses. Recorded with tcpdump on the loopback interface, from before the first connection.

Each cluster is made to produce traffic between its nodes: a topic is created on all of them, written to and deleted, a
broker stops and restarts, and if there are controllers, the active one stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.lanes.broker import Node, java, number
from tests.lanes.eras.releases import HEAP, NODE_OPTIONS, OPENED, ZooKeeper, configuration, started
from tests.lanes.eras.tool_jvm import ToolJvm
from tests.lanes.eras.tools_of_the_time import Scene, errands, main_of, run
from tests.lanes.recording import recorded
from tests.lanes.tools import CannotRun, free_ports, wait_for
from tests.lanes.tools import run as run_program

_HOST = "127.0.0.1"
_TOPIC = "cluster"
_PARTITIONS = 4
_SETTLE_S = 3.0
_LINES = "".join(f"line {each}\n" for each in range(50))


@dataclass(frozen=True)
class RecordedCluster:
    """A cluster to record.

    :ivar name: name of its folder
    :ivar play: function that runs it in a folder and returns the recording
    """

    name: str
    title: str
    release: str
    play: Callable[[Path], Path]


# -- with ZooKeeper ----------------------------------------------------------------------------------------------
def _with_zookeeper(release: str, protocol: str = "") -> Callable[[Path], Path]:
    """Return a function that runs two brokers and a ZooKeeper.

    :param protocol: ``inter.broker.protocol.version``, or empty for the release's default
    """

    def play(folder: Path) -> Path:
        ports = free_ports(2)
        recording = folder / "cluster.pcap"
        with ExitStack() as stack:
            zookeeper = ZooKeeper(folder / "zookeeper")
            zookeeper.write()
            stack.callback(zookeeper.remove)
            stack.callback(zookeeper.kill)
            zookeeper.start()
            zookeeper.wait_until_it_listens()
            stack.enter_context(recorded(recording, *ports))
            nodes = []
            for index, port in enumerate(ports):
                settings = configuration(release, port, zookeeper.address, 0) | {
                    "broker.id": str(index),
                    "delete.topic.enable": "true",
                    "controlled.shutdown.enable": "true",
                    "default.replication.factor": "2",
                    "auto.leader.rebalance.enable": "false",
                }
                if protocol:
                    settings |= {"inter.broker.protocol.version": protocol}
                    settings |= {"log.message.format.version": protocol}
                node = Node(
                    folder / str(index), settings, [port], version=release, heap=HEAP, jvm=NODE_OPTIONS
                )
                node.write()
                stack.callback(node.remove)
                stack.callback(node.kill)
                nodes.append(node)
                node.start()
                node.wait_until_it_listens()
            _exercise(release, ports, zookeeper.address, nodes[1])
            for node in reversed(nodes):
                node.stop()
        return recording

    return play


def _exercise(release: str, ports: list[int], zookeeper: str, node: Node) -> None:
    """Create a topic on two brokers, write to it, stop one broker for a while, and delete the topic.

    :param zookeeper: address of the ZooKeeper, or empty
    :param node: the broker that stops and restarts
    """
    addresses = ",".join(f"{_HOST}:{port}" for port in ports)
    version = number(release)
    where = ["--zookeeper", zookeeper] if version < (2, 2) else ["--bootstrap-server", addresses]

    def topics(*options: str) -> None:
        command = java(main_of("TopicCommand", release), *where, *options, version=release, jvm=OPENED)
        run_program(command, timeout=60)

    size = ("--partitions", str(_PARTITIONS), "--replication-factor", "2")
    topics("--create", "--topic", _TOPIC, *size)
    time.sleep(_SETTLE_S)
    _produce(release, addresses)
    node.stop()
    _produce(release, addresses)
    node.start()
    node.wait_until_it_listens()
    time.sleep(_SETTLE_S)
    topics("--delete", "--topic", _TOPIC)
    time.sleep(_SETTLE_S)


def _produce(release: str, addresses: str) -> None:
    option = "--broker-list" if number(release) < (2, 6) else "--bootstrap-server"
    producer = java(
        main_of("ConsoleProducer", release), option, addresses, "--topic", _TOPIC, version=release, jvm=OPENED
    )
    run_program(producer, stdin=_LINES, timeout=60)


# -- without ZooKeeper -------------------------------------------------------------------------------------------
_CONTROLLERS = (1, 2, 3)
_BROKERS = (4, 5)
#: a snapshot after every few records, and no log before it: late nodes have to fetch the snapshot
_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "metadata.max.retention.bytes": "1000",
}
#: interval at which a node checks whether it can drop the log before a snapshot: KafkaRaftClient, not configurable
_CLEANED_AFTER_S = 70


def _quorum(release: str) -> Callable[[Path], Path]:
    """Return a function that runs three controllers and two brokers; the second starts after a snapshot."""

    def play(folder: Path) -> Path:
        nodes_ids = (*_CONTROLLERS, *_BROKERS)
        ports = dict(zip(nodes_ids, free_ports(len(nodes_ids)), strict=True))
        recording = folder / "cluster.pcap"
        voters = ",".join(f"{each}@{_HOST}:{ports[each]}" for each in _CONTROLLERS)
        with ExitStack() as stack:
            stack.enter_context(recorded(recording, *ports.values()))
            nodes: dict[int, Node] = {}
            for node_id in nodes_ids:
                settings = _member(release, node_id, ports[node_id], voters)
                node = Node(
                    folder / str(node_id),
                    settings,
                    [ports[node_id]],
                    version=release,
                    heap=HEAP,
                    jvm=NODE_OPTIONS,
                )
                node.format()
                stack.callback(node.remove)
                stack.callback(node.kill)
                nodes[node_id] = node
            first, late = _BROKERS
            for node_id in (*_CONTROLLERS, first):
                nodes[node_id].start()
            for node_id in (*_CONTROLLERS, first):
                nodes[node_id].wait_until_it_listens()
            address = f"{_HOST}:{ports[first]}"
            _make_topics(release, address)
            time.sleep(_CLEANED_AFTER_S)
            nodes[late].start()
            nodes[late].wait_until_it_listens()
            time.sleep(_SETTLE_S)
            _exercise(release, [ports[first]], "", nodes[late])
            for node_id in _CONTROLLERS[:2]:  # one of them, or the one after it, is the leader and reports it
                nodes[node_id].stop()
                time.sleep(_SETTLE_S)
                nodes[node_id].start()
                nodes[node_id].wait_until_it_listens()
                time.sleep(_SETTLE_S)
            nodes[_CONTROLLERS[2]].stop()
            time.sleep(_SETTLE_S)
            for node_id in (late, first):
                nodes[node_id].kill()
        return recording

    return play


def _member(release: str, node_id: int, port: int, voters: str) -> Mapping[str, str]:
    """Return the configuration of a node in a quorum."""
    controls = node_id in _CONTROLLERS
    common = configuration(release, port, "", 0) | _SNAPSHOTS
    common.pop("controller.quorum.bootstrap.servers", None)
    mine = "CONTROLLER" if controls else "PLAINTEXT"
    common |= {
        "process.roles": "controller" if controls else "broker",
        "node.id": str(node_id),
        "listeners": f"{mine}://{_HOST}:{port}",
        "controller.quorum.voters": voters,
        "default.replication.factor": "1",
    }
    if controls:
        del common["advertised.listeners"]
    return common


def _make_topics(release: str, address: str) -> None:
    """Create enough topics for a snapshot."""
    command = java(
        main_of("TopicCommand", release),
        *("--bootstrap-server", address, "--create", "--topic", "first", "--partitions", "50"),
        version=release,
        jvm=OPENED,
    )
    wait_for("a topic", lambda: _succeeds(list(command)), timeout=60)


def _succeeds(command: list[str | Path]) -> bool:
    try:
        run_program(command, timeout=60)
    except CannotRun:
        return False
    return True


# -- share groups ------------------------------------------------------------------------------------------------
def _share_groups(release: str) -> Callable[[Path], Path]:
    """Return a function that runs one broker, which stores the state of share groups with requests to itself."""
    tools = ("TopicCommand", "ConsoleProducer", "ConfigCommand", "ConsoleShareConsumer", "ShareGroupCommand")

    def play(folder: Path) -> Path:
        recording = folder / "cluster.pcap"
        with started(release, folder) as broker:
            port = int(broker.address.rpartition(":")[2])
            time.sleep(_SETTLE_S)
            with recorded(recording, port):
                context = Scene(broker, broker.address, "era-direct", folder)
                with ToolJvm(release) as jvm:
                    for errand in errands(release):
                        if errand.tool in tools and "retention" not in errand.options:
                            run(errand, context, jvm)
        return recording

    return play


CLUSTERS = [
    RecordedCluster("z082", "0.8.2.2, ZooKeeper", "0.8.2.2", _with_zookeeper("0.8.2.2")),
    RecordedCluster("z0101", "0.10.2.2, protocol 0.10.1", "0.10.2.2", _with_zookeeper("0.10.2.2", "0.10.1")),
    RecordedCluster("z240", "2.4.1, protocol 2.4-IV0", "2.4.1", _with_zookeeper("2.4.1", "2.4-IV0")),
    RecordedCluster("z241", "2.4.1, ZooKeeper", "2.4.1", _with_zookeeper("2.4.1")),
    RecordedCluster("z32", "3.2.3, ZooKeeper", "3.2.3", _with_zookeeper("3.2.3")),
    RecordedCluster("z39", "3.9.2, ZooKeeper", "3.9.2", _with_zookeeper("3.9.2")),
    RecordedCluster("q33", "3.3.2, three controllers", "3.3.2", _quorum("3.3.2")),
    RecordedCluster("s40", "4.0.2, share groups", "4.0.2", _share_groups("4.0.2")),
    RecordedCluster("q44", "4.4.0, three controllers", "4.4.0", _quorum("4.4.0")),
]
