"""Three real Kafka brokers on the loopback interface, for lanes; each can be stopped, killed and started.

    with Cluster(work) as cluster:
        client(cluster.bootstrap)
        cluster.nodes[2].kill()

Each node is broker and controller (KRaft, fixed voters), so that any one of them can fail. Clients have their own
listener, ``CLIENT``; brokers use ``INTERNAL`` among themselves, and so do the lane's tools, so that every connection to
a client port comes from a client or the proxy. Brokers advertise ``localhost`` on ``CLIENT``, which every client here
can reach: nothing stops a client that learns this address from using it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from tests.lanes.broker import KAFKA, Node, java
from tests.lanes.tools import CannotRun, free_ports, run, wait_for

NODES = (1, 2, 3)

_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
_TOPICS = "org.apache.kafka.tools.TopicCommand"

#: every topic has replicas on all three nodes and tolerates the loss of one; failures are noticed within seconds, and
#: groups start without delay
_PROPERTIES = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "INTERNAL",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "broker.heartbeat.interval.ms": "1000",
    "broker.session.timeout.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
}


class Cluster:
    """Three running brokers, as a context manager.

    :param folder: folder for configurations, data and logs
    :param heap: heap of each JVM
    :param jvm: other options of each JVM
    :ivar nodes: nodes by node ID
    :ivar ports: ports of the ``CLIENT`` listeners, by node ID
    :ivar controllers: ports of the ``CONTROLLER`` listeners, by node ID
    """

    def __init__(
        self, folder: Path, *, version: str = KAFKA, heap: str = "320m", jvm: Sequence[str] = ()
    ) -> None:
        self.version = version
        self._folder = folder
        ports = free_ports(3 * len(NODES))
        self.ports = dict(zip(NODES, ports[::3], strict=True))
        self._internal = dict(zip(NODES, ports[1::3], strict=True))
        self.controllers = dict(zip(NODES, ports[2::3], strict=True))
        self.nodes = {node_id: self._node(node_id, heap, jvm) for node_id in NODES}

    def _node(self, node_id: int, heap: str, jvm: Sequence[str]) -> Node:
        ports = self.ports[node_id], self._internal[node_id], self.controllers[node_id]
        names = "CLIENT", "INTERNAL", "CONTROLLER"
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)]
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self.controllers.items())
        configuration = _PROPERTIES | {
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners[:2]).replace("127.0.0.1", "localhost"),
            "controller.quorum.voters": voters,
        }
        # not its CLIENT port: that would be a connection that bypasses the proxy
        folder = self._folder / str(node_id)
        return Node(folder, configuration, ports[1:2], version=self.version, heap=heap, jvm=jvm)

    def __enter__(self) -> Cluster:
        with ThreadPoolExecutor() as pool:
            list(pool.map(Node.format, self.nodes.values()))
        try:
            for node in self.nodes.values():
                node.start()
            for node in self.nodes.values():
                node.wait_until_it_listens()
            wait_for("the cluster", self._whole)
        except CannotRun:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.kill()
            node.remove()

    @property
    def bootstrap(self) -> str:
        """Bootstrap addresses for clients."""
        return _addresses(self.ports)

    @property
    def internal(self) -> str:
        """Bootstrap addresses for the lane's tools, whose connections must not look like those of clients."""
        return _addresses(self._internal)

    def restart(self, node_id: int) -> None:
        """Start a stopped or killed node, and wait until it has caught up."""
        self.nodes[node_id].start()
        self.nodes[node_id].wait_until_it_listens()
        wait_for(f"broker {node_id} back in sync", self._whole, timeout=90)

    def _whole(self) -> bool:
        """Whether all partitions are fully replicated, according to the cluster itself."""
        return not self.tool(_TOPICS, "--describe", "--under-replicated-partitions").strip()

    def tool(self, main: str, *arguments: str | Path) -> str:
        """Run one of Kafka's tools against the ``INTERNAL`` listeners and return its output."""
        bootstrap = ("--bootstrap-server", self.internal)
        return run(java(main, *bootstrap, *arguments, version=self.version), timeout=60)

    def create_topic(self, name: str, partitions: int = 3) -> None:
        """Create a topic with a replica on each node."""
        self.tool(_TOPICS, "--create", "--if-not-exists", "--topic", name, "--partitions", str(partitions))

    def move_leaders(self, topics: Sequence[str], partitions: int, replicas: Sequence[int]) -> None:
        """Make the first of ``replicas`` the leader of partitions 0 to ``partitions - 1`` of the topics."""
        places = [{"topic": topic, "partition": number} for topic in topics for number in range(partitions)]
        plan, election = self._folder / "reassign.json", self._folder / "elect.json"
        wanted = [place | {"replicas": list(replicas)} for place in places]
        plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
        election.write_text(json.dumps({"partitions": places}))
        self.tool(_REASSIGN, "--execute", "--reassignment-json-file", plan)
        self.tool(_ELECT, "--election-type", "preferred", "--path-to-json-file", election)

    def elect_preferred(self) -> None:
        """Make the first replica of every partition its leader, if it is in sync."""
        self.tool(_ELECT, "--election-type", "preferred", "--all-topic-partitions")


def _addresses(ports: dict[int, int]) -> str:
    return ",".join(f"localhost:{port}" for port in ports.values())
