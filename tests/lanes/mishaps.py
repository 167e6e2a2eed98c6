"""Disturbances of groups in the rebalance lane (:mod:`tests.lanes.groups`): one function per scenario."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.lanes.broker import Broker
from tests.lanes.cluster import Cluster
from tests.lanes.members import LOCK_S, RANGE, SESSION_S, Member, Stage
from tests.lanes.network import Network
from tests.lanes.tools import wait_for

_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


def several_stopped(stage: Stage) -> None:
    """Two of four members, with different clients, are stopped for twice their session timeout."""
    stage.join("m1", "java")
    m2 = stage.join("m2", "java")
    m3 = stage.join("m3", "confluent")
    stage.join("m4", "confluent")
    m2.send(signal.SIGSTOP)
    time.sleep(1.5)
    m3.send(signal.SIGSTOP)
    time.sleep(2 * SESSION_S)
    m2.send(signal.SIGCONT)
    time.sleep(4)
    m3.send(signal.SIGCONT)
    time.sleep(4)
    stage.close()


def subscription_while_slow(stage: Stage) -> None:
    """m1 changes its topics while m2 is slow, and all wait for m2; then m3 does, while nobody is slow."""
    m1 = stage.join("m1", "java")
    m2 = stage.join("m2", "java")
    m3 = stage.join("m3", "confluent")
    more = f"subscribe {stage.topic},{stage.topic}-more"
    m2.tell("slow 9000")
    time.sleep(2)
    stage.again(m1, m2, m3, after=lambda: m1.tell(more))
    time.sleep(3)
    stage.again(m1, m2, m3, after=lambda: m3.tell(more))
    time.sleep(3)
    stage.close()


def rare_reasons(stage: Stage) -> None:
    """The leader is made to rejoin, partitions are added, and a static member returns twice, the second time with
    another assignor, and is removed by an administrator."""
    round_robin = "org.apache.kafka.clients.consumer.RoundRobinAssignor"
    both = f"{RANGE['java']},{round_robin}"
    m1 = stage.join("m1", "java", partition_assignment_strategy=both)
    m2 = stage.join("m2", "java", partition_assignment_strategy=both, group_instance_id="inst-2")
    m3 = stage.join("m3", "confluent", partition_assignment_strategy="range,roundrobin")
    stage.again(m1, m2, m3, after=lambda: m1.tell("rejoin because it is time"))
    time.sleep(2)
    stage.again(m1, m2, m3, after=stage.add_partitions)
    time.sleep(2)
    m2.close()
    m2 = stage.join("m2", "java", partition_assignment_strategy=both, group_instance_id="inst-2")
    m2.close()
    m2 = stage.start("m2", "java", partition_assignment_strategy=round_robin, group_instance_id="inst-2")
    stage.again(m1, m2, m3, after=lambda: None)
    time.sleep(2)
    stage.again(m1, m3, after=lambda: m1.tell("remove inst-2"))
    time.sleep(4)
    stage.close()


def instance_fenced(stage: Stage) -> None:
    """m3 takes over the instance ID of m2, which lives, with another assignor: a new generation; m2 is fenced."""
    round_robin = "org.apache.kafka.clients.consumer.RoundRobinAssignor"
    both = f"{RANGE['java']},{round_robin}"
    m1 = stage.join("m1", "java", partition_assignment_strategy=both)
    stage.join("m2", "java", partition_assignment_strategy=both, group_instance_id="inst-2")
    m3 = stage.start("m3", "java", partition_assignment_strategy=round_robin, group_instance_id="inst-2")
    stage.again(m1, m3, after=lambda: None)
    time.sleep(4)
    stage.close()


def stuck(stage: Stage) -> None:
    """m2 takes longer to release its partitions than the rebalance timeout, and the others continue without it."""
    m1 = stage.join("m1", "java", max_poll_interval_ms="8000")
    m2 = stage.join("m2", "java", max_poll_interval_ms="8000")
    m2.tell("stuck 14000")
    time.sleep(1)
    m3 = stage.start("m3", "java", max_poll_interval_ms="8000")
    stage.again(m1, m3, after=lambda: None)
    stage.again(m2, after=lambda: None)
    time.sleep(4)
    stage.close()


def consumer_protocol_slow(stage: Stage) -> None:
    """KIP-848: m2 is slow for longer than max.poll.interval.ms and comes back; later it is stuck releasing partitions
    when m3 joins."""
    m1 = stage.join("m1", "java", group_protocol="consumer", max_poll_interval_ms="7000")
    m2 = stage.join("m2", "java", group_protocol="consumer", max_poll_interval_ms="7000")
    time.sleep(4)
    stage.again(m1, m2, after=lambda: m2.tell("slow 14000"))
    time.sleep(6)
    m2.tell("stuck 14000")
    time.sleep(1)
    m3 = stage.join("m3", "java", group_protocol="consumer", max_poll_interval_ms="7000")
    stage.again(m2, m3, after=lambda: None)
    time.sleep(8)
    stage.close()


def consumer_protocol(stage: Stage, network: Network) -> None:
    """KIP-848: of four members, one is stopped for longer than its session, and one vanishes from the network."""
    kinds = ("java", "java", "confluent", "confluent")
    members = [
        stage.join(f"m{number}", kind, group_protocol="consumer") for number, kind in enumerate(kinds, 1)
    ]
    _, m2, m3, _ = members
    time.sleep(4)
    m2.send(signal.SIGSTOP)
    time.sleep(2 * SESSION_S + 6)
    m2.send(signal.SIGCONT)
    time.sleep(6)
    with network.cut("m3"):
        stage.story.note("m3", "host gone")
        time.sleep(0.2)
        m3.end()
        time.sleep(SESSION_S + 8)
    stage.close()


def upgraded(stage: Stage) -> None:
    """A KIP-848 member joins a group of classic members and leaves again."""
    assignors = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    stage.join("m1", "java", partition_assignment_strategy=assignors)
    stage.join("m2", "java", partition_assignment_strategy=assignors)
    m3 = stage.join("m3", "java", group_protocol="consumer")
    time.sleep(8)
    m3.close()
    time.sleep(8)
    stage.close()


def host_gone(stage: Stage, network: Network) -> None:
    """m2 vanishes: no more packets from or to it."""
    stage.join("m1", "java")
    m2 = stage.join("m2", "java")
    m3 = stage.join("m3", "confluent")
    with network.cut("m2"):
        stage.story.note("m2", "host gone")
        time.sleep(0.2)
        m2.end()
        time.sleep(SESSION_S + 4)
        del m3
    stage.close()


def network_cut(stage: Stage, network: Network) -> None:
    """No packets between m2 and the broker, in either direction, for twice the session timeout."""
    _cut(stage, network, "both ways")


def network_cut_to_broker(stage: Stage, network: Network) -> None:
    """m2's packets do not reach the broker for twice the session timeout; the broker's packets reach m2."""
    _cut(stage, network, "to the broker", received=False)


def network_cut_from_broker(stage: Stage, network: Network) -> None:
    """The broker's packets do not reach m2 for twice the session timeout; m2's packets reach the broker."""
    _cut(stage, network, "from the broker", sent=False)


def network_cut_and_closed(stage: Stage, network: Network) -> None:
    """The broker's packets do not reach m2, which stops waiting and closes its connections within its session."""
    _cut(stage, network, "from the broker", settings={"request_timeout_ms": "2000"}, sent=False)


