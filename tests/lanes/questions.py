"""The questions lane: known records take known paths through a real broker, recorded with the truth beside it.

    python -m tests.lanes.questions [--record] [--keep FOLDER] [SCENARIO ...]

Clients of several libraries produce, consume and commit records with unique keys, through broker stops and restarts, in
transactions, with a consumer that dies before its commit, and with settings other than the defaults. Their actions
become ``truth/NAME.json`` beside ``NAME.pcap``, according to their own clocks and callbacks: when the application sent
each record, its offset in the delivery report, when each consumer received it, and which offsets were committed.
Nothing in the truth comes from the recording.

The tests that compare the program's reports with the truth run on all new recordings; ``--record`` stores these in
``tests/data/questions``, where the suite finds them. The lane needs root for tcpdump. The exit code is 1 if a report
deviates from the truth.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.captures.analysis import question_truth
from tests.lanes import configured, old_clients
from tests.lanes.broker import KAFKA, Broker, java
from tests.lanes.cluster import NODES, Cluster
from tests.lanes.recording import recorded
from tests.lanes.tools import CannotRun, need, run
from tests.lanes.workers import Stage

FOLDER = Path(__file__).resolve().parents[1] / "data" / "questions"
_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_TOPICS = "org.apache.kafka.tools.TopicCommand"
_LEADER = re.compile(r"Partition: (\d+)\s+Leader: (\d+)")
_GROUP = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 2000}


# ---------------------------------------------------------------- scenarios
def journeys(stage: Stage, broker: Broker) -> None:
    """Three producers with three codecs, and five groups: two commit automatically, one explicitly; the fourth is moved
    three records forward in each partition while it is away; the fifth seeks beyond the end and starts over."""
    makers = [
        stage.start("java-maker", "java", "produce", compression_type="zstd", linger_ms=20),
        stage.start("rd-maker", "confluent", "produce", compression_type="lz4", linger_ms=20, acks="all"),
        stage.start("kp-maker", "kafka-python", "produce", compression_type="gzip", enable_idempotence=False),
    ]
    automatic = {"enable_auto_commit": True, "auto_commit_interval_ms": 1000}
    takers = [
        stage.start("java-taker", "java", "consume", group_id="g-java", **automatic, **_GROUP),
        stage.start("kp-taker", "kafka-python", "consume", group_id="g-kp", **automatic, **_GROUP),
        stage.start(
            "rd-taker", "confluent", "consume", group_id="g-rd", enable_auto_commit="false", **_GROUP
        ),
        stage.start("skipper", "java", "consume", group_id="g-skip", enable_auto_commit="false", **_GROUP),
        stage.start("seeker", "java", "consume", group_id="g-seek", enable_auto_commit="false", **_GROUP),
    ]
    java_taker, kp_taker, told, skipper, seeker = takers
    for taker in takers:
        taker.until("assigned")
    for maker in makers:
        maker.obey("send 8 15", "flush")
    for taker in takers:
        taker.until("received", 24)
    for taker in (told, skipper, seeker):
        taker.obey("commit")
    seeker.obey("skip 3")
    skipper.close()
    time.sleep(1.5)
    for maker in makers:
        maker.obey("send 8 15", "flush")
    stage.note("g-skip: 3 records forward")
    _tool(
        broker, "--group", "g-skip", "--topic", stage.topic, "--reset-offsets", "--shift-by", "3", "--execute"
    )
    back = stage.start(
        "skipper-back", "java", "consume", group_id="g-skip", enable_auto_commit="false", **_GROUP
    )
    for taker, count in ((java_taker, 48), (kp_taker, 48), (told, 48), (back, 24 - 9), (seeker, 24 + 48)):
        taker.until("received", count)
    for taker in (told, back, seeker):
        taker.obey("commit")
    time.sleep(1.5)
    _close(stage)


def retries(stage: Stage, broker: Broker) -> None:
    """The broker pauses for longer than the clients' request timeout, and is killed and restarted, while four producers
    send: two with idempotence, two without, so that records are stored twice."""
    patience = {"request_timeout_ms": 1500, "delivery_timeout_ms": 60000, "retry_backoff_ms": 100}
    java_patience = patience | {"linger_ms": 0, "acks": "all"}
    makers = [
        stage.start("java-idem", "java", "produce", **java_patience),
        stage.start("java-plain", "java", "produce", **java_patience, enable_idempotence="false"),
        stage.start(
            "rd-idem", "confluent", "produce", enable_idempotence="true", linger_ms=0, **_RD_PATIENCE
        ),
        stage.start("kp-plain", "kafka-python", "produce", **patience, enable_idempotence=False, acks="all"),
    ]
    takers = [
        stage.start(
            "java-taker", "java", "consume", group_id="g-java", auto_commit_interval_ms=1000, **_GROUP
        ),
        stage.start(
            "rd-taker", "confluent", "consume", group_id="g-rd", auto_commit_interval_ms=1000, **_GROUP
        ),
    ]
    for taker in takers:
        taker.until("assigned")
    for maker in makers:
        maker.tell("send 40 200")
    time.sleep(2)
    stage.note("SIGSTOP")
    os.kill(broker.pid, signal.SIGSTOP)
    time.sleep(3.5)
    stage.note("SIGCONT")
    os.kill(broker.pid, signal.SIGCONT)
    time.sleep(2)
    stage.note("SIGKILL")
    broker.kill()
    broker.start()
    broker.wait_until_it_listens()
    stage.note("started")
    for maker in makers:
        maker.until("done")
        maker.obey("flush")
    time.sleep(4)
    _close(stage)


_RD_PATIENCE = {"request_timeout_ms": 1500, "socket_timeout_ms": 1500, "retry_backoff_ms": 100}


def transactions(stage: Stage, broker: Broker) -> None:
    """Three transactional producers commit, abort and commit; groups read committed records only, or all; a fourth
    client copies the records it reads, with its offsets in the transactions, the second of which is aborted."""
    makers = [
        stage.start("java-maker", "java", "produce", transactional_id="x-java", transaction_timeout_ms=30000),
        stage.start(
            "rd-maker", "confluent", "produce", transactional_id="x-rd", transaction_timeout_ms=30000
        ),
        stage.start(
            "kp-maker", "kafka-python", "produce", transactional_id="x-kp", transaction_timeout_ms=30000
        ),
    ]
    by_hand = _GROUP | {"enable_auto_commit": "false"}
    committed = by_hand | {"isolation_level": "read_committed"}
    takers = [
        stage.start("java-committed", "java", "consume", group_id="g-java-committed", **committed),
        stage.start("rd-committed", "confluent", "consume", group_id="g-rd-committed", **committed),
        stage.start(
            "java-all",
            "java",
            "consume",
            group_id="g-java-all",
            isolation_level="read_uncommitted",
            **by_hand,
        ),
    ]
    copier = stage.start(
        "copier",
        "java",
        "copy",
        group_id="g-copier",
        **committed,
        **{"producer.transactional.id": "x-copier", "producer.transaction.timeout.ms": "30000"},
    )
    for taker in (*takers, copier):
        taker.until("assigned")
    for end in ("commit", "abort", "commit"):
        for maker in makers:
            maker.obey("begin", "send 4 30", "flush")
        time.sleep(0.7)
        for maker in makers:
            maker.obey(end)
    for taker, count in zip(takers, (24, 24, 36), strict=True):
        taker.until("received", count)
        taker.obey("commit")
    copier.obey("commit 6", "abort 6", "commit 6", "commit 12")
    time.sleep(1)
    _close(stage)


def crash(stage: Stage, broker: Broker) -> None:
    """In each of three groups a consumer commits, reads on, and is killed before its next commit: its successor rereads
    the uncommitted records."""
    maker = stage.start("maker", "java", "produce")
    for kind in ("java", "confluent", "kafka-python"):
        short = {"java": "java", "confluent": "rd", "kafka-python": "kp"}[kind]
        settings: dict[str, object] = _GROUP | {"group_id": f"g-{short}", "enable_auto_commit": False}
        if kind == "confluent":
            settings["enable_auto_commit"] = "false"
        before = maker.count("delivered")
        first = stage.start(f"{short}-first", kind, "consume", **settings)
        first.until("assigned")
        maker.obey("send 12 20", "flush")
        first.until("received", before + 12)
        first.obey("commit")
        maker.obey("send 12 20", "flush")
        first.until("received", before + 24)
        first.crash()
        second = stage.start(f"{short}-second", kind, "consume", **settings)
        second.until("received", 12)
        maker.obey("send 6 20", "flush")
        second.until("received", 18)
        second.obey("commit")
        second.close()
    maker.close()


def settings(stage: Stage, broker: Broker) -> None:
    """Producers, consumers and transactional producers of five libraries with known settings."""
    configured.play(stage)


def old(stage: Stage, broker: Broker) -> None:
    """Clients of old releases, from 0.9 to 2.1, try to send a record and to read."""
    old_clients.play(stage)


def replicas(stage: Stage, cluster: Cluster) -> None:
    """Three brokers: one producer waits for all replicas, another commits one transaction and aborts one."""
    described = cluster.tool(_TOPICS, "--describe", "--topic", stage.topic)
    leaders = [[int(part[1]), int(part[2])] for part in _LEADER.finditer(described)]
    stage.note("leaders", leaders=leaders, nodes=list(NODES))
    maker = stage.start("maker", "java", "produce", acks="all")
    careful = stage.start("careful", "java", "produce", transactional_id="x-careful")
    taker = stage.start(
        "taker",
        "java",
        "consume",
        group_id="g-taker",
        enable_auto_commit="false",
        isolation_level="read_committed",
        **_GROUP,
    )
    taker.until("assigned")
    maker.obey("send 12 50", "flush")
    careful.obey("begin", "send 6 50", "flush", "commit", "begin", "send 6 50", "flush", "abort")
    taker.until("received", 18)
    taker.obey("commit")
    time.sleep(1)
    _close(stage)


SCENARIOS: dict[str, Callable[[Stage, Broker], None]] = {
    "45_k430_journeys": journeys,
    "45_k430_retries": retries,
    "45_k430_transactions": transactions,
    "45_k430_crash": crash,
    "45_k430_settings": settings,
    "45_k430_old": old,
}
OF_CLUSTERS: dict[str, Callable[[Stage, Cluster], None]] = {"45_k430_replicas": replicas}


def _close(stage: Stage) -> None:
    for worker in stage.workers:
        if worker.lives:
            worker.close()


def _tool(broker: Broker, *arguments: str) -> None:
    """Act on a group outside the recording."""
    run(java(_GROUPS, "--bootstrap-server", broker.address("QUIET"), *arguments))


# ---------------------------------------------------------------- the lane
def play(name: str, broker: Broker, folder: Path) -> dict[str, Any]:
    """Play a scenario; write its recording and truth to ``folder``. Return the truth."""
    scenario = SCENARIOS[name]
    stage = Stage(_short(name), broker.address("STAGE"), broker.address("QUIET"))
    with stage.of(partitions=3), recorded(folder / f"{name}.pcap", broker.ports["STAGE"]):
        scenario(stage, broker)
    return _write(name, scenario, stage, folder, nodes=1)


def play_in_cluster(name: str, cluster: Cluster, folder: Path) -> dict[str, Any]:
    """Play a scenario in a cluster, and record the traffic between its brokers too."""
    scenario = OF_CLUSTERS[name]
    stage = Stage(_short(name), cluster.bootstrap, cluster.internal)
    internal = (int(address.rpartition(":")[2]) for address in cluster.internal.split(","))
    with stage.of(partitions=3, replicas=len(NODES)):
        with recorded(folder / f"{name}.pcap", *cluster.ports.values(), *internal):
            scenario(stage, cluster)
    return _write(name, scenario, stage, folder, nodes=len(NODES))


def _short(name: str) -> str:
    return name.rpartition("_k430_")[2]


def _write(
    name: str, scenario: Callable[..., None], stage: Stage, folder: Path, nodes: int
) -> dict[str, Any]:
    truth = {
        "capture": f"{name}.pcap",
        "scenario": " ".join((scenario.__doc__ or "").split()),
        "broker": f"Apache Kafka {KAFKA} (KRaft, {nodes} node{'s' if nodes > 1 else ''})",
    } | stage.truth()
    (folder / "truth").mkdir(exist_ok=True)
    (folder / "truth" / f"{name}.json").write_text(_lines(truth), encoding="utf-8")
    return truth


def _lines(truth: dict[str, Any]) -> str:
    """Return the truth as JSON with a line for each worker and each event, for readable diffs."""

    def listed(rows: Sequence[object]) -> str:
        return "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]"

    parts = [
        f"{json.dumps(key)}: {listed(value) if isinstance(value, list) else json.dumps(value)}"
        for key, value in truth.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _compress(name: str, folder: Path) -> None:
    need("zstd")
    command = ("zstd", "-q", "-f", "-19", "--long=27")
    run([*command, folder / f"{name}.pcap", "-o", folder / f"{name}.pcap.zst"])


def _keep(name: str, folder: Path) -> None:
    """Store a recording and its truth for the test suite."""
    (FOLDER / "truth").mkdir(parents=True, exist_ok=True)
    for part in (f"{name}.pcap.zst", f"truth/{name}.json"):
        (FOLDER / part).write_bytes((folder / part).read_bytes())


def _told_as_it_happened(folder: Path) -> bool:
    """Run the test suite on all recordings of a folder; return whether it passed."""
    tests = sorted(Path(question_truth.__file__).parent.glob("test_question_truth*.py"))
    environment = os.environ | {question_truth.ELSEWHERE: str(folder.resolve())}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", *tests], env=environment, check=False)
    return done.returncode == 0


def main() -> int:
    """Play the scenarios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--record", action="store_true", help="keep recordings and truths in tests/data/questions"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave recordings and truths there")
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, *OF_CLUSTERS, []], metavar="SCENARIO")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kproxy-lane-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, truth in _played(options.scenarios or [*SCENARIOS, *OF_CLUSTERS], Path(temporary), folder):
            sys.stdout.write(f"{name}: {_counts(truth)}\n")
            sys.stdout.flush()
            _compress(name, folder)
            if options.record:
                _keep(name, folder)
        return 0 if options.scenarios or _told_as_it_happened(folder) else 1


def _played(names: Sequence[str], work: Path, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    alone = [name for name in names if name in SCENARIOS]
    if alone:
        with Broker(work / "broker", {"QUIET": "PLAINTEXT", "STAGE": "PLAINTEXT"}) as broker:
            for name in alone:
                yield name, play(name, broker, folder)
    for name in (name for name in names if name in OF_CLUSTERS):
        with Cluster(work / "cluster") as cluster:
            yield name, play_in_cluster(name, cluster, folder)


def _counts(truth: dict[str, Any]) -> str:
    said = [each["what"] for each in truth["events"]]
    return ", ".join(f"{said.count(what)} {what}" for what in ("sent", "delivered", "received", "committed"))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as reason:
        sys.exit(f"cannot run: {reason}")
