"""``kproxy request-log`` with fake brokers: their levels, and levels that cannot be set.

It was tested manually with a real broker of 2.8.2, also with Ctrl-C (docs/request-log.md).
"""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kproxy.cli import main
from kproxy.proxy.own_requests import OwnRequestError
from kproxy.replay.cluster import Node
from kproxy.request_logging import RequestLoggers

_ONE, _TWO = Node(1, "b1", 9092), Node(2, "b2", 9092)


class Levels:
    """The levels of two brokers.

    :ivar refused: brokers that reject changes of these levels
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.levels = {_ONE: "WARN", _TWO: "INFO"}
        self.changes: list[tuple[int, str]] = []
        self.refused: set[tuple[int, str]] = set()

        async def brokers(_: RequestLoggers, _bootstrap: object, wanted: tuple[int, ...]) -> list[Node]:
            return [each for each in self.levels if not wanted or each.node_id in wanted]

        async def level(_: RequestLoggers, broker: Node) -> str:
            return self.levels[broker]

        async def set_level(_: RequestLoggers, broker: Node, level: str) -> None:
            if (broker.node_id, level) in self.refused:
                raise OwnRequestError(f"broker {broker}: CLUSTER_AUTHORIZATION_FAILED")
            self.changes.append((broker.node_id, level))
            self.levels[broker] = level

        for method in (brokers, level, set_level):
            monkeypatch.setattr(RequestLoggers, method.__name__, method)


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> Levels:
    return Levels(monkeypatch)


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["request-log", *arguments, "-b", "b1:9092"])
    return result.exit_code, result.output


def test_on_puts_back_what_was_there(levels: Levels) -> None:
    code, output = _run("on", "-y", "--for", "1ms")
    assert code == 0
    assert "a line for each request" in output
    assert levels.changes == [(1, "DEBUG"), (2, "DEBUG"), (1, "WARN"), (2, "INFO")]


def test_on_asks_first(levels: Levels) -> None:
    code, output = _run("on")
    assert code == 1
    assert "Switch it on at 1 (b1:9092), 2 (b2:9092)?" in output
    assert not levels.changes


def test_what_was_changed_before_a_refusal_is_put_back(levels: Levels) -> None:
    levels.refused.add((2, "DEBUG"))
    code, output = _run("on", "-y", "--for", "1ms")
    assert code == 1
    assert "CLUSTER_AUTHORIZATION_FAILED" in output
    assert levels.levels == {_ONE: "WARN", _TWO: "INFO"}


def test_a_level_that_stays_is_told(levels: Levels) -> None:
    levels.refused.add((1, "WARN"))
    code, output = _run("on", "-y", "--for", "1ms")
    assert code == 1
    assert "broker 1 (b1:9092) is left at DEBUG" in output
    assert levels.levels[_TWO] == "INFO"


def test_status_and_off(levels: Levels) -> None:
    assert _run("status", "--broker", "2") == (0, "broker 2 (b2:9092): off (INFO)\n")
    assert not levels.changes
    assert _run("off")[0] == 0
    assert set(levels.levels.values()) == {"WARN"}
    assert _run("off", "--for", "1s")[0] == 2
