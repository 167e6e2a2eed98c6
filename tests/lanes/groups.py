"""The rebalance lane: groups of real clients at a real broker, disturbed and recorded with the truth beside it.

    python -m tests.lanes.groups [--record] [SCENARIO ...]

Members are stopped (SIGSTOP) for longer than their session timeout, change their subscription while another is slow,
lose their coordinator in the middle of a rebalance, vanish from the network, and more: :mod:`tests.lanes.mishaps`. The
actions, the calls of the listeners and the coordinator's log become ``truth/NAME.json`` beside ``NAME.pcap``, as in
``tests/data/groups``, and the program's report about the recording is compared with them. If members have their own
hosts, the traffic of each host is recorded as well, as ``NAME-at-MEMBER.pcap``, and the report about it may not contain
anything that did not happen. The lane needs root for tcpdump and namespaces.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from tests.captures.analysis.groups.compare import differences, pairs, read_groups
from tests.captures.analysis.groups.exceptions import by_truth
from tests.captures.analysis.groups.score import Score, table
from tests.captures.analysis.groups.test_cut import matched, untrue
from tests.captures.analysis.groups.truth import FOLDER, read
from tests.lanes.broker import KAFKA, Broker
from tests.lanes.cluster import NODES, Cluster
from tests.lanes.connect import SCENARIOS as OF_CONNECT
from tests.lanes.connect import SINK_GROUP
from tests.lanes.members import LOCK_S, SESSION_S, Stage, Story
from tests.lanes.mishaps import OF_BROKERS, OF_CLUSTERS, OF_NETWORKS, OF_STREAMS, SCENARIOS
from tests.lanes.network import Network
from tests.lanes.recording import recorded
from tests.lanes.tools import CannotRun, need, run

_OF_BROKER = {
    "group.consumer.session.timeout.ms": str(SESSION_S * 1000),
    "group.consumer.min.session.timeout.ms": str(SESSION_S * 1000),
    "group.consumer.heartbeat.interval.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "2000",
    "group.consumer.migration.policy": "bidirectional",
    "group.share.record.lock.duration.ms": str(LOCK_S * 1000),
    "group.share.min.record.lock.duration.ms": str(LOCK_S * 1000),
    "group.streams.num.standby.replicas": "1",
} | {
    f"group.{kind}.{limit}{name}": value
    for kind in ("share", "streams")
    for limit in ("", "min.")
    for name, value in {"session.timeout.ms": str(SESSION_S * 1000), "heartbeat.interval.ms": "2000"}.items()
}
"""Broker settings for the newer group types, with timeouts as short as for classic members."""
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.group=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXX",
)
_LINE = re.compile(r"^(\S+) \[.*?\] INFO \S*GroupMetadataManager - (?:\[GroupCoordinator [^\]]*\] )?(.*)$")


_OF_FOLDERS = OF_CONNECT | OF_STREAMS
_ALL = (*SCENARIOS, *OF_BROKERS, *OF_CLUSTERS, *OF_NETWORKS, *_OF_FOLDERS)


def play(name: str, folder: Path, work: Path) -> None:
    """Play a scenario; write its recording and truth to ``folder``, even if it fails."""
    pcap, story = folder / f"{name}.pcap", Story()
    short = name.partition("_k430_")[2]
    if name in OF_CLUSTERS:
        scenario: Callable[..., None] = OF_CLUSTERS[name]
        logs = [work / name / str(node) / "broker.log" for node in NODES]
        with Cluster(work / name, jvm=_LOGGING) as cluster, _told(name, folder, story, scenario, logs):
            stage = Stage(short, story, cluster.bootstrap, cluster.internal)
            ports = [
                *cluster.ports.values(),
                *(cluster.controllers.values() if "controller" in short else ()),
            ]
            with stage.of(replicas=len(NODES)), recorded(pcap, *ports):
                scenario(stage, cluster)
                story.over = time.time()
    else:
        logs = [work / name / "broker.log"]
        listeners = {"QUIET": "PLAINTEXT", "CLIENT": "PLAINTEXT"}
        with ExitStack() as around:

            def at_host(who: str, interface: str, only: str) -> AbstractContextManager[None]:
                path = folder / f"{name}-at-{who}.pcap"
                return recorded(path, broker.ports["CLIENT"], interface=interface, only=only)

            network = around.enter_context(Network(at_host)) if name in OF_NETWORKS else None
            broker = around.enter_context(
                Broker(
                    work / name,
                    listeners,
                    properties=_OF_BROKER,
                    jvm=_LOGGING,
                    host="127.0.0.1" if network is None else network.address,
                )
            )
            scenario, more = _of_broker(name, broker, network, work)
            around.enter_context(_told(name, folder, story, scenario, logs))
            stage = Stage(short, story, broker.address("CLIENT"), broker.address("QUIET"), network)
            interface = "lo" if network is None else network.bridge
            around.enter_context(stage.of(replicas=1))
            around.enter_context(recorded(pcap, broker.ports["CLIENT"], interface=interface))
            scenario(stage, *more)
            story.over = time.time()


def _of_broker(
    name: str, broker: Broker, network: Network | None, work: Path
) -> tuple[Callable[..., None], list[Any]]:
    """Return a scenario that plays at one broker, and its arguments other than the stage."""
    if name in SCENARIOS:
        return SCENARIOS[name], []
    if name in OF_BROKERS:
        return OF_BROKERS[name], [broker]
    return (OF_NETWORKS[name], [network]) if network else (_OF_FOLDERS[name], [work / f"{name}-members"])


@contextmanager
def _told(
    name: str, folder: Path, story: Story, scenario: Callable[..., None], logs: list[Path]
) -> Iterator[None]:
    """Write down what happened in the block."""
    short = name.partition("_k430_")[2]
    try:
        yield
    finally:
        said = sorted(
            (line for log in logs for line in _logged(log, f"g-{short}") if line["t"] <= story.over),
            key=lambda line: line["t"],
        )
        truth = {
            "capture": f"{name}.pcap",
            "scenario": " ".join((scenario.__doc__ or "").split()),
            "client": "kafka-clients(java) 4.3.0, confluent-kafka 2.16.1",
            "broker": f"Apache Kafka {KAFKA} (KRaft, {len(logs)} nodes)",
            "group": f"g-{short}",
            "topic": f"t-{short}",
            "session_timeout_ms": SESSION_S * 1000,
            "events": sorted(story.events, key=lambda event: event["t"]),
            "broker_log": said,
        }
        if name in OF_CONNECT:
            sinks = [line for log in logs for line in _logged(log, SINK_GROUP) if line["t"] <= story.over]
            truth["other_logs"] = {SINK_GROUP: sinks}
        (folder / "truth").mkdir(exist_ok=True)
        (folder / "truth" / f"{name}.json").write_text(json.dumps(truth, separators=(",", ":")) + "\n")


def _logged(log: Path, group: str) -> Iterator[dict[str, Any]]:
    """Yield the coordinator's log entries about a group, with their times."""
    for line in log.read_text(errors="replace").splitlines():
        match = _LINE.match(line)
        if match and group in match[2]:
            told = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S.%f%z").astimezone(UTC)
            yield {"t": round(told.timestamp(), 3), "line": match[2]}