def processes_stopped(stage: Stage, network: Network) -> None:
    """m2's host stays on the network, and its kernel responds, but all its processes are stopped for twice the session
    timeout; later the same for m3's host."""
    stage.join("m1", "java")
    stopped = stage.join("m2", "java"), stage.join("m3", "confluent")
    for member in stopped:
        member.send(signal.SIGSTOP)
        time.sleep(2 * SESSION_S)
        member.send(signal.SIGCONT)
        time.sleep(6)
    stage.close()


def host_frozen(stage: Stage, network: Network) -> None:
    """m2's host freezes for twice the session timeout while its clock continues; later m3's."""
    stage.join("m1", "java")
    frozen = stage.join("m2", "java"), stage.join("m3", "confluent")
    for member in frozen:
        stage.story.note(member.name, "host suspended")
        member.freeze(signal.SIGSTOP)
        with network.cut(member.name):
            time.sleep(2 * SESSION_S)
        member.freeze(signal.SIGCONT)
        stage.story.note(member.name, "host resumed")
        time.sleep(8)
    stage.close()


def _cut(
    stage: Stage, network: Network, data: str, settings: Mapping[str, str] | None = None, **ways: bool
) -> None:
    stage.join("m1", "java")
    stage.join("m2", "java", **settings or {})
    stage.join("m3", "confluent")
    stage.story.note("m2", "network gone", data=data)
    with network.cut("m2", **ways):
        time.sleep(2 * SESSION_S)
    stage.story.note("m2", "network back")
    time.sleep(10)
    stage.close()


