"""Rows about whole captures agree with the analyses of the commands, even if several processes each make a part."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from captures.analysis.clusters import Clusters
from captures.analysis.connection_stats import ConnectionStats
from captures.analysis.findings.all import RULES
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.groups.calls import HEARTBEATS, OF_MEMBERS
from captures.analysis.incidents.history import IncidentHistories
from captures.analysis.negotiation import Negotiation
from captures.exchanges import rfc3339
from captures.json_objects import to_json
from captures.tables import whole_rows
from captures.tables.schema import OF_THE_WHOLE
from captures.tables.whole_rows import WholeTables, needs
from dissectors.sides import ENDS
from tests.captures.export.files import DATA, SAMPLE, needs_tshark, tshark
from tests.captures.tables.kit import GROUPS, VARIED, capture_of, exchanges_of, rows

TROUBLED = [
    SAMPLE,
    GROUPS / "21_k430_java_sigstop.pcap.zst",
    GROUPS / "21_k430_ck_crashloop.pcap.zst",
    DATA / "09_loss3pct_before_tap.pcap.zst",
    DATA / "06_tansu_garbage.pcap",
    DATA / "36_k251_sweep.pcap.zst",
    DATA / "35_k282_sasl_plain.pcap.zst",
    DATA / "22_k430_java_commit_abort.pcap",
]

every_capture = pytest.mark.parametrize(
    "path", list(dict.fromkeys([*VARIED, *TROUBLED])), ids=lambda path: str(path.name).partition(".")[0]
)


def made(
    path: Path, chosen: Any = OF_THE_WHOLE, *, least: bool = False, **how: Any
) -> dict[str, pa.RecordBatch]:
    """The tables of a capture.

    :param least: show only those exchanges that have to be shown
    """
    exchanges, reader = exchanges_of(path)
    clusters = Clusters(capture_of(path), reader.knowledge.facts)
    tables = WholeTables(
        capture_of(path), reader.knowledge.topic_name, chosen, run=2, clusters=clusters, **how
    )
    keys = needs(chosen, how.get("rules", RULES)) if least else None
    for exchange in exchanges:
        if keys is None or exchange.api_key in keys:
            tables.add(exchange)
    return dict(tables.batches())


@cache
def whole(path: Path) -> dict[str, pa.RecordBatch]:
    return made(path)


def cluster_of(path: Path) -> str | None:
    """The only cluster ID in a capture; None without one."""
    (found,) = {*exchanges_of(path)[1].knowledge.facts.clusters.values()} or {None}
    return found


def table(path: Path, name: str) -> list[dict[str, Any]]:
    return rows(whole(path).get(name))


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def times_as_text(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its moments as JSON shapes have them, also inside; what is told in ns is taken."""
    out: dict[str, Any] = {}
    for name, value in row.items():
        moment = name.endswith("_ns") and name.removesuffix("_ns") in row
        if moment:
            out[name.removesuffix("_ns")] = None if value is None else rfc3339(value)
        elif f"{name}_ns" in row:
            continue
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            out[name] = [times_as_text(each) for each in value]
        else:
            out[name] = value
    return out


def test_rows_come_in_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    path = VARIED[0]
    exchanges, reader = exchanges_of(path)
    clusters = Clusters(capture_of(path), reader.knowledge.facts)
    tables = WholeTables(
        capture_of(path), reader.knowledge.topic_name, OF_THE_WHOLE, run=2, clusters=clusters
    )
    for exchange in exchanges:
        tables.add(exchange)
    expected = {name: rows(batch) for name, batch in whole(path).items()}
    monkeypatch.setattr(whole_rows, "_PIECE", 2)
    pieces: dict[str, list[pa.RecordBatch]] = {}
    for name, batch in tables.batches():
        pieces.setdefault(name, []).append(batch)
    assert max(map(len, pieces.values())) > 1
    assert max(len(batch) for batches in pieces.values() for batch in batches) == 2
    together = {name: [row for batch in batches for row in rows(batch)] for name, batches in pieces.items()}
    assert together == expected


# ---------------------------------------------------------------- what they say
@pytest.mark.sample(3)
@every_capture
def test_findings(path: Path) -> None:
    exchanges, reader = exchanges_of(path)
    diagnosis = Diagnosis(capture_of(path), reader.knowledge.topic_name)
    for exchange in exchanges:
        diagnosis.add(exchange)
    theirs = plain([to_json(finding) for finding in diagnosis.findings()])
    for row in theirs:
        del row["because_of"]  # ID of an incident
    mine = [times_as_text(row) for row in table(path, "findings")]
    for row in mine:
        row["thresholds"] = dict(row["thresholds"])
        row["first"] = row.pop("time")
        assert row.pop("run") == 2
        assert row.pop("cluster_id") == cluster_of(path)
    assert mine == theirs


