"""The clients of the lanes without a broker: their declarations, and the jobs in their recordings."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from captures.exchanges import Exchange, ExchangeReader, open_capture
from tests.lanes import through
from tests.lanes.jobs import CONSUME, JOBS, PRODUCE, TRANSACTION, done, requests
from tests.lanes.through import CLIENTS, errand, table
from tests.lanes.tools import CannotRun, Wrong

_ROOT = Path(__file__).parent.parent.parent
_PROGRAMS = Path(__file__).parent / "clients"
_CAPTURES = _ROOT / "tests" / "data" / "captures"
_TRANSACTIONS = _CAPTURES / "22_k430_java_commit_abort.pcap"
#: file that names the release -> clients built from it
_RELEASES = {
    "kafkajs/package.json": "kafkajs",
    "franz-go/go.mod": "franz-go",
    "sarama/go.mod": "sarama",
    "kafka-go/go.mod": "kafka-go",
    "rdkafka/Cargo.toml": "rdkafka",
    "rskafka/Cargo.toml": "rskafka",
}


def test_the_documentation_has_the_table() -> None:
    assert table() in (_ROOT / "docs" / "clients.md").read_text(), f"docs/clients.md lacks:\n{table()}"


def test_what_a_client_lacks_are_jobs() -> None:
    for name, client in CLIENTS.items():
        assert client.lacks.keys() <= set(JOBS), name
        assert {PRODUCE, CONSUME}.isdisjoint(client.lacks), name


@pytest.mark.parametrize(("path", "name"), _RELEASES.items())
def test_the_release_that_is_told_is_the_one_that_is_fetched(path: str, name: str) -> None:
    text = (_PROGRAMS / path).read_text()
    [release, *_] = re.findall(r"\d+\.\d+\.\d+", CLIENTS[name].versions)
    assert re.search(rf"(?<![\d.]){re.escape(release)}(?![\d.])", text)


def test_transactions_count_when_one_was_committed_and_one_aborted() -> None:
    capture = open_capture(str(_TRANSACTIONS))
    capture.read()
    exchanges = list(ExchangeReader(capture))
    [client] = {each.client_id for each in exchanges if each.api == "EndTxn"}
    assert client is not None
    assert TRANSACTION in done(_TRANSACTIONS)[client]

    def without(fits: Callable[[Any], bool]) -> set[str]:
        rest = [
            each
            for each in exchanges
            if each.api != "EndTxn" or not fits(each.request and each.request.value)
        ]
        return requests(rest)[client]

    assert "EndTxn (aborted)" not in without(lambda value: not value["committed"])
    assert "EndTxn (committed)" not in without(lambda value: value["committed"])


def test_a_request_that_failed_is_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = open_capture(str(_TRANSACTIONS))
    capture.read()
    exchanges: list[Exchange] = list(ExchangeReader(capture))
    failed = [each for each in exchanges if each.errors]
    assert failed, "the recording has no error any more"
    only: dict[str, set[str]] = requests(failed)
    assert only == {}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the output of a client, to be changed by a test."""
    facts: dict[str, Any] = {
        "consumed": CLIENTS["kafka-go"].expected(2),
        "members": 2,
        "brokers": [[node, "127.0.0.1", 10 + node] for node in (1, 2, 3)],
    }
    monkeypatch.setattr(through, "_sent", lambda *_: facts)
    return facts


def _go(name: str) -> None:
    errand(name, through.Command([]), "127.0.0.1:10", range(10, 15), 2)


def test_an_errand_that_went_well(told: dict[str, Any]) -> None:
    _go("kafka-go")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"consumed": ["plain 0"]}, "consumed"),
        ({"members": 1}, "1 members, not 2"),
        ({"brokers": [[1, "127.0.0.1", 11], [2, "127.0.0.1", 12], [3, "127.0.0.1", 9092]]}, "9092"),
        ({"brokers": [[1, "127.0.0.1", 11]]}, "told of brokers"),
    ],
)
def test_an_errand_that_did_not(told: dict[str, Any], change: dict[str, Any], message: str) -> None:
    told |= change
    with pytest.raises(Wrong, match=message):
        _go("kafka-go")


def test_a_client_without_groups_and_brokers(told: dict[str, Any]) -> None:
    told |= {"members": 0, "brokers": [], "consumed": ["plain 1", "plain 0"]}
    _go("rskafka")
    told["members"] = 2
    with pytest.raises(Wrong, match="2 members, not 0"):
        _go("rskafka")


@pytest.mark.parametrize("name", ["rdkafka", "rskafka", "franz-go", "kcat"])
def test_a_client_whose_tools_are_missing_cannot_run(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotRun, match="is not installed"):
        CLIENTS[name].prepare()
