"""A value that is slow to compute is computed only now and then, but never stays out of date."""

from __future__ import annotations

import pytest

from kproxy import pace
from kproxy.pace import PacedValue


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pace, "monotonic", made)
    return made


def test_what_took_long_stands_for_a_while(clock: Clock) -> None:
    told = PacedValue("nothing")

    def slowly(text: str) -> str:
        clock.now += 0.1
        return text

    assert told.get(1, lambda: slowly("one")) == "one"
    assert told.current
    clock.now += 1.0
    assert told.get(2, lambda: slowly("two")) == "one", "20 times 0.1 s have not gone by"
    assert not told.current
    before = told.version
    clock.now += 1.0
    assert told.version != before, "who shows it has to ask again"
    assert told.get(2, lambda: slowly("two")) == "two"
    assert told.current
    assert told.version == 0


def test_what_has_not_changed_is_not_told_again(clock: Clock) -> None:
    told = PacedValue(0)
    assert told.get("a", lambda: 1) == 1
    clock.now += 10
    assert told.get("a", lambda: 2) == 1