@every_capture
def test_rebalances(path: Path) -> None:
    exchanges, reader = exchanges_of(path)
    histories = IncidentHistories(reader.knowledge.topic_name, capture_of(path))
    for exchange in exchanges:
        histories.add(exchange)
    rebalances = [(timeline, told) for timeline in histories.result() for told in timeline.rebalances]
    theirs = plain([to_json(told) for _, told in rebalances])
    for row in theirs:
        for cause in row["causes"]:
            del cause["session_end"]  # timeout_cause is the word for it
    mine = [times_as_text(row) for row in table(path, "rebalances")]
    for row, (timeline, told) in zip(mine, rebalances, strict=True):
        assert row.pop("coordinator") == timeline.coordinator_at(told.time)
        for name in ("assigned", "tasks"):
            row[name] = dict(row[name])
        del row["run"]
        assert row.pop("cluster_id") == cluster_of(path)
    assert mine == theirs


@every_capture
def test_incidents(path: Path) -> None:
    exchanges, reader = exchanges_of(path)
    histories = IncidentHistories(reader.knowledge.topic_name, capture_of(path))
    for exchange in exchanges:
        histories.add(exchange)
    histories.result()
    mine = [times_as_text(row) for row in table(path, "incidents")]
    for row, incident in zip(mine, histories.incidents, strict=True):
        assert row.pop("run") == 2
        assert row.pop("cluster_id") == cluster_of(path)
        assert row.pop("groups") == list(incident.groups)
        row["begin"], row["end"] = row.pop("time"), row.pop("ended")
        theirs = plain(to_json(incident))
        for effect in theirs["consequences"]:
            del effect["rule"]  # of findings, which are not among them here
        assert row == theirs


@every_capture
def test_connections(path: Path) -> None:
    exchanges, _ = exchanges_of(path)
    capture = capture_of(path)
    stats = ConnectionStats(capture)
    for exchange in exchanges:
        stats.add(exchange)
    theirs = {row["connection"]: row for row in plain(to_json(stats.result()))}
    mine = table(path, "connections")
    health = {(row["connection"], row["direction"]): row for row in table(path, "tcp_health")}
    assert len(mine) == len(theirs) == len(health) / 2
    for row in mine:
        shape = theirs[row["connection"]]
        for name in ("packets", "retransmitted", "reordered", "lost", "cut", "zero_windows"):
            both = {side: health[row["connection"], side][name] for side in ENDS}
            assert both == shape.pop(name)
        assert shape.pop("rtt_ns") == row["handshake_ns"]  # else TCP_INFO of a proxy, which these have not
        told = times_as_text(row)
        told["first"] = told.pop("time")
        assert told.pop("cluster_id") == cluster_of(path)
        assert told.pop("file") == health[row["connection"], "client"]["file"] == str(path)
        told["versions"], told["unanswered"] = dict(row["versions"]), dict(row["unanswered"])
        told["fallback"] = {str(asked): answered for asked, answered in row["fallback"]}
        assert {name: value for name, value in told.items() if name not in ("run", "skipped_bytes")} == shape
    skipped = sum(skip.size for skip in capture.skipped)
    assert sum(row["skipped_bytes"] for row in mine) == skipped


@every_capture
def test_client_versions(path: Path) -> None:
    exchanges, _ = exchanges_of(path)
    negotiation = Negotiation(capture_of(path))
    for exchange in exchanges:
        negotiation.add(exchange)
    matrix = negotiation.result()
    mine = table(path, "client_versions")
    used = {
        (row["client"], row["broker"], row["api_key"], row["version"]): row for row in mine if row["client"]
    }
    theirs = {
        (client.name, use.broker, use.key, version): (count, use.offered, client.asks)
        for client in matrix.clients
        for use in client.uses
        for version, count in use.used.items()
    }
    assert {
        key: (
            row["exchanges"],
            None if row["offered_min"] is None else (row["offered_min"], row["offered_max"]),
            row["asks_for_versions"],
        )
        for key, row in used.items()
    } == theirs
    by_number = {exchange.number: exchange for exchange in exchanges}
    for (_, broker, key, version), row in used.items():
        first = by_number[row["first"]]
        assert (first.broker, first.api_key, first.version) == (broker, key, version)
        assert row["time_ns"] == first.time <= row["last_ns"]
    offered = {
        (row["broker"], row["api_key"]): (row["offered_min"], row["offered_max"])
        for row in mine
        if row["client"] is None
    }
    assert offered == {
        (broker.broker, key): versions for broker in matrix.brokers for key, versions in broker.apis.items()
    }
    told = Counter(warning for row in mine for warning in row["warnings"])
    assert told == Counter(
        str(each.kind)
        for each in matrix.warnings
        if each.kind != "never_asked" and each.kind != "offer_changed"
    ) | Counter({name: told[name] for name in ("offer_changed",) if told[name]})


