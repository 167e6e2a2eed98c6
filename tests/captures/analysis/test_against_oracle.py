"""The figures against those of Apache kafka-clients, over the recorded captures.

``oracle/`` has every request with API, version and client; ``records/`` has every batch with its number of records.
Other programs made both from the captures.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest

from captures.analysis.api_stats import ApiStats
from captures.analysis.client_stats import ClientStats
from captures.analysis.topic_stats import Flow, TopicStats
from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns
from tests.reference import captures_dir, needs_reference

pytestmark = needs_reference

NAMES = [
    "20_k430_ck_lz4.pcap",
    "20_k430_java_idem_lz4.pcap",
    "21_k430_java_eager_range.pcap",
    "22_k430_java_commit_abort.pcap",  # transactions: markers are not records
    "24_k430_java_plain.pcap",
    "25_k430_quota_java.pcap",
    "27_k391_java_snappy.pcap",
    "30_k0822_java_lz4.pcap",  # magic 0 in compressed sets
    "32_k0102_java_snappy.pcap",  # magic 1
    "34_k111_kp_lz4.pcap",
]


def lines(folder: str, name: str) -> list[dict[str, Any]]:
    with gzip.open(captures_dir() / folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as found:
        return [json.loads(line) for line in found]


def read(name: str) -> Capture:
    capture = open_capture(str(captures_dir() / name))
    capture.read()
    return capture


@pytest.mark.parametrize("name", NAMES)
def test_requests_by_api_and_client(name: str) -> None:
    asked = [line for line in lines("oracle", name) if line["dir"] == "req"]
    capture = read(name)
    apis, clients, quick = ApiStats(), ClientStats(), ApiStats()
    for exchange in ExchangeReader(capture, annotate=False, summary=False):
        apis.add(exchange)
        clients.add(exchange)
    quick.add_columns(ExchangeColumns(capture), bodies=False)
    by_api = Counter((line["api"], line["v"]) for line in asked)
    for stats in (apis, quick):
        assert {(row.api, row.version): row.exchanges for row in stats.result()} == by_api
    assert {row.client_id: row.exchanges for row in clients.result()} == Counter(
        line["header"].get("clientId") for line in asked
    )
    told = {
        f"{line['body']['clientSoftwareName']} {line['body']['clientSoftwareVersion']}"
        for line in asked
        if line["api"] == "ApiVersions" and line["v"] >= 3
    }
    assert {software for row in clients.result() for software in row.software} == told


RECORDED = [
    name for name in NAMES if not name.startswith(("21", "24", "25"))
]  # the others have no records/ file


@pytest.mark.parametrize("name", RECORDED)
def test_records_by_partition(name: str) -> None:
    capture = read(name)
    reader = ExchangeReader(capture, annotate=False, summary=False)
    stats = TopicStats(reader.knowledge.topic_name)
    for exchange in reader:
        stats.add(exchange)
    theirs: dict[tuple[str, int], Flow] = {}
    for line in lines("records", name):
        for part in line["parts"]:
            flow = theirs.setdefault((line["dir"], part["partition"]), Flow())
            flow.bytes += part["size"]
            for batch in part["batches"]:
                flow.batches += 1
                if batch["magic"] < 2 and batch["codec"] != "none":
                    flow.uncounted += 1
                elif batch.get("control"):
                    flow.markers += batch["count"]
                else:
                    flow.records += batch.get("count", 1)
    ours: dict[tuple[str, int], Flow] = {}
    for topic in stats.result():
        for row in topic.partitions:
            assert row.partition is not None
            for side, flow in (("req", row.produced), ("resp", row.fetched)):
                if flow.bytes:
                    ours.setdefault((side, row.partition), Flow()).include(flow)
    for flow in ours.values():
        flow.clients.clear()  # records/ has none
    assert ours == theirs
    assert ours
