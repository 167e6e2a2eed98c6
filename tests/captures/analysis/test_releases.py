"""The table of releases, against what brokers of these releases really announced, answered and refused."""

from __future__ import annotations

import re
from collections import deque
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from captures.analysis.negotiation import Negotiation, Range, learn_versions
from captures.analysis.releases import (
    _SERVED,
    _UNSTABLE,
    LINES,
    TELEMETRY,
    BrokerRelease,
    line_of,
    lines_matching,
    lines_serving,
    name_of,
)
from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns
from dissectors.apis import NAMES, version_limits
from tests.definitions import facts

DATA = Path(__file__).parents[2] / "data"

#: recording -> release of its broker, whether it had ZooKeeper, and unstable.api.versions.enable
RECORDED = {
    "questions/36_k01001_sweep": ("0.10.0.1", True, False),
    "clean/32_k0102_java_lz4": ("0.10.2.2", True, False),
    "clean/33_k0110_java_lz4": ("0.11.0.3", True, False),
    "groups/36_k102_rebalance_sticky": ("1.0.2", True, False),
    "clean/34_k111_java_none": ("1.1.1", True, False),
    "clean/36_k201_java": ("2.0.1", True, False),
    "questions/36_k211_java": ("2.1.1", True, False),
    "questions/36_k222_java": ("2.2.2", True, False),
    "groups/36_k231_rebalance_static": ("2.3.1", True, False),
    "clean/36_k241_java": ("2.4.1", True, False),
    "captures/36_k251_sweep": ("2.5.1", True, False),
    "groups/36_k263_rebalance_coop": ("2.6.3", True, False),
    "questions/35_k282_java_lz4": ("2.8.2", True, False),
    "clean/36_k332_java": ("3.3.2", True, False),
    "groups/36_k362_rebalance_coop": ("3.6.2", True, False),
    "clean/27_k391_java_idem": ("3.9.1", False, True),
    "clean/20_k411_java_gzip": ("4.1.1", False, True),
    "clean/20_k430_java_none": ("4.3.0", False, False),
}


@cache
def recorded(name: str) -> Capture:
    capture = open_capture(str(DATA / f"{name}.pcap.zst"))
    capture.read()
    return capture


def announced(capture: Capture) -> dict[int, Range]:
    negotiation = Negotiation(capture)
    reader = ExchangeReader(capture, annotate=False, summary=False)
    deque(learn_versions(negotiation, reader, ExchangeColumns(capture, reader.rows)), maxlen=0)
    (found,) = {tuple(sorted(each.apis.items())) for each in negotiation.result().brokers if each.apis}
    return dict(found)


@pytest.mark.parametrize("name", RECORDED)
def test_brokers_announced_what_the_table_says(name: str) -> None:
    text, zookeeper, unstable = RECORDED[name]
    release = BrokerRelease.of(text, zookeeper=zookeeper, unstable=unstable)
    told = announced(recorded(name))
    expected = {key: served.announced for key, served in release.apis.items()}
    # these brokers had a reporter for client metrics, unless they did not offer telemetry
    for key in TELEMETRY - told.keys():
        expected.pop(key, None)
    assert told == expected
    assert release.name in lines_matching(told)


@pytest.mark.parametrize(
    "name", ["findings/32_k0102_errors", "findings/35_k282_errors", "findings/25_k430_raw_garbage"]
)
def test_brokers_answered_just_what_the_table_says(name: str) -> None:
    line = {"k0102": "0.10.2", "k282": "2.8", "k430": "4.3"}[re.findall("_(k[0-9]+)_", name)[0]]
    release = BrokerRelease.of(line)
    table = recorded(name).table
    columns = (
        table.column(each).tolist() for each in ("api_key", "version", "request_size", "response_size")
    )
    outside = 0
    for key, version, asked, answered in zip(*columns, strict=True):
        served = release.apis.get(key)
        if asked and key >= 0 and key != 18:
            fits = served is not None and served.versions[0] <= version <= served.versions[1]
            assert fits or not answered, (NAMES[key], version)
            outside += not fits
    assert outside