def coordinator_killed(stage: Stage, cluster: Cluster) -> None:
    """m3 joins while m2 is slow; the coordinator is killed during the rebalance, and another broker takes over."""
    m1 = stage.join("m1", "java")
    m2 = stage.join("m2", "java")
    m2.tell("slow 9000")
    time.sleep(1)
    m3 = stage.start("m3", "confluent")
    wait_for("m1 giving its partitions up", lambda: m1.count("revoked") > 1)
    time.sleep(2)
    coordinator = _coordinator(cluster, stage.group)
    stage.story.note(f"broker {coordinator}", "SIGKILL")
    stage.again(m1, m2, m3, after=cluster.nodes[coordinator].kill)
    time.sleep(6)
    stage.close()


def coordinator_killed_in_peace(stage: Stage, cluster: Cluster) -> None:
    """The coordinator is killed while the group is stable; another broker takes over, and the generation stays."""
    _lose_coordinator(stage, cluster, "java")


def coordinator_away(stage: Stage, cluster: Cluster) -> None:
    """The coordinator is killed while the group is stable; a librdkafka member gives up before another broker takes
    over, and joins as a new member."""
    _lose_coordinator(stage, cluster, "confluent")


def _lose_coordinator(stage: Stage, cluster: Cluster, kind: str) -> None:
    stage.join("m1", "java")
    stage.join("m2", kind)
    time.sleep(2)
    coordinator = _coordinator(cluster, stage.group)
    stage.story.note(f"broker {coordinator}", "SIGKILL")
    cluster.nodes[coordinator].kill()
    time.sleep(14)
    stage.close()


def coordinator_back(stage: Stage, cluster: Cluster) -> None:
    """The coordinator is killed, another broker takes over; 12 s later the first restarts and takes over again."""
    stage.join("m1", "java")
    stage.join("m2", "java")
    time.sleep(2)
    coordinator = _coordinator(cluster, stage.group)
    stage.story.note(f"broker {coordinator}", "SIGKILL")
    cluster.nodes[coordinator].kill()
    time.sleep(12)
    stage.story.note(f"node {coordinator}", "started")
    cluster.restart(coordinator)
    stage.story.note(f"broker {coordinator}", "leads again")
    cluster.elect_preferred()
    time.sleep(8)
    stage.close()


def controller_killed(stage: Stage, cluster: Cluster) -> None:
    """The active controller is killed, and another is elected; 12 s later the first restarts."""
    stage.join("m1", "java")
    stage.join("m2", "java")
    time.sleep(2)
    controller = _controller(cluster)
    stage.story.note(f"controller {controller}", "SIGKILL")
    cluster.nodes[controller].kill()
    time.sleep(12)
    stage.story.note(f"node {controller}", "started")
    cluster.restart(controller)
    time.sleep(6)
    stage.story.note(f"controller {_controller(cluster)}", "is the active one")
    stage.close()


def controller_paused(stage: Stage, cluster: Cluster) -> None:
    """The active controller pauses for 4 s, as in a long garbage collection, and another is elected."""
    stage.join("m1", "java")
    stage.join("m2", "java")
    time.sleep(4)
    controller = _controller(cluster)
    stage.story.note(f"controller {controller}", "SIGSTOP")
    os.kill(cluster.nodes[controller].pid, signal.SIGSTOP)
    time.sleep(4)
    os.kill(cluster.nodes[controller].pid, signal.SIGCONT)
    stage.story.note(f"controller {controller}", "SIGCONT")
    time.sleep(6)
    stage.story.note(f"controller {_controller(cluster)}", "is the active one")
    stage.close()


