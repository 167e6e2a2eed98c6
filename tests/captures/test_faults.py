"""Internal errors in kproxy: which errors are contained, and how they are counted and reported."""

from __future__ import annotations

import errno
import pickle
from dataclasses import dataclass

import pytest

from captures.faults import Faults, RaisedFaults, described
from captures.meaning.words import duration
from captures.packets import CaptureError


@dataclass
class FakeExchange:
    number: int


def broken(exchange: FakeExchange) -> None:
    if exchange.number % 2:
        raise KeyError("Metadata")


def noted(count: int) -> Faults:
    faults = Faults()
    for number in range(1, count + 1):
        faults.note(KeyError("Metadata"), "the rule x", number)
    return faults


def test_what_fails_is_left_out_and_told() -> None:
    faults, seen = Faults(), list[int]()

    def add(exchange: FakeExchange) -> None:
        broken(exchange)
        seen.append(exchange.number)

    guarded = faults.guarded(add, "the rule x")
    for number in range(1, 5):
        guarded(FakeExchange(number))
    assert seen == [2, 4]
    assert faults.count == faults.of("the rule x") == 2
    first, second, told = faults.lines()
    assert first == "exchange 1: the rule x failed: KeyError: 'Metadata'"
    assert second.startswith("exchange 3: ")
    assert told.startswith("these are 2 internal errors in kproxy: what failed is left out")
    assert told.endswith("Please report them")


def test_none_is_told_of_where_there_is_none() -> None:
    faults = Faults()
    assert not faults
    assert faults.lines() == faults.news() == []


def test_something_takes_the_place_of_what_cannot_be_made() -> None:
    faults = Faults()
    assert faults.contained(lambda: 1 // 1, "counting", 0) == 1
    assert faults.contained(lambda: 1 // 0, "counting", 0) == 0
    assert faults.lines()[0].startswith("counting failed: ZeroDivisionError: ")


def test_items_come_up_to_the_first_that_fails() -> None:
    faults = Faults()
    assert list(faults.contained_items((6 // number for number in (3, 2, 0, 1)), "dividing")) == [2, 3]
    assert faults.count == 1


def test_what_becomes_of_items_is_not_contained() -> None:
    faults = Faults()

    def use() -> None:
        for _ in faults.contained_items([1], "dividing"):
            raise KeyError

    with pytest.raises(KeyError):
        use()
    assert not faults


@pytest.mark.parametrize(
    "error", [BrokenPipeError(errno.EPIPE, "x"), OSError(errno.ENOSPC, "x"), CaptureError("x", 0, "x")]
)
def test_what_ends_everything_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        Faults().note(error, "reading")


def test_a_time_that_no_calendar_has_is_a_fault() -> None:
    faults = Faults()
    faults.note(OSError(errno.EOVERFLOW, "Value too large"), "showing it", 3)
    assert faults.count == 1


def test_without_a_capture_nothing_is_contained() -> None:
    with pytest.raises(KeyError):
        RaisedFaults().guarded(broken, "x")(FakeExchange(1))


def test_the_same_fault_counts_once() -> None:
    faults = noted(3)
    faults.note(KeyError("Metadata"), "the rule x", 2)
    assert faults.count == 3


def test_few_of_many_are_told_and_kept() -> None:
    faults = noted(1_000)
    assert len(faults.lines()) == 6
    assert "1,000 internal errors in kproxy (995 of them are not listed)" in faults.lines()[-1]
    assert len(faults.first) == 50


def test_news_are_told_once_and_ever_more_seldom() -> None:
    faults = noted(2)
    assert len(faults.news()) == 3
    assert faults.news() == []
    faults.note(KeyError(), "the rule y", 7)
    assert faults.news()[0] == "exchange 7: the rule y failed: KeyError"
    for number in range(100, 200):
        faults.note(KeyError(), "the rule y", number)
    assert len(faults.news()) == 6
    for number in range(200, 900):
        faults.note(KeyError(), "the rule y", number)
    assert faults.news() == []
    for number in range(900, 1_500):
        faults.note(KeyError(), "the rule y", number)
    assert "of them are not listed" in faults.news()[-1]


def test_those_of_other_processes_are_taken_in() -> None:
    faults = noted(3)
    faults.merge(pickle.loads(pickle.dumps(noted(60))))
    assert faults.count == 60  # the three are the same ones
    assert faults.of("the rule x") == 60
    assert len(faults.first) == 50


def test_what_is_shown_is_one_line_that_does_no_harm() -> None:
    said = described(ValueError("a\nb\x1b[2J" + 500 * "x"))
    assert said.startswith("ValueError: a b�[2Jxx")
    assert said.endswith("…")
    assert len(said) < 200


def test_the_place_is_that_of_our_code() -> None:
    with pytest.raises(KeyError) as caught:
        RaisedFaults().note(KeyError("x"), "x")
    assert described(caught.value) == "KeyError: 'x'"
    with pytest.raises(TypeError) as other:
        duration("x")  # type: ignore[arg-type]
    assert "(captures/meaning/words.py:" in described(other.value)
