"""Captures of two clusters with groups of the same name: the results are those of each cluster alone."""

from __future__ import annotations

import json
import struct
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard
from click.testing import CliRunner
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from captures.analysis.clusters import UNKNOWN, Clusters, RecordedClusters, beside
from captures.analysis.incidents.history import ClusterHistories
from captures.exchanges import ExchangeReader
from captures.export import otlp
from captures.export.report import statements
from captures.export.report.database import Tables
from captures.interventions import UpstreamBroker
from captures.tables.options import TablesOptions
from captures.tables.single import write_tables
from dissectors.session_context import SessionContext
from kproxy.cli import main
from tests.captures.export.files import opened

GROUPS = Path(__file__).parents[2] / "data" / "groups"
ONE, OTHER = "33_k0110_rebalance_roundrobin", "35_k282_rebalance_roundrobin"
"""Recordings of two clusters, each with a group ``grp-roundrobin`` on its own broker."""


def recorded(name: str) -> bytes:
    with (GROUPS / f"{name}.pcap.zst").open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


def records(data: bytes, later: int = 0) -> list[tuple[tuple[int, int], bytes]]:
    """The packet records of a little-endian pcap file with their times, shifted by seconds."""
    found, at = [], 24
    while at < len(data):
        second, fraction, size, length = struct.unpack_from("<IIII", data, at)
        header = struct.pack("<IIII", second + later, fraction, size, length)
        found.append(((second + later, fraction), header + data[at + 16 : at + 16 + size]))
        at += 16 + size
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A capture of each cluster, taken at the same time, and one of both."""
    folder = tmp_path_factory.mktemp("clusters")
    one, other = recorded(ONE), recorded(OTHER)
    starts = [struct.unpack_from("<I", data, 24)[0] for data in (one, other)]
    parts = records(one), records(other, starts[0] - starts[1])
    paths = folder / "one.pcap", folder / "other.pcap", folder / "both.pcap"
    for path, found in zip(paths, (*parts, sorted([*parts[0], *parts[1]])), strict=True):
        path.write_bytes(one[:24] + b"".join(record for _, record in found))
    return paths


def answers(command: str, *paths: Path) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, [command, "--json", *map(str, paths)])
    assert done.exit_code in (0, 3), done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def without(value: Any, *names: str) -> Any:
    """A result without some keys and without numbers of exchanges, which differ."""
    if isinstance(value, dict):
        dropped = {"evidence", "exchange", "exchanges", "cluster_id", *names}
        return {name: without(each, *names) for name, each in value.items() if name not in dropped}
    return [without(each, *names) for each in value] if isinstance(value, list) else value


def test_connections_and_brokers(both: tuple[Path, Path, Path]) -> None:
    capture = opened(both[2])
    reader = ExchangeReader(capture, annotate=False)
    reader.learn(len(reader))
    clusters = Clusters(capture, reader.knowledge.facts)
    assert clusters.several
    assert clusters.parts[-1] == UNKNOWN
    found = {(capture.endpoints(each)[1], clusters.part_of(each)) for each in range(len(capture.connections))}
    assert len(found) == 2
    assert {part for _, part in found} == {*clusters.parts[:-1]}
    assert all(clusters.has(part, broker) for broker, part in found)
    one_id = dict.fromkeys(reader.knowledge.facts.clusters, clusters.parts[0])
    single = Clusters(capture, reader.knowledge.facts._replace(clusters=one_id))
    assert single.parts == ("",)
    assert single.id_of(single.part_of(0)) == clusters.parts[0]


def test_a_broker_of_several_clusters(both: tuple[Path, Path, Path]) -> None:
    """As at a proxy: a connection without an ID of its own belongs to no known cluster."""
    capture = opened(both[0])
    reader = ExchangeReader(capture, annotate=False)
    reader.learn(len(reader))
    facts = reader.knowledge.facts
    first, second, *_ = facts.clusters
    clusters = Clusters(capture, facts._replace(clusters={first: "A", second: "B"}))
    found = {each: clusters.part_of(each) for each in range(len(capture.connections))}
    assert (found.pop(first), found.pop(second)) == ("A", "B")
    assert {*found.values()} == {UNKNOWN}


@pytest.mark.parametrize(
    ("ids", "parts"),
    [
        ({}, ("east", "west")),
        ({0: "A", 1: "A"}, ("east", "west")),
        ({0: "A"}, ("A", "west")),
        ({0: "A", 1: "B"}, ("A", "B")),
    ],
)
def test_names_that_the_proxy_recorded_stand_in_for_ids(
    both: tuple[Path, Path, Path], ids: dict[int, str], parts: tuple[str, ...]
) -> None:
    capture = opened(both[0])
    capture.samples.upstreams = {0: UpstreamBroker(cluster="east"), 1: UpstreamBroker(cluster="west")}
    clusters = Clusters(capture, SessionContext().facts._replace(clusters=ids))
    assert (clusters.part_of(0), clusters.part_of(1)) == parts


def test_groups_of_a_growing_recording_are_apart_by_the_names_of_their_clusters(
    both: tuple[Path, Path, Path],
) -> None:
    capture = opened(both[2])
    brokers = {capture.endpoints(each)[1]: "" for each in range(len(capture.connections))}
    brokers = dict(zip(brokers, ("east", "west"), strict=True))
    for connection in range(len(capture.connections)):
        cluster = brokers[capture.endpoints(connection)[1]]
        capture.samples.upstreams[connection] = UpstreamBroker(cluster=cluster)
    reader = ExchangeReader(capture, annotate=False)
    clusters = RecordedClusters(capture, ("east", "west"))
    assert all(clusters.has(cluster, broker) for broker, cluster in brokers.items())
    assert RecordedClusters(capture, ("east",)).part_of(0) == ""
    histories = ClusterHistories(reader.knowledge.topic_name, capture, clusters)
    for exchange in reader:
        histories.add(exchange)
    found = Counter((each.group, each.cluster) for each in histories.result())
    assert found == {("grp-roundrobin", "east"): 1, ("grp-roundrobin", "west"): 1}


@pytest.mark.parametrize("command", ["groups", "incidents"])
@pytest.mark.parametrize("merged", [False, True])
def test_rebalances_and_incidents(command: str, merged: bool, both: tuple[Path, Path, Path]) -> None:
    found = answers(command, *(both[2:] if merged else both[:2]))
    theirs = [each for path in both[:2] for each in answers(command, path)]
    assert len({each["cluster_id"] for each in found}) == 2
    drop = ("id", "because_of", "connections")
    assert sorted(map(repr, without(found, *drop))) == sorted(map(repr, without(theirs, *drop)))


def test_findings(both: tuple[Path, Path, Path]) -> None:
    (found,), *theirs = answers("diagnose", both[2]), *(answers("diagnose", path)[0] for path in both[:2])
    expected = [(each["rule"], each["subject"], each["count"]) for one in theirs for each in one["findings"]]
    mine = [(each["rule"], each["subject"], each["count"]) for each in found["findings"]]
    assert sorted(mine) == sorted(expected)


def test_lag(both: tuple[Path, Path, Path]) -> None:
    (found,) = answers("lag", both[2])
    for path in both[:2]:
        (alone,) = answers("lag", path)
        rows = [without(row, "over_time") for row in alone["partitions"]]
        assert any(
            rows
            == [
                without(row, "over_time")
                for row in found["partitions"]
                if row["cluster_id"] == group["cluster_id"]
            ]
            for group in found["groups"]
        )


def test_topics_of_stats(both: tuple[Path, Path, Path]) -> None:
    (found,) = answers("stats", both[2])
    alone = [topic for path in both[:2] for topic in answers("stats", path)[0]["topics"]]
    assert len({topic["cluster_id"] for topic in found["topics"]}) == 2
    assert sorted(map(repr, without(found["topics"]))) == sorted(map(repr, alone))
    assert all("cluster_id" not in topic for topic in alone)
    assert CliRunner().invoke(main, ["stats", str(both[2])]).stdout.count("reb (cluster ") == 2


def test_text_names_the_cluster(both: tuple[Path, Path, Path]) -> None:
    assert CliRunner().invoke(main, ["groups", str(both[2])]).stdout.count("grp-roundrobin (cluster ") == 2
    assert "(cluster " not in CliRunner().invoke(main, ["groups", str(both[0])]).stdout
    assert "\x1b" not in beside("orders", "\x1b[2J")


def test_tables(both: tuple[Path, Path, Path], tmp_path: Path) -> None:
    names = ("rebalances", "incidents", "findings", "client_versions", "tcp_health")
    made = [
        write_tables([str(path)], str(tmp_path / path.stem), TablesOptions(tables=names)).rows
        for path in both
    ]
    assert made[2] == {name: made[0][name] + made[1][name] for name in made[2]}
    for name in names:
        ids, *alone = (
            [row["cluster_id"] for row in pq.read_table(tmp_path / path.stem / name).to_pylist()]
            for path in (both[2], *both[:2])
        )
        assert Counter(ids) == Counter(chain(*alone))
        assert len({*ids}) == 2
    rows = pq.read_table(tmp_path / both[2].stem / "rebalances").to_pylist()
    assert len({(row["cluster_id"], row["coordinator"]) for row in rows}) == 2
    counts = [made_of["rebalances"] for made_of in made]
    for path, count in zip(both, (counts[:1], counts[1:2], counts[:2]), strict=True):
        with Tables(tmp_path / path.stem) as tables:
            groups = tables.rows(statements.REBALANCE_GROUPS)
            assert sorted(row["rebalances"] for row in groups) == sorted(count)
            assert len({row["of_cluster"] for row in tables.rows(statements.REBALANCE_BARS)}) == len(count)


def test_spans(both: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def sent(path: Path) -> list[str]:
        exporter = InMemorySpanExporter()
        monkeypatch.setattr(otlp, "OTLPSpanExporter", lambda _: exporter)
        assert CliRunner().invoke(main, ["export", str(path), "--otlp", "http://127.0.0.1:9"]).exit_code == 0
        spans = exporter.get_finished_spans()
        names = ("kproxy.trigger", "kproxy.generation", "kproxy.who")
        found = ((each.name, each.start_time, *map((each.attributes or {}).get, names)) for each in spans)
        return sorted(map(str, found))

    one, other, together = map(sent, both)
    assert together == sorted([*one, *other])