def test_the_newest_line_has_the_newest_version_of_every_api_that_it_has() -> None:
    newest = BrokerRelease(LINES[-1], zookeeper=False, unstable=True)
    limits = version_limits()
    assert {key: served.versions[1] for key, served in newest.apis.items()} == {
        key: limits[key][1] for key in newest.apis
    }
    # APIs that no broker offers: ZooKeeper's, and those of controllers
    assert set(limits) - set(newest.apis) == {*range(4, 8), 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}


def test_versions_are_served_since_kafkas_definitions_have_them() -> None:
    """The definitions begin with 2.2, so features of 2.2 may be older."""
    known = facts.kept().served
    ours = {(key, version): line for key, lines in _SERVED.items() for version, line in enumerate(lines)}
    assert ours.keys() == known.keys()
    oldest = line_of("2.2.0")
    assert {place: max(line, oldest) for place, line in ours.items()} == {
        place: line_of(served.since) for place, served in known.items()
    }


def test_versions_are_unstable_where_kafkas_definitions_say_so() -> None:
    known = {
        place: {line_of(release) for release in served.unstable}
        for place, served in facts.kept().served.items()
        if served.unstable
    }
    assert {
        place: {line for line in LINES if line_of(first) <= line <= (line_of(last) if last else LINES[-1])}
        for place, (first, last) in _UNSTABLE.items()
    } == known


def test_versions_only_grow_until_4_0() -> None:
    for kind in (True, False):
        known = [BrokerRelease(line, kind) for line in LINES if line < (4, 0)]
        for before, after in pairwise(known):
            for key, served in before.apis.items():
                assert after.apis[key].versions[1] >= served.versions[1], (after.name, NAMES[key])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("3.9", (3, 9)),
        ("3.9.1", (3, 9)),
        ("v4.0.0", (4, 0)),
        ("0.10.2.2", (0, 10, 2)),
        ("0.8.0", (0, 8, 0)),
        ("4.3.0-SNAPSHOT", (4, 3)),
        (" 2.8 ", (2, 8)),
    ],
)
def test_names_of_releases(text: str, line: tuple[int, ...]) -> None:
    assert line_of(text) == line
    assert line_of(name_of(line)) == line


@pytest.mark.parametrize("text", ["", "4", "4.9", "0.10", "3.10", "kafka", "4.3/", "9999999.1", "١.٢"])
def test_what_is_no_release(text: str) -> None:
    with pytest.raises(ValueError, match="no release"):
        line_of(text)


def test_zookeeper_is_there_where_it_was() -> None:
    assert BrokerRelease.of("3.2").zookeeper
    assert not BrokerRelease.of("3.3").zookeeper
    assert BrokerRelease.of("3.9", zookeeper=True).name == "Kafka 3.9 with ZooKeeper"
    assert BrokerRelease.of("4.3").name == "Kafka 4.3"
    with pytest.raises(ValueError, match="without ZooKeeper"):
        BrokerRelease.of("4.0", zookeeper=True)
    with pytest.raises(ValueError, match="needs ZooKeeper"):
        BrokerRelease.of("2.7", zookeeper=False)


def test_kafka_4_announces_more_of_produce_than_it_serves() -> None:
    served = BrokerRelease.of("4.3").apis[0]
    assert (served.announced, served.versions) == ((0, 13), (3, 13))


def test_since_when_and_until_when_a_version_is_served() -> None:
    assert lines_serving(1, 3) == ((0, 10, 1), (4, 0))
    assert lines_serving(0, 3) == ((0, 11, 0), None)
    assert lines_serving(68, 0) == ((3, 7), None)  # unstable before
    assert lines_serving(78, 0) == (None, None)  # early access only
    assert lines_serving(4, 7) == ((3, 4), (4, 0))
    assert lines_serving(999, 0) == (None, None)