@every_capture
def test_group_events_leave_no_call_out(path: Path) -> None:
    exchanges, _ = exchanges_of(path)
    mine = table(path, "group_events")
    calls = [
        exchange
        for exchange in exchanges
        if exchange.api_key in OF_MEMBERS
        and exchange.request is not None
        and (exchange.request.value or {}).get("group_id")
    ]
    assert sum(row["count"] for row in mine) == len(calls)
    by_number = {exchange.number: exchange for exchange in calls}
    events = {8: "commit", 11: "join", 12: "heartbeat", 13: "leave", 14: "sync", 28: "commit"}
    for row in mine:
        first, last = by_number[row["number"]], by_number[row["last_number"]]
        assert row["time_ns"] == first.time
        assert row["last_ns"] == last.time
        assert row["event"] == events.get(first.api_key or 0, row["event"])
        if first.api_key in HEARTBEATS:
            assert row["kind"] == HEARTBEATS[first.api_key]
        elif row["event"] != "commit":
            assert row["kind"] == "classic"
        assert first.request is not None
        assert row["group"] == (first.request.value or {})["group_id"]
        if row["error"] is not None:
            assert row["error"] in [error.name for error in first.errors]
        assert row["latency_ns"] == first.latency


def test_what_members_say() -> None:
    mine = table(SAMPLE, "group_events")
    joins = [row for row in mine if row["event"] == "join"]
    assert joins
    for row in joins:
        assert row["protocol_type"] == "consumer"
        assert row["topics"] == ["r2-java_eager_range"]
        assert row["session_timeout_ms"] > 0
    last = [row for row in mine if row["event"] == "sync" and row["assigned"]][-1]
    assert {place["topic"] for place in last["assigned"]} == {"r2-java_eager_range"}
    newer = table(DATA / "21_k430_kip848_java.pcap.zst", "group_events")
    beats = [row for row in newer if row["event"] == "heartbeat"]
    assert beats
    assert max(row["count"] for row in beats) > 1  # those that say nothing new are one row
    assert {row["kind"] for row in newer} == {"consumer"}


@pytest.mark.slow
@needs_tshark
@pytest.mark.parametrize("path", [SAMPLE, DATA / "09_loss3pct_before_tap.pcap.zst", DATA / "09_ipv6.pcap"])
def test_tcp_health_counts_the_packets_that_tshark_counts(path: Path) -> None:
    fields = ("ip.src", "ipv6.src", "tcp.srcport", "ip.dst", "ipv6.dst", "tcp.dstport")
    asked = [part for name in fields for part in ("-e", name)]
    theirs: Counter[tuple[str, str]] = Counter()
    for line in tshark(path, "-Y", "tcp", "-T", "fields", *asked):
        source, source6, port, target, target6, target_port = line.split("\t")
        sender = f"{source}:{port}" if source else f"[{source6}]:{port}"
        theirs[sender, f"{target}:{target_port}" if target else f"[{target6}]:{target_port}"] += 1
    mine: Counter[tuple[str, str]] = Counter()
    for row in table(path, "tcp_health"):
        mine[row["sender"], row["receiver"]] += row["packets"]
    assert +mine == theirs


# ---------------------------------------------------------------- in parts
@pytest.mark.sample(3)
@every_capture
def test_tables_may_be_made_apart(path: Path) -> None:
    for name in OF_THE_WHOLE:
        assert made(path, [name], least=True).get(name) == whole(path).get(name), name


@pytest.mark.sample(1)
@pytest.mark.parametrize("path", TROUBLED, ids=lambda path: str(path.name).partition(".")[0])
def test_rules_may_be_asked_apart(path: Path) -> None:
    """Each rule needs no more exchanges than it says."""
    apart = [
        row
        for rule in RULES
        for row in rows(made(path, ["findings"], least=True, rules=[rule]).get("findings"))
    ]
    assert sorted(map(repr, apart)) == sorted(map(repr, table(path, "findings")))


def test_what_has_to_be_shown() -> None:
    assert needs(["tcp_health"]) == frozenset()
    assert needs(["exchanges", "records"]) == frozenset()
    assert needs(["connections"]) is None
    assert needs(["findings"]) is None
    assert needs(["group_events"]) == OF_MEMBERS
    rebalances = needs(["rebalances"])
    assert rebalances is not None
    assert rebalances > OF_MEMBERS | {1, 3, 78}
    by_name = {rule.name: rule for rule in RULES}
    assert needs(["findings"], [by_name["small_batches"]]) == {0}
    assert needs(["findings"], [by_name["tcp_trouble"]]) == frozenset()
    assert needs(["findings"], [by_name["rebalance_storm"]]) == rebalances
    assert needs(["findings"], [by_name["slow_broker"]]) is None


def test_limits_are_those_of_the_diagnosis() -> None:
    rule = next(rule for rule in RULES if rule.name == "heartbeat_gaps")
    usual = rows(made(SAMPLE, ["findings"], rules=[rule]).get("findings"))
    strict = rows(
        made(SAMPLE, ["findings"], rules=[rule], limits={"heartbeat_gaps.share": 1}).get("findings")
    )
    assert len(strict) > len(usual)
    assert dict(strict[0]["thresholds"])["heartbeat_gaps.share"] == "1%"
