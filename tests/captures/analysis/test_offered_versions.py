"""Versions offered by brokers, and versions that will be removed."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.offered_versions import OfferedVersions, kafka_4_least, refuses_old, too_old
from captures.exchanges import ExchangeReader, open_capture
from tests.captures.analysis.kit import exchange
from tests.captures.recorded import FOLDER


def offer(least: int, most: int, **fields: Any) -> Any:
    response = {"error_code": 0, "api_keys": [{"api_key": 1, "min_version": least, "max_version": most}]}
    return exchange(18, 3, request={}, response=response, **fields)


def test_what_all_brokers_offer() -> None:
    offered = OfferedVersions()
    offered.add(offer(0, 13))
    offered.add(offer(4, 17, broker="10.0.0.2:9092"))
    assert offered.of(["10.0.0.1:9092"], "Fetch") == (0, 13)
    assert offered.of(["10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092"], "Fetch") == (4, 13)
    assert offered.of(["10.0.0.1:9092"], "Produce") is None
    assert offered.of([], "Fetch") is None


def test_brokers_of_kafka_4_are_known_by_what_they_offer() -> None:
    offered = OfferedVersions()
    offered.add(offer(0, 16))
    offered.add(offer(4, 18, broker="10.0.0.2:9092"))
    assert [offered.knows(f"10.0.0.{host}:9092") for host in (1, 2, 3)] == [True, True, False]
    assert [refuses_old(offered, f"10.0.0.{host}:9092") for host in (1, 2, 3)] == [False, True, False]


def test_a_refusal_offers_nothing() -> None:
    offered = OfferedVersions()
    refused = offer(0, 13)
    refused.response.value["error_code"] = 35
    offered.add(refused)
    assert offered.of(["10.0.0.1:9092"], "Fetch") is None


@pytest.mark.parametrize(
    ("api", "version", "old"),
    [
        ("Fetch", 3, True),
        ("Fetch", 4, False),
        ("Produce", 2, True),
        ("Metadata", 0, False),
        ("Metadata", -1, False),
        ("Fetch", -32768, False),
        ("API 999", -1, False),
    ],
)
def test_versions_without_a_future(api: str, version: int, old: bool) -> None:
    assert too_old(api, version) is old


def test_the_limits_are_those_of_a_broker_of_kafka_4() -> None:
    capture = open_capture(str(FOLDER / "21_k430_kip848_java.pcap.zst"))
    capture.read()
    offered = OfferedVersions()
    broker = ""
    for each in ExchangeReader(capture, annotate=False, summary=False):
        offered.add(each)
        broker = each.broker
    for api in (
        "Produce",
        "Fetch",
        "ListOffsets",
        "Metadata",
        "OffsetCommit",
        "DescribeAcls",
        "DescribeLogDirs",
    ):
        found = offered.of([broker], api)
        assert found is not None
        assert found[0] == (0 if api == "Produce" else kafka_4_least(api))
