from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kproxy.proxy.control import CommandError
from kproxy.proxy.rules import Inspection
from kproxy.proxy.rules import commands as module
from kproxy.proxy.verdicts import Verdict
from tests.kproxy.proxy.rules.frames import FETCH, Clock, request, request_bytes, response


class Control:
    """The commands of an inspection, called as by a control socket."""

    def __init__(self) -> None:
        self.inspection = Inspection(Clock())
        self.commands: dict[str, Callable[[dict[str, Any]], Any]] = {
            **module.commands(self.inspection),
            **module.changing_commands(self.inspection),
        }
        self.released: list[Verdict] = []

    def __call__(self, name: str, **values: Any) -> Any:
        return json.loads(msgspec.json.encode(self.commands[name](values)))

    def hold(self) -> None:
        hold = self.inspection.decide(request("Fetch", 4, FETCH)).hold
        assert hold is not None
        hold.release = self.released.append


@pytest.fixture
def control() -> Control:
    return Control()


def test_there_are_these(control: Control) -> None:
    named = {"rules", "add_rule", "remove_rule", "holds", "held", "set_hold", "release", "kill", "edit"}
    assert control.commands.keys() == named


def test_rules_are_added_listed_and_removed(control: Control) -> None:
    assert control("add_rule", rule="api == Fetch => drop, count=3") == {"number": 1}
    assert control("add_rule", rule="=> delay 1ms", force=True) == {"number": 2}
    (first, second) = control("rules")["rules"]
    assert (first["number"], first["rule"], first["left_count"]) == (1, "api == Fetch => drop, count=3", 3)
    assert second["action"] == "delay 1ms"
    assert control("remove_rule", number=1) == {"removed": 1}
    assert control("remove_rule", number="all") == {"removed": 1}
    assert control("rules") == {"rules": []}


def test_mistakes_are_told(control: Control) -> None:
    with pytest.raises(CommandError, match="concerns every request"):
        control("add_rule", rule="=> drop")
    with pytest.raises(CommandError) as caught:
        control("add_rule", rule="api == Fetch => dorp")
    assert str(caught.value).splitlines() == [
        "there is no action dorp",
        "  api == Fetch => dorp",
        "                  ^^^^",
        "  did you mean drop?",
    ]
    with pytest.raises(CommandError, match="no rule 9"):
        control("remove_rule", number=9)
    with pytest.raises(CommandError, match="Object missing required field `rule`"):
        control("add_rule")
    with pytest.raises(CommandError, match="unknown field `forec`"):
        control("add_rule", rule="api == Fetch => drop", forec=True)


def test_holding(control: Control) -> None:
    assert control("set_hold", filter="api == Fetch") == {"side": "request"}
    control.hold()
    control.hold()
    assert [held["number"] for held in control("holds")["held"]] == [1, 2]
    assert control("release", number=1) == {"released": 1}
    assert control("kill", number=2) == {"killed": 1}
    with pytest.raises(CommandError, match="no frame 2 is held"):
        control("kill", number=2)
    control.hold()
    assert control("release", number="all") == {"released": 1}
    assert len(control.released) == 3
    assert control("set_hold", filter=None) == {"side": None}
    assert control("holds")["filters"] == {}


def test_what_is_held_is_shown_with_its_bytes(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    control("set_hold", filter="api == Fetch")
    control("set_hold", filter="response: api == Fetch")
    control.hold()
    shown = control("held", number=1)
    asked = request("Fetch", 4, FETCH)
    assert b64decode(shown.pop("frame")) == asked.data
    assert shown == {"number": 1, "side": "request", "api_key": 1, "version": 4, "response_to": None}
    answer = response("Fetch", 4, {"responses": []}, to=asked)
    assert control.inspection.decide(answer).hold is not None
    shown = control("held", number=2)
    assert (b64decode(shown["frame"]), b64decode(shown["response_to"])) == (answer.data, asked.data)
    with pytest.raises(CommandError, match="no frame 3 is held"):
        control("held", number=3)
    monkeypatch.setattr(module, "_MOST_SHOWN", len(asked.data) - 1)
    with pytest.raises(CommandError, match=f"frame 1 has {len(asked.data)} bytes"):
        control("held", number=1)


def test_the_side_can_be_said_apart(control: Control) -> None:
    assert control("set_hold", filter="api == Fetch", side="response") == {"side": "response"}
    with pytest.raises(CommandError, match="no field no"):
        control("set_hold", filter="no == 3")


def test_editing(control: Control) -> None:
    control("set_hold", filter="api == Fetch")
    control.hold()
    with pytest.raises(CommandError, match="one of changes, body and frame"):
        control("edit", number=1)
    with pytest.raises(CommandError, match="there is no max_wait in this message"):
        control("edit", number=1, changes={"max_wait": 3})
    assert control("edit", number=1, changes={"max_wait_ms": 3}) == {
        "changed": [{"path": "max_wait_ms", "sent": 500, "got": 3}]
    }
    control.hold()
    other = request_bytes("Fetch", 4, FETCH | {"min_bytes": 9})
    with pytest.raises(CommandError, match="base64"):
        control("edit", number=2, frame="???")
    assert control("edit", number=2, frame=b64encode(other).decode()) == {
        "changed": [{"path": "min_bytes", "sent": 1, "got": 9}]
    }
    assert control.released[1].data == other
    control.hold()
    assert control("edit", number=3, body=FETCH) == {"changed": []}
