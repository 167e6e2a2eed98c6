"""``kproxy request-log`` with fake brokers: their levels, and levels that cannot be set.

It was tested manually with real brokers of 2.8.2, 3.9.1 and 4.3.0, also with Ctrl-C (docs/request-log.md).
"""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kproxy.cli import main
from kproxy.proxy.own_requests import OwnRequestError
from kproxy.replay.cluster import Node
from kproxy.request_logging import RefusedError, RequestLoggers

_ONE, _TWO = Node(1, "b1", 9092), Node(2, "b2", 9092)


class Levels:
    """The levels of two brokers.

    :ivar refused: brokers that reject changes of these levels
    :ivar unreachable: IDs of brokers that cannot be reached
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.levels = {_ONE: "WARN", _TWO: "INFO"}
        self.changes: list[tuple[int, str]] = []
        self.refused: set[tuple[int, str]] = set()
        self.unreachable: set[int] = set()

        async def brokers(_: RequestLoggers, _bootstrap: object, wanted: tuple[int, ...]) -> list[Node]:
            return [each for each in self.levels if not wanted or each.node_id in wanted]

        async def level(_: RequestLoggers, broker: Node) -> str:
            if broker.node_id in self.unreachable:
                raise OwnRequestError(f"cannot connect to {broker.host}")
            return self.levels[broker]

        async def set_level(loggers: RequestLoggers, broker: Node, level_: str) -> str:
            await level(loggers, broker)
            if (broker.node_id, level_) in self.refused:
                raise RefusedError("CLUSTER_AUTHORIZATION_FAILED")
            self.changes.append((broker.node_id, level_))
            self.levels[broker] = level_
            return level_

        monkeypatch.setattr(RequestLoggers, "brokers", brokers)
        monkeypatch.setattr(RequestLoggers, "_level", level)
        monkeypatch.setattr(RequestLoggers, "_set_level", set_level)


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


def test_a_refusal_does_not_stop_the_other_brokers(levels: Levels) -> None:
    levels.refused.add((1, "DEBUG"))
    code, output = _run("on", "-y", "--for", "1ms")
    assert code == 1
    assert "kproxy: broker 1 (b1:9092): CLUSTER_AUTHORIZATION_FAILED" in output
    assert "broker 2 (b2:9092): INFO again" in output
    assert levels.changes == [(2, "DEBUG"), (2, "INFO")]


@pytest.mark.parametrize("what", ["status", "off", "on"])
def test_an_unreachable_broker_does_not_stop_the_others(levels: Levels, what: str) -> None:
    levels.unreachable.add(1)
    code, output = _run(what, *(["-y", "--for", "1ms"] if what == "on" else []))
    assert code == 1
    assert "kproxy: broker 1 (b1:9092): cannot connect to b1" in output
    assert "broker 2 (b2:9092): o" in output


def test_it_does_not_wait_if_it_is_on_nowhere(levels: Levels) -> None:
    levels.refused |= {(1, "DEBUG"), (2, "DEBUG")}
    assert _run("on", "-y")[0] == 1
    assert not levels.changes


def test_a_level_that_stays_is_told(levels: Levels) -> None:
    levels.refused.add((1, "WARN"))
    code, output = _run("on", "-y", "--for", "1ms")
    assert code == 1
    assert "broker 1 (b1:9092): its level may still be DEBUG: CLUSTER" in output
    assert levels.levels[_TWO] == "INFO"


def test_status_and_off(levels: Levels) -> None:
    assert _run("status", "--broker", "2") == (0, "broker 2 (b2:9092): off (INFO)\n")
    assert not levels.changes
    assert _run("off")[0] == 0
    assert set(levels.levels.values()) == {"WARN"}
    assert _run("off", "--for", "1s")[0] == 2