def broker_stopped(stage: Stage, broker: Broker) -> None:
    """The only broker shuts down cleanly, and restarts 12 s later."""
    _restart_broker(stage, broker, "SIGTERM", broker.stop)


def broker_killed(stage: Stage, broker: Broker) -> None:
    """The only broker is killed, and restarts 12 s later."""
    _restart_broker(stage, broker, "SIGKILL", broker.kill)


def killed_while_broker_paused(stage: Stage, broker: Broker) -> None:
    """m2 is killed while the broker pauses for 4 s; the broker's kernel acknowledges the closed connections."""
    stage.join("m1", "java")
    m2 = stage.join("m2", "java")
    stage.join("m3", "confluent")
    time.sleep(2)
    stage.story.note("node", "SIGSTOP")
    os.kill(broker.pid, signal.SIGSTOP)
    time.sleep(1)
    m2.send(signal.SIGKILL)
    time.sleep(3)
    os.kill(broker.pid, signal.SIGCONT)
    stage.story.note("node", "SIGCONT")
    time.sleep(SESSION_S + 6)
    stage.close()


def _restart_broker(stage: Stage, broker: Broker, how: str, end: Callable[[], None]) -> None:
    stage.join("m1", "java")
    stage.join("m2", "java")
    stage.join("m3", "confluent")
    time.sleep(2)
    stage.story.note("node", how)
    end()
    stage.story.note("node", "ended")
    time.sleep(12)
    broker.start()
    broker.wait_until_it_listens()
    stage.story.note("node", "started")
    time.sleep(14)
    stage.close()


def rolling_restart(stage: Stage) -> None:
    """Three members are closed and restarted one by one, each after a second."""
    names = ("m1", "m2", "m3")
    members = {name: stage.join(name, "java") for name in names}
    time.sleep(2)
    for name in names:
        members[name].close()
        time.sleep(1)
        members[name] = stage.join(name, "java")
        time.sleep(2)
    stage.close()


def rolling_restart_static(stage: Stage) -> None:
    """Three static members are closed and restarted one by one, the third after twice its session timeout."""
    names = ("m1", "m2", "m3")
    members = {name: stage.join(name, "java", group_instance_id=f"inst-{name}") for name in names}
    time.sleep(2)
    for name, away in zip(names, (0.5, 0.5, 2.0 * SESSION_S), strict=True):
        members[name].close()
        time.sleep(away)
        members[name] = stage.join(name, "java", group_instance_id=f"inst-{name}")
        time.sleep(3)
    stage.close()


def quick_return(stage: Stage) -> None:
    """The only member is killed and restarted at once: the group waits for the session of the dead one."""
    m1 = stage.join("m1", "java")
    time.sleep(4)
    m1.send(signal.SIGKILL)
    stage.join("m1", "java")
    time.sleep(4)
    stage.close()


def crash_loop(stage: Stage) -> None:
    """m2 is killed after consuming for a while, and restarted 2 s later, four times."""
    stage.join("m1", "java")
    for _ in range(4):
        m2 = stage.join("m2", "java")
        time.sleep(2)
        m2.send(signal.SIGKILL)
        time.sleep(2)
    time.sleep(SESSION_S + 2)
    stage.close()


def share_slow(stage: Stage) -> None:
    """Share group: m2 holds records for longer than the acquisition lock; later m3 is killed while holding records."""
    stage.join("m1", "share")
    m2 = stage.join("m2", "share")
    m3 = stage.join("m3", "share")
    time.sleep(4)
    m2.tell(f"slow {2 * LOCK_S * 1000}")
    time.sleep(3 * LOCK_S)
    m3.tell("slow 60000")
    time.sleep(4)
    m3.send(signal.SIGKILL)
    time.sleep(SESSION_S + LOCK_S + 4)
    stage.close()


