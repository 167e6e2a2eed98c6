"""The parts of the eras lane that need no broker: its requests, its errands, and the comparison of outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from captures.exchanges import ExchangeReader, open_capture
from dissectors.apis import api, version_limits
from dissectors.frames import decode_request
from tests.lanes.broker import Node, number
from tests.lanes.eras.official import spoken
from tests.lanes.eras.releases import RELEASES, RunningBroker, configuration
from tests.lanes.eras.sweep import request
from tests.lanes.eras.tools_of_the_time import ERRANDS, RECORDS, Errand, Scene, errands, told

_OF_BROKERS = sorted(version_limits())
_TRANSACTIONS = Path(__file__).parent.parent / "data" / "captures" / "22_k430_java_commit_abort.pcap"


def context(release: str, folder: Path) -> Scene:
    node = Node(folder, {}, [], version=release)
    return Scene(RunningBroker(release, "127.0.0.1:9", node), "127.0.0.1:10", "era-recorded", folder)


@pytest.mark.parametrize("key", _OF_BROKERS)
def test_the_sweep_asks_for_every_version_in_full(key: int) -> None:
    known = api(key)
    assert known is not None
    for version in range(known.request.versions.first, known.request.versions.last + 1):
        body = decode_request(request(key, version, "sweep"))
        assert (body.key, body.version, body.problems, body.guess) == (key, version, [], "")


def test_every_errand_is_run_with_some_release() -> None:
    run = {errand for release in RELEASES.values() for errand in errands(release)}
    assert [errand.options for errand in ERRANDS if errand not in run] == []


@pytest.mark.parametrize("release", RELEASES.values())
def test_errands_are_filled_in(release: str, tmp_path: Path) -> None:
    place = context(release, tmp_path)
    for errand in errands(release):
        assert "127.0.0.1" in place.fill(errand.options) or "--zookeeper" in errand.options
        assert "{" not in place.fill(errand.options)
        place.fill(errand.file)


@pytest.mark.parametrize("release", RELEASES.values())
def test_brokers_listen_where_they_are_told(release: str) -> None:
    told_apart = configuration(release, 1234, "127.0.0.1:2181" if number(release) < (3, 3) else "", 5678)
    assert "1234" in told_apart.get("listeners", "") + told_apart.get("port", "")
    assert ("zookeeper.connect" in told_apart) == (number(release) < (3, 3))


def test_what_a_tool_prints_is_compared_without_time_and_place(tmp_path: Path) -> None:
    place = context("2.8.2", tmp_path)
    printed = (
        "era-recorded-group  era-recorded  0  20  127.0.0.1:33801 (1)\n"
        "era-direct-group    Empty\n"
        "log4j:WARN nothing\n"
        "TopicId: ShHy3vP_TPaEWk26Ceq8oQ at 1795253988739\n"
    )
    expected = ["TOPIC-group TOPIC 0 20 BROKER (1)", "TopicId: ID at TIME"]
    assert told(Errand("Tool", ""), printed, place) == expected
    assert told(Errand("Tool", "", numbers=False), "ProducerId 17\n", place) == ["ProducerId N"]


def test_consumers_wait_for_what_is_acknowledged(tmp_path: Path) -> None:
    assert context("0.9.0.1", tmp_path).count == 3 * RECORDS  # by the old producer, the new one, and with lz4
    assert context("4.4.0", tmp_path).count == 3 * RECORDS  # plain, lz4, zstd; not the unacknowledged ones


def test_rows_in_one_line_are_compared_as_rows(tmp_path: Path) -> None:
    place = context("3.9.2", tmp_path)
    rows = [f"era-recorded-group era-recorded {partition} 7" for partition in range(3)]
    errand = Errand("Tool", "")
    assert told(errand, "GROUP TOPIC " + " ".join(rows), place) == told(
        errand, "\n".join(["GROUP TOPIC", *reversed(rows)]), place
    )
    listed = "era-direct-group\nera-recorded-group\nera-direct-group-k848\n"
    assert told(errand, listed, place) == ["TOPIC-group"]


def test_what_differs_is_not_compared_away(tmp_path: Path) -> None:
    place = context("2.8.2", tmp_path)
    errand = Errand("Tool", "")
    assert told(errand, "era-recorded 0 19", place) != told(errand, "era-recorded 0 20", place)


def test_a_version_is_spoken_where_it_was_answered() -> None:
    capture = open_capture(str(_TRANSACTIONS))
    capture.read()
    exchanges = list(ExchangeReader(capture))
    assert {spoken(exchange) for exchange in exchanges} == {
        (exchange.api_key, exchange.version) for exchange in exchanges
    }
    for exchange in exchanges:
        assert exchange.response is not None
        assert spoken(replace(exchange, response=None)) is None
        older = replace(exchange.response, version=exchange.response.asked - 1)
        assert spoken(replace(exchange, response=older)) is None