def _record(name: str, folder: Path) -> None:
    """Store a recording and its truth for the test suite."""
    need("zstd")
    run(["zstd", "-q", "-f", "-19", "--long=27", folder / f"{name}.pcap", "-o", FOLDER / f"{name}.pcap.zst"])
    (FOLDER / "truth" / f"{name}.json").write_bytes((folder / "truth" / f"{name}.json").read_bytes())


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(_ALL), metavar="[SCENARIO]...")
@click.option("--record", is_flag=True, help="Keep recordings and truths in tests/data/groups.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep recordings and truths there, too.")
def main(names: tuple[str, ...], record: bool, folder: Path | None) -> None:
    """Play scenarios (default: all), compare the reports with what happened, and count the correct ones.

    The exit code is 1 if a report was wrong, 2 if a scenario could not run here.
    """
    wrong, score, local = 0, Score(), Score()
    with tempfile.TemporaryDirectory(prefix="kproxy-lane-") as temporary:
        work = Path(temporary)
        for name in names or _ALL:
            try:
                play(name, work, work / "brokers")
                if record:
                    _record(name, work)
                if folder is not None:
                    shutil.copytree(
                        work, folder, ignore=shutil.ignore_patterns("brokers"), dirs_exist_ok=True
                    )
            except CannotRun as why:
                click.echo(f"{name}: cannot run here: {why}", err=True)
                sys.exit(2)
            found = differences(work, f"{name}.pcap")
            wrong += bool(found)
            truth = read(name, work)
            happened = by_truth(truth)
            told = read_groups(str(work / f"{name}.pcap"))[truth.group].rebalances
            score.add(truth, pairs(happened, told))
            for path in sorted(work.glob(f"{name}-at-*.pcap")):
                who = path.stem.rpartition("-")[2]
                both = matched(truth, happened, who, read_groups(str(path))[truth.group].rebalances)
                local.add(truth, both)
                wrong += any(untrue(truth, expected, told) for expected, told in both)
            click.echo("\n  ".join([f"{name}: {'told otherwise' if found else 'as it happened'}", *found]))
    click.echo(table({"what was played": score, "at the hosts of members": local}, "these takes"))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