def streams_standby(stage: Stage, folder: Path) -> None:
    """Streams, classic: three instances with a standby of each store; one is closed and restarted, one is killed."""
    _streams(stage, folder, num_standby_replicas="1", probing_rebalance_interval_ms="60000")


def streams_protocol_standby(stage: Stage, folder: Path) -> None:
    """Streams, KIP-1071: three instances with a standby of each store; one is closed and restarted, one is killed."""
    _streams(stage, folder, group_protocol="streams")


def _streams(stage: Stage, folder: Path, **settings: str) -> None:
    def start(name: str) -> Member:
        return stage.join(name, "streams", state_dir=str(folder / name), **settings)

    start("m1")
    time.sleep(4)
    m2 = start("m2")
    time.sleep(6)
    m3 = start("m3")
    time.sleep(8)
    m2.close()
    time.sleep(SESSION_S + 6)
    start("m2")
    time.sleep(8)
    m3.send(signal.SIGKILL)
    time.sleep(SESSION_S + 8)
    stage.close()


def shared_group(stage: Stage) -> None:
    """Two applications with different topics use one group for a while."""
    stage.join("orders-1", "java")
    stage.join("orders-2", "java")
    other = stage.join("payments-1", "java", f"{stage.topic}-more")
    time.sleep(8)
    other.close()
    time.sleep(6)
    stage.close()


def _controller(cluster: Cluster) -> int:
    """Return the node ID of the active controller."""
    said = cluster.tool(_QUORUM, "describe", "--status")
    found = re.search(r"LeaderId:\s+(\d+)", said)
    assert found, said
    return int(found[1])


def _coordinator(cluster: Cluster, group: str) -> int:
    """Return the node ID of a group's coordinator."""
    said = cluster.tool(_GROUPS, "--describe", "--state", "--group", group)
    found = re.search(r"localhost:\d+\s+\((\d+)\)", said)
    assert found, said
    return int(found[1])


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    "41_k430_several_stopped": several_stopped,
    "41_k430_subscription_while_slow": subscription_while_slow,
    "41_k430_rare_reasons": rare_reasons,
    "41_k430_instance_fenced": instance_fenced,
    "41_k430_stuck": stuck,
    "41_k430_kip848_slow": consumer_protocol_slow,
    "41_k430_upgraded": upgraded,
    "46_k430_rolling_restart": rolling_restart,
    "46_k430_rolling_restart_static": rolling_restart_static,
    "46_k430_quick_return": quick_return,
    "46_k430_shared_group": shared_group,
    "48_k430_crash_loop": crash_loop,
    "48_k430_share_slow": share_slow,
}
OF_NETWORKS: dict[str, Callable[[Stage, Network], None]] = {
    "41_k430_host_gone": host_gone,
    "41_k430_kip848_stopped_and_gone": consumer_protocol,
    "48_k430_network_cut": network_cut,
    "48_k430_network_cut_to_broker": network_cut_to_broker,
    "48_k430_network_cut_from_broker": network_cut_from_broker,
    "49_k430_network_cut_and_closed": network_cut_and_closed,
    "52_k430_processes_stopped": processes_stopped,
    "52_k430_host_frozen": host_frozen,
}
OF_STREAMS: dict[str, Callable[[Stage, Path], None]] = {
    "48_k430_streams_standby": streams_standby,
    "48_k430_streams_protocol_standby": streams_protocol_standby,
}
OF_BROKERS: dict[str, Callable[[Stage, Broker], None]] = {
    "46_k430_broker_stopped": broker_stopped,
    "46_k430_broker_killed": broker_killed,
    "51_k430_killed_while_broker_paused": killed_while_broker_paused,
}
OF_CLUSTERS: dict[str, Callable[[Stage, Cluster], None]] = {
    "41_k430_coordinator_killed": coordinator_killed,
    "41_k430_coordinator_killed_in_peace": coordinator_killed_in_peace,
    "41_k430_coordinator_away": coordinator_away,
    "46_k430_coordinator_back": coordinator_back,
    "50_k430_controller_killed": controller_killed,
    "50_k430_controller_paused": controller_paused,
}
