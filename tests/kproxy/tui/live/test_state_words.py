from __future__ import annotations

from dataclasses import replace

from dissectors.units import SECOND
from kproxy.session.published import HeldMessage
from kproxy.tui.live.state import FaultRule, held_words, left_of, left_words, seconds

HELD = HeldMessage(
    3, "response", "Fetch", 12, 5, 1, "10.0.0.7:41078", "app", "b1:9092", 100, 0, 18 * SECOND, 0
)
RULE = FaultRule(1, "api == Fetch => drop", "request", 0, None, None, 600 * SECOND, "", 0, "")


def test_times_count_down_in_full_seconds() -> None:
    assert seconds(0) == "0 s"
    assert seconds(17_100_000_000) == "18 s"
    assert seconds(125 * SECOND) == "2 min 5 s"
    assert seconds(-5) == "0 s"


def test_held_messages_in_words() -> None:
    assert held_words(HELD) == "response 3: Fetch v12 of app (10.0.0.7:41078) from b1:9092"
    asked = replace(HELD, side="request", client_id=None)
    assert held_words(asked) == "request 3: Fetch v12 of 10.0.0.7:41078 to b1:9092"
    assert left_words(HELD, 3 * SECOND) == "15 s"


def test_what_is_left_of_rules() -> None:
    assert left_of(RULE, 0) == "10 min"
    assert left_of(replace(RULE, left_count=3), 590 * SECOND) == "3 times, 10 s"
    assert left_of(replace(RULE, ended="count"), 0) == "ended: applied often enough"
    assert left_of(replace(RULE, ended="time"), 0) == "ended: its time is over"
