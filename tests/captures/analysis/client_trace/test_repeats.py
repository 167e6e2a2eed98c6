"""Repeated lines are printed once, with the number of repetitions."""

from __future__ import annotations

from captures.analysis.client_trace.model import Line, Phase
from captures.analysis.client_trace.repeats import without_repeats


def line(number: int, what: str, key: object = "same") -> Line:
    return Line(
        time=number,
        until=number,
        what=what,
        phase=Phase.GROUP,
        text=f"{what} {number}",
        count=1,
        numbers=[number],
        last=number,
        connections=[number],
        key=None if key is None else (key,),
    )


def test_a_loop_stands_once() -> None:
    lines = [line(0, "begin"), *(line(number, ("a", "b", "c")[number % 3]) for number in range(3, 33))]
    lines.append(line(40, "end"))
    shown = without_repeats(lines)
    assert [each.what for each in shown] == ["begin", "a", "b", "c", "repeats", "end"]
    again = shown[4]
    assert again.text == "the 3 lines above, or much the same, 9 times more"
    assert (again.count, again.time, again.until, again.last) == (27, 6, 32, 32)
    assert again.numbers == list(range(6, 14))


def test_twice_is_no_loop() -> None:
    lines = [line(number, ("a", "b")[number % 2]) for number in range(4)]
    assert without_repeats(lines) == lines


def test_what_differs_is_not_put_together() -> None:
    lines = [line(number, "a", key=number) for number in range(9)]
    assert without_repeats(lines) == lines
    assert without_repeats([line(number, "a", key=None) for number in range(5)])[-1].text == "a 4"
    assert without_repeats([]) == []
